//! EHPAs and the objects that belong to them, as observed in one view.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use api::ehpa::{ADOPTED_BY, Adopter, EffectiveHorizontalPodAutoscaler, ScaleStrategy};
use api::prediction::TimeSeriesPrediction;
use api::substitute::Substitute;
use k8s_openapi::api::autoscaling::v2::{
    HorizontalPodAutoscaler, HorizontalPodAutoscalerCondition,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt as _;
use model::Selector;
use view::{Contender, ObjectKey, OldestWins, Pod, Stripped, View, Vpa};

use super::history_queries::Rules;
use super::orphans::Orphan;
use super::scale_point::ask_the_same;
use super::{TargetScale, hpa_choice, names};

#[derive(Clone)]
pub struct EhpaSnapshot {
    pub object: Arc<Stripped<EffectiveHorizontalPodAutoscaler>>,
    pub hpas: Vec<Arc<Stripped<HorizontalPodAutoscaler>>>,
    /// VPAs of its target that ask for the present scale point.
    pub vpas: Vec<Arc<Vpa>>,
    pub older_ehpa: Option<String>,
    pub prediction: Option<Arc<Stripped<TimeSeriesPrediction>>>,
    pub substitute: Option<Arc<Stripped<Substitute>>>,
    pub rules: Arc<Rules>,
}

pub struct Snapshot {
    pub ehpas: HashMap<ObjectKey, EhpaSnapshot>,
    pub orphans: HashSet<Orphan>,
}

impl Snapshot {
    /// Takes the objects of a view. EHPAs of other recommenders are left out, but count as owners.
    /// `vpas` ask for the present scale point.
    pub fn of(view: &View, vpas: &[Arc<Vpa>], rules: &Arc<Rules>, recommender: &str) -> Self {
        let mut by_namespace: HashMap<&str, Vec<_>> = HashMap::new();
        for hpa in view.hpas.iter() {
            by_namespace
                .entry(&hpa.key.namespace)
                .or_default()
                .push(hpa);
        }
        let mut live: Vec<_> = view.ehpas.iter().collect();
        live.retain(|whole| whole.object.metadata.deletion_timestamp.is_none());
        let uids: HashSet<_> = live
            .iter()
            .map(|whole| (&whole.key.namespace, whole.object.metadata.uid.as_deref()))
            .collect();
        let orphan = |whole: &Arc<Stripped<HorizontalPodAutoscaler>>| {
            let adopted_by = whole.object.annotations().get(ADOPTED_BY)?;
            let is_seen =
                uids.contains(&(&whole.key.namespace, Some(Adopter::parse(adopted_by)?.uid)));
            let is_terminating = whole.object.metadata.deletion_timestamp.is_some();
            (!is_seen && !is_terminating).then(|| (whole.key.clone(), adopted_by.clone()))
        };
        let orphans = view.hpas.iter().filter_map(orphan).collect();
        let winners: OldestWins = live
            .iter()
            .map(|whole| Contender::of(&whole.object))
            .collect();
        let mine = live
            .into_iter()
            .filter(|whole| names::recommender(&whole.object) == recommender);
        let ehpa = |object: &Arc<Stripped<EffectiveHorizontalPodAutoscaler>>| {
            let owned = ObjectKey::new(&object.key.namespace, names::owned_name(&object.object));
            let others = by_namespace.get(object.key.namespace.as_str());
            let others = others.into_iter().flatten().copied();
            let concerning =
                others.filter(|other| hpa_choice::concerns(&other.object, &object.object));
            let older_ehpa = winners.winner_over(&Contender::of(&object.object));
            EhpaSnapshot {
                object: Arc::clone(object),
                vpas: vpas_of(object, vpas),
                hpas: concerning.cloned().collect(),
                older_ehpa: older_ehpa.map(str::to_owned),
                prediction: view.predictions.get(&owned).cloned(),
                substitute: view.substitutes.get(&owned).cloned(),
                rules: Arc::clone(rules),
            }
        };
        let ehpas = mine
            .map(|object| (object.key.clone(), ehpa(object)))
            .collect();
        Self { ehpas, orphans }
    }
}

fn vpas_of(ehpa: &Stripped<EffectiveHorizontalPodAutoscaler>, vpas: &[Arc<Vpa>]) -> Vec<Arc<Vpa>> {
    let target = &ehpa.object.spec.scale_target_ref;
    let is_same = |vpa: &&Arc<Vpa>| {
        let other = &vpa.object.spec.target_ref;
        vpa.key.namespace == ehpa.key.namespace
            && (&other.kind, &other.name) == (&target.kind, &target.name)
    };
    vpas.iter().filter(is_same).cloned().collect()
}

pub fn target_pods(view: &View, namespace: &str, target: &TargetScale) -> Vec<Arc<Pod>> {
    let Ok(selector) = target.selector.parse::<Selector>() else {
        return Vec::new();
    };
    if target.selector.is_empty() {
        return Vec::new();
    }
    view.pods
        .in_namespace(namespace)
        .filter(|pod| selector.matches(&pod.labels))
        .cloned()
        .collect()
}

/// Whether a prediction differs from the desired one. Labels of other writers do not matter.
pub fn differs(there: &TimeSeriesPrediction, wanted: &TimeSeriesPrediction) -> bool {
    let has = |(key, value): (&String, &String)| there.labels().get(key) == Some(value);
    there.spec != wanted.spec
        || !wanted.labels().iter().all(has)
        || there.metadata.owner_references != wanted.metadata.owner_references
}

/// Part of the status of an HPA that the EHPA's status repeats, or that shows another size of the
/// workload.
type NativeStatus<'a> = (
    Option<i32>,
    i32,
    Option<&'a Time>,
    &'a [HorizontalPodAutoscalerCondition],
);

fn native_status(hpa: &HorizontalPodAutoscaler) -> Option<NativeStatus<'_>> {
    let status = hpa.status.as_ref()?;
    let conditions = status.conditions.as_deref().unwrap_or_default();
    Some((
        status.current_replicas,
        status.desired_replicas,
        status.last_scale_time.as_ref(),
        conditions,
    ))
}

impl EhpaSnapshot {
    /// Whether the EHPA only shows what it would do.
    pub fn is_preview(&self) -> bool {
        self.object.object.spec.effective_strategy() == ScaleStrategy::Preview
    }

    pub fn replicas(&self) -> impl Iterator<Item = Option<(Option<i32>, i32)>> {
        let statuses = self.native_statuses();
        statuses.map(|status| status.map(|(current, desired, ..)| (current, desired)))
    }

    fn native_statuses(&self) -> impl Iterator<Item = Option<NativeStatus<'_>>> {
        self.hpas.iter().map(|whole| native_status(&whole.object))
    }

    /// Whether all HPAs are the same except for their status.
    pub fn has_same_autoscalers(&self, other: &Self) -> bool {
        let pairs = self.hpas.iter().zip(&other.hpas);
        let mut pairs = pairs.map(|(one, other)| (&one.object, &other.object));
        self.hpas.len() == other.hpas.len()
            && pairs.all(|(one, other)| one.metadata == other.metadata && one.spec == other.spec)
    }

    /// Whether nothing relevant changed. Our own writes of the status do not count, nor do the
    /// metric values that the HPA controller writes every few seconds.
    pub fn is_same(&self, other: &Self) -> bool {
        let (mine, others) = (&self.object.object, &other.object.object);
        mine.metadata == others.metadata
            && mine.spec == others.spec
            && self.has_same_autoscalers(other)
            && self.native_statuses().eq(other.native_statuses())
            && ask_the_same(&self.vpas, &other.vpas)
            && self.older_ehpa == other.older_ehpa
            && self.rules == other.rules
            && self.prediction == other.prediction
            && self.substitute.as_ref().map(|whole| &whole.object.spec)
                == other.substitute.as_ref().map(|whole| &whole.object.spec)
    }
}
