//! The revision of the Deployment that a replica belongs to. During a rollout the replicas of two revisions run, and only those of the
//! newer one may change the registration.

use k8s_openapi::api::apps::v1::ReplicaSet;
use kube::Api;

use crate::registration::Revision;

/// A replica of a Deployment.
#[derive(Debug, Clone)]
pub struct Replica {
    replica_sets: Api<ReplicaSet>,
    replica_set: String,
}

impl Replica {
    /// The replica that is the pod of this name, which begins with that of its `ReplicaSet`.
    pub fn of(client: kube::Client, namespace: &str, pod: &str) -> Option<Self> {
        let (replica_set, _) = pod.rsplit_once('-')?;
        Some(Self { replica_sets: Api::namespaced(client, namespace), replica_set: replica_set.to_owned() })
    }

    /// Its revision now. A rollback gives the `ReplicaSet` of running pods a new one. None where it cannot be read.
    pub(crate) async fn revision(&self) -> Option<Revision> {
        match self.replica_sets.get_opt(&self.replica_set).await {
            Ok(replica_set) => Revision::of(&replica_set?),
            Err(error) => {
                tracing::debug!(%error, replica_set = self.replica_set, "cannot read the revision of the Deployment");
                None
            }
        }
    }
}
