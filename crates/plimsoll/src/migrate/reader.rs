//! Reads the facts, with the rights of the user. Writes nothing.

use std::collections::BTreeSet;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::ResourceExt as _;
use kube::api::{DynamicObject, ListParams};

use super::facts::{Facts, Kind, Source, image_of, name_of};
use crate::check::{Read, noted, unread};
use crate::cluster::{Cluster, each, list};
use crate::installation::ObjectName;
use crate::json::items;

const MAX_CONFIG_MAPS: usize = 20;

/// Reads the facts about a product. An error only if the API server does not respond.
pub(crate) async fn read(
    cluster: &Cluster,
    source: &Source,
    system_namespace: &str,
) -> anyhow::Result<Facts> {
    cluster.version().await?;
    let mut facts = Facts {
        system_namespace: system_namespace.to_owned(),
        ..Facts::default()
    };
    read_deployments(cluster, source, &mut facts).await;
    for kind in source.kinds {
        if let Some(objects) = noted(&mut facts.unread, objects(cluster, kind).await).flatten() {
            facts.objects.insert(kind.name, objects);
        }
    }
    let definitions = cluster.untyped::<CustomResourceDefinition>(None);
    for name in source.definitions {
        let found = definitions.get_opt(name).await;
        let found = found.map_err(unread("CustomResourceDefinitions"));
        let found = noted(&mut facts.unread, found).flatten();
        facts.definitions.extend(found);
    }
    if source.reads_config_maps {
        read_config_maps(cluster, &mut facts).await;
    }
    facts.unread.sort();
    Ok(facts)
}

async fn read_deployments(cluster: &Cluster, source: &Source, facts: &mut Facts) {
    let all = cluster.untyped::<Deployment>(None);
    let visit = |deployment: DynamicObject| {
        let part = deployment.labels().get("app.kubernetes.io/part-of");
        let image = image_of(&deployment);
        if part.is_some_and(|part| part == "plimsoll") {
            facts.suite.push(deployment);
        } else if image.is_some_and(|image| source.images.contains(&image)) {
            facts.deployments.push(deployment);
        }
    };
    let read = each(&all, &ListParams::default(), visit).await;
    noted(&mut facts.unread, read.map_err(unread("deployments")));
}

/// The objects of a kind; `None` if it is not installed.
async fn objects(cluster: &Cluster, kind: &Kind) -> Read<Option<Vec<DynamicObject>>> {
    let resource = kind.api_resource();
    match list(&cluster.dynamic(&resource, None), &ListParams::default()).await {
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
        found => found.map(Some).map_err(unread(&resource.plural)),
    }
}

async fn read_config_maps(cluster: &Cluster, facts: &mut Facts) {
    let mut names = BTreeSet::new();
    for deployment in &facts.deployments {
        let namespace = name_of(deployment).namespace;
        let volumes = items(&deployment.data["spec"]["template"]["spec"]["volumes"]);
        let maps = volumes.filter_map(|volume| volume["configMap"]["name"].as_str());
        names.extend(maps.map(|name| ObjectName::new(&namespace, name)));
    }
    for name in names.into_iter().take(MAX_CONFIG_MAPS) {
        let api = cluster.untyped::<ConfigMap>(Some(&name.namespace));
        let found = api.get_opt(&name.name).await;
        let found = noted(&mut facts.unread, found.map_err(unread("ConfigMaps"))).flatten();
        facts.config_maps.extend(found);
    }
}
