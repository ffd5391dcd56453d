//! Reads one scale subresource: discovers the resource of the kind, then gets the scale.

use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use kube::api::{Api, DynamicObject};
use kube::discovery::{self, ApiGroup};
use kube::{Client, Error};
use tokio::time::{Instant, timeout};
use view::{Owner, Scale, ScaleKey};

const LIST_LIFETIME: Duration = Duration::from_mins(1);
const GROUP_LIFETIME: Duration = Duration::from_mins(5);
const FAILURE_LIFETIME: Duration = Duration::from_secs(15);
const CALL_TIMEOUT: Duration = Duration::from_secs(30);
/// Limit of selector and owner together, in bytes. Those of Kubernetes' own kinds are far shorter.
const MOST_OF_SCALE: usize = 16 << 10;
/// Length limit of a reason, which the server of an API group writes, in characters.
const MOST_OF_REASON: usize = 300;

/// client-go's message for a path that the API server does not have.
const NO_SUCH_PATH: &str = "the server could not find the requested resource";

pub(super) struct Reader {
    client: Client,
    names: Cached<BTreeSet<String>>,
    groups: Mutex<BTreeMap<String, Cached<ApiGroup>>>,
}

/// A cached result with single flight: concurrent readers share one request.
type Cached<T> = Arc<tokio::sync::Mutex<Option<(Instant, Result<Arc<T>, Scale>)>>>;

impl Reader {
    pub(super) fn new(client: Client) -> Self {
        Self {
            client,
            names: Arc::default(),
            groups: Mutex::default(),
        }
    }

    pub(super) async fn read(&self, key: &ScaleKey) -> Scale {
        bounded(self.ask(key).await.unwrap_or_else(|failure| failure))
    }

    async fn ask(&self, key: &ScaleKey) -> Result<Scale, Scale> {
        let no_match = || Scale::Failed {
            reason: format!(
                "no matches for kind {:?} in group {:?}",
                key.kind, key.group
            ),
            transient: false,
        };
        let names = self.names.clone();
        let names = cached(&names, LIST_LIFETIME, async {
            let groups = self.client.list_api_groups().await?.groups;
            Ok(groups.into_iter().map(|group| group.name).collect())
        });
        // The core group has no name and is in no list.
        if !key.group.is_empty() && !names.await?.contains(&key.group) {
            return Err(no_match());
        }
        let group = self.group(&key.group).await?;
        let mut last = no_match();
        for (resource, has_scale) in resources(&group, &key.kind) {
            let api: Api<DynamicObject> =
                Api::namespaced_with(self.client.clone(), &key.namespace, &resource);
            match in_time(api.get_scale(&key.name)).await {
                Ok(scale) => {
                    return Ok(Scale::Found {
                        replicas: scale.spec.and_then(|spec| spec.replicas),
                        selector: scale
                            .status
                            .and_then(|status| status.selector)
                            .unwrap_or_default(),
                        owner: Owner::controller(scale.metadata.owner_references),
                    });
                }
                // Another version may have the answer that this one owes.
                Err(failure) if !last.is_transient() => last = of_kind(failure, has_scale),
                Err(_) => {}
            }
        }
        Err(last)
    }

    async fn group(&self, name: &str) -> Result<Arc<ApiGroup>, Scale> {
        let group = {
            let mut groups = self.groups.lock();
            // Only installed groups get here, so tenants cannot grow the map.
            Arc::clone(groups.entry(name.to_owned()).or_default())
        };
        cached(&group, GROUP_LIFETIME, discovery::group(&self.client, name)).await
    }
}

/// Returns the cached result or awaits `ask`; concurrent callers wait for it.
async fn cached<T>(
    cache: &Cached<T>,
    lifetime: Duration,
    ask: impl Future<Output = Result<T, Error>>,
) -> Result<Arc<T>, Scale> {
    let mut cache = cache.lock().await;
    let fresh = |(at, answer): &&(Instant, Result<Arc<T>, Scale>)| {
        let lifetime = answer.as_ref().map_or(FAILURE_LIFETIME, |_| lifetime);
        at.elapsed() < lifetime
    };
    if let Some((_, answer)) = cache.as_ref().filter(fresh) {
        return answer.clone();
    }
    let answer = in_time(ask).await.map(Arc::new);
    *cache = Some((Instant::now(), answer.clone()));
    answer
}

async fn in_time<T>(answer: impl Future<Output = Result<T, Error>>) -> Result<T, Scale> {
    match timeout(CALL_TIMEOUT, answer).await {
        Ok(answer) => answer.map_err(|error| failure(&error)),
        Err(_) => Err(Scale::Failed {
            reason: "the API server did not answer in time".to_owned(),
            transient: true,
        }),
    }
}

/// Bounds the length of the texts, which the server of an API group or a tenant writes.
fn bounded(scale: Scale) -> Scale {
    let short = |reason: String| reason.chars().take(MOST_OF_REASON).collect();
    let bytes = |owner: &Owner| -> usize {
        let texts = [&owner.api_version, &owner.kind, &owner.name, &owner.uid];
        texts.map(String::len).iter().sum()
    };
    match scale {
        Scale::Found {
            ref selector,
            ref owner,
            ..
        } if selector.len() + owner.as_ref().map_or(0, bytes) > MOST_OF_SCALE => {
            let limit = format!("longer than {MOST_OF_SCALE} bytes");
            Scale::Failed {
                reason: format!("selector and owner of its scale subresource are {limit}"),
                transient: false,
            }
        }
        Scale::Found { .. } => scale,
        Scale::NotFound {
            reason,
            kind_has_scale,
        } => Scale::NotFound {
            reason: short(reason),
            kind_has_scale,
        },
        Scale::Failed { reason, transient } => Scale::Failed {
            reason: short(reason),
            transient,
        },
    }
}

/// A failure of a kind with or without a scale subresource. The API server answers both in the same
/// words for custom resources.
fn of_kind(failure: Scale, has_scale: bool) -> Scale {
    match failure {
        Scale::NotFound { reason, .. } => Scale::NotFound {
            reason,
            kind_has_scale: has_scale,
        },
        other => other,
    }
}

/// The resources of a kind, the preferred version first, and whether each has a scale subresource.
fn resources(group: &ApiGroup, kind: &str) -> Vec<(discovery::ApiResource, bool)> {
    let preferred = group.preferred_version();
    let mut versions: Vec<&str> = group.versions().collect();
    versions.sort_by_key(|version| Some(*version) != preferred);
    versions
        .into_iter()
        .flat_map(|version| group.versioned_resources(version))
        .filter(|(resource, _)| resource.kind == kind)
        .map(|(resource, capabilities)| {
            let mut subresources = capabilities.subresources.iter();
            let has_scale = subresources.any(|(scale, _)| scale.plural.ends_with("scale"));
            (resource, has_scale)
        })
        .collect()
}

fn failure(error: &Error) -> Scale {
    match error {
        Error::Api(status) if status.code == 404 => {
            // The server answers an unknown path in plain text, and a missing object with a status.
            let is_path = status.message.is_empty() || status.message == "404 page not found";
            Scale::NotFound {
                reason: if is_path {
                    NO_SUCH_PATH.to_owned()
                } else {
                    status.message.clone()
                },
                kind_has_scale: !is_path,
            }
        }
        Error::Api(status) => Scale::Failed {
            reason: status.message.clone(),
            transient: status.code == 429 || status.code >= 500,
        },
        other => Scale::Failed {
            reason: other.to_string(),
            transient: true,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(selector: usize, owner: usize, is_kept: bool) {
        let owner = Owner {
            name: "x".repeat(owner),
            api_version: String::new(),
            kind: String::new(),
            uid: String::new(),
        };
        let scale = Scale::Found {
            selector: "x".repeat(selector),
            owner: Some(owner),
            replicas: None,
        };
        assert_eq!(bounded(scale.clone()) == scale, is_kept);
    }

    #[test]
    fn texts_of_others_are_bounded() {
        check(100, 100, true);
        check(MOST_OF_SCALE, 0, true);
        check(MOST_OF_SCALE, 1, false);
        check(0, MOST_OF_SCALE + 1, false);
        let long = "é".repeat(1 << 20);
        let short = "é".repeat(MOST_OF_REASON);
        let failed = |reason: &str| Scale::Failed {
            reason: reason.to_owned(),
            transient: true,
        };
        assert_eq!(bounded(failed(&long)), failed(&short));
        let not_found = |reason| Scale::NotFound {
            reason,
            kind_has_scale: true,
        };
        assert_eq!(bounded(not_found(long)), not_found(short));
    }
}
