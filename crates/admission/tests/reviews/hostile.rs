//! Fuzzing: valid reviews with changed bytes or values.
//!
//! `PLIMSOLL_HOSTILE_REVIEWS` is their number (`make fuzz`: a million).

mod corpus;
mod mutation;

use admission::{AdmissionConfig, AdmissionResource, Gates};
use json_patch::Patch;
use k8s_openapi::api::core::v1::Pod;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use serde_json::{Value, json};

use crate::fixture::{Fixture, ParsedDecision, patch_in};
use mutation::Mutation;

const COUNT: &str = "PLIMSOLL_HOSTILE_REVIEWS";
const DEFAULT_COUNT: u32 = 3000;
/// Maximum ratio of the lengths of a response and its review: each container gets several
/// operations and notes.
const MAX_GROWTH: usize = 200;
/// Maximum memory of the process.
const MAX_MEBIBYTES: u64 = 512;

/// Two clusters: one with defaults, and one with all gates and extreme values.
fn fixtures() -> Vec<Fixture> {
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
    let mut all = Fixture::new().vpa("web", &odd).limit_range(&odd_limits);
    all.config = AdmissionConfig {
        gates: Gates {
            cpu_startup_boost: true,
            in_place: true,
            per_vpa_config: true,
        },
        max_cpu_boost: Some("7E".parse().expect("a quantity")),
        native_sidecars: true,
        node_groups: true,
    };
    let min = json!({"cpu": "10m", "memory": "1Mi"});
    let limits = json!([container(min, json!({"cpu": "4", "memory": "8Gi"}))]);
    let usual = Fixture::new().vpa("web", &json!({}));
    vec![usual.limit_range(&limits), all]
}

fn check(body: &[u8], decision: &ParsedDecision) -> Result<(), TestCaseError> {
    let length = decision.length;
    let max = 4096 + body.len().saturating_mul(MAX_GROWTH);
    prop_assert!(length <= max, "a response of {length} bytes");
    let response = &decision.review["response"];
    let [patch, kind] = ["patch", "patchType"].map(|name| response.get(name).is_some());
    prop_assert_eq!(patch, kind, "{}", response);
    if decision.resource == AdmissionResource::Vpa && response["allowed"] == false {
        return Ok(());
    }
    prop_assert_eq!(&response["allowed"], &json!(true));
    let Some(patch) = patch_in(&decision.review) else {
        return Ok(());
    };
    let failed = |error: serde_json::Error| TestCaseError::fail(error.to_string());
    let patch: Patch = serde_json::from_value(patch).map_err(failed)?;
    // The API server sends only JSON, and only pods that it could parse.
    let Ok(mut review) = serde_json::from_slice::<Value>(body) else {
        return Ok(());
    };
    let mut object = review["request"]["object"].take();
    let is_read = match decision.resource {
        AdmissionResource::Pod => serde_json::from_value::<Pod>(object.clone()).is_ok(),
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
fn no_review_panics_refuses_a_pod_or_returns_an_invalid_patch() {
    let count = std::env::var(COUNT).map(|count| count.parse().expect("a number of reviews"));
    let count = count.unwrap_or(DEFAULT_COUNT);
    let (fixtures, corpus) = (fixtures(), corpus::reviews());
    let config = Config {
        cases: count,
        failure_persistence: None,
        ..Config::default()
    };
    let strategy = (
        0..fixtures.len(),
        0..corpus.len(),
        prop::collection::vec(Mutation::any(), 0..6),
    );
    let outcome = TestRunner::new(config).run(&strategy, |(fixture, review, mutations)| {
        let body = mutation::apply(&corpus[review], &mutations);
        check(&body, &fixtures[fixture].decide(&body))
    });
    if let Err(error) = outcome {
        panic!("{error}");
    }
    let used = peak_mebibytes();
    println!("{count} reviews, at most {used:?} MiB of memory");
    assert!(used.is_none_or(|used| used < MAX_MEBIBYTES), "{used:?} MiB");
}

/// The peak memory of this process, if the system reports it.
fn peak_mebibytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let mut lines = status.lines();
    let line = lines.find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes / 1024)
}

#[test]
fn pods_with_very_many_containers_are_admitted_unchanged() {
    let fixture = &fixtures()[1];
    let containers: Vec<Value> = (0..60_000).map(|_| json!({"name": "app"})).collect();
    let pod = crate::fixture::pod(&json!({}));
    let mut review = crate::fixture::pod_review(&pod);
    review["request"]["object"]["spec"]["containers"] = containers.into();
    let decision = fixture.decide(review.to_string().as_bytes());
    assert_eq!(patch_in(&decision.review), None);
}
