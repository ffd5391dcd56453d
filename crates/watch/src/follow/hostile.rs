//! Objects that no client would write, as watches deliver them: examples with values and bytes
//! changed, in chunks of any size, through the code that reads watches, into a view, and through
//! what follows from the view alone.
//!
//! `PLIMSOLL_HOSTILE_EVENTS` is the number of events (`make fuzz`: a million), `PROPTEST_RNG_SEED`
//! chooses others.

use std::sync::Arc;

use api::ehpa::EffectiveHorizontalPodAutoscaler;
use api::prediction::TimeSeriesPrediction;
use api::sizing_policy::SizingPolicy;
use api::vpa::VerticalPodAutoscaler;
use kube::Resource as _;
use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};
use serde_json::{Value, json};
use tokio::sync::watch;
use view::{
    Autoscaler, CronSchedule, Entry, Policy, Prediction, Resource, Scope, Stripped, View, target,
};

use super::{Subject, take_in};
use crate::allowance::{Allowance, Limits};
use crate::excluded_fields;
use crate::read::within;
use crate::splitter::{ExcludedField, Framing, Item, Piece, Splitter};
use crate::table_writer::{Reading, TableWriter};

const COUNT: &str = "PLIMSOLL_HOSTILE_EVENTS";
const FEW: usize = 4000;
/// After so many events everything is listed anew, and nothing is there.
const ROUND: usize = 500;
/// Resident memory of the test itself, with the longest event.
const MOST_MEMORY: usize = 300 << 20;

const EXAMPLES: [&str; 4] = [
    include_str!("../../../api/tests/objects/vpa.json"),
    include_str!("../../../api/tests/objects/ehpa.json"),
    include_str!("../../../api/tests/objects/tsp.json"),
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

const ODD_TEXTS: [&str; 16] = [
    "",
    "-1",
    "1e999",
    "-7E",
    "1.2.3",
    "NaN",
    "0x10",
    "9223372036854775808",
    "💥",
    "a\u{0}b",
    "*",
    "../..",
    "1n",
    "2026-13-45T99:99:99Z",
    "61 25 * * MON",
    "Ünïcode/☃",
];

fn odd(random: &mut StdRng) -> Value {
    match random.random_range(0..10) {
        0 => Value::Null,
        1 => json!(random.random::<bool>()),
        2 => json!(random.random::<i64>()),
        3 => json!(random.random::<f64>() * 1e300),
        4 => json!(u64::MAX),
        5 => json!([]),
        6 => json!({}),
        7 => json!({"name": "a", "": [[[{}]]]}),
        _ => json!(ODD_TEXTS[random.random_range(0..ODD_TEXTS.len())]),
    }
}

/// Changes one value somewhere within.
fn mutate(value: &mut Value, random: &mut StdRng) {
    let goes_on = random.random_range(0..8) > 0;
    match value {
        Value::Object(map) if goes_on && !map.is_empty() => {
            let key = map
                .keys()
                .nth(random.random_range(0..map.len()))
                .cloned()
                .unwrap_or_default();
            match random.random_range(0..20) {
                0 => drop(map.remove(&key)),
                1 => drop(map.insert(
                    ODD_TEXTS[random.random_range(0..ODD_TEXTS.len())].to_owned(),
                    odd(random),
                )),
                2 => {
                    let many = if random.random_range(0..50) == 0 {
                        20_000
                    } else {
                        20
                    };
                    map.extend((0..many).map(|number| (format!("k{number}"), json!("v"))));
                }
                _ => map
                    .get_mut(&key)
                    .into_iter()
                    .for_each(|inner| mutate(inner, random)),
            }
        }
        Value::Array(list) if goes_on && !list.is_empty() => {
            let index = random.random_range(0..list.len());
            match random.random_range(0..8) {
                0 => drop(list.remove(index)),
                1 => {
                    let (many, one) = (
                        if random.random_range(0..50) == 0 {
                            5000
                        } else {
                            5
                        },
                        list[index].clone(),
                    );
                    list.extend(std::iter::repeat_n(one, many));
                }
                _ => mutate(&mut list[index], random),
            }
        }
        Value::String(text) if random.random_range(0..100) == 0 => {
            *text = text.repeat(100_000 / (text.len() + 1));
        }
        _ => *value = odd(random),
    }
}

/// An event as the API server sends it, as a rule.
fn event(example: &Value, random: &mut StdRng) -> Vec<u8> {
    let mut object = example.clone();
    (0..random.random_range(0..4)).for_each(|_| mutate(&mut object, random));
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

/// One kind of object on its way into the view.
struct Way<T: Entry> {
    excluded: &'static [ExcludedField],
    limits: Limits,
    feed: TableWriter<T>,
    allowance: Allowance,
    splitter: Splitter,
    taken_in: usize,
}

impl<T: Entry> Way<T> {
    fn new(excluded: &'static [ExcludedField], limits: Limits, feed: TableWriter<T>) -> Self {
        let splitter = Splitter::new(Framing::Events, excluded, limits.object);
        Self {
            excluded,
            limits,
            feed,
            allowance: Allowance::new(limits),
            splitter,
            taken_in: 0,
        }
    }

    fn go(&mut self, event: &[u8], read: impl Fn(&Item<'_>) -> Reading<T>, random: &mut StdRng) {
        let (mut rest, mut subject, mut is_sound) = (event, None, true);
        while !rest.is_empty() && is_sound {
            let (chunk, after) = rest.split_at(random.random_range(1..=rest.len()));
            rest = after;
            let Self {
                splitter,
                feed,
                allowance,
                limits,
                taken_in,
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
                        take_in(text, subject.take(), feed, allowance, &mut String::new()).is_ok();
                    *taken_in += usize::from(is_sound);
                }
            });
            is_sound &= pushed.is_ok();
        }
        if !is_sound {
            self.splitter = Splitter::new(Framing::Events, self.excluded, self.limits.object);
        }
    }

    fn forget(&mut self) {
        self.feed.reset(Vec::new());
        self.allowance = Allowance::new(self.limits);
    }
}

/// What follows from the view alone.
fn decide(view: &View) {
    for autoscaler in view.autoscalers.iter() {
        let target = autoscaler.target();
        let scales = target::scales(view, &target);
        assert!(scales.len() <= 1);
        assert!(
            !matches!(target::resolve(view, &target), target::Resolution::Pods(_)),
            "there is no workload"
        );
        assert!(view.autoscalers_of((&target).into()).count() >= 1);
        assert!(autoscaler.reference().kind.as_deref() == Some(&VerticalPodAutoscaler::kind(&())));
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

#[test]
fn hostile_events_neither_panic_nor_fill_the_memory() {
    let count = std::env::var(COUNT)
        .ok()
        .map(|count| count.parse::<usize>().expect("a number"));
    let seed = std::env::var("PROPTEST_RNG_SEED").map_or(1, |seed| seed.parse().expect("a number"));
    let mut random = StdRng::seed_from_u64(seed);
    let examples = EXAMPLES.map(|example| serde_json::from_str::<Value>(example).expect("JSON"));
    let store = Arc::new(watch::Sender::new(View::default()));
    let feed = |resource| (resource, &store);
    let (scope, most, predictions) = (Scope::default(), Limits::OTHERS, Limits::PREDICTIONS);
    let (resource, to) = feed(Resource::Autoscalers);
    let mut autoscalers = Way::new(
        excluded_fields::AUTOSCALERS,
        most,
        TableWriter::new(resource, to, |view| &mut view.autoscalers),
    );
    let (resource, to) = feed(Resource::Ehpas);
    let mut whole = Way::new(
        excluded_fields::WHOLE,
        most,
        TableWriter::new(resource, to, |view| &mut view.ehpas),
    );
    let mut cron_schedules = Way::new(
        excluded_fields::OTHERS,
        most,
        TableWriter::new(resource, to, |view| &mut view.cron_schedules),
    );
    let (resource, to) = feed(Resource::Predictions);
    let mut written = Way::new(
        excluded_fields::WHOLE,
        predictions,
        TableWriter::new(resource, to, |view| &mut view.predictions),
    );
    let mut expected = Way::new(
        excluded_fields::PREDICTED_METRICS,
        predictions,
        TableWriter::new(resource, to, |view| &mut view.predicted_metrics),
    );
    let (resource, to) = feed(Resource::Policies);
    let mut policies = Way::new(
        excluded_fields::PLAIN,
        most,
        TableWriter::new(resource, to, |view| &mut view.policies),
    );
    let all = count.unwrap_or(FEW);
    for number in 0..all {
        let event = event(&examples[number % examples.len()], &mut random);
        match number % examples.len() {
            0 => autoscalers.go(
                &event,
                |item| within(&scope, item, Autoscaler::from_k8s),
                &mut random,
            ),
            1 => {
                whole.go(
                    &event,
                    |item| {
                        within(
                            &scope,
                            item,
                            Stripped::<EffectiveHorizontalPodAutoscaler>::from_k8s,
                        )
                    },
                    &mut random,
                );
                cron_schedules.go(
                    &event,
                    |item| within(&scope, item, CronSchedule::from_k8s),
                    &mut random,
                );
            }
            2 => {
                written.go(
                    &event,
                    |item| within(&scope, item, Stripped::<TimeSeriesPrediction>::from_k8s),
                    &mut random,
                );
                expected.go(
                    &event,
                    |item| within(&scope, item, Prediction::from_k8s),
                    &mut random,
                );
            }
            _ => policies.go(
                &event,
                |item| within::<SizingPolicy, _>(&scope, item, Policy::from_k8s),
                &mut random,
            ),
        }
        decide(&store.borrow());
        if number % ROUND == 0 {
            autoscalers.forget();
            whole.forget();
            cron_schedules.forget();
            written.forget();
            expected.forget();
            policies.forget();
        }
    }
    let taken_in = [
        &autoscalers.taken_in,
        &whole.taken_in,
        &written.taken_in,
        &policies.taken_in,
    ];
    assert!(
        taken_in.iter().all(|taken_in| **taken_in > all / 16),
        "{taken_in:?} of {all}"
    );
    // In other runs other tests share the process.
    if count.is_some() {
        let status = std::fs::read_to_string("/proc/self/status").expect("Linux");
        let line = status
            .lines()
            .find_map(|line| line.strip_prefix("VmHWM:"))
            .expect("Linux says so");
        let peak = line
            .trim()
            .trim_end_matches(" kB")
            .parse::<usize>()
            .expect("a number")
            << 10;
        println!(
            "{all} events, of which {taken_in:?} were taken in, in at most {} MiB",
            peak >> 20
        );
        assert!(peak < MOST_MEMORY, "{} MiB", peak >> 20);
    }
}
