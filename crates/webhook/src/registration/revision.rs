//! The revision of the Deployment whose replicas wrote the registration.

use std::fmt;

use k8s_openapi::api::admissionregistration::v1::MutatingWebhookConfiguration;
use k8s_openapi::api::apps::v1::ReplicaSet;

/// Annotation that Plimsoll writes on a webhook configuration: UID of the Deployment, and number of
/// the revision, of the replicas that maintain it; see docs/admission.md#registration.
pub(crate) const ANNOTATION: &str = "plimsoll.dev/registered-by";
/// Annotation that Plimsoll writes on a webhook configuration: `ReplicaSet` of the replicas that
/// maintain it.
pub(crate) const REPLICA_SET_ANNOTATION: &str = "plimsoll.dev/registered-by-replica-set";
/// The annotation that the Deployment controller sets on each `ReplicaSet`.
const DEPLOYMENT_REVISION: &str = "deployment.kubernetes.io/revision";

/// A revision of a Deployment. A rollback gets a new, greater number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Revision {
    deployment: String,
    number: u64,
}

impl Revision {
    /// The revision of a `ReplicaSet`; `None` if no Deployment controls it.
    pub fn of(replica_set: &ReplicaSet) -> Option<Self> {
        let metadata = &replica_set.metadata;
        let mut owners = metadata.owner_references.iter().flatten();
        let deployment =
            owners.find(|owner| owner.controller == Some(true) && owner.kind == "Deployment")?;
        let number = metadata.annotations.as_ref()?.get(DEPLOYMENT_REVISION)?;
        Some(Self {
            deployment: deployment.uid.clone(),
            number: number.parse().ok()?,
        })
    }

    /// Whether a newer revision of the same Deployment wrote the registration.
    pub(crate) fn is_before(&self, current: &MutatingWebhookConfiguration) -> bool {
        let annotations = current.metadata.annotations.as_ref();
        let annotation = annotations.and_then(|annotations| annotations.get(ANNOTATION));
        let writer = annotation.and_then(|text| text.rsplit_once('/'));
        writer.is_some_and(|(deployment, number)| {
            deployment == self.deployment
                && number.parse().is_ok_and(|number: u64| number > self.number)
        })
    }
}

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.deployment, self.number)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn revision(owner: &Value, number: &str) -> Option<Revision> {
        let metadata =
            json!({"annotations": {DEPLOYMENT_REVISION: number}, "ownerReferences": [owner]});
        Revision::of(&serde_json::from_value(json!({"metadata": metadata})).expect("a ReplicaSet"))
    }

    fn deployment() -> Value {
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "webhook", "uid": "u-1", "controller": true})
    }

    #[test]
    fn a_revision_is_that_of_the_controlling_deployment() {
        let found = revision(&deployment(), "7").map(|revision| revision.to_string());
        assert_eq!(found.as_deref(), Some("u-1/7"));
        let other = json!({"apiVersion": "v1", "kind": "Other", "name": "webhook", "uid": "u-1", "controller": true});
        assert_eq!(revision(&other, "7"), None);
        assert_eq!(revision(&deployment(), "seven"), None);
    }

    #[test]
    fn only_newer_revisions_of_the_same_deployment_precede() {
        let own = revision(&deployment(), "7").expect("a revision");
        for (writer, expected) in [
            ("u-1/8", true),
            ("u-1/10", true),
            ("u-1/7", false),
            ("u-1/6", false),
            ("u-2/8", false),
            ("8", false),
            ("", false),
        ] {
            let current = json!({"metadata": {"annotations": {ANNOTATION: writer}}});
            let current = serde_json::from_value(current).expect("a configuration");
            assert_eq!(own.is_before(&current), expected, "{writer}");
        }
        assert!(!own.is_before(&MutatingWebhookConfiguration::default()));
    }
}
