//! Stored histories of our, Crane's and Autopilot's methods: saved and loaded without loss, refused if
//! no samples lead to them.

use jiff::Timestamp;
use model::{Cpu, Memory};
use proptest::prelude::*;
use serde_json::{Value, json};
use sizing::{
    Instant, MemoryRules, MethodHistory, MethodHistoryError, MethodSettings, Observation,
    StoredMethodHistory,
};

const METHODS: [&str; 5] = [
    "crane",
    "autopilot-window",
    "autopilot-ml",
    "plimsoll",
    RUNS,
];
/// The method `plimsoll` with a history that counts in runs.
const RUNS: &str = "runs";

fn settings(method: &str, more: &[(&str, &str)]) -> MethodSettings {
    let own = match method {
        RUNS => vec![
            ("plimsoll.dev/sizing-policy", "plimsoll"),
            ("plimsoll.dev/sizing-history-unit", "runs"),
        ],
        _ => vec![("plimsoll.dev/sizing-policy", method)],
    };
    let all = own.into_iter().chain(more.iter().copied());
    let settings = MethodSettings::from_annotations(all);
    settings.expect("valid").expect("a method")
}

/// One observation, some seconds after the one before.
#[derive(Clone, Copy, Debug)]
struct Seen {
    gap: i64,
    pod: u64,
    millicores: i64,
    bytes: i64,
    is_oom: bool,
}

fn seen() -> impl Strategy<Value = Seen> {
    // Mostly minutes, at times days.
    let gap = prop_oneof![9 => 1..600_i64, 1 => 1..200_000_i64];
    let amounts = (0..5_000_i64, 1..20_000_000_000_i64);
    (gap, 0..4_u64, amounts, prop::bool::weighted(0.1)).prop_map(
        |(gap, pod, (millicores, bytes), is_oom)| Seen {
            gap,
            pod,
            millicores,
            bytes,
            is_oom,
        },
    )
}

fn at(second: i64) -> Instant {
    Timestamp::from_second(second).expect("in range").into()
}

fn observe(history: &mut MethodHistory, policy: &MethodSettings, seen: Seen, second: i64) {
    let memory = Memory::from_bytes(seen.bytes);
    let observation = if seen.is_oom {
        Observation::Oom {
            request: memory,
            rules: MemoryRules::default(),
        }
    } else {
        Observation::Usage {
            cpu: Some(Cpu::from_millicores(seen.millicores)),
            memory: Some(memory),
        }
    };
    history.observe(policy, seen.pod, observation, at(second));
}

const START: i64 = 1_800_000_000;

/// The history of these observations, and the second of the last one.
fn recorded(policy: &MethodSettings, all: &[Seen]) -> (MethodHistory, i64) {
    let mut history = MethodHistory::new(policy, at(START));
    let mut second = START;
    for seen in all {
        second += seen.gap;
        observe(&mut history, policy, *seen, second);
    }
    (history, second)
}

fn text(history: &MethodHistory, policy: &MethodSettings) -> String {
    serde_json::to_string(&history.save(policy)).expect("JSON")
}

fn load(text: &str, policy: &MethodSettings) -> Result<MethodHistory, MethodHistoryError> {
    let stored: StoredMethodHistory =
        serde_json::from_str(text).map_err(|_| MethodHistoryError::Invalid("JSON"))?;
    MethodHistory::load(policy, stored)
}

/// Every value of a JSON document that is neither an object nor a list.
fn leaves(value: &mut Value) -> Vec<&mut Value> {
    match value {
        Value::Object(fields) => fields.values_mut().flat_map(leaves).collect(),
        Value::Array(items) => items.iter_mut().flat_map(leaves).collect(),
        leaf => vec![leaf],
    }
}

/// A value that an attacker may write in place of another one.
fn replacement() -> impl Strategy<Value = Value> {
    prop_oneof![
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        prop::sample::select(vec![
            json!(null),
            json!([]),
            json!({}),
            json!(-1),
            json!(1e308)
        ]),
        prop::sample::select(vec![
            json!(i64::MIN),
            json!(i64::MAX),
            json!(255),
            json!(-0.0)
        ]),
        "[A-Za-z0-9+/]{0,80}".prop_map(|text| Value::from(format!("{text}=="))),
        prop::collection::vec(any::<[u8; 8]>(), 0..400).prop_map(|words| {
            use base64::Engine as _;
            let text = base64::engine::general_purpose::STANDARD.encode(words.concat());
            Value::from(text)
        }),
    ]
}

proptest! {
    #[test]
    fn a_loaded_history_continues_to_the_last_digit(
        before in prop::collection::vec(seen(), 0..120),
        after in prop::collection::vec(seen(), 0..60),
    ) {
        for method in METHODS {
            let policy = settings(method, &[]);
            let (mut history, mut second) = recorded(&policy, &before);
            let stored = text(&history, &policy);
            let mut loaded = load(&stored, &policy).expect("what was saved");
            prop_assert_eq!(text(&loaded, &policy), stored);
            prop_assert_eq!(loaded.lifespan_ns(), history.lifespan_ns());
            prop_assert_eq!(loaded.recommend(&policy), history.recommend(&policy));
            for seen in &after {
                second += seen.gap;
                observe(&mut history, &policy, *seen, second);
                observe(&mut loaded, &policy, *seen, second);
                prop_assert_eq!(loaded.recommend(&policy), history.recommend(&policy));
            }
            prop_assert_eq!(loaded.save(&policy), history.save(&policy));
        }
    }

    #[test]
    fn what_was_stored_is_not_counted_again(all in prop::collection::vec(seen(), 1..60)) {
        for method in METHODS {
            let policy = settings(method, &[]);
            let (history, _) = recorded(&policy, &all);
            let stored = text(&history, &policy);
            let mut loaded = load(&stored, &policy).expect("what was saved");
            let mut second = START;
            for seen in &all {
                second += seen.gap;
                observe(&mut loaded, &policy, *seen, second);
            }
            prop_assert_eq!(text(&loaded, &policy), stored);
        }
    }

    #[test]
    fn a_stored_history_that_was_changed_is_refused_or_harmless(
        all in prop::collection::vec(seen(), 1..60),
        changes in prop::collection::vec((any::<prop::sample::Index>(), replacement()), 1..4),
        after in prop::collection::vec(seen(), 1..20),
    ) {
        for method in METHODS {
            let policy = settings(method, &[]);
            let (history, mut second) = recorded(&policy, &all);
            let mut stored = serde_json::to_value(history.save(&policy)).expect("JSON");
            for (index, value) in &changes {
                let mut leaves = leaves(&mut stored);
                if !leaves.is_empty() {
                    let count = leaves.len();
                    *leaves[index.index(count)] = value.clone();
                }
            }
            let Ok(mut loaded) = load(&stored.to_string(), &policy) else {
                continue;
            };
            for seen in &after {
                second += seen.gap;
                observe(&mut loaded, &policy, *seen, second);
            }
            let valid = |memory: i64| (0..=100_000_000_000_000).contains(&memory);
            let recommended = loaded.recommend(&policy);
            prop_assert!(recommended.is_none_or(|amounts| valid(amounts.memory.bytes())));
        }
    }

    #[test]
    fn arbitrary_text_is_refused(text in ".{0,300}") {
        for method in METHODS {
            prop_assert!(load(&text, &settings(method, &[])).is_err());
        }
    }
}

/// A day of one sample per minute of a container with this usage.
fn day(method: &MethodSettings, pods: u64, usage: impl Fn(i64) -> (i64, i64)) -> MethodHistory {
    let mut history = MethodHistory::new(method, at(START));
    for minute in 0..9 * 1440 {
        for pod in 0..pods {
            let (millicores, bytes) = usage(minute + pod as i64);
            let seen = Seen {
                gap: 0,
                pod,
                millicores,
                bytes,
                is_oom: false,
            };
            observe(&mut history, method, seen, START + minute * 60);
        }
    }
    history
}

#[test]
fn a_history_of_another_method_or_other_buckets_is_refused() {
    let buckets = [("plimsoll.dev/sizing-cpu-histogram-bucket-size", "0.5")];
    let percentile = [("plimsoll.dev/sizing-cpu-request-percentile", "0.5")];
    let history = |policy: &MethodSettings| text(&day(policy, 1, |_| (300, 1 << 30)), policy);
    let crane = settings("crane", &[]);
    let stored = history(&crane);
    for (policy, expected) in [
        (settings("crane", &buckets), Some(MethodHistoryError::Shape)),
        (
            settings("autopilot-ml", &[]),
            Some(MethodHistoryError::Shape),
        ),
        (settings("crane", &percentile), None),
    ] {
        assert_eq!(load(&stored, &policy).err(), expected, "{policy:?}");
    }
    let other_version = stored.replacen("\"version\":1", "\"version\":2", 1);
    let error = load(&other_version, &crane).err();
    assert_eq!(error, Some(MethodHistoryError::Version(2)));
}

/// Method, path in the history, value in place of the one there, and name of the invalid part.
const INVALID: &str = "
crane             last                                            0                     time
crane             history/crane/cpu/0/0                           9223372036854775807   cpu blocks
crane             history/crane/memory/1/1/total                  -1.0                  memory blocks
crane             history/crane/killed                            [0,-1]                OOM kill
autopilot-ml      history/autopilot/open/number                   -9223372036854775808  open window
autopilot-ml      history/autopilot/open/cpu                      [[200,1]]             open window
autopilot-ml      history/autopilot/needs                         [[-1,1.0]]            needs of OOM kills
autopilot-window  history/autopilot/*/cpu/usage/histogram/offset  170                   cpu state
autopilot-window  history/autopilot/*/memory/limits               [[9000000000000000,1.0]]  memory state
autopilot-window  history/autopilot/*/memory/peaks/newest         9223372036854775807   memory state
autopilot-ml      history/autopilot/*/cpu/chosen                  [16,0]                cpu state
autopilot-ml      history/autopilot/*/memory/shares/0/speed       0.5                   memory state
autopilot-ml      history/autopilot/*/memory/models/3/limit       176                   memory state
";

#[test]
fn parts_that_no_samples_lead_to_are_named() {
    for row in INVALID.lines().skip(1) {
        let columns: Vec<_> = row.split("  ").map(str::trim).collect();
        let columns: Vec<_> = columns.into_iter().filter(|it| !it.is_empty()).collect();
        let [method, path, value, expected] = columns[..] else {
            panic!("{row}")
        };
        let recommender = match method {
            "autopilot-window" => "recommenders/movingWindow",
            _ => "recommenders/ensemble",
        };
        let path = format!("/history/{}", path.replace('*', recommender));
        let policy = settings(method, &[]);
        let history = day(&policy, 1, |minute| (100 + minute % 900, 1 << 30));
        let mut stored = serde_json::to_value(history.save(&policy)).expect("JSON");
        let part = stored.pointer_mut(&path).expect("a part");
        *part = serde_json::from_str(value).expect("JSON");
        let error = load(&stored.to_string(), &policy).err();
        assert_eq!(error, Some(MethodHistoryError::Invalid(expected)), "{path}");
    }
}

/// Bytes of a stored history: of steady usage, of usage between 0.1 and 4 cores and between 0.2 and
/// 4 GiB, of a hundred pods, and the largest of the default buckets.
#[test]
fn stored_histories_are_small() {
    const MIB: i64 = 1 << 20;
    let varied = |minute: i64| {
        let step = (minute * 7919) % 1000;
        (100 + step * 4, 200 * MIB + step * 4 * MIB)
    };
    let widest = |minute: i64| {
        (
            (minute * 100) % 100_100,
            (minute * 100 * MIB) % (100_100 * MIB),
        )
    };
    for (method, expected) in [
        ("crane", [1_500, 11_000, 11_000, 180_000]),
        ("autopilot-window", [2_000, 3_000, 6_000, 6_500]),
        ("autopilot-ml", [4_500, 9_000, 11_500, 15_000]),
        ("plimsoll", [4_500, 5_500, 11_000, 8_500]),
        (RUNS, [1_000, 1_500, 30_000, 3_000]),
    ] {
        let policy = settings(method, &[]);
        let sizes = [
            day(&policy, 1, |_| (300, 800 * MIB)),
            day(&policy, 1, varied),
            day(&policy, 100, varied),
            day(&policy, 1, widest),
        ]
        .map(|history| text(&history, &policy).len());
        println!("{method}: {sizes:?} bytes");
        let is_small = sizes.iter().zip(expected).all(|(size, most)| *size <= most);
        assert!(is_small, "{method}: {sizes:?}, at most {expected:?}");
    }
}
