//! Asks the API server for one scale subresource: first which resource the kind is, then for the
//! object's scale.

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

/// How long the list of API groups is taken for true, and so a group for missing.
const LIST_LIFETIME: Duration = Duration::from_mins(1);
/// How long what is known of an API group is taken for true.
const GROUP_LIFETIME: Duration = Duration::from_mins(5);
/// How long a look-up that failed stands for others of the same.
const FAILURE_LIFETIME: Duration = Duration::from_secs(15);
/// How long one look-up may take.
const CALL_TIMEOUT: Duration = Duration::from_secs(30);
/// The most bytes of a selector and an owner. Those of Kubernetes' own kinds are far shorter.
const MOST_OF_SCALE: usize = 16 << 10;
/// The most characters of a reason, which the server of a group writes.
const MOST_OF_REASON: usize = 300;
/// What client-go says where the API server has no such path.
const NO_SUCH_PATH: &str = "the server could not find the requested resource";

/// Reads scale subresources, and remembers for a while which API groups there are.
pub(super) struct Reader {
    client: Client,
    names: Remembered<BTreeSet<String>>,
    groups: Mutex<BTreeMap<String, Remembered<ApiGroup>>>,
}

/// An answer that all who ask for it share, and that is asked for by one of them.
type Remembered<T> = Arc<tokio::sync::Mutex<Option<(Instant, Result<Arc<T>, Scale>)>>>;

impl Reader {
    pub(super) fn new(client: Client) -> Self {
        Self {
            client,
            names: Arc::default(),
            groups: Mutex::default(),
        }
    }

    /// Reads a scale subresource.
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
        let names = remembered(&names, LIST_LIFETIME, async {
            let groups = self.client.list_api_groups().await?.groups;
            Ok(groups.into_iter().map(|group| group.name).collect())
        });
        // The group of pods has no name, and is in no list.
        if !key.group.is_empty() && !names.await?.contains(&key.group) {
            return Err(no_match());
        }
        let group = self.group(&key.group).await?;
        let mut last = Err(no_match());
        for resource in resources(&group, &key.kind) {
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
                Err(failure) => last = Err(failure),
            }
        }
        last
    }

    async fn group(&self, name: &str) -> Result<Arc<ApiGroup>, Scale> {
        let group = {
            let mut groups = self.groups.lock();
            // Groups that are installed: their number is not up to tenants.
            Arc::clone(groups.entry(name.to_owned()).or_default())
        };
        remembered(&group, GROUP_LIFETIME, discovery::group(&self.client, name)).await
    }
}

/// Gives what is remembered, or asks; others that want the same wait for the answer.
async fn remembered<T>(
    memory: &Remembered<T>,
    lifetime: Duration,
    ask: impl Future<Output = Result<T, Error>>,
) -> Result<Arc<T>, Scale> {
    let mut memory = memory.lock().await;
    let fresh = |(at, answer): &&(Instant, Result<Arc<T>, Scale>)| {
        at.elapsed()
            < if answer.is_ok() {
                lifetime
            } else {
                FAILURE_LIFETIME
            }
    };
    if let Some((_, answer)) = memory.as_ref().filter(fresh) {
        return answer.clone();
    }
    let answer = in_time(ask).await.map(Arc::new);
    *memory = Some((Instant::now(), answer.clone()));
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

/// The same with texts of bounded length: the server of a group, or the author of its objects,
/// writes them.
fn bounded(scale: Scale) -> Scale {
    let short = |reason: String| reason.chars().take(MOST_OF_REASON).collect();
    match scale {
        Scale::Found {
            selector,
            owner,
            replicas,
        } => {
            let owner_bytes = |Owner {
                                   api_version,
                                   kind,
                                   name,
                                   uid,
                               }: &Owner| {
                api_version.len() + kind.len() + name.len() + uid.len()
            };
            if selector.len() + owner.as_ref().map_or(0, owner_bytes) <= MOST_OF_SCALE {
                return Scale::Found {
                    selector,
                    owner,
                    replicas,
                };
            }
            let reason = format!(
                "selector and owner of its scale subresource are longer than {MOST_OF_SCALE} bytes"
            );
            Scale::Failed {
                reason,
                transient: false,
            }
        }
        Scale::NotFound { reason } => Scale::NotFound {
            reason: short(reason),
        },
        Scale::Failed { reason, transient } => Scale::Failed {
            reason: short(reason),
            transient,
        },
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
            // A path that the server does not know is answered in plain text, an object that is not
            // there as a status.
            let is_path = status.message.is_empty() || status.message == "404 page not found";
            Scale::NotFound {
                reason: if is_path {
                    NO_SUCH_PATH.to_owned()
                } else {
                    status.message.clone()
                },
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
        let failed = bounded(Scale::Failed {
            reason: long.clone(),
            transient: true,
        });
        assert_eq!(
            failed,
            Scale::Failed {
                reason: "é".repeat(MOST_OF_REASON),
                transient: true
            }
        );
        assert_eq!(
            bounded(Scale::NotFound { reason: long }),
            Scale::NotFound {
                reason: "é".repeat(MOST_OF_REASON)
            }
        );
    }
}
