//! Objects for unit tests: the VPA object `shop/web`, and the eviction of one of its pods.

use std::sync::Arc;

use rollout::{
    Action, ActionKind, ActionReason, Disruption, NextAct, Refutation, RefutationCause, RefutedAct,
};
use serde_json::{Value, json};
use view::{ObjectKey, Vpa};

/// The VPA object, with these fields in addition.
pub(crate) fn vpa(fields: &Value) -> Vpa {
    let mut object = json!({
        "apiVersion": "autoscaling.k8s.io/v1", "kind": "VerticalPodAutoscaler",
        "metadata": {"namespace": "shop", "name": "web", "uid": "of-web"},
        "spec": {"targetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}},
    });
    json_patch::merge(&mut object, fields);
    Vpa {
        key: ObjectKey::new("shop", "web"),
        object: api::vpa::parse(object).expect("a VPA object"),
    }
}

pub(crate) fn eviction(reason: ActionReason) -> Action {
    Action {
        vpa: ObjectKey::new("shop", "web"),
        pod: ObjectKey::new("shop", "web-0"),
        pod_uid: "uid-0".to_owned(),
        kind: ActionKind::Evict,
        reason,
        changes: Vec::new(),
        recommendation: Arc::default(),
        disruption: Disruption::Eviction,
        oom_kill: None,
        relocation: None,
    }
}

/// A resize of the pod `web-0` that an OOM kill refuted.
pub(crate) fn refutation() -> Refutation {
    Refutation {
        vpa: ObjectKey::new("shop", "web"),
        pod: ObjectKey::new("shop", "web-0"),
        pod_uid: "uid-0".to_owned(),
        container: "app".to_owned(),
        act: RefutedAct::Resize,
        acted_at: None,
        cause: RefutationCause::OomKill,
        limit: "512Mi".parse().ok(),
        next: NextAct::Step,
    }
}
