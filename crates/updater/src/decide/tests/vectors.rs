//! Comparison with inputs and outputs recorded by running upstream's Go programs (`tests/vectors/vpa` of the repository).

mod disruption;
mod priority;
mod resize_patch;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use api::vpa::VerticalPodAutoscaler;
use cluster::{LimitRange, Pod, Running, View};
use jiff::Timestamp;
use model::{NamespaceLimits, Recommendation};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::super::moment::Moment;

/// All cases of the given files.
fn load<C: DeserializeOwned>(files: &[&str]) -> Vec<C> {
    #[derive(Deserialize)]
    struct File<C> {
        cases: Vec<C>,
    }
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/vectors/vpa");
    let read = |file: &&str| {
        let path = folder.join(format!("{file}.json"));
        let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        serde_json::from_str::<File<C>>(&text).unwrap_or_else(|error| panic!("{file}: {error}")).cases
    };
    let cases: Vec<C> = files.iter().flat_map(read).collect();
    assert!(!cases.is_empty());
    cases
}

/// The recordings have no target.
fn autoscaler(mut object: Value) -> VerticalPodAutoscaler {
    object["spec"]["targetRef"] = serde_json::json!({"kind": "Deployment", "name": "web"});
    object["apiVersion"] = "autoscaling.k8s.io/v1".into();
    object["kind"] = "VerticalPodAutoscaler".into();
    api::vpa::parse(object).expect("an autoscaler")
}

fn recommendation(autoscaler: &VerticalPodAutoscaler) -> Option<Recommendation> {
    autoscaler.status.as_ref()?.recommendation.clone().map(Recommendation::from)
}

fn pod(object: Value) -> Pod {
    Pod::trim_running(serde_json::from_value(object).expect("a pod"), false)
}

fn running(pod: &Pod) -> &Running {
    pod.running.as_deref().expect("kept")
}

fn limits(ranges: Option<Vec<Value>>) -> NamespaceLimits {
    let mut view = View::default();
    for range in ranges.into_iter().flatten() {
        let range = serde_json::from_value(range).expect("a limit range");
        view.limit_ranges.apply(Arc::new(LimitRange::trim(range)));
    }
    view.namespace_limits("default")
}

fn at(wall: Timestamp) -> Moment {
    let steady = Duration::try_from(wall.duration_since(Timestamp::UNIX_EPOCH)).expect("after 1970");
    Moment { wall, steady }
}

/// Recommendations as the recordings have them, by unique identifier of a pod.
type Attempts = Option<BTreeMap<String, Recommendation>>;
