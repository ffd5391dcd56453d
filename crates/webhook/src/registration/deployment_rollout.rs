//! Rollouts of the webhook's Deployment. Replicas of two revisions run side by side then, and only
//! those of the newer one may write the registration, unless none of them has been ready for a
//! while.

use std::time::{Duration, Instant};

use k8s_openapi::api::admissionregistration::v1::MutatingWebhookConfiguration;
use k8s_openapi::api::apps::v1::ReplicaSet;
use kube::Api;

use super::revision::{REPLICA_SET_ANNOTATION, Revision};

/// A replica of a Deployment.
#[derive(Debug, Clone)]
pub struct Replica {
    replica_sets: Api<ReplicaSet>,
    replica_set: String,
}

impl Replica {
    /// The replica in the pod with this name, which begins with the name of its `ReplicaSet`.
    pub fn from_pod_name(client: kube::Client, namespace: &str, pod: &str) -> Option<Self> {
        let (replica_set, _) = pod.rsplit_once('-')?;
        Some(Self {
            replica_sets: Api::namespaced(client, namespace),
            replica_set: replica_set.to_owned(),
        })
    }

    /// The name of the `ReplicaSet`.
    pub(crate) fn replica_set(&self) -> &str {
        &self.replica_set
    }

    /// Whether a replica of the revision that wrote the registration is ready; `None` if unknown.
    pub(crate) async fn is_registrant_ready(
        &self,
        current: &MutatingWebhookConfiguration,
    ) -> Option<bool> {
        let replica_set = current
            .metadata
            .annotations
            .as_ref()?
            .get(REPLICA_SET_ANNOTATION)?;
        match self.replica_sets.get_opt(replica_set).await {
            Ok(found) => {
                let status = found.and_then(|replica_set| replica_set.status);
                Some(status.and_then(|status| status.ready_replicas).unwrap_or(0) > 0)
            }
            Err(error) => {
                tracing::debug!(%error, replica_set, "cannot read the ReplicaSet of the newer revision");
                None
            }
        }
    }

    /// The current revision, which a rollback changes while the pods run; `None` if it cannot be
    /// read.
    pub(crate) async fn revision(&self) -> Option<Revision> {
        match self.replica_sets.get_opt(&self.replica_set).await {
            Ok(replica_set) => Revision::of(&replica_set?),
            Err(error) => {
                tracing::debug!(%error, replica_set = self.replica_set, "cannot read the ReplicaSet of this replica");
                None
            }
        }
    }
}

/// The readiness of the newer revision that wrote the registration.
#[derive(Debug, Default)]
pub(crate) struct NewerRevision {
    unready_since: Option<Instant>,
}

impl NewerRevision {
    /// Records its readiness; `None` if there is no newer revision or it is not known.
    pub(crate) fn observe(&mut self, is_ready: Option<bool>, now: Instant) {
        self.unready_since = match is_ready {
            Some(false) => self.unready_since.or(Some(now)),
            Some(true) | None => None,
        };
    }

    /// Whether it has not been ready for `duration`.
    pub(crate) fn is_unready_for(&self, duration: Duration, now: Instant) -> bool {
        self.unready_since
            .is_some_and(|since| now.saturating_duration_since(since) >= duration)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unreadiness_counts_without_interruptions() {
        let (delay, start) = (Duration::from_mins(2), Instant::now());
        for (seen, expected) in [
            (vec![(0, Some(false)), (119, Some(false))], false),
            (vec![(0, Some(false)), (120, Some(false))], true),
            (
                vec![(0, Some(false)), (60, Some(true)), (120, Some(false))],
                false,
            ),
            (
                vec![(0, Some(false)), (60, None), (120, Some(false))],
                false,
            ),
            (
                vec![
                    (0, Some(false)),
                    (60, Some(true)),
                    (80, Some(false)),
                    (200, Some(false)),
                ],
                true,
            ),
            (vec![(0, None), (600, None)], false),
            (vec![(0, Some(true)), (600, Some(true))], false),
        ] {
            let mut newer = NewerRevision::default();
            let mut now = start;
            for (second, is_ready) in &seen {
                now = start + Duration::from_secs(*second);
                newer.observe(*is_ready, now);
            }
            assert_eq!(newer.is_unready_for(delay, now), expected, "{seen:?}");
        }
    }
}
