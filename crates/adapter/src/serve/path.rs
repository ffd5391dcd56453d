//! From a path to what it asks for. The path is taken as it came: split first and decoded after,
//! each part once.
//!
//! Source: spec of the two APIs (`k8s.io/metrics/pkg/client`), and how the API server names what a
//! path is about (`k8s.io/apiserver/pkg/endpoints/request/requestinfo.go`).

use crate::api_version::ApiVersion;
use crate::request::GroupResource;
use crate::status_error::StatusError;
use delegated_auth::Attributes;

/// What a path asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Route {
    /// Whether the process is well: `/healthz`, `/livez`, `/readyz`.
    Health,
    /// A description of the APIs for people and tools.
    OpenApi(OpenApi),
    /// Which APIs there are.
    Discovery(Discovery),
    /// A metric of objects.
    Custom {
        /// The version of the API.
        version: ApiVersion,
        /// Which objects.
        objects: Objects,
        /// The name of the metric.
        metric: String,
    },
    /// A metric that belongs to no object.
    External {
        /// The namespace of whoever asks.
        namespace: String,
        /// The name of the metric.
        metric: String,
    },
}

/// A description of the APIs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OpenApi {
    /// Where the descriptions are.
    Index,
    /// That of one version of one API.
    Version(ApiVersion),
}

/// Which APIs there are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Discovery {
    /// All groups.
    Groups,
    /// The versions of one group.
    Group(&'static str),
    /// The resources of one version.
    Version(ApiVersion),
}

/// Of which objects a metric is asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Objects {
    /// Those of a kind, or one of them.
    Of {
        /// None for objects of the whole cluster.
        namespace: Option<String>,
        /// Of which kind.
        resource: GroupResource,
        /// One name, or `*` for all that a selector finds.
        name: String,
    },
    /// The namespace itself.
    Namespace(String),
}

/// The name that stands for all objects.
pub(super) const ALL: &str = "*";
/// Longer parts are no names of anything.
const LONGEST: usize = 512;

impl Route {
    /// Reads a path.
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

    /// What a caller must be allowed; none where everybody is.
    pub(super) fn attributes(&self, path: &str) -> Option<Attributes> {
        match self {
            Self::OpenApi(_) => None,
            Self::Health | Self::Discovery(_) => {
                let path = path.strip_suffix('/').unwrap_or(path);
                Some(Attributes::Path {
                    verb: "get",
                    path: path.to_owned(),
                })
            }
            Self::Custom {
                version,
                objects,
                metric,
            } => Some(match objects {
                Objects::Of {
                    namespace,
                    resource,
                    name,
                } => Attributes::Resource {
                    namespace: namespace.clone(),
                    verb: "get",
                    group: version.group().to_owned(),
                    version: version.version().to_owned(),
                    resource: resource.to_string(),
                    subresource: Some(metric.clone()),
                    name: Some(name.clone()),
                },
                Objects::Namespace(namespace) => Attributes::Resource {
                    namespace: Some(namespace.clone()),
                    verb: "get",
                    group: version.group().to_owned(),
                    version: version.version().to_owned(),
                    resource: "metrics".to_owned(),
                    subresource: None,
                    name: Some(metric.clone()),
                },
            }),
            // What has no name is listed.
            Self::External { namespace, metric } => Some(Attributes::Resource {
                namespace: Some(namespace.clone()),
                verb: "list",
                group: ApiVersion::External.group().to_owned(),
                version: ApiVersion::External.version().to_owned(),
                resource: metric.clone(),
                subresource: None,
                name: None,
            }),
        }
    }
}

impl Discovery {
    /// Reads what follows `/apis`.
    fn of(rest: &str) -> Option<Self> {
        let Some(rest) = rest.strip_prefix('/') else {
            return rest.is_empty().then_some(Self::Groups);
        };
        match rest.split_once('/') {
            None => ApiVersion::ALL
                .iter()
                .map(|known| known.group())
                .find(|group| *group == rest)
                .map(Self::Group),
            Some((group, version)) => ApiVersion::of(group, version).map(Self::Version),
        }
    }
}

fn unknown() -> StatusError {
    StatusError::NotFound("the server could not find the requested resource".to_owned())
}

fn in_namespace(part: &str) -> Result<String, StatusError> {
    let namespace = decoded(part)?;
    if namespace == ALL {
        return Err(StatusError::BadRequest(
            "metrics are asked of one namespace at a time, not of *".to_owned(),
        ));
    }
    Ok(namespace)
}

/// `deployments.apps` is the resource `deployments` of the group `apps`.
fn resource_named(part: &str) -> Result<GroupResource, StatusError> {
    let part = decoded(part)?;
    let (resource, group) = part.split_once('.').unwrap_or((&part, ""));
    Ok(GroupResource {
        group: group.to_owned(),
        resource: resource.to_owned(),
    })
}

/// One part of a path. What holds a slash after that would be one thing to whoever grants rights,
/// and another to whoever answers.
fn decoded(part: &str) -> Result<String, StatusError> {
    let bad = |why: &str| StatusError::BadRequest(format!("the path has a part that {why}"));
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
                let (high, low) = high
                    .zip(low)
                    .ok_or_else(|| bad("ends within an escape, or has one that is none"))?;
                high << 4 | low
            }
            other => other,
        });
    }
    let text = String::from_utf8(bytes).map_err(|_| bad("is no text"))?;
    match text.as_str() {
        "" => Err(unknown()),
        "." | ".." => Err(bad("leads elsewhere")),
        _ if text.len() > LONGEST => Err(bad("is too long for a name")),
        _ if text.contains('/') || text.contains(char::is_control) => {
            Err(bad("holds a slash or a control character"))
        }
        _ => Ok(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const C: &str = "/apis/custom.metrics.k8s.io/v1beta2";
    const E: &str = "/apis/external.metrics.k8s.io/v1beta1";

    /// The route in few words.
    fn told(path: &str) -> String {
        match Route::of(path) {
            Ok(Route::Custom {
                version,
                objects,
                metric,
            }) => match objects {
                Objects::Of {
                    namespace,
                    resource,
                    name,
                } => {
                    let namespace = namespace.unwrap_or_else(|| "-".to_owned());
                    format!(
                        "{} {namespace} {}|{} {name} {metric}",
                        version.version(),
                        resource.resource,
                        resource.group
                    )
                }
                Objects::Namespace(namespace) => {
                    format!("{} namespace {namespace} {metric}", version.version())
                }
            },
            Ok(Route::External { namespace, metric }) => format!("external {namespace} {metric}"),
            Ok(other) => format!("{other:?}"),
            Err(StatusError::NotFound(_)) => "404".to_owned(),
            Err(StatusError::BadRequest(_)) => "400".to_owned(),
            Err(other) => format!("{other:?}"),
        }
    }

    fn check(path: &str, expected: &str) {
        assert_eq!(told(path), expected, "{path}");
    }

    #[test]
    fn the_autoscaler_asks_for_pods_objects_and_namespaces() {
        check(
            &format!("{C}/namespaces/shop/pods/%2A/rps"),
            "v1beta2 shop pods| * rps",
        );
        check(
            &format!("{C}/namespaces/shop/pods/*/rps"),
            "v1beta2 shop pods| * rps",
        );
        check(
            &format!("{C}/namespaces/shop/deployments.apps/web/queue%20len"),
            "v1beta2 shop deployments|apps web queue len",
        );
        let ingress = "ingresses.networking.k8s.io";
        check(
            &format!("{C}/namespaces/shop/{ingress}/in/r"),
            "v1beta2 shop ingresses|networking.k8s.io in r",
        );
        check(
            &format!("{C}/namespaces/shop/metrics/rps"),
            "v1beta2 namespace shop rps",
        );
        check(
            &format!("{C}/namespaces/shop/nodes/n-1/load"),
            "v1beta2 shop nodes| n-1 load",
        );
        check(&format!("{C}/nodes/n-1/load"), "v1beta2 - nodes| n-1 load");
        check(&format!("{C}/nodes/%2a/load"), "v1beta2 - nodes| * load");
        check(
            "/apis/custom.metrics.k8s.io/v1beta1/namespaces/shop/pods/web-1/rps",
            "v1beta1 shop pods| web-1 rps",
        );
    }

    #[test]
    fn the_autoscaler_asks_for_external_metrics() {
        check(
            &format!("{E}/namespaces/shop/queue_depth"),
            "external shop queue_depth",
        );
        check(
            &format!("{E}/namespaces/shop/datadogmetric@a:b"),
            "external shop datadogmetric@a:b",
        );
        check(
            &format!("{E}/namespaces/shop/a%7Cb+c"),
            "external shop a|b+c",
        );
        check(
            &format!("{E}/namespaces/shop/a%252Fb"),
            "external shop a%2Fb",
        );
        check(
            &format!("{E}/namespaces/shop/gr%C3%B6%C3%9Fe"),
            "external shop größe",
        );
    }

    #[test]
    fn paths_of_another_shape_lead_nowhere() {
        for rest in [
            "/nodes/n-1",
            "/namespaces/shop",
            "/namespaces/shop/pods",
            "/namespaces/shop/metrics",
            "/a/b/c/d",
        ] {
            check(&format!("{C}{rest}"), "404");
        }
        for rest in [
            "/namespaces/shop/pods//rps",
            "/namespaces//pods/*/rps",
            "//n/m",
            "/namespaces/shop/pods/a/b/c",
        ] {
            check(&format!("{C}{rest}"), "404");
        }
        for rest in [
            "/namespaces",
            "/namespaces/shop",
            "/namespaces/shop/",
            "/namespaces/shop/a/b",
            "/metric",
            "/shop/a",
        ] {
            check(&format!("{E}{rest}"), "404");
        }
        for path in [
            "",
            "*",
            "/",
            "//",
            "/api",
            "/apis/",
            "/apisx",
            "/apis//v1beta1",
            "/metrics",
            "/healthz/",
            "/readyz/x",
        ] {
            let expected = if path == "/apis/" {
                "Discovery(Groups)"
            } else {
                "404"
            };
            check(path, expected);
        }
        check(
            "/apis/custom.metrics.k8s.io/v1/namespaces/shop/pods/*/rps",
            "404",
        );
        check(
            "/apis/external.metrics.k8s.io/v1beta2/namespaces/shop/rps",
            "404",
        );
        check("/apis/metrics.k8s.io/v1beta1/namespaces/shop/pods", "404");
    }

    #[test]
    fn parts_that_could_mean_two_things_are_refused() {
        for part in [
            "a%2Fb",
            "%2e%2e",
            "..",
            ".",
            "%00",
            "a%0Ab",
            "%",
            "%2",
            "%zz",
            "%ff%fe",
            &"x".repeat(513),
        ] {
            check(&format!("{E}/namespaces/shop/{part}"), "400");
            check(&format!("{C}/namespaces/shop/pods/{part}/rps"), "400");
        }
        check(&format!("{E}/namespaces/*/rps"), "400");
        check(&format!("{C}/namespaces/%2A/pods/*/rps"), "400");
    }

    #[test]
    fn health_and_discovery_and_descriptions_are_found() {
        for path in ["/healthz", "/livez", "/readyz"] {
            check(path, "Health");
        }
        check("/apis", "Discovery(Groups)");
        check(
            "/apis/custom.metrics.k8s.io/",
            "Discovery(Group(\"custom.metrics.k8s.io\"))",
        );
        check(E, "Discovery(Version(External))");
        check(&format!("{C}/"), "Discovery(Version(CustomV1Beta2))");
        check("/openapi/v3", "OpenApi(Index)");
        check(
            "/openapi/v3/apis/custom.metrics.k8s.io/v1beta1",
            "OpenApi(Version(CustomV1Beta1))",
        );
        check("/openapi/v2", "404");
        check("/openapi/v3/apis/apps/v1", "404");
    }

    /// Namespace, verb, group, resource, subresource, name.
    fn check_wants(path: &str, expected: [&str; 6]) {
        let attributes = Route::of(path).expect(path).attributes(path);
        let Some(Attributes::Resource {
            namespace,
            verb,
            group,
            resource,
            subresource,
            name,
            ..
        }) = attributes
        else {
            panic!("{path}: {attributes:?}")
        };
        let or_dash = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
        let found = [
            or_dash(namespace),
            verb.to_owned(),
            group,
            resource,
            or_dash(subresource),
            or_dash(name),
        ];
        assert_eq!(found, expected, "{path}");
    }

    #[test]
    fn rights_are_asked_for_in_the_api_servers_words() {
        let custom = "custom.metrics.k8s.io";
        check_wants(
            &format!("{C}/namespaces/ns/pods/*/m"),
            ["ns", "get", custom, "pods", "m", "*"],
        );
        check_wants(
            &format!("{C}/namespaces/ns/deployments.apps/d/m"),
            ["ns", "get", custom, "deployments.apps", "m", "d"],
        );
        check_wants(
            &format!("{C}/namespaces/ns/metrics/m"),
            ["ns", "get", custom, "metrics", "-", "m"],
        );
        check_wants(
            &format!("{C}/nodes/n/m"),
            ["-", "get", custom, "nodes", "m", "n"],
        );
        check_wants(
            &format!("{E}/namespaces/ns/m"),
            ["ns", "list", "external.metrics.k8s.io", "m", "-", "-"],
        );
        let path = |path: &str| Route::of(path).expect(path).attributes(path);
        assert_eq!(
            path("/apis/"),
            Some(Attributes::Path {
                verb: "get",
                path: "/apis".to_owned()
            })
        );
        assert_eq!(
            path("/readyz"),
            Some(Attributes::Path {
                verb: "get",
                path: "/readyz".to_owned()
            })
        );
        assert_eq!(path("/openapi/v3"), None);
    }
}
