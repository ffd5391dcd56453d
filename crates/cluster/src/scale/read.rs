//! Asks the API server for one scale subresource: first which resource the kind is, then for the object's scale.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use kube::api::{Api, DynamicObject};
use kube::discovery::{self, ApiGroup};
use kube::error::DiscoveryError;
use kube::{Client, Error};
use tokio::time::{Instant, timeout};

use super::{Scale, ScaleKey};
use crate::owner::Owner;

/// How long what is known of an API group is taken for true.
const GROUP_LIFETIME: Duration = Duration::from_mins(5);
/// How long one look-up may take.
const CALL_TIMEOUT: Duration = Duration::from_secs(30);
/// What client-go says where the API server has no such path.
const NO_SUCH_PATH: &str = "the server could not find the requested resource";

/// Reads scale subresources, and remembers for a while which API groups there are.
pub(super) struct Reader {
    client: Client,
    groups: BTreeMap<String, (Instant, Arc<ApiGroup>)>,
}

impl Reader {
    pub(super) fn new(client: Client) -> Self {
        Self { client, groups: BTreeMap::new() }
    }

    /// What the scale subresource says now.
    pub(super) async fn read(&mut self, key: &ScaleKey) -> Scale {
        match timeout(CALL_TIMEOUT, self.ask(key)).await {
            Ok(scale) => scale,
            Err(_) => Scale::Failed { reason: "the API server did not answer in time".to_owned(), transient: true },
        }
    }

    async fn ask(&mut self, key: &ScaleKey) -> Scale {
        let no_match = format!("no matches for kind {:?} in group {:?}", key.kind, key.group);
        let group = match self.group(&key.group).await {
            Ok(group) => group,
            Err(Error::Discovery(DiscoveryError::MissingApiGroup(_))) => {
                return Scale::Failed { reason: no_match, transient: false };
            }
            Err(error) => return failure(&error),
        };
        let mut last = Scale::Failed { reason: no_match, transient: false };
        for resource in resources(&group, &key.kind) {
            let api: Api<DynamicObject> = Api::namespaced_with(self.client.clone(), &key.namespace, &resource);
            match api.get_scale(&key.name).await {
                Ok(scale) => {
                    return Scale::Found {
                        replicas: scale.spec.and_then(|spec| spec.replicas),
                        selector: scale.status.and_then(|status| status.selector).unwrap_or_default(),
                        owner: Owner::controller(scale.metadata.owner_references),
                    };
                }
                Err(error) => last = failure(&error),
            }
        }
        last
    }

    async fn group(&mut self, name: &str) -> Result<Arc<ApiGroup>, Error> {
        let now = Instant::now();
        self.groups.retain(|_, (read_at, _)| now.duration_since(*read_at) < GROUP_LIFETIME);
        if let Some((_, group)) = self.groups.get(name) {
            return Ok(Arc::clone(group));
        }
        let group = Arc::new(discovery::group(&self.client, name).await?);
        self.groups.insert(name.to_owned(), (now, Arc::clone(&group)));
        Ok(group)
    }
}

/// The resources of a kind, the preferred version first.
fn resources(group: &ApiGroup, kind: &str) -> Vec<discovery::ApiResource> {
    let preferred = group.preferred_version();
    let mut versions: Vec<&str> = group.versions().collect();
    versions.sort_by_key(|version| Some(*version) != preferred);
    versions
        .into_iter()
        .flat_map(|version| group.versioned_resources(version))
        .map(|(resource, _)| resource)
        .filter(|resource| resource.kind == kind)
        .collect()
}

fn failure(error: &Error) -> Scale {
    match error {
        Error::Api(status) if status.code == 404 => {
            // A path that the server does not know is answered in plain text, an object that is not there as a status.
            let is_path = status.message.is_empty() || status.message == "404 page not found";
            Scale::NotFound { reason: if is_path { NO_SUCH_PATH.to_owned() } else { status.message.clone() } }
        }
        Error::Api(status) => {
            Scale::Failed { reason: status.message.clone(), transient: status.code == 429 || status.code >= 500 }
        }
        other => Scale::Failed { reason: other.to_string(), transient: true },
    }
}
