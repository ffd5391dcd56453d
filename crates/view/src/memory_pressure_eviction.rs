//! Evictions under memory pressure, from the events that kubelets write.
//!
//! The event's annotations name the containers above their request, with their usage. Source:
//! upstream `recommender/input/oom/observer.go`, `parseEvictionEvent`. An event that names several
//! containers counts here, unlike upstream: kubelets (`pkg/kubelet/eviction/helpers.go`) write the
//! starved resource once, not once per container.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Event;
use model::{Memory, Quantity};

use crate::oom_kill::OomKill;
use crate::table::ObjectKey;

const CONTAINERS: &str = "offending_containers";
const USAGE: &str = "offending_containers_usage";
const STARVED: &str = "starved_resource";
const MEMORY: &str = "memory";

/// A pod evicted because its node ran out of memory.
#[derive(Debug, Clone, PartialEq)]
pub struct Eviction {
    /// Namespace and name of the event.
    pub key: ObjectKey,
    pub pod: ObjectKey,
    pub at: Timestamp,
    /// Containers above their memory request, with their usage.
    pub usage: Vec<(String, Memory)>,
}

impl Eviction {
    /// Converts an event; `None` unless it reports an eviction under memory pressure.
    pub fn from_k8s(event: &Event) -> Option<Self> {
        let (metadata, object) = (&event.metadata, &event.involved_object);
        let annotation = |name| {
            metadata
                .annotations
                .as_ref()
                .and_then(|all| all.get(name))
                .map(String::as_str)
        };
        if event.reason.as_deref() != Some("Evicted") || object.kind.as_deref() != Some("Pod") {
            return None;
        }
        let at = metadata
            .creation_timestamp
            .as_ref()
            .or(event.last_timestamp.as_ref())
            .map(|time| time.0)?;
        let pod = ObjectKey::new(object.namespace.clone()?, object.name.clone()?);
        let usage = usage(
            annotation(CONTAINERS)?,
            annotation(USAGE)?,
            annotation(STARVED)?,
        );
        (!usage.is_empty()).then(|| Self {
            key: ObjectKey::from(metadata),
            pod,
            at,
            usage,
        })
    }

    /// One OOM kill per container, at its usage.
    pub fn kills(&self) -> impl Iterator<Item = OomKill> {
        self.usage.iter().map(|(container, memory)| OomKill {
            pod: self.pod.clone(),
            container: container.clone(),
            at: self.at,
            memory: *memory,
            seen_in: None,
        })
    }
}

/// Pairs containers with their usage. Lists of different lengths cannot be paired and give nothing.
fn usage(containers: &str, usage: &str, starved: &str) -> Vec<(String, Memory)> {
    let [containers, usage, starved] =
        [containers, usage, starved].map(|list| list.split(',').collect::<Vec<_>>());
    let is_memory = |index: usize| match starved.as_slice() {
        [one] => *one == MEMORY,
        each => each[index] == MEMORY,
    };
    if containers.len() != usage.len() || (starved.len() != 1 && starved.len() != containers.len())
    {
        return Vec::new();
    }
    let all = containers
        .iter()
        .zip(&usage)
        .enumerate()
        .filter(|(index, _)| is_memory(*index));
    all.filter_map(|(_, (container, usage))| {
        let usage: Quantity = usage.parse().ok()?;
        Some(((*container).to_owned(), Memory::from(&usage)))
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn event(annotations: &Value) -> Value {
        json!({
            "metadata": {
                "namespace": "shop", "name": "web-1.17a", "creationTimestamp": "2026-01-01T00:00:00Z",
                "annotations": annotations,
            },
            "reason": "Evicted",
            "involvedObject": {"kind": "Pod", "namespace": "shop", "name": "web-1"},
        })
    }

    fn from_k8s(event: Value) -> Option<Eviction> {
        Eviction::from_k8s(&serde_json::from_value(event).expect("an event"))
    }

    fn check(containers: &str, usage: &str, starved: &str, expected: &[(&str, i64)]) {
        let annotations = json!({CONTAINERS: containers, USAGE: usage, STARVED: starved});
        let eviction = from_k8s(event(&annotations));
        let kills: Vec<_> = eviction.iter().flat_map(Eviction::kills).collect();
        let found = kills
            .iter()
            .map(|kill| (kill.container.as_str(), kill.memory.bytes()));
        assert_eq!(found.collect::<Vec<_>>(), expected);
        for kill in &kills {
            assert_eq!(kill.pod, ObjectKey::new("shop", "web-1"));
            assert_eq!(kill.at.to_string(), "2026-01-01T00:00:00Z");
        }
    }

    #[test]
    fn containers_above_their_request_count_with_their_usage() {
        check("app", "100Mi", "memory", &[("app", 100 << 20)]);
        let both = [("app", 100 << 20), ("side", 2 << 20)];
        check("app,side", "100Mi,2048Ki", "memory", &both);
        let both = [("app", 100 << 20), ("side", 5)];
        check("app,side", "100Mi,5", "memory,memory", &both);
    }

    #[test]
    fn other_resources_do_not_count() {
        check("app", "100Mi", "ephemeral-storage", &[]);
        let starved = "ephemeral-storage,memory";
        check("app,side", "100Mi,5", starved, &[("side", 5)]);
    }

    #[test]
    fn lists_of_different_lengths_and_malformed_usage_are_skipped() {
        check("app,side", "100Mi", "memory", &[]);
        check("app", "100Mi", "memory,memory", &[]);
        check("app,side", "much,5", "memory", &[("side", 5)]);
    }

    #[test]
    fn other_events_are_skipped() {
        let complete = json!({CONTAINERS: "app", USAGE: "5", STARVED: "memory"});
        assert!(from_k8s(event(&complete)).is_some());
        assert_eq!(from_k8s(event(&json!({}))), None);
        for (field, value) in [
            ("reason", json!("Killing")),
            ("involvedObject", json!({"kind": "Node", "name": "n"})),
        ] {
            let mut other = event(&complete);
            other[field] = value;
            assert_eq!(from_k8s(other), None, "{field}");
        }
    }
}
