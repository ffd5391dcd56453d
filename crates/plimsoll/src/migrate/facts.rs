//! The input of the migrations. Only `reader` reads it from a cluster.

use std::collections::BTreeMap;

use kube::ResourceExt as _;
use kube::api::{ApiResource, DynamicObject, GroupVersionKind};
use view::installations;

use crate::installation::{ObjectName, image_name};
use crate::json::{items, text};

pub(crate) struct Source {
    pub(crate) product: &'static str,
    /// Last parts of the names of its images.
    pub(crate) images: &'static [&'static str],
    pub(crate) kinds: &'static [Kind],
    pub(crate) definitions: &'static [&'static str],
    /// Whether the `ConfigMap`s in the volumes of its Deployments matter.
    pub(crate) reads_config_maps: bool,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Kind {
    pub(crate) name: &'static str,
    /// Plural, group and version, such as `deployments.apps/v1`.
    resource: &'static str,
}

pub(crate) const fn kind(name: &'static str, resource: &'static str) -> Kind {
    Kind { name, resource }
}

impl Kind {
    pub(crate) fn resource(&self) -> &'static str {
        let parts = self.resource.rsplit_once('/');
        parts.map_or("", |(resource, _)| resource)
    }

    pub(crate) fn api_resource(&self) -> ApiResource {
        let resource = self.resource();
        let (plural, group) = resource.split_once('.').unwrap_or((resource, ""));
        let version = self.resource.rsplit('/').next().unwrap_or_default();
        let gvk = GroupVersionKind::gvk(group, version, self.name);
        ApiResource::from_gvk_with_plural(&gvk, plural)
    }
}

pub(crate) const VPA: Kind = kind(
    "VerticalPodAutoscaler",
    "verticalpodautoscalers.autoscaling.k8s.io/v1",
);
pub(crate) const API_SERVICE: Kind = kind("APIService", "apiservices.apiregistration.k8s.io/v1");

/// Facts about a product in a cluster. Objects are kept as JSON, because types of ours may not
/// accept each object that the API server accepts.
#[derive(Debug, Default)]
pub(crate) struct Facts {
    pub(crate) system_namespace: String,
    pub(crate) deployments: Vec<DynamicObject>,
    pub(crate) suite: Vec<DynamicObject>,
    /// Objects by kind; a kind is missing if it is not installed, or was not read.
    pub(crate) objects: BTreeMap<&'static str, Vec<DynamicObject>>,
    pub(crate) definitions: Vec<DynamicObject>,
    pub(crate) config_maps: Vec<DynamicObject>,
    pub(crate) unread: Vec<String>,
}

impl Facts {
    pub(crate) fn of(&self, kind: &Kind) -> &[DynamicObject] {
        self.objects.get(kind.name).map_or(&[], Vec::as_slice)
    }

    /// Deployments of the product with this image and at least one desired replica.
    pub(crate) fn running(&self, image: &str) -> impl Iterator<Item = &DynamicObject> {
        let has_image = move |deployment: &&DynamicObject| image_of(deployment) == Some(image);
        let found = self.deployments.iter().filter(has_image);
        found.filter(|deployment| replicas(deployment) > 0)
    }

    /// Whether a program of the suite has at least one desired replica.
    pub(crate) fn runs_own(&self, program: &str) -> bool {
        self.suite.iter().any(|deployment| {
            let name = deployment.labels().get("app.kubernetes.io/name");
            name.is_some_and(|name| name == program) && replicas(deployment) > 0
        })
    }

    pub(crate) fn is_in(&self, namespace: &str) -> bool {
        let mut deployments = self.deployments.iter();
        deployments.any(|deployment| name_of(deployment).namespace == namespace)
    }

    pub(crate) fn owner(&self, api: &str) -> Option<ObjectName> {
        let mut objects = self.of(&API_SERVICE).iter();
        let object = objects.find(|object| object.name_any() == api)?;
        let service = &object.data["spec"]["service"];
        let namespace = service["namespace"].as_str()?;
        Some(ObjectName::new(namespace, service["name"].as_str()?))
    }
}

/// Last part of the image of the first container, without the tag.
pub(crate) fn image_of(deployment: &DynamicObject) -> Option<&str> {
    let mut containers = items(&deployment.data["spec"]["template"]["spec"]["containers"]);
    containers.find_map(|container| container["image"].as_str().map(image_name))
}

pub(crate) fn arguments(deployment: &DynamicObject) -> Vec<&str> {
    let containers = items(&deployment.data["spec"]["template"]["spec"]["containers"]);
    containers
        .flat_map(|container| ["command", "args"].map(|field| &container[field]))
        .flat_map(items)
        .map(text)
        .filter(|argument| argument.starts_with('-'))
        .collect()
}

pub(crate) fn replicas(deployment: &DynamicObject) -> i64 {
    deployment.data["spec"]["replicas"].as_i64().unwrap_or(1)
}

pub(crate) fn name_of(object: &DynamicObject) -> ObjectName {
    ObjectName::from(&object.metadata)
}

/// The release of Helm that an object belongs to. None with a name that is not one of Helm's, which
/// must not get into a command.
pub(crate) fn helm_release(object: &DynamicObject) -> Option<ObjectName> {
    let annotation = |name: &str| {
        let key = format!("meta.helm.sh/release-{name}");
        let value = object.annotations().get(&key)?;
        let is_name = |letter: char| letter.is_ascii_alphanumeric() || "-.".contains(letter);
        let is_valid = value.starts_with(|letter: char| letter.is_ascii_alphanumeric());
        (is_valid && value.chars().all(is_name)).then(|| value.clone())
    };
    let namespace = annotation("namespace")?;
    Some(ObjectName::new(namespace, annotation("name")?))
}

/// The tool that installed an object and reverts changes by others.
pub(crate) fn installer(object: &DynamicObject) -> Option<String> {
    installations(&object.metadata).next()
}
