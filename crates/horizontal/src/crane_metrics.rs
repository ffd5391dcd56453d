//! Values of Crane's metrics of EHPAs, HPAs and predictions.
//!
//! Unlike there, an HPA that scaled twice between two observations counts once, of several
//! predictions of one series the one of the adapter is shown, and a series ends with its object.
//! Source: gocrane/crane `pkg/metrics/metric_collector.go`, `pkg/controller/ehpa/hpa_observer.go`.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use api::ehpa::EffectiveHorizontalPodAutoscaler;
use api::prediction::{AlgorithmKind, MetricPrediction, TimeSeriesPrediction};
use api::vpa::DEFAULT_RECOMMENDER;
use jiff::Timestamp;
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use kube::ResourceExt as _;
use scaling::{Predicted, window_maximum};
use view::{Contender, MANAGED_BY, ObjectKey, OldestWins, Stripped, View};

use crate::ehpa::{crons, names};
use crate::predictions::Annotations;

/// Reasons of the condition `AbleToScale` after the HPA has scaled.
const RESCALED: [&str; 2] = ["SucceededRescale", "SucceededOverloadRescale"];

/// Crane's metrics, in the order of their families.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CraneMetric {
    EffectiveReplicas,
    Replicas,
    ScaleCount,
    Cron,
    /// Largest predicted value of the window.
    Prediction,
    NextPredicted,
}

#[derive(Clone, Debug, PartialEq)]
pub struct CraneSample {
    pub metric: CraneMetric,
    /// Label values, in the order of the metric's labels.
    pub labels: Vec<String>,
    pub value: f64,
    /// Time of the value in seconds since 1970; `None` means now.
    pub at: Option<i64>,
}

/// Number of times that each HPA was observed to scale.
#[derive(Debug, Default)]
pub struct ScaleCounts(BTreeMap<ObjectKey, ScaleCount>);

#[derive(Debug)]
struct ScaleCount {
    uid: Option<String>,
    wanted: i32,
    times: u32,
}

impl ScaleCounts {
    fn of(&mut self, key: &ObjectKey, hpa: &HorizontalPodAutoscaler, wanted: i32) -> u32 {
        let uid = hpa.uid();
        let first = || ScaleCount {
            uid: uid.clone(),
            wanted,
            times: 0,
        };
        let known = self.0.entry(key.clone()).or_insert_with(first);
        if known.uid != uid {
            *known = first();
        }
        let conditions = hpa.status.iter().flat_map(|status| &status.conditions);
        let mut reasons = conditions.flatten().filter_map(|it| it.reason.as_deref());
        let has_scaled = reasons.any(|reason| RESCALED.contains(&reason));
        if known.wanted != wanted && has_scaled {
            known.times = known.times.saturating_add(1);
        }
        known.wanted = wanted;
        known.times
    }
}

/// All series, in a stable order.
pub fn samples(
    view: &View,
    counts: &mut ScaleCounts,
    recommender: &str,
    now: Timestamp,
) -> Vec<CraneSample> {
    let effective: Vec<_> = view
        .ehpas
        .iter()
        .filter(|it| is_ours(&it.object, recommender))
        .collect();
    let mut samples = Vec::new();
    for whole in &effective {
        let status = whole.object.status.as_ref();
        if let Some(replicas) = status.and_then(|status| status.expect_replicas) {
            let labels = vec![whole.key.namespace.clone(), whole.key.name.clone()];
            let metric = CraneMetric::EffectiveReplicas;
            samples.push(sample(metric, labels, f64::from(replicas)));
        }
    }
    samples.extend(hpa(view, counts, recommender));
    let mut cron_replicas = BTreeMap::new();
    let winners: OldestWins = view
        .ehpas
        .iter()
        .map(|whole| Contender::of(&whole.object))
        .collect();
    let has_crons = |object: &EffectiveHorizontalPodAutoscaler| {
        !object.spec.crons.is_empty() && winners.is_winner(&Contender::of(object))
    };
    for whole in effective.iter().filter(|whole| has_crons(&whole.object)) {
        if let Some(replicas) = crons::replicas(&whole.object, now) {
            let target = &whole.object.spec.scale_target_ref;
            let labels = [&target.kind, &target.name, &whole.key.namespace, "cron"];
            let labels = labels.map(str::to_owned).to_vec();
            let most = cron_replicas.entry(labels).or_insert(replicas);
            *most = replicas.max(*most);
        }
    }
    for (labels, replicas) in cron_replicas {
        samples.push(sample(CraneMetric::Cron, labels, f64::from(replicas)));
    }
    samples.extend(predicted(view, &winners, recommender, now));
    samples
}

fn sample(metric: CraneMetric, labels: Vec<String>, value: f64) -> CraneSample {
    CraneSample {
        metric,
        labels,
        value,
        at: None,
    }
}

fn is_ours(object: &EffectiveHorizontalPodAutoscaler, recommender: &str) -> bool {
    names::recommender(object) == recommender
}

/// Series of HPAs: those of our EHPAs, and as the default recommender those without an EHPA.
fn hpa(view: &View, counts: &mut ScaleCounts, recommender: &str) -> Vec<CraneSample> {
    let mut samples = Vec::new();
    for whole in view.hpas.iter() {
        let owner = names::ehpa_owner(&whole.object.metadata);
        let owned_by =
            owner.and_then(|owner| view.ehpas.get(&ObjectKey::new(&whole.key.namespace, owner)));
        let in_charge = owned_by.map_or(DEFAULT_RECOMMENDER, |object| {
            names::recommender(&object.object)
        });
        let status = whole.object.status.as_ref();
        let Some(status) = status.filter(|_| in_charge == recommender) else {
            continue;
        };
        let kind = if owner.is_some() { "ehpa" } else { "hpa" };
        let times = counts.of(&whole.key, &whole.object, status.desired_replicas);
        let labels = vec![whole.key.namespace.clone(), whole.key.name.clone()];
        let with_kind = [labels.clone(), vec![kind.to_owned()]].concat();
        let replicas = f64::from(status.desired_replicas);
        samples.push(sample(CraneMetric::Replicas, labels, replicas));
        samples.push(sample(CraneMetric::ScaleCount, with_kind, f64::from(times)));
    }
    counts.0.retain(|key, _| view.hpas.get(key).is_some());
    samples
}

fn predicted(
    view: &View,
    winners: &OldestWins,
    recommender: &str,
    now: Timestamp,
) -> Vec<CraneSample> {
    let ours = view
        .predictions
        .iter()
        .filter(|whole| Annotations::of(view, whole).recommender() == recommender);
    let mut ours: Vec<_> = ours.collect();
    ours.sort_by_key(|whole| {
        let controller = names::controller(&whole.object.metadata);
        let managed_by = whole.object.labels().get(MANAGED_BY.0).map(String::as_str);
        winners.prediction_rank(controller.map(|owner| owner.uid.as_str()), managed_by)
    });
    let mut found: BTreeMap<Vec<String>, Vec<CraneSample>> = BTreeMap::new();
    for whole in ours {
        let written = whole.object.status.iter();
        for metric in written.flat_map(|status| &status.prediction_metrics) {
            let labels = labels(whole, &metric.resource_identifier);
            let window = whole.object.spec.effective_window_seconds();
            found
                .entry(labels.clone())
                .or_insert_with(|| values(&labels, metric, window, now.as_second()));
        }
    }
    found.into_values().flatten().collect()
}

fn labels(whole: &Stripped<TimeSeriesPrediction>, identifier: &str) -> Vec<String> {
    let spec = &whole.object.spec;
    let namespace = Some(&spec.target_ref.namespace).filter(|namespace| !namespace.is_empty());
    let wanted = spec
        .prediction_metrics
        .iter()
        .find(|metric| metric.resource_identifier == identifier);
    let algorithm = match wanted.and_then(|metric| metric.algorithm.algorithm_type) {
        Some(AlgorithmKind::Percentile) => "percentile",
        Some(AlgorithmKind::Dsp) => "dsp",
        None => "",
    };
    [
        &spec.target_ref.kind,
        &spec.target_ref.name,
        namespace.unwrap_or(&whole.key.namespace),
        identifier,
        algorithm,
    ]
    .map(str::to_owned)
    .to_vec()
}

/// The largest value of the window that begins now, and the next value, if known.
fn values(
    labels: &[String],
    metric: &MetricPrediction,
    window_seconds: i32,
    now: i64,
) -> Vec<CraneSample> {
    // Several series cannot be distinguished, and the adapter serves none of them.
    let [series] = metric.prediction.as_slice() else {
        return Vec::new();
    };
    let ahead = series
        .samples
        .iter()
        .filter(|sample| sample.timestamp >= now);
    let value = |text: &str| text.parse().ok().filter(|value: &f64| value.is_finite());
    let mut points: Vec<(i64, f64)> = ahead
        .filter_map(|sample| Some((sample.timestamp, value(&sample.value)?)))
        .collect();
    points.sort_by_key(|(second, _)| *second);
    let next = points.first().map(|(second, value)| CraneSample {
        metric: CraneMetric::NextPredicted,
        labels: labels.to_vec(),
        value: *value,
        at: Some(*second),
    });
    let identifier = &metric.resource_identifier;
    let predicted = Predicted {
        identifier,
        ready: metric.ready,
        series: &[points],
    };
    let largest = window_maximum(&[predicted], identifier, now, window_seconds).ok();
    let largest = largest.map(|value| sample(CraneMetric::Prediction, labels.to_vec(), value));
    largest.into_iter().chain(next).collect()
}
