//! Signs of other autoscalers that write the same objects: Leases and pods in the namespaces of
//! administrators. A tenant must not stop the suite by a sign in its own namespace.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::coordination::v1::Lease;
use kube::core::ObjectMeta;

use crate::table::ObjectKey;

/// Namespaces in which signs count, beside those of the suite: where the manifests and charts of
/// upstream and Crane install their programs.
pub const AUTOSCALER_NAMESPACES: [&str; 3] = ["kube-system", "vpa", "crane-system"];
/// Selectors of the pods of other autoscalers: upstream's manifests and Crane's, upstream's and
/// Fairwinds' Helm charts.
pub const POD_SELECTORS: [&str; 2] = [
    "app in (vpa-recommender,vpa-updater,craned)",
    "app.kubernetes.io/name in (vertical-pod-autoscaler,vpa),app.kubernetes.io/component in (recommender,updater)",
];

/// Time after its last renewal for which a Lease counts as held, if its own duration is shorter.
const LEASE_GRACE: SignedDuration = SignedDuration::from_secs(30);

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
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct OtherAutoscaler {
    pub role: AutoscalerRole,
    /// The sign: an object, and what it shows. The same while it stays.
    pub sign: String,
}

impl OtherAutoscaler {
    /// Judges a running pod by its labels, which match one of [`POD_SELECTORS`].
    pub fn of_pod(pod: &ObjectMeta) -> Option<Self> {
        let label = |name: &str| pod.labels.as_ref()?.get(name).map(String::as_str);
        let role = match (label("app"), label("app.kubernetes.io/component")) {
            (Some("vpa-recommender"), _) | (_, Some("recommender")) => AutoscalerRole::Recommender,
            (Some("vpa-updater"), _) | (_, Some("updater")) => AutoscalerRole::Updater,
            (Some("craned"), _) => AutoscalerRole::EhpaController,
            _ => return None,
        };
        let sign = format!("the Pod {}", ObjectKey::from(pod));
        Some(Self { role, sign })
    }

    /// Judges a Lease of others: this installation's own exclude the other program already.
    pub fn of_lease(lease: &Lease, now: Timestamp) -> Option<Self> {
        let key = ObjectKey::from(&lease.metadata);
        let role = role_of_lease(&key.name)?;
        let holder = holder(lease, now)?;
        let sign = format!("the Lease {key} of {holder}");
        Some(Self { role, sign })
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

fn holder(lease: &Lease, now: Timestamp) -> Option<&str> {
    let spec = lease.spec.as_ref()?;
    let holder = spec.holder_identity.as_deref();
    let renewed_at = spec.renew_time.as_ref()?.0;
    let seconds = i64::from(spec.lease_duration_seconds.unwrap_or(0));
    let duration = SignedDuration::from_secs(seconds).max(LEASE_GRACE);
    let is_held = now.duration_since(renewed_at) < duration;
    holder.filter(|holder| is_held && !holder.is_empty())
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

    fn check_lease(namespace: &str, name: &str, renewed: &str, expected: Option<&str>) {
        let lease = serde_json::from_value(json!({
            "metadata": {"namespace": namespace, "name": name},
            "spec": {
                "holderIdentity": "other_1", "leaseDurationSeconds": 15,
                "renewTime": format!("2026-01-01T{renewed}.000000Z"),
            },
        }));
        let found = OtherAutoscaler::of_lease(&lease.expect("a Lease"), now());
        let sign = found.as_ref().map(|other| other.sign.as_str());
        assert_eq!(sign, expected, "{namespace}/{name}");
    }

    #[test]
    fn a_renewed_lease_is_a_sign() {
        let fresh = "11:59:50";
        check_lease("kube-system", "cert-manager", fresh, None);
        // GKE holds it in each cluster.
        check_lease("kube-system", "vpa-recommender", fresh, None);
        for name in ["vpa-updater", "vpa-updater-lease"] {
            let sign = format!("the Lease vpa/{name} of other_1");
            check_lease("vpa", name, fresh, Some(&sign));
            check_lease("vpa", name, "11:59:20", None);
        }
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
            let found = OtherAutoscaler::of_pod(&pod);
            assert_eq!(found.as_ref().map(|other| other.role), expected, "{labels}");
            assert!(found.is_none_or(|other| other.sign == "the Pod kube-system/a"));
        }
    }
}
