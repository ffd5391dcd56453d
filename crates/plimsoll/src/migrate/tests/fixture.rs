//! Facts of a cluster with a product.

use kube::api::DynamicObject;
use serde_json::json;

use crate::json::tests::parse;
use crate::migrate::facts::{Facts, Kind};

pub(in crate::migrate) fn deployment(name: &str, image: &str, arguments: &[&str]) -> DynamicObject {
    let (namespace, name) = name.split_once('/').expect("a namespace and a name");
    let container = json!({"name": "a", "image": format!("registry.example.com/{image}:v1"), "args": arguments});
    parse(json!({
        "metadata": {"namespace": namespace, "name": name},
        "spec": {"replicas": 2, "selector": {}, "template": {"spec": {"containers": [container]}}},
    }))
}

pub(in crate::migrate) fn own(program: &str) -> DynamicObject {
    let mut deployment = deployment("plimsoll-system/own", program, &[]);
    let labels = [
        ("app.kubernetes.io/name", program),
        ("app.kubernetes.io/part-of", "plimsoll"),
    ];
    let labels = labels.map(|(key, value)| (key.to_owned(), value.to_owned()));
    deployment.metadata.labels = Some(labels.into());
    deployment
}

pub(in crate::migrate) fn api_service(name: &str, service: &str) -> DynamicObject {
    let (namespace, service) = service.split_once('/').expect("a namespace and a name");
    parse(json!({
        "metadata": {"name": name},
        "spec": {
            "group": "g", "version": "v", "groupPriorityMinimum": 100, "versionPriority": 100,
            "caBundle": "Y2E=",
            "service": {"namespace": namespace, "name": service, "port": 443},
        },
    }))
}

impl Facts {
    /// Facts with these Deployments of the product.
    pub(in crate::migrate) fn new(deployments: impl Into<Vec<DynamicObject>>) -> Self {
        Self {
            system_namespace: "plimsoll-system".to_owned(),
            deployments: deployments.into(),
            ..Self::default()
        }
    }

    pub(in crate::migrate) fn with(
        mut self,
        kind: &Kind,
        objects: impl IntoIterator<Item = DynamicObject>,
    ) -> Self {
        let list = self.objects.entry(kind.name).or_default();
        list.extend(objects);
        self
    }
}
