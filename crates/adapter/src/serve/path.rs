//! Paths of requests. A path is split before its segments are decoded, each once.
//!
//! Source: the clients of the two APIs (`k8s.io/metrics/pkg/client`), and the request attributes of
//! the API server (`k8s.io/apiserver/pkg/endpoints/request/requestinfo.go`).

use k8s_openapi::api::authorization::v1::{NonResourceAttributes, ResourceAttributes};

use crate::request::{ApiVersion, GroupResource, StatusError};
use delegated_auth::Attributes;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Route {
    /// A health check: `/healthz`, `/livez` or `/readyz`.
    Health,
    OpenApi(OpenApi),
    Discovery(Discovery),
    Custom {
        version: ApiVersion,
        objects: Objects,
        metric: String,
    },
    External {
        namespace: String,
        metric: String,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OpenApi {
    Index,
    Version(ApiVersion),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Discovery {
    Groups,
    /// The versions of a group.
    Group(&'static str),
    /// The resources of a version.
    Version(ApiVersion),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Objects {
    Of {
        /// `None` at the cluster scope.
        namespace: Option<String>,
        resource: GroupResource,
        /// The name of an object, or `*` for all that the selector matches.
        name: String,
    },
    Namespace(String),
}

/// The name that means all objects.
pub(super) const ALL: &str = "*";
/// The largest length of a path segment.
const LONGEST: usize = 512;

impl Route {
    pub(super) fn of(path: &str) -> Result<Self, StatusError> {
        let parts = path.strip_prefix('/').ok_or_else(unknown)?;
        match parts {
            "healthz" | "livez" | "readyz" => return Ok(Self::Health),
            "openapi/v3" => return Ok(Self::OpenApi(OpenApi::Index)),
            _ => {}
        }
        if let Some(version) = parts.strip_prefix("openapi/v3/apis/") {
            return ApiVersion::named(version)
                .map(|version| Self::OpenApi(OpenApi::Version(version)))
                .ok_or_else(unknown);
        }
        let parts = parts.strip_prefix("apis").ok_or_else(unknown)?;
        if let Some(discovery) = Discovery::of(parts.strip_suffix('/').unwrap_or(parts)) {
            return Ok(Self::Discovery(discovery));
        }
        let mut parts = parts.strip_prefix('/').ok_or_else(unknown)?.split('/');
        let (group, version) = (
            parts.next().unwrap_or_default(),
            parts.next().unwrap_or_default(),
        );
        let version = ApiVersion::of(group, version).ok_or_else(unknown)?;
        let parts: Vec<&str> = parts.collect();
        match version {
            ApiVersion::External => Self::external(&parts),
            ApiVersion::CustomV1Beta1 | ApiVersion::CustomV1Beta2 => Self::custom(version, &parts),
        }
    }

    fn external(parts: &[&str]) -> Result<Self, StatusError> {
        match parts {
            ["namespaces", namespace, metric] => Ok(Self::External {
                namespace: in_namespace(namespace)?,
                metric: decoded(metric)?,
            }),
            _ => Err(unknown()),
        }
    }

    fn custom(version: ApiVersion, parts: &[&str]) -> Result<Self, StatusError> {
        let (objects, metric) = match parts {
            ["namespaces", namespace, "metrics", metric] => {
                (Objects::Namespace(in_namespace(namespace)?), metric)
            }
            ["namespaces", namespace, resource, name, metric] => {
                let (resource, name) = (resource_named(resource)?, decoded(name)?);
                (
                    Objects::Of {
                        namespace: Some(in_namespace(namespace)?),
                        resource,
                        name,
                    },
                    metric,
                )
            }
            ["namespaces", ..] => return Err(unknown()),
            [resource, name, metric] => (
                Objects::Of {
                    namespace: None,
                    resource: resource_named(resource)?,
                    name: decoded(name)?,
                },
                metric,
            ),
            _ => return Err(unknown()),
        };
        Ok(Self::Custom {
            version,
            objects,
            metric: decoded(metric)?,
        })
    }

    /// Returns the attributes for authorization; `None` if the path needs none.
    pub(super) fn attributes(&self, path: &str) -> Option<Attributes> {
        match self {
            Self::OpenApi(_) => None,
            Self::Health | Self::Discovery(_) => {
                let path = path.strip_suffix('/').unwrap_or(path);
                Some(Attributes::Path(NonResourceAttributes {
                    verb: Some("get".to_owned()),
                    path: Some(path.to_owned()),
                }))
            }
            Self::Custom {
                version,
                objects,
                metric,
            } => {
                let attributes = match objects {
                    Objects::Of {
                        namespace,
                        resource,
                        name,
                    } => ResourceAttributes {
                        subresource: Some(metric.clone()),
                        name: Some(name.clone()),
                        ..resource_attributes(*version, "get", namespace.as_ref(), resource)
                    },
                    Objects::Namespace(namespace) => ResourceAttributes {
                        name: Some(metric.clone()),
                        ..resource_attributes(*version, "get", Some(namespace), &"metrics")
                    },
                };
                Some(Attributes::Resource(attributes.into()))
            }
            // A request without a name is a `list`.
            Self::External { namespace, metric } => {
                let version = ApiVersion::External;
                let attributes = resource_attributes(version, "list", Some(namespace), metric);
                Some(Attributes::Resource(attributes.into()))
            }
        }
    }
}

impl Discovery {
    fn of(rest: &str) -> Option<Self> {
        let Some(rest) = rest.strip_prefix('/') else {
            return rest.is_empty().then_some(Self::Groups);
        };
        match rest.split_once('/') {
            None => ApiVersion::ALL
                .iter()
                .map(|other| other.group())
                .find(|group| *group == rest)
                .map(Self::Group),
            Some((group, version)) => ApiVersion::of(group, version).map(Self::Version),
        }
    }
}

fn resource_attributes(
    version: ApiVersion,
    verb: &str,
    namespace: Option<&String>,
    resource: &impl ToString,
) -> ResourceAttributes {
    ResourceAttributes {
        namespace: namespace.cloned(),
        verb: Some(verb.to_owned()),
        group: Some(version.group().to_owned()),
        version: Some(version.version().to_owned()),
        resource: Some(resource.to_string()),
        ..ResourceAttributes::default()
    }
}

fn unknown() -> StatusError {
    StatusError::NotFound("the server could not find the requested resource".to_owned())
}

fn in_namespace(part: &str) -> Result<String, StatusError> {
    let namespace = decoded(part)?;
    if namespace == ALL {
        return Err(StatusError::BadRequest(
            "the namespace * is not supported: request the metrics of one namespace at a time"
                .to_owned(),
        ));
    }
    Ok(namespace)
}

/// Parses a resource: `deployments.apps` is `deployments` in the group `apps`.
fn resource_named(part: &str) -> Result<GroupResource, StatusError> {
    let part = decoded(part)?;
    let (resource, group) = part.split_once('.').unwrap_or((&part, ""));
    Ok(GroupResource {
        group: group.to_owned(),
        resource: resource.to_owned(),
    })
}

/// Decodes a path segment. Encoded slashes are refused: RBAC and the handler would read them
/// differently.
fn decoded(part: &str) -> Result<String, StatusError> {
    let bad = |why: &str| StatusError::BadRequest(format!("the path has a segment that {why}"));
    let mut bytes = Vec::with_capacity(part.len());
    let mut rest = part.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'%' => {
                let digit = |byte: Option<u8>| {
                    char::from(byte?)
                        .to_digit(16)
                        .and_then(|digit| u8::try_from(digit).ok())
                };
                let (high, low) = (digit(rest.next()), digit(rest.next()));
                let (high, low) = high.zip(low).ok_or_else(|| bad("has an invalid escape"))?;
                high << 4 | low
            }
            other => other,
        });
    }
    let text = String::from_utf8(bytes).map_err(|_| bad("is not UTF-8"))?;
    match text.as_str() {
        "" => Err(unknown()),
        "." | ".." => Err(bad("is a relative path")),
        _ if text.len() > LONGEST => Err(bad("is too long for a name")),
        _ if text.contains('/') || text.contains(char::is_control) => {
            Err(bad("contains a slash or a control character"))
        }
        _ => Ok(text),
    }
}

#[cfg(test)]
mod tests;
