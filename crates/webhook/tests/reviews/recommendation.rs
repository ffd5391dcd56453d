//! Whether the feed or the status of the object says what is recommended.

use std::sync::Arc;
use std::time::Instant;

use feed::Subscription;
use feed::client::{LeaderState, Received};
use jiff::Timestamp;
use model::{ContainerRecommendation, Cpu, Memory, Recommendation, ResourceList};
use serde_json::{Value, json};

use crate::stage::{Stage, lay, pod};

struct Told {
    uid: &'static str,
    generation: i64,
    is_fresh: bool,
    is_empty: bool,
}

fn following(told: &Told) -> Subscription {
    let Told {
        uid,
        generation,
        is_fresh,
        is_empty,
    } = *told;
    let target = ResourceList::of(Cpu::from_millicores(7), Memory::from_bytes(8));
    let app = ContainerRecommendation {
        container_name: "app".to_owned(),
        target,
        ..ContainerRecommendation::default()
    };
    let recommendation = feed::Recommendation {
        uid: uid.to_owned(),
        observed_generation: generation,
        recommendation: Recommendation {
            containers: if is_empty { Vec::new() } else { vec![app] },
        },
        ..feed::Recommendation::default()
    };
    let heard = Received {
        value: Arc::new(recommendation),
        term: 1,
        revision: 1,
        changed_at: Timestamp::UNIX_EPOCH,
    };
    let stale_since = (!is_fresh).then(Instant::now);
    Subscription::from_leaders(vec![LeaderState {
        values: [(uid.to_owned(), heard)].into(),
        stale_since,
    }])
}

/// What the status is beside an ordinary one of generation 3, what the feed told, and the CPU that
/// the pod gets.
fn check(status: &Value, told: Option<&Told>, expected: Option<&str>) {
    let mut over = json!({"status": {"observedGeneration": 3}});
    lay(&mut over, &json!({"status": status}));
    let mut stage = Stage::new().autoscaler("web", &over);
    stage.heard = told.map(following);
    let patch = stage
        .patch(&pod(&json!({"requests": {}})))
        .expect("a patch");
    let operations = patch.as_array().expect("a list");
    let cpu = operations
        .iter()
        .find(|operation| operation["path"] == "/spec/containers/0/resources/requests/cpu");
    assert_eq!(
        cpu.and_then(|operation| operation["value"].as_str()),
        expected
    );
}

const FRESH: Told = Told {
    uid: "web",
    generation: 3,
    is_fresh: true,
    is_empty: false,
};

#[test]
fn either_works_alone() {
    check(&json!({}), None, Some("100m"));
    check(&Value::Null, Some(&FRESH), Some("7m"));
    check(&Value::Null, None, None);
    check(
        &Value::Null,
        Some(&Told {
            is_fresh: false,
            ..FRESH
        }),
        Some("7m"),
    );
}

#[test]
fn the_feed_counts_while_it_is_heard() {
    check(&json!({}), Some(&FRESH), Some("7m"));
    check(
        &json!({}),
        Some(&Told {
            generation: 4,
            ..FRESH
        }),
        Some("7m"),
    );
    check(
        &json!({}),
        Some(&Told {
            is_fresh: false,
            ..FRESH
        }),
        Some("100m"),
    );
}

#[test]
fn what_is_about_an_older_generation_or_another_object_does_not_count() {
    check(
        &json!({}),
        Some(&Told {
            generation: 2,
            ..FRESH
        }),
        Some("100m"),
    );
    check(
        &json!({}),
        Some(&Told {
            uid: "made-again",
            ..FRESH
        }),
        Some("100m"),
    );
}

#[test]
fn an_empty_recommendation_means_that_none_is_known() {
    let empty = Told {
        is_empty: true,
        ..FRESH
    };
    check(&json!({}), Some(&empty), Some("100m"));
    check(&Value::Null, Some(&empty), None);
    let nothing_written = json!({"recommendation": {"containerRecommendations": []}});
    check(
        &nothing_written,
        Some(&Told {
            is_fresh: false,
            ..FRESH
        }),
        Some("7m"),
    );
    check(&nothing_written, None, None);
}
