//! Signs of other autoscalers that write the same objects: Leases, pods and Events.
//!
//! No sign is certain alone. Upstream's manifests run without a Lease, its Helm chart names Lease
//! and webhook otherwise, and an updater that evicts nothing writes nothing.
//!
//! A tenant must not stop the suite by a sign in its own namespace. So pods and Leases count only
//! where a `ServiceAccount` may write in all namespaces ([`AutoscalerRole::write`]), and Events are
//! shown but stop nothing.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::authorization::v1::ResourceAttributes;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Event;
use kube::core::ObjectMeta;

use crate::table::ObjectKey;

/// Age of an Event up to which its writer counts as running.
const RECENT: Duration = Duration::from_mins(2);
/// Annotation that Plimsoll writes on a Lease: program of the suite that holds it, which tells it
/// from other autoscalers; see docs/operations.md#beside-other-autoscalers.
pub const PROGRAM_ANNOTATION: &str = "plimsoll.dev/program";
/// Names of the Leases of other autoscalers, and of the suite's own.
pub const LEASE_NAMES: [&str; 5] = [
    "craned",
    "vpa-recommender-lease",
    "vpa-recommender-lease-0",
    "vpa-updater",
    "vpa-updater-lease",
];
/// Selectors of the pods of other autoscalers: upstream's manifests and Crane's, upstream's and
/// Fairwinds' Helm charts.
pub const POD_SELECTORS: [&str; 2] = [
    "app in (vpa-recommender,vpa-updater,craned)",
    "app.kubernetes.io/name in (vertical-pod-autoscaler,vpa),app.kubernetes.io/component in (recommender,updater)",
];
/// Field selector of the Events about evictions by an updater.
pub const EVENT_SELECTOR: &str = "reason=EvictedByVPA";

/// The source of upstream's Events. Events of this suite have a reporting controller only.
const UPDATER_SOURCE: &str = "vpa-updater";
/// Time after its last renewal for which a Lease counts as held, if its own duration is shorter.
const LEASE_GRACE: Duration = Duration::from_secs(30);

/// The part of an autoscaler that must run only once per cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AutoscalerRole {
    /// Writes the status of VPA objects, and checkpoints.
    Recommender,
    /// Evicts and resizes pods.
    Updater,
    /// Writes EHPA objects, their HPAs and predictions, as Crane does.
    EhpaController,
}

impl AutoscalerRole {
    /// The role in messages, and as a label of metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Recommender => "recommender",
            Self::Updater => "updater",
            Self::EhpaController => "ehpa-controller",
        }
    }

    /// A write in all namespaces that each program with the role needs.
    pub fn write(self) -> ResourceAttributes {
        let (verb, group, resource, subresource) = match self {
            Self::Recommender => (
                "patch",
                "autoscaling.k8s.io",
                "verticalpodautoscalers",
                "status",
            ),
            Self::Updater => ("create", "", "pods", "eviction"),
            Self::EhpaController => (
                "patch",
                "autoscaling.crane.io",
                "effectivehorizontalpodautoscalers",
                "status",
            ),
        };
        ResourceAttributes {
            verb: Some(verb.to_owned()),
            group: Some(group.to_owned()),
            resource: Some(resource.to_owned()),
            subresource: Some(subresource.to_owned()),
            ..ResourceAttributes::default()
        }
    }
}

/// A sign of another autoscaler.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct OtherAutoscaler {
    /// Its role.
    pub role: AutoscalerRole,
    /// The sign: an object, and what it shows. The same while it stays.
    pub sign: String,
}

impl OtherAutoscaler {
    /// Judges a running pod by its labels, which match one of [`POD_SELECTORS`]. Returns the sign with
    /// the pod.
    pub fn of_pod(pod: &ObjectMeta) -> Option<(ObjectKey, Self)> {
        let label = |name: &str| pod.labels.as_ref()?.get(name).map(String::as_str);
        let role = match (label("app"), label("app.kubernetes.io/component")) {
            (Some("vpa-recommender"), _) | (_, Some("recommender")) => AutoscalerRole::Recommender,
            (Some("vpa-updater"), _) | (_, Some("updater")) => AutoscalerRole::Updater,
            (Some("craned"), _) => AutoscalerRole::EhpaController,
            _ => return None,
        };
        let key = ObjectKey::from(pod);
        let sign = format!("the Pod {key}");
        Some((key, Self { role, sign }))
    }

    /// Judges the Leases of all namespaces. `own` are those that this installation may hold: they
    /// exclude the other program already. Of two installations of this suite the older one counts.
    /// Returns the signs with the pods that hold the Leases, by their identities.
    pub fn of_leases(
        leases: &[Lease],
        own: &[ObjectKey],
        now: Timestamp,
    ) -> Vec<(ObjectKey, Self)> {
        let own_creation = leases
            .iter()
            .filter(|lease| own.contains(&ObjectKey::from(&lease.metadata)))
            .filter_map(|lease| lease.metadata.creation_timestamp.as_ref())
            .map(|time| time.0)
            .min();
        let other = |lease: &Lease| {
            let key = ObjectKey::from(&lease.metadata);
            let role = role_of_lease(&key.name)?;
            let holder = holder(lease, now).filter(|_| !own.contains(&key))?;
            let annotations = lease.metadata.annotations.as_ref();
            let is_of_suite = annotations.is_some_and(|all| all.contains_key(PROGRAM_ANNOTATION));
            let created = lease.metadata.creation_timestamp.as_ref();
            let is_younger = own_creation
                .zip(created)
                .is_some_and(|(own, other)| other.0 > own);
            (!is_of_suite || !is_younger).then(|| {
                let sign = format!("the Lease {key} of {holder}");
                // The identity of client-go: hostname, underscore, UUID.
                let (pod, _) = holder.split_once('_').unwrap_or((holder, ""));
                (ObjectKey::new(&key.namespace, pod), Self { role, sign })
            })
        };
        leases.iter().filter_map(other).collect()
    }

    /// Judges an Event that [`EVENT_SELECTOR`] selects.
    pub fn of_event(event: &Event, now: Timestamp) -> Option<Self> {
        let source = event.source.as_ref()?.component.as_deref();
        let times = [&event.last_timestamp, &event.first_timestamp];
        let time = times.into_iter().flatten().map(|time| time.0).max()?;
        (source == Some(UPDATER_SOURCE) && is_recent(time, now)).then(|| Self {
            role: AutoscalerRole::Updater,
            sign: "an Event EvictedByVPA of upstream's updater".to_owned(),
        })
    }
}

/// Role of the holder of a Lease. Upstream's recommender had another name for its Lease before,
/// which GKE holds in each cluster.
fn role_of_lease(name: &str) -> Option<AutoscalerRole> {
    match name {
        "vpa-recommender-lease" | "vpa-recommender-lease-0" => Some(AutoscalerRole::Recommender),
        "vpa-updater" | "vpa-updater-lease" => Some(AutoscalerRole::Updater),
        "craned" => Some(AutoscalerRole::EhpaController),
        _ => None,
    }
}

/// The holder of a Lease that is not expired.
fn holder(lease: &Lease, now: Timestamp) -> Option<&str> {
    let spec = lease.spec.as_ref()?;
    let holder = spec.holder_identity.as_deref();
    let renewed_at = spec.renew_time.as_ref()?.0;
    let seconds = u64::try_from(spec.lease_duration_seconds.unwrap_or(0)).unwrap_or(0);
    let duration = Duration::from_secs(seconds).max(LEASE_GRACE);
    let is_held = age(renewed_at, now) < duration;
    holder.filter(|holder| is_held && !holder.is_empty())
}

fn is_recent(time: Timestamp, now: Timestamp) -> bool {
    age(time, now) < RECENT
}

/// Zero for a time that is not over yet.
fn age(time: Timestamp, now: Timestamp) -> Duration {
    Duration::try_from(now.duration_since(time)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn now() -> Timestamp {
        "2026-01-01T12:00:00Z".parse().expect("a time")
    }

    fn metadata(value: &Value) -> ObjectMeta {
        serde_json::from_value(value.clone()).expect("metadata")
    }

    fn lease(
        namespace: &str,
        name: &str,
        created: &str,
        renewed: &str,
        is_of_suite: bool,
    ) -> Lease {
        let annotations = if is_of_suite {
            json!({PROGRAM_ANNOTATION: "updater"})
        } else {
            json!({})
        };
        serde_json::from_value(json!({
            "metadata": {
                "namespace": namespace, "name": name, "annotations": annotations,
                "creationTimestamp": format!("2026-01-01T{created}Z"),
            },
            "spec": {
                "holderIdentity": "other_1", "leaseDurationSeconds": 15,
                "renewTime": format!("2026-01-01T{renewed}.000000Z"),
            },
        }))
        .expect("a Lease")
    }

    fn check_leases(leases: &[Lease], expected: &[&str]) {
        let own = [ObjectKey::new("suite", "vpa-updater")];
        let found = OtherAutoscaler::of_leases(leases, &own, now());
        let found: Vec<&str> = found.iter().map(|(_, other)| other.sign.as_str()).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn a_renewed_lease_in_another_namespace_is_a_sign() {
        let fresh = "11:59:50";
        check_leases(
            &[lease("suite", "vpa-updater", "09:00:00", fresh, true)],
            &[],
        );
        check_leases(
            &[lease(
                "kube-system",
                "cert-manager",
                "09:00:00",
                fresh,
                false,
            )],
            &[],
        );
        // GKE holds it in each cluster.
        check_leases(
            &[lease(
                "kube-system",
                "vpa-recommender",
                "09:00:00",
                fresh,
                false,
            )],
            &[],
        );
        let names = ["vpa-updater", "vpa-updater-lease"];
        for name in names {
            let found = lease("vpa", name, "09:00:00", fresh, false);
            check_leases(&[found], &[&format!("the Lease vpa/{name} of other_1")]);
            check_leases(&[lease("vpa", name, "09:00:00", "11:59:20", false)], &[]);
        }
    }

    #[test]
    fn of_two_installations_of_the_suite_the_older_one_counts() {
        let own = lease("suite", "vpa-updater", "10:00:00", "11:59:50", true);
        let other =
            |created, is_of_suite| lease("b", "vpa-updater", created, "11:59:50", is_of_suite);
        let sign = ["the Lease b/vpa-updater of other_1"];
        check_leases(&[own.clone(), other("09:00:00", true)], &sign);
        check_leases(&[own.clone(), other("11:00:00", true)], &[]);
        check_leases(&[own, other("11:00:00", false)], &sign);
        check_leases(&[other("11:00:00", true)], &sign);
    }

    #[test]
    fn pods_have_a_role_by_their_labels() {
        for (labels, expected) in [
            (json!({"app": "vpa-updater"}), Some(AutoscalerRole::Updater)),
            (
                json!({"app": "vpa-recommender"}),
                Some(AutoscalerRole::Recommender),
            ),
            (
                json!({"app": "craned"}),
                Some(AutoscalerRole::EhpaController),
            ),
            (
                json!({"app.kubernetes.io/component": "updater"}),
                Some(AutoscalerRole::Updater),
            ),
            (json!({"app": "web"}), None),
        ] {
            let pod = metadata(&json!({"namespace": "kube-system", "name": "a", "labels": labels}));
            let found = OtherAutoscaler::of_pod(&pod).map(|(_, other)| other);
            assert_eq!(found.as_ref().map(|other| other.role), expected, "{labels}");
            assert!(found.is_none_or(|other| other.sign == "the Pod kube-system/a"));
        }
    }

    #[test]
    fn upstreams_events_are_signs_and_our_own_are_none() {
        let event = |fields: Value| -> Event {
            let mut event = json!({"metadata": {}, "involvedObject": {}, "reason": "EvictedByVPA"});
            event
                .as_object_mut()
                .expect("an object")
                .extend(fields.as_object().expect("fields").clone());
            serde_json::from_value(event).expect("an Event")
        };
        let of = |fields| OtherAutoscaler::of_event(&event(fields), now()).is_some();
        let source = json!({"component": "vpa-updater"});
        assert!(of(
            json!({"source": source, "lastTimestamp": "2026-01-01T11:59:00Z"})
        ));
        assert!(!of(
            json!({"source": source, "lastTimestamp": "2026-01-01T11:50:00Z"})
        ));
        assert!(!of(
            json!({"source": {}, "reportingComponent": "vpa-updater", "lastTimestamp": "2026-01-01T11:59:00Z"})
        ));
    }
}
