//! Comparison with inputs and outputs recorded from upstream's Go programs.

mod disruption;
mod priority;
mod resize_patch;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use api::vpa::VerticalPodAutoscaler;
use jiff::Timestamp;
use model::{LimitModes, NamespaceLimits, Recommendation};
use serde_json::Value;
use view::{LimitRange, Pod, Running, View};

use crate::clock::ClockReading;
use crate::resize::pod_size::PodToSize;

/// The recordings have no target.
fn vpa(mut object: Value) -> VerticalPodAutoscaler {
    object["spec"]["targetRef"] = serde_json::json!({"kind": "Deployment", "name": "web"});
    object["apiVersion"] = "autoscaling.k8s.io/v1".into();
    object["kind"] = "VerticalPodAutoscaler".into();
    api::vpa::parse(object).expect("a VPA object")
}

fn recommendation(vpa: &VerticalPodAutoscaler) -> Option<Recommendation> {
    vpa.status.as_ref()?.recommendation.clone()
}

fn pod(object: Value) -> Pod {
    Pod::from_k8s_running(serde_json::from_value(object).expect("a pod"), false)
}

fn running(pod: &Pod) -> &Running {
    pod.running.as_deref().expect("kept")
}

fn limits(ranges: Option<Vec<Value>>) -> NamespaceLimits {
    let mut view = View::default();
    for range in ranges.into_iter().flatten() {
        let range = serde_json::from_value(range).expect("a limit range");
        view.limit_ranges
            .apply(Arc::new(LimitRange::from_k8s(range)));
    }
    view.namespace_limits("default")
}

/// A pod as upstream sizes it: by its present resources.
fn to_size<'a>(
    running: &'a Running,
    vpa: &'a VerticalPodAutoscaler,
    namespace: &'a NamespaceLimits,
) -> PodToSize<'a> {
    PodToSize {
        running,
        template: None,
        spec: &vpa.spec,
        limit_modes: LimitModes::PROPORTIONAL,
        namespace,
        native_sidecars: false,
        leaves_off: false,
    }
}

fn at(wall: Timestamp) -> ClockReading {
    let monotonic =
        Duration::try_from(wall.duration_since(Timestamp::UNIX_EPOCH)).expect("after 1970");
    ClockReading { wall, monotonic }
}

/// Infeasible recommendations in the recordings, by pod UID.
type Attempts = Option<BTreeMap<String, Recommendation>>;
