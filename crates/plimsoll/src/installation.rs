//! Programs of the suite, as their Deployments describe them.

use clap::Args;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Container;
use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1::APIService;
use kube::ResourceExt as _;

use crate::cluster::ClusterArgs;
pub(crate) use view::ObjectKey as ObjectName;

/// Programs, in the order of output.
pub(crate) const PROGRAMS: [&str; 5] = ["recommender", "updater", "webhook", "adapter", "extender"];
/// Label selector of the suite's objects.
pub(crate) const SELECTOR: &str = "app.kubernetes.io/part-of=plimsoll";
const NAME_LABEL: &str = "app.kubernetes.io/name";
const PART_LABEL: &str = "app.kubernetes.io/part-of";
/// Default name of the stop switch.
const STOP: &str = "plimsoll-stop";

#[derive(Clone, Debug, Args)]
pub(crate) struct InstallationArgs {
    #[command(flatten)]
    pub(crate) cluster: ClusterArgs,
    /// Namespace of the suite.
    #[arg(
        long,
        default_value = "plimsoll-system",
        value_name = "NAMESPACE",
        help_heading = "Cluster"
    )]
    pub(crate) system_namespace: String,
}

/// A Deployment of one program. A sharded recommender has several.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Program<'a> {
    pub(crate) name: &'static str,
    pub(crate) deployment: &'a Deployment,
}

pub(crate) fn programs(deployments: &[Deployment]) -> Vec<Program<'_>> {
    let of = |name| labelled(deployments, name);
    PROGRAMS.into_iter().flat_map(of).collect()
}

/// The second kube-scheduler, which has a version of its own.
pub(crate) fn scheduler(deployments: &[Deployment]) -> Option<Program<'_>> {
    labelled(deployments, "scheduler").next()
}

fn labelled<'a>(
    deployments: &'a [Deployment],
    name: &'static str,
) -> impl Iterator<Item = Program<'a>> {
    let deployments = deployments.iter().filter(move |deployment| {
        let label = |key: &str| deployment.labels().get(key).map(String::as_str);
        label(NAME_LABEL) == Some(name) && label(PART_LABEL) == Some("plimsoll")
    });
    deployments.map(move |deployment| Program { name, deployment })
}

/// The stop switch, which the updater looks for in its own namespace.
pub(crate) fn stop_switch(system_namespace: &str) -> ObjectName {
    ObjectName::new(system_namespace, STOP)
}

impl<'a> Program<'a> {
    fn container(self) -> Option<&'a Container> {
        let pod = self.deployment.spec.template.spec.as_ref()?;
        let named = pod.containers.iter().find(|one| one.name == self.name);
        named.or_else(|| pod.containers.first())
    }

    pub(crate) fn deployment_name(self) -> &'a str {
        self.deployment.metadata.name.as_deref().unwrap_or_default()
    }

    pub(crate) fn namespace(self) -> &'a str {
        let namespace = self.deployment.metadata.namespace.as_deref();
        namespace.unwrap_or_default()
    }

    /// Tag or digest of the image; `latest` without one.
    pub(crate) fn version(self) -> &'a str {
        let image = self.container().and_then(|one| one.image.as_deref());
        version_of(image.unwrap_or_default())
    }

    /// Value of a flag: of the arguments, else of the flag's environment variable.
    pub(crate) fn flag(self, name: &str) -> Option<String> {
        let container = self.container()?;
        let mut arguments = container.args.iter().flatten();
        let mut found = None;
        while let Some(argument) = arguments.next() {
            let flag = argument.strip_prefix("--");
            let Some(rest) = flag.and_then(|flag| flag.strip_prefix(name)) else {
                continue;
            };
            if let Some(value) = rest.strip_prefix('=') {
                found = Some(value.to_owned());
            } else if rest.is_empty() {
                let next = arguments.clone().next();
                let value = next.filter(|next| !next.starts_with("--"));
                found = Some(value.map_or_else(|| "true".to_owned(), Clone::clone));
            }
        }
        // The kubelet replaces it by the downward API's value in the base's manifests.
        let found = found.map(|value| value.replace("$(NAMESPACE)", self.namespace()));
        found.or_else(|| {
            let variable = format!("PLIMSOLL_{}_{name}", self.name);
            let variable = variable.to_uppercase().replace('-', "_");
            let mut variables = container.env.iter().flatten();
            variables.find(|one| one.name == variable)?.value.clone()
        })
    }

    pub(crate) fn replicas(self) -> (i32, i32) {
        let desired = self.deployment.spec.replicas;
        let status = self.deployment.status.as_ref();
        let ready = status.and_then(|status| status.ready_replicas);
        (ready.unwrap_or(0), desired.unwrap_or(1))
    }

    /// The Lease of the leader, or the webhook's heartbeat; `None` if the program has none.
    pub(crate) fn lease(self) -> Option<ObjectName> {
        let default = match self.name {
            "recommender" => "vpa-recommender-lease",
            "updater" => "vpa-updater",
            "webhook" => {
                let name = "vpa-admission-controller";
                return Some(ObjectName::new(self.namespace(), name));
            }
            _ => return None,
        };
        if self.flag("leader-elect").as_deref() != Some("true") {
            return None;
        }
        let flag = |name: &str| self.flag(&format!("leader-elect-resource-{name}"));
        let mut name = flag("name").unwrap_or_else(|| default.to_owned());
        let shard = self.flag("shard").unwrap_or_default();
        if let Some((index, count)) = shard.split_once('/')
            && count != "1"
        {
            name = format!("{name}-{index}");
        }
        let namespace = flag("namespace").unwrap_or_else(|| "kube-system".to_owned());
        Some(ObjectName::new(namespace, name))
    }

    /// Secrets with certificates, with the entry of the chain, and whether the program needs it.
    pub(crate) fn certificates(self) -> Vec<SecretEntry> {
        let mut found = Vec::new();
        let is_managed = self.flag("manage-certificates").as_deref() == Some("true");
        if is_managed {
            let service = self.flag("service-name");
            let service = service.unwrap_or_else(|| format!("plimsoll-{}", self.name));
            found.push(SecretEntry {
                secret: match self.name {
                    "webhook" => "vpa-tls-certs".to_owned(),
                    _ => format!("{service}-certificates"),
                },
                entry: "serverCert.pem",
                is_optional: false,
            });
        }
        let pod = self.deployment.spec.template.spec.as_ref();
        let volumes = pod.into_iter().flat_map(|pod| pod.volumes.iter().flatten());
        for secret in volumes.filter_map(|one| one.secret.as_ref()) {
            // Secrets of metric routes hold the files of other providers.
            let name = secret.secret_name.clone().unwrap_or_default();
            if name.ends_with("-tls") {
                found.push(SecretEntry {
                    secret: name,
                    entry: "tls.crt",
                    is_optional: secret.optional.unwrap_or(false),
                });
            }
        }
        found
    }
}

/// A certificate chain in a Secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SecretEntry {
    pub(crate) secret: String,
    pub(crate) entry: &'static str,
    /// Whether the program runs without it.
    pub(crate) is_optional: bool,
}

/// The Service behind an `APIService`; `None` for the API server itself.
pub(crate) fn service_of(api: &APIService) -> Option<ObjectName> {
    let service = api.spec.as_ref()?.service.clone()?;
    let namespace = service.namespace.unwrap_or_default();
    Some(ObjectName::new(namespace, service.name.unwrap_or_default()))
}

/// Last part of the name of an image, without the tag.
pub(crate) fn image_name(image: &str) -> &str {
    let last = image.rsplit('/').next().unwrap_or_default();
    last.split([':', '@']).next().unwrap_or_default()
}

/// Tag or digest of an image; `latest` without one.
pub(crate) fn version_of(image: &str) -> &str {
    let last = image.rsplit('/').next().unwrap_or_default();
    match (last.split_once('@'), last.split_once(':')) {
        (Some((_, digest)), _) => digest,
        (None, Some((_, tag))) => tag,
        (None, None) => "latest",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn deployment(program: &str, arguments: &[&str]) -> Deployment {
        let labels = json!({NAME_LABEL: program, PART_LABEL: "plimsoll"});
        let container = json!({
            "name": program, "image": "registry:5000/plimsoll/x:7", "args": arguments,
            "env": [{"name": "PLIMSOLL_RECOMMENDER_SHARD", "value": "1/2"}],
        });
        let object = json!({
            "metadata": {"name": program, "namespace": "suite", "labels": labels},
            "spec": {"selector": {}, "template": {"spec": {"containers": [container]}}},
        });
        serde_json::from_value(object).expect("a Deployment")
    }

    fn check_lease(program: &str, arguments: &[&str], expected: Option<&str>) {
        let deployments = [deployment(program, arguments)];
        let lease = programs(&deployments)[0].lease();
        assert_eq!(lease.map(|lease| lease.to_string()).as_deref(), expected);
    }

    #[test]
    fn flags_name_the_lease() {
        let elect = "--leader-elect=true";
        check_lease("updater", &[elect], Some("kube-system/vpa-updater"));
        check_lease(
            "updater",
            &["--leader-elect"],
            Some("kube-system/vpa-updater"),
        );
        check_lease("updater", &[], None);
        check_lease("adapter", &[elect], None);
        check_lease("webhook", &[], Some("suite/vpa-admission-controller"));
        let other = "--leader-elect-resource-namespace=other";
        check_lease("updater", &[elect, other], Some("other/vpa-updater"));
        let own = "--leader-elect-resource-namespace=$(NAMESPACE)";
        check_lease("updater", &[elect, own], Some("suite/vpa-updater"));
        let shard = "kube-system/vpa-recommender-lease-1";
        check_lease("recommender", &[elect], Some(shard));
        let whole = "kube-system/vpa-recommender-lease";
        check_lease("recommender", &[elect, "--shard=0/1"], Some(whole));
    }

    #[test]
    fn a_managed_certificate_is_in_the_secret_of_the_service() {
        let check = |program: &str, arguments: &[&str], expected: &str| {
            let deployments = [deployment(program, arguments)];
            let found = programs(&deployments)[0].certificates();
            let secrets: Vec<&str> = found.iter().map(|it| it.secret.as_str()).collect();
            assert_eq!(secrets, [expected]);
        };
        let managed = "--manage-certificates";
        check("webhook", &[managed], "vpa-tls-certs");
        check("adapter", &[managed], "plimsoll-adapter-certificates");
        let other = [managed, "--service-name=other"];
        check("extender", &other, "other-certificates");
    }

    #[test]
    fn the_version_is_the_tag_or_the_digest() {
        for (image, expected) in [
            ("registry:5000/plimsoll/updater:1.2", "1.2"),
            ("registry:5000/plimsoll/updater", "latest"),
            ("updater:1@sha256:ab", "sha256:ab"),
        ] {
            assert_eq!(version_of(image), expected, "{image}");
        }
    }
}
