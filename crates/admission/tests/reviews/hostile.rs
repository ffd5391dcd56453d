//! Reviews that nobody would send, by the million: reviews as they are sent, with bytes or values
//! changed.
//!
//! `PLIMSOLL_HOSTILE_REVIEWS` says how many (`make fuzz`: a million).

mod corpus;
mod mutation;

use admission::decide::Subject;
use admission::{AdmissionConfig, Gates};
use json_patch::Patch;
use k8s_openapi::api::core::v1::Pod;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use serde_json::{Value, json};

use crate::stage::{Answer, Stage, patch_in};
use mutation::Mutation;

const COUNT: &str = "PLIMSOLL_HOSTILE_REVIEWS";
const FEW: u32 = 3000;
/// An answer may be so much longer than its review: each container gets a handful of operations and
/// notes.
const LONGEST: usize = 200;
const MEBIBYTES: u64 = 512;

/// Two clusters: one with nothing special, and one with everything switched on and values that make
/// no sense.
fn stages() -> Vec<Stage> {
    let odd = json!({
        "spec": {
            "startupBoost": {"cpu": {"type": "Factor", "factor": 2_147_483_647}},
            "resourcePolicy": {"containerPolicies": [
                {"containerName": "*", "minAllowed": {"cpu": "-7E"}, "maxAllowed": {"cpu": "1e40", "memory": "1n"}},
                {"containerName": "proxy", "controlledValues": "RequestsOnly", "startupBoost": {"cpu": {"type": "Quantity", "quantity": "9E"}}},
            ]},
        },
        "status": {"recommendation": {"containerRecommendations": [
            {"containerName": "app", "target": {"cpu": "9223372036854775807", "memory": "1e30", "": "5", "a/b~c": "-1"}},
            {"containerName": "proxy", "target": {"cpu": "1n", "memory": "-9E"}, "upperBound": {"cpu": "1"}},
        ]}},
    });
    let container = |min: Value, max: Value| json!({"type": "Container", "min": min, "max": max});
    let odd_limits = json!([
        container(json!({"cpu": "3", "memory": "-1"}), json!({"cpu": "1m", "memory": "8E"})),
        {"type": "Container", "maxLimitRequestRatio": {"cpu": "-9E", "memory": "1e40"}},
        {"type": "Pod", "min": {"cpu": "1n", "memory": "-9E"}, "max": {"memory": "9E"}, "maxLimitRequestRatio": {"cpu": "0"}},
    ]);
    let mut all = Stage::new()
        .autoscaler("web", &odd)
        .limit_range(&odd_limits);
    all.config = AdmissionConfig {
        gates: Gates {
            cpu_startup_boost: true,
            in_place: true,
            per_vpa_config: true,
        },
        max_cpu_boost: Some("7E".parse().expect("a quantity")),
        native_sidecars: true,
    };
    let limits = json!([container(
        json!({"cpu": "10m", "memory": "1Mi"}),
        json!({"cpu": "4", "memory": "8Gi"})
    )]);
    vec![
        Stage::new()
            .autoscaler("web", &json!({}))
            .limit_range(&limits),
        all,
    ]
}

/// What must hold for every answer.
fn is_harmless(body: &[u8], answer: &Answer) -> Result<(), TestCaseError> {
    let length = answer.length;
    prop_assert!(
        length <= 4096 + body.len().saturating_mul(LONGEST),
        "an answer of {length} bytes"
    );
    let response = &answer.review["response"];
    prop_assert_eq!(
        response.get("patch").is_some(),
        response.get("patchType").is_some(),
        "{}",
        response
    );
    if answer.subject == Subject::Autoscaler && response["allowed"] == false {
        return Ok(());
    }
    prop_assert_eq!(&response["allowed"], &json!(true));
    let Some(patch) = patch_in(&answer.review) else {
        return Ok(());
    };
    let failed = |error: serde_json::Error| TestCaseError::fail(error.to_string());
    let patch: Patch = serde_json::from_value(patch).map_err(failed)?;
    // The API server sends text, and of pods what it could read.
    let Ok(mut review) = serde_json::from_slice::<Value>(body) else {
        return Ok(());
    };
    let mut object = review["request"]["object"].take();
    let is_read = match answer.subject {
        Subject::Pod => serde_json::from_value::<Pod>(object.clone()).is_ok(),
        _ => object["spec"].is_object(),
    };
    if !is_read {
        return Ok(());
    }
    let applied = json_patch::patch(&mut object, &patch);
    prop_assert!(applied.is_ok(), "{applied:?}");
    Ok(())
}

#[test]
fn no_review_makes_it_panic_refuse_a_pod_or_write_a_patch_that_does_not_apply() {
    let count =
        std::env::var(COUNT).map_or(FEW, |count| count.parse().expect("a number of reviews"));
    let (stages, corpus) = (stages(), corpus::reviews());
    let config = Config {
        cases: count,
        failure_persistence: None,
        ..Config::default()
    };
    let strategy = (
        0..stages.len(),
        0..corpus.len(),
        prop::collection::vec(Mutation::any(), 0..6),
    );
    let outcome = TestRunner::new(config).run(&strategy, |(stage, review, mutations)| {
        let body = mutation::apply(&corpus[review], &mutations);
        is_harmless(&body, &stages[stage].answer(&body))
    });
    if let Err(error) = outcome {
        panic!("{error}");
    }
    let used = peak_mebibytes();
    println!("{count} reviews, at most {used:?} MiB of memory");
    assert!(used.is_none_or(|used| used < MEBIBYTES), "{used:?} MiB");
}

/// The most memory that this process had at once, where the system says so.
fn peak_mebibytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes / 1024)
}

#[test]
fn a_pod_with_very_many_containers_is_left_alone_at_once() {
    let stage = &stages()[1];
    let containers: Vec<Value> = (0..60_000).map(|_| json!({"name": "app"})).collect();
    let pod = crate::stage::pod(&json!({}));
    let mut review = crate::stage::pod_review(&pod);
    review["request"]["object"]["spec"]["containers"] = containers.into();
    assert_eq!(
        patch_in(&stage.answer(review.to_string().as_bytes()).review),
        None
    );
}
