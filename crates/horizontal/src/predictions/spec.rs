//! Spec of a prediction: its metrics, their methods and the window.
//!
//! For the algorithm `dsp` the Plimsoll method is used unless an annotation requests Crane's: it is
//! better on nearly every known series (`crates/forecast/RESULTS.md`). For `percentile` Crane's
//! method is used, since a constant was requested. Annotations are read from the prediction, and
//! from the EHPA that owns it.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::ehpa::EffectiveHorizontalPodAutoscaler;
use api::prediction::{
    Algorithm, AlgorithmKind, PredictionMetric, QueryKind, TimeSeriesPrediction,
};
use api::vpa::DEFAULT_RECOMMENDER;
use forecast::Forecast;
use forecast::crane::Dsp;
use kube::ResourceExt as _;
use sizing::PercentilePredictor;
use view::{ObjectKey, Stripped, View};

use super::access::ObjectAccess;
use super::crane;
use super::query::Query;
use super::text::{quoted, truncate};

/// Annotation with the method, `own` or `crane`.
const METHOD: &str = "plimsoll.dev/forecast";
/// Annotation with the published quantile of the Plimsoll method.
const QUANTILE: &str = "plimsoll.dev/forecast-quantile";
/// Annotation with the name of the responsible recommender. Default: `default`.
const RECOMMENDER: &str = "plimsoll.dev/recommender";

const DAY: u32 = 86_400;
/// History of the Plimsoll method.
const PLIMSOLL_HISTORY: u32 = 14 * DAY;
const PLIMSOLL_SLOT: u32 = 300;
const HOUR: u32 = 3600;
/// Maximum length of the reason and of each note of a metric, in characters.
const MAX_TEXT: usize = 500;
/// Maximum length of a name in Kubernetes.
const MAX_NAME: usize = 253;

/// Prediction and its window.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PredictionSpec {
    /// Namespace and name.
    pub key: ObjectKey,
    /// UID of the object.
    pub uid: String,
    /// Generation of the spec.
    pub generation: i64,
    /// Seconds to forecast ahead.
    pub window_seconds: u32,
}

/// Metric of a prediction.
#[derive(Clone, Debug, PartialEq)]
pub struct ForecastSpec {
    /// Identifier within the prediction.
    pub identifier: String,
    /// Query for the history, or its error.
    pub query: Result<Query, String>,
    /// Method of the forecast.
    pub method: Method,
    /// Note for the user about the method.
    pub note: Option<String>,
}

impl ForecastSpec {
    /// Memory of its texts.
    pub fn text_bytes(&self) -> usize {
        let query = self
            .query
            .as_ref()
            .map_or_else(String::len, Query::text_bytes);
        self.identifier.len() + query + self.note.as_ref().map_or(0, String::len)
    }

    /// Usual memory with a complete history. Without a query there is no history, only the reason.
    pub fn usual_bytes(&self) -> usize {
        self.query
            .as_ref()
            .map_or_else(|_| 2 * self.text_bytes(), |_| self.method.usual_bytes())
    }
}

/// Method of a forecast.
#[derive(Clone, Debug, PartialEq)]
pub enum Method {
    /// The Plimsoll method: `forecast::Forecaster`.
    Plimsoll {
        /// Seconds between samples.
        step_seconds: u32,
        /// Published quantile.
        quantile: Quantile,
    },
    /// Crane's DSP predictor.
    Dsp {
        /// Its settings.
        dsp: Dsp,
        /// Seconds of history.
        history_seconds: u32,
    },
    /// Crane's percentile predictor.
    Percentile {
        /// Its settings.
        predictor: PercentilePredictor,
        /// Seconds between samples.
        step_seconds: u32,
        /// Seconds of history.
        history_seconds: u32,
    },
}

/// Published quantile of a forecast.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Quantile {
    /// The mean.
    Expected,
    /// The default: the HPA also scales by measured values, and by the largest value of the window.
    /// A higher quantile would mostly leave capacity idle.
    #[default]
    P90,
    /// 95th percentile.
    P95,
    /// 99th percentile.
    P99,
}

impl Quantile {
    pub(super) fn of(self, forecast: &Forecast) -> f64 {
        match self {
            Self::Expected => forecast.expected,
            Self::P90 => forecast.p90,
            Self::P95 => forecast.p95,
            Self::P99 => forecast.p99,
        }
    }
}

impl Method {
    /// Seconds between samples of the history.
    pub fn step_seconds(&self) -> u32 {
        match self {
            Self::Plimsoll { step_seconds, .. } | Self::Percentile { step_seconds, .. } => {
                *step_seconds
            }
            Self::Dsp { dsp, .. } => dsp.step_seconds,
        }
    }

    /// Seconds of history. DSP gets an hour more, as in Crane, which then uses a whole number of
    /// hours.
    pub fn history_seconds(&self) -> u32 {
        match self {
            Self::Plimsoll { .. } => PLIMSOLL_HISTORY,
            Self::Dsp {
                history_seconds, ..
            } => history_seconds.saturating_add(HOUR),
            Self::Percentile {
                history_seconds, ..
            } => *history_seconds,
        }
    }

    fn usual_bytes(&self) -> usize {
        match self {
            Self::Plimsoll { .. } => 100 << 10,
            Self::Dsp { .. } => {
                let samples = self.history_seconds() / self.step_seconds().max(1);
                samples as usize * size_of::<(i64, f64)>() * 3 / 2
            }
            Self::Percentile { .. } => 16 << 10,
        }
    }

    /// Value of the label `method` of metrics.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Plimsoll { .. } => "own",
            Self::Dsp { .. } => "dsp",
            Self::Percentile { .. } => "percentile",
        }
    }
}

/// Annotations of a prediction and of the EHPA that owns it.
#[derive(Clone, Copy)]
pub(crate) struct Annotations<'a> {
    pub(super) own: &'a BTreeMap<String, String>,
    pub(super) owner: Option<&'a BTreeMap<String, String>>,
}

impl<'a> Annotations<'a> {
    /// Annotations of an observed prediction.
    pub(crate) fn of(view: &'a View, whole: &'a Stripped<TimeSeriesPrediction>) -> Self {
        let owner = owner(view, whole).map(|owner| owner.object.annotations());
        Self {
            own: whole.object.annotations(),
            owner,
        }
    }

    fn get(self, key: &str) -> Option<&'a str> {
        let value = self.own.get(key).or_else(|| self.owner?.get(key));
        value.map(|value| value.trim())
    }

    /// Name of the responsible recommender.
    pub(crate) fn recommender(self) -> &'a str {
        self.get(RECOMMENDER).unwrap_or(DEFAULT_RECOMMENDER)
    }
}

/// EHPA that owns a prediction.
pub(super) fn owner<'a>(
    view: &'a View,
    whole: &Stripped<TimeSeriesPrediction>,
) -> Option<&'a Arc<Stripped<EffectiveHorizontalPodAutoscaler>>> {
    let owner = whole
        .object
        .owner_references()
        .iter()
        .find(|owner| owner.controller == Some(true))?;
    let there = view
        .ehpas
        .get(&ObjectKey::new(&whole.key.namespace, owner.name.as_str()))?;
    (there.object.uid().as_ref() == Some(&owner.uid)).then_some(there)
}

impl PredictionSpec {
    pub(super) fn new(key: ObjectKey, object: &TimeSeriesPrediction) -> Self {
        Self {
            key,
            uid: object.uid().unwrap_or_default(),
            generation: object.metadata.generation.unwrap_or_default(),
            window_seconds: object.spec.effective_window_seconds().unsigned_abs(),
        }
    }
}

/// Spec of one metric of a prediction.
pub(super) fn forecast_spec(
    object: &TimeSeriesPrediction,
    metric: &PredictionMetric,
    annotations: Annotations<'_>,
    access: &ObjectAccess<'_>,
) -> ForecastSpec {
    let mut notes = Vec::new();
    let method = method(&metric.algorithm, annotations, &mut notes);
    if object.spec.effective_window_seconds() < object.spec.prediction_window_seconds {
        notes.push(
            "predictionWindowSeconds is more than a week, which is what is forecast".to_owned(),
        );
    }
    ForecastSpec {
        identifier: metric.resource_identifier.clone(),
        query: query(object, metric, access).map_err(|why| truncate(&why, MAX_TEXT)),
        method,
        note: (!notes.is_empty()).then(|| {
            notes
                .iter()
                .map(|note| truncate(note, MAX_TEXT))
                .collect::<Vec<_>>()
                .join("; ")
        }),
    }
}

fn query(
    object: &TimeSeriesPrediction,
    metric: &PredictionMetric,
    access: &ObjectAccess<'_>,
) -> Result<Query, String> {
    let is_of_target = metric.kind == QueryKind::ResourceQuery;
    if is_of_target && object.spec.target_ref.name.len() > MAX_NAME {
        return Err(format!(
            "targetRef: the name is longer than {MAX_NAME} characters"
        ));
    }
    Query::of(object, metric, access)
}

fn method(algorithm: &Algorithm, annotations: Annotations<'_>, notes: &mut Vec<String>) -> Method {
    let is_percentile = algorithm.algorithm_type == Some(AlgorithmKind::Percentile);
    let is_own = match annotations.get(METHOD) {
        Some("own") => true,
        Some("crane") => false,
        None | Some("") => !is_percentile,
        Some(other) => {
            notes.push(format!(
                "annotation {METHOD}: {} is neither own nor crane",
                quoted(other)
            ));
            !is_percentile
        }
    };
    let chosen = if is_own {
        None
    } else if is_percentile {
        crane::percentile(algorithm.percentile.as_ref())
    } else {
        Some(crane::dsp(algorithm.dsp.as_ref()))
    };
    match chosen {
        Some((method, note)) => {
            notes.extend(note);
            method
        }
        None => own(algorithm, annotations, notes),
    }
}

fn own(algorithm: &Algorithm, annotations: Annotations<'_>, notes: &mut Vec<String>) -> Method {
    let dsp = algorithm
        .dsp
        .as_ref()
        .map(|dsp| dsp.sample_interval.as_str());
    let percentile = algorithm
        .percentile
        .as_ref()
        .map(|percentile| percentile.sample_interval.as_str());
    let interval = dsp.or(percentile).filter(|interval| !interval.is_empty());
    let step = interval.map_or(Ok(60), |interval| {
        crane::seconds("sampleInterval", interval)
    });
    let step = step.unwrap_or_else(|why| {
        notes.push(format!("{why}; 1m is used"));
        60
    });
    let quantile = match annotations.get(QUANTILE) {
        None | Some("" | "p90") => Quantile::P90,
        Some("expected") => Quantile::Expected,
        Some("p95") => Quantile::P95,
        Some("p99") => Quantile::P99,
        Some(other) => {
            notes.push(format!(
                "annotation {QUANTILE}: {} is none of expected, p90, p95 and p99",
                quoted(other)
            ));
            Quantile::default()
        }
    };
    Method::Plimsoll {
        step_seconds: plimsoll_step(step),
        quantile,
    }
}

/// Step of the Plimsoll method: at least a minute, and above the slot a divisor of a day.
fn plimsoll_step(step: u32) -> u32 {
    if step <= PLIMSOLL_SLOT {
        return step.max(60);
    }
    (step..=HOUR)
        .find(|step| DAY.is_multiple_of(*step))
        .unwrap_or(HOUR)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn check(
        annotations: &[(&str, &str)],
        algorithm: &Value,
        expected: (&str, u32, u32),
        note: &str,
    ) {
        let owner = annotations
            .iter()
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
            .collect();
        let annotations = Annotations {
            own: &BTreeMap::new(),
            owner: Some(&owner),
        };
        let mut notes = Vec::new();
        let method = method(
            &serde_json::from_value(algorithm.clone()).expect("an algorithm"),
            annotations,
            &mut notes,
        );
        assert_eq!(
            (
                method.name(),
                method.step_seconds(),
                method.history_seconds()
            ),
            expected,
            "{owner:?}"
        );
        assert_eq!(notes.join("; "), note);
    }

    #[test]
    fn an_annotation_chooses_between_the_plimsoll_method_and_cranes() {
        let dsp = || json!({"algorithmType": "dsp", "dsp": {"sampleInterval": "30s", "historyLength": "3d"}});
        let percentile = || json!({"algorithmType": "percentile"});
        check(&[], &dsp(), ("own", 60, 14 * DAY), "");
        check(
            &[(METHOD, "crane")],
            &dsp(),
            ("dsp", 30, 3 * DAY + HOUR),
            "",
        );
        check(&[], &percentile(), ("percentile", 60, 7 * DAY), "");
        check(&[(METHOD, "own")], &percentile(), ("own", 60, 14 * DAY), "");
        let wrong = "annotation plimsoll.dev/forecast: \"theirs\" is neither own nor crane";
        check(&[(METHOD, "theirs")], &dsp(), ("own", 60, 14 * DAY), wrong);
        let wrong = "annotation plimsoll.dev/forecast-quantile: \"max\" is none of expected, p90, p95 and p99";
        check(&[(QUANTILE, "max")], &dsp(), ("own", 60, 14 * DAY), wrong);
    }

    #[test]
    fn a_window_of_more_than_a_week_is_shortened_with_a_note() {
        for (days, expected, is_cut) in [(7, 7, false), (8, 7, true)] {
            let metric =
                json!({"resourceIdentifier": "a", "type": "ResourceQuery", "resourceQuery": "cpu"});
            let object = json!({"metadata": {"name": "web"}, "spec": {
                "predictionMetrics": [metric], "targetRef": {"name": "web"}, "predictionWindowSeconds": days * DAY,
            }});
            let object: TimeSeriesPrediction = serde_json::from_value(object).expect("an object");
            let annotations = Annotations {
                own: &BTreeMap::new(),
                owner: None,
            };
            let spec = PredictionSpec::new(ObjectKey::new("shop", "web"), &object);
            let metric = &object.spec.prediction_metrics[0];
            let metric = forecast_spec(
                &object,
                metric,
                annotations,
                &ObjectAccess::to_namespace("shop"),
            );
            assert_eq!(
                (spec.window_seconds, metric.note.is_some()),
                (expected * DAY, is_cut),
                "{days}"
            );
        }
    }

    #[test]
    fn steps_of_the_plimsoll_method_divide_a_day() {
        for (step, expected) in [
            (1, 60),
            (90, 90),
            (300, 300),
            (420, 432),
            (3600, 3600),
            (7200, 3600),
        ] {
            assert_eq!(plimsoll_step(step), expected, "{step}");
        }
    }

    #[test]
    fn annotations_of_the_prediction_override_those_of_its_owner() {
        let map = |name: &str| BTreeMap::from([(RECOMMENDER.to_owned(), name.to_owned())]);
        let (own, owner, none) = (map("mine"), map("ours"), BTreeMap::new());
        assert_eq!(
            Annotations {
                own: &own,
                owner: Some(&owner)
            }
            .recommender(),
            "mine"
        );
        assert_eq!(
            Annotations {
                own: &none,
                owner: Some(&owner)
            }
            .recommender(),
            "ours"
        );
        assert_eq!(
            Annotations {
                own: &none,
                owner: None
            }
            .recommender(),
            DEFAULT_RECOMMENDER
        );
    }
}
