//! Malformed objects as watches deliver them: examples with changed values and bytes, in chunks of
//! any size, through the reader of watches into a view, and through the decisions that follow from
//! the view alone.
//!
//! `PLIMSOLL_HOSTILE_EVENTS` sets the number of events (`make fuzz`: a million),
//! `PROPTEST_RNG_SEED` the seed.

use std::sync::Arc;

use api::ehpa::EffectiveHorizontalPodAutoscaler;
use api::prediction::TimeSeriesPrediction;
use api::sizing_policy::SizingPolicy;
use api::vpa::VerticalPodAutoscaler;
use kube::Resource as _;
use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use testing::malformed::mutated;
use testing::measured::peak_bytes;
use tokio::sync::watch;
use view::{
    CronSchedule, Entry, ObjectKey, Policy, Prediction, Resource, Scope, Stripped, View, Vpa,
    target,
};

use crate::excluded_fields;
use crate::memory_limits::{Limits, MemoryLimits};
use crate::parse::within;
use crate::reflector::watch::{Subject, apply_event};
use crate::splitter::{ExcludedField, Framing, Piece, Splitter};
use crate::table_writer::TableWriter;

const COUNT: &str = "PLIMSOLL_HOSTILE_EVENTS";
const FEW: usize = 4000;
/// Number of events between two resets to an empty list.
const ROUND: usize = 500;
/// Limit of the resident memory, which includes that of the test itself.
const MOST_MEMORY: usize = 300 << 20;

const EXAMPLES: [&str; 4] = [
    include_str!("../../../../api/tests/objects/vpa.json"),
    include_str!("../../../../api/tests/objects/ehpa.json"),
    include_str!("../../../../api/tests/objects/tsp.json"),
    r#"{
        "apiVersion": "plimsoll.dev/v1alpha1", "kind": "SizingPolicy",
        "metadata": {"namespace": "shop", "name": "all", "uid": "u", "generation": 3, "annotations": {"plimsoll.dev/a": "b"}},
        "spec": {
            "selector": {"matchLabels": {"tier": "back"}, "matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}]},
            "kinds": ["Deployment", "Job"], "updateMode": "Initial", "minReplicas": 2,
            "resourcePolicy": {"containerPolicies": [{"containerName": "*", "maxAllowed": {"cpu": "4"}}]},
            "sizing": {"policy": "autopilot-window", "settings": {"cpu-statistic": "p95"}}
        },
        "status": {"conditions": []}
    }"#,
];

/// An event as the API server sends it, as a rule.
fn event(example: &Value, random: &mut StdRng) -> Vec<u8> {
    let object = mutated(example, random);
    let kind = match random.random_range(0..12) {
        0 | 1 => "DELETED",
        2 => "BOOKMARK",
        3 => "ERROR",
        4 => "ADDED",
        5 => "SYNC",
        _ => "MODIFIED",
    };
    let mut text = json!({"type": kind, "object": object})
        .to_string()
        .into_bytes();
    text.push(b'\n');
    if random.random_range(0..10) == 0 {
        let at = random.random_range(0..text.len());
        text[at] = random.random();
    }
    text
}

/// The watch of one kind of object, from event bytes to its table of the view.
struct Pipeline<T: Entry> {
    excluded: &'static [ExcludedField],
    limits: Limits,
    writer: TableWriter<T>,
    allowance: MemoryLimits,
    splitter: Splitter,
    accepted: usize,
}

impl<T: Entry<Key = ObjectKey>> Pipeline<T> {
    fn new(excluded: &'static [ExcludedField], limits: Limits, writer: TableWriter<T>) -> Self {
        let splitter = Splitter::new(Framing::Events, excluded, limits.object);
        Self {
            excluded,
            limits,
            writer,
            allowance: MemoryLimits::new(limits),
            splitter,
            accepted: 0,
        }
    }

    fn push<K: kube::Resource<DynamicType = ()> + DeserializeOwned>(
        &mut self,
        event: &[u8],
        scope: &Scope,
        from_k8s: fn(K) -> T,
        random: &mut StdRng,
    ) {
        let read = within(scope.clone(), from_k8s);
        let (mut rest, mut subject, mut is_sound) = (event, None, true);
        while !rest.is_empty() && is_sound {
            let (chunk, after) = rest.split_at(random.random_range(1..=rest.len()));
            rest = after;
            let Self {
                splitter,
                writer,
                allowance,
                limits,
                accepted,
                ..
            } = self;
            let pushed = splitter.push(chunk, |piece| match piece {
                _ if !is_sound => {}
                Piece::Item(item) => {
                    assert!(item.text.is_none_or(
                        |text| text.len() <= item.weight && item.weight <= limits.object
                    ));
                    subject = Some(Subject::of(&item, &read));
                }
                Piece::Document(text) => {
                    is_sound =
                        apply_event(text, subject.take(), writer, allowance, &mut String::new())
                            .is_ok();
                    *accepted += usize::from(is_sound);
                }
            });
            is_sound &= pushed.is_ok();
        }
        if !is_sound {
            self.splitter = Splitter::new(Framing::Events, self.excluded, self.limits.object);
        }
    }

    fn reset(&mut self) {
        self.writer.reset(Vec::new());
        self.allowance = MemoryLimits::new(self.limits);
    }
}

/// Checks the decisions that follow from the view alone.
fn decide(view: &View) {
    for vpa in view.vpas.iter() {
        let target = vpa.points_at();
        let scales = target::scales(view, target);
        assert!(scales.len() <= 1);
        assert!(
            !matches!(target::resolve(view, target), target::Resolution::Pods(_)),
            "there is no workload"
        );
        assert!(view.vpas_of(target).count() >= 1);
        assert!(vpa.reference().kind.as_deref() == Some(&VerticalPodAutoscaler::kind(&())));
    }
    for schedule in view.cron_schedules.iter() {
        assert_eq!(schedule.contender().name, schedule.key.name);
        assert!(
            schedule
                .holidays
                .as_ref()
                .map_or(true, |dates| dates.len() <= 2000)
        );
    }
    for prediction in view.predicted_metrics.iter() {
        assert!(prediction.window_seconds > 0);
        let all = prediction
            .metrics
            .iter()
            .flat_map(|metric| &metric.series)
            .flatten();
        assert!(all.into_iter().all(|(_, value)| value.is_finite()));
    }
    for policy in view.policies.iter() {
        assert_eq!(policy.kind(), "SizingPolicy");
    }
}

/// The pipelines of the kinds that tenants write.
struct Pipelines {
    scope: Scope,
    vpas: Pipeline<Vpa>,
    ehpas: Pipeline<Stripped<EffectiveHorizontalPodAutoscaler>>,
    cron_schedules: Pipeline<CronSchedule>,
    predictions: Pipeline<Stripped<TimeSeriesPrediction>>,
    predicted_metrics: Pipeline<Prediction>,
    policies: Pipeline<Policy>,
}

impl Pipelines {
    fn new(store: &Arc<watch::Sender<View>>) -> Self {
        let (usual, large) = (Limits::OTHERS, Limits::PREDICTIONS);
        let (whole, others) = (excluded_fields::WHOLE, excluded_fields::OTHERS);
        let vpas = TableWriter::new(Resource::Vpas, store, |view| &mut view.vpas);
        let ehpas = TableWriter::new(Resource::Ehpas, store, |view| &mut view.ehpas);
        let crons = TableWriter::new(Resource::Ehpas, store, |view| &mut view.cron_schedules);
        let predictions =
            TableWriter::new(Resource::Predictions, store, |view| &mut view.predictions);
        let predicted = TableWriter::new(Resource::Predictions, store, |view| {
            &mut view.predicted_metrics
        });
        let policies = TableWriter::new(Resource::Policies, store, |view| &mut view.policies);
        Self {
            scope: Scope::default(),
            vpas: Pipeline::new(excluded_fields::VPAS, usual, vpas),
            ehpas: Pipeline::new(whole, usual, ehpas),
            cron_schedules: Pipeline::new(others, usual, crons),
            predictions: Pipeline::new(whole, large, predictions),
            predicted_metrics: Pipeline::new(excluded_fields::PREDICTED_METRICS, large, predicted),
            policies: Pipeline::new(excluded_fields::PLAIN, usual, policies),
        }
    }

    /// Pushes an event made from the example of this index.
    fn push(&mut self, example: usize, event: &[u8], random: &mut StdRng) {
        let scope = &self.scope;
        match example {
            0 => self.vpas.push(event, scope, Vpa::from_k8s, random),
            1 => {
                self.ehpas.push(event, scope, Stripped::from_k8s, random);
                self.cron_schedules
                    .push(event, scope, CronSchedule::from_k8s, random);
            }
            2 => {
                self.predictions
                    .push(event, scope, Stripped::from_k8s, random);
                self.predicted_metrics
                    .push(event, scope, Prediction::from_k8s, random);
            }
            _ => self
                .policies
                .push::<SizingPolicy>(event, scope, Policy::from_k8s, random),
        }
    }

    fn reset(&mut self) {
        self.vpas.reset();
        self.ehpas.reset();
        self.cron_schedules.reset();
        self.predictions.reset();
        self.predicted_metrics.reset();
        self.policies.reset();
    }

    /// The number of events that each kind accepted.
    fn accepted(&self) -> [usize; 4] {
        [
            self.vpas.accepted,
            self.ehpas.accepted,
            self.predictions.accepted,
            self.policies.accepted,
        ]
    }
}

#[test]
fn hostile_events_neither_panic_nor_fill_the_memory() {
    let count = std::env::var(COUNT)
        .ok()
        .map(|count| count.parse::<usize>().expect("a number"));
    let seed = std::env::var("PROPTEST_RNG_SEED").map_or(1, |seed| seed.parse().expect("a number"));
    let mut random = StdRng::seed_from_u64(seed);
    let examples = EXAMPLES.map(|example| serde_json::from_str::<Value>(example).expect("JSON"));
    let store = Arc::new(watch::Sender::new(View::default()));
    let mut pipelines = Pipelines::new(&store);
    let all = count.unwrap_or(FEW);
    for number in 0..all {
        let example = number % examples.len();
        let event = event(&examples[example], &mut random);
        pipelines.push(example, &event, &mut random);
        decide(&store.borrow());
        if number % ROUND == 0 {
            pipelines.reset();
        }
    }
    let accepted = pipelines.accepted();
    assert!(
        accepted.iter().all(|accepted| *accepted > all / 16),
        "{accepted:?} of {all}"
    );
    // In other runs other tests share the process.
    if count.is_some() {
        let peak = peak_bytes().expect("/proc/self/status");
        println!(
            "{all} events, of which {accepted:?} were accepted, in at most {} MiB",
            peak >> 20
        );
        assert!(peak < MOST_MEMORY, "{} MiB", peak >> 20);
    }
}
