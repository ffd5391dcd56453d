//! Reads the facts, with the rights of the user. Writes nothing.

use std::collections::BTreeSet;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{ApiResource, DynamicObject, GroupVersionKind, ListParams};
use kube::{Api, Client};

use super::facts::{Facts, Kind, Source, image_of, name_of};
use crate::check::Unread;
use crate::check::reader::{each_page, unread};
use crate::cluster::{Cluster, request_failure};
use crate::failure::Failure;
use crate::installation::ObjectName;

/// Most `ConfigMap`s that are read.
const MAX_CONFIG_MAPS: usize = 20;

/// Reads the facts about a product. An error only if the API server does not respond.
pub(crate) async fn read(
    cluster: &Cluster,
    source: &Source,
    system_namespace: &str,
) -> Result<Facts, Failure> {
    let client = &cluster.client;
    let version = client.apiserver_version().await;
    version.map_err(|error| {
        request_failure("the version of the API server", &cluster.server, error)
    })?;
    let mut facts = Facts {
        system_namespace: system_namespace.to_owned(),
        ..Facts::default()
    };
    read_deployments(client, source, &mut facts).await;
    for kind in source.kinds {
        match list(client, kind).await {
            Ok(Some(objects)) => {
                facts.objects.insert(kind.name, objects);
            }
            Ok(None) => {}
            Err(Unread(reason)) => facts.unread.push(reason),
        }
    }
    let definitions: Api<DynamicObject> = dynamic::<CustomResourceDefinition>(client, None);
    for name in source.definitions {
        match definitions.get_opt(name).await {
            Ok(found) => facts.definitions.extend(found),
            Err(error) => {
                let Unread(reason) = unread("CustomResourceDefinitions")(error);
                facts.unread.push(reason);
            }
        }
    }
    if source.reads_config_maps {
        read_config_maps(client, &mut facts).await;
    }
    facts.unread.sort();
    facts.unread.dedup();
    Ok(facts)
}

async fn read_deployments(client: &Client, source: &Source, facts: &mut Facts) {
    let all = dynamic::<Deployment>(client, None);
    let (mut deployments, mut suite) = (Vec::new(), Vec::new());
    let visit = |page: Vec<DynamicObject>| {
        for deployment in page {
            let is_own = deployment.metadata.labels.as_ref().is_some_and(|labels| {
                labels.get("app.kubernetes.io/part-of").map(String::as_str) == Some("plimsoll")
            });
            let image = image_of(&deployment);
            if is_own {
                suite.push(deployment);
            } else if image.is_some_and(|image| source.images.contains(&image)) {
                deployments.push(deployment);
            }
        }
    };
    let list = async |params: &ListParams| all.list(params).await;
    if let Err(Unread(reason)) = each_page("deployments", list, visit).await {
        facts.unread.push(reason);
    }
    facts.deployments = deployments;
    facts.suite = suite;
}

/// The objects of a kind; `None` if it is not installed.
async fn list(client: &Client, kind: &Kind) -> Result<Option<Vec<DynamicObject>>, Unread> {
    let gvk = GroupVersionKind::gvk(kind.group, kind.version, kind.name);
    let resource = ApiResource::from_gvk_with_plural(&gvk, kind.plural);
    let api: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
    let first = api.list_metadata(&ListParams::default().limit(1)).await;
    if let Err(kube::Error::Api(status)) = &first
        && status.code == 404
    {
        return Ok(None);
    }
    let mut objects = Vec::new();
    let list = async |params: &ListParams| api.list(params).await;
    each_page(kind.plural, list, |page| objects.extend(page)).await?;
    Ok(Some(objects))
}

async fn read_config_maps(client: &Client, facts: &mut Facts) {
    let mut names = BTreeSet::new();
    for deployment in &facts.deployments {
        let namespace = name_of(deployment).namespace;
        let volumes = &deployment.data["spec"]["template"]["spec"]["volumes"];
        let volumes = volumes.as_array().into_iter().flatten();
        let maps = volumes.filter_map(|volume| volume["configMap"]["name"].as_str());
        names.extend(maps.map(|name| ObjectName {
            namespace: namespace.clone(),
            name: name.to_owned(),
        }));
    }
    for name in names.into_iter().take(MAX_CONFIG_MAPS) {
        let api = dynamic::<ConfigMap>(client, Some(&name.namespace));
        match api.get_opt(&name.name).await {
            Ok(found) => facts.config_maps.extend(found),
            Err(error) => {
                let Unread(reason) = unread("ConfigMaps")(error);
                facts.unread.push(reason);
            }
        }
    }
}

/// The API of a kind without its type.
fn dynamic<K: kube::Resource<DynamicType = ()>>(
    client: &Client,
    namespace: Option<&str>,
) -> Api<DynamicObject> {
    let resource = ApiResource::erase::<K>(&());
    match namespace {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, &resource),
        None => Api::all_with(client.clone(), &resource),
    }
}
