//! Reads the facts, with the rights of the user. Writes nothing but reviews of these rights.

use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use http::Request;
use jiff::Timestamp;
use jiff::fmt::rfc2822::DateTimeParser;
use k8s_openapi::api::admissionregistration::v1::MutatingWebhookConfiguration;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::authorization::v1::{ResourceAttributes, SelfSubjectAccessReview};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{ConfigMap, Node, Secret, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use k8s_openapi::apimachinery::pkg::version::Info;
use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1::APIService;
use kube::ResourceExt as _;
use kube::api::{ListParams, PartialObjectMeta, PostParams};
use kube::client::Body;
use serde_json::Value;
use serving::certificates::ServedChain;
use sources::error_chain::with_causes;
use sources::prometheus::{ClusterCheck, Connection, Matchers, Prometheus, PrometheusError};
use view::OtherAutoscaler;
use watch::{FoundAutoscalers, OtherAutoscalers};

use super::facts::{
    CertificateFact, Facts, OtherDeployment, PrometheusFact, Rights, StopFact, StoredChain,
};
use super::finding::{Read, Unread, unread};
use super::judge::{CONFIGURATION, OTHER_IMAGES, SERIES};
use super::objects;
use crate::cluster::{Cluster, Kind, each, each_metadata, list};
use crate::installation::{self, ObjectName, Program, SELECTOR, image_name, programs};
use crate::revert::is_reverted;

/// Time limit of a query to Prometheus.
const PATIENCE: Duration = Duration::from_secs(30);

/// Reads all facts. An error only if the API server does not respond.
pub(crate) async fn read(
    cluster: &Cluster,
    system_namespace: &str,
    rights: Rights,
) -> anyhow::Result<Facts> {
    let (version, server_time) = version(cluster).await?;
    let local_time = Timestamp::now();
    let deployments = deployments(cluster, system_namespace).await;
    let suite = programs(deployments.as_deref().unwrap_or_default());
    let stop = installation::stop_switch(system_namespace);
    let webhooks = all::<MutatingWebhookConfiguration>(cluster).await;
    let (api_services, nodes, measured_nodes, others, definitions) = tokio::join!(
        all::<APIService>(cluster),
        count::<Node>(cluster),
        measured_nodes(cluster),
        others(cluster),
        definitions(cluster),
    );
    let (leases, signs, services, certificates, stop_fact, rights, prometheus, objects) = tokio::join!(
        leases(cluster, &suite),
        signs(cluster, &suite),
        services(cluster, &webhooks),
        certificates(cluster, &suite),
        stop_fact(cluster, &stop),
        self_reviews(cluster, system_namespace, rights),
        prometheus(cluster, &suite),
        objects::read(cluster, &definitions),
    );
    drop(suite);
    Ok(Facts {
        system_namespace: system_namespace.to_owned(),
        server: cluster.server.clone(),
        version,
        server_time,
        local_time,
        api_services,
        nodes,
        measured_nodes,
        deployments,
        others,
        signs,
        leases,
        definitions,
        objects,
        webhooks,
        services,
        certificates,
        stop: (stop, stop_fact),
        rights,
        prometheus,
    })
}

pub(crate) async fn deployments(cluster: &Cluster, namespace: &str) -> Read<Vec<Deployment>> {
    let selected = ListParams::default().labels(SELECTOR);
    let found = list(&cluster.within(namespace), &selected).await;
    found.map_err(unread("Deployments"))
}

async fn version(cluster: &Cluster) -> anyhow::Result<(Info, Option<Timestamp>)> {
    let failed = cluster.failed("the version of the API server");
    let request = Request::get("/version").body(Body::empty())?;
    let response = cluster.client.send(request).await.map_err(&failed)?;
    let date = response.headers().get(http::header::DATE);
    let date = date.and_then(|date| date.to_str().ok());
    let date = date.and_then(|date| DateTimeParser::new().parse_timestamp(date).ok());
    let body = response.into_body().collect_bytes().await.map_err(failed)?;
    Ok((serde_json::from_slice(&body).unwrap_or_default(), date))
}

async fn all<K: Kind>(cluster: &Cluster) -> Read<Vec<K>> {
    let found = list(&cluster.all::<K>(), &ListParams::default()).await;
    found.map_err(unread(&K::plural(&())))
}

async fn count<K: Kind>(cluster: &Cluster) -> Read<usize> {
    count_reverted::<K>(cluster).await.map(|[all, _]| all)
}

/// The numbers of objects, and of those that `plimsoll revert` switched off.
pub(crate) async fn count_reverted<K: Kind>(cluster: &Cluster) -> Read<[usize; 2]> {
    let mut counts = [0; 2];
    let count = |object: PartialObjectMeta<K>| {
        counts[0] += 1;
        counts[1] += usize::from(is_reverted(&object.metadata));
    };
    let read = each_metadata(&cluster.all::<K>(), count).await;
    read.map_err(unread(&K::plural(&())))?;
    Ok(counts)
}

async fn measured_nodes(cluster: &Cluster) -> Read<usize> {
    let list = cluster.get("/apis/metrics.k8s.io/v1beta1/nodes").await;
    let list: Value = list.map_err(unread("metrics of nodes"))?;
    Ok(list["items"].as_array().map_or(0, Vec::len))
}

async fn others(cluster: &Cluster) -> Read<Vec<OtherDeployment>> {
    let mut found = Vec::new();
    let visit = |deployment| found.extend(other(&deployment));
    let read = each(&cluster.all(), &ListParams::default(), visit).await;
    read.map_err(unread("deployments"))?;
    Ok(found)
}

fn other(deployment: &Deployment) -> Option<OtherDeployment> {
    let spec = &deployment.spec;
    let containers = &spec.template.spec.as_ref()?.containers;
    let images = containers.iter().filter_map(|it| it.image.as_deref());
    let is_known = |image: &&str| OTHER_IMAGES.iter().any(|(known, _)| known == image);
    let image = images.map(image_name).find(is_known)?;
    Some(OtherDeployment {
        name: ObjectName::from(&deployment.metadata),
        image: image.to_owned(),
        replicas: spec.replicas.unwrap_or(1),
    })
}

async fn definitions(cluster: &Cluster) -> Read<Vec<CustomResourceDefinition>> {
    let api = cluster.all::<CustomResourceDefinition>();
    let mut found = Vec::new();
    for definition in api::crd::all() {
        let name = definition.name_any();
        let read = api.get_opt(&name).await;
        found.extend(read.map_err(unread("CustomResourceDefinitions"))?);
    }
    Ok(found)
}

async fn signs(cluster: &Cluster, suite: &[Program<'_>]) -> Read<Vec<OtherAutoscaler>> {
    let own = suite.iter().filter_map(|program| program.lease());
    let own = own.map(|lease| (lease.namespace, lease.name));
    let others = OtherAutoscalers::new(cluster.client.clone(), own);
    let FoundAutoscalers { found, errors } = others.read(Timestamp::now).await;
    if found.is_empty() && !errors.is_empty() {
        let reason = "cannot read signs of other autoscalers";
        return Err(Unread::new(format!("{reason}: {}", errors.join("; "))));
    }
    Ok(found)
}

async fn leases(
    cluster: &Cluster,
    suite: &[Program<'_>],
) -> Vec<(ObjectName, Read<Option<Lease>>)> {
    let names = suite.iter().filter_map(|program| program.lease());
    join_all(names.map(async |name| {
        let lease = cluster.within(&name.namespace).get_opt(&name.name).await;
        (name, lease.map_err(unread("Leases")))
    }))
    .await
}

async fn services(
    cluster: &Cluster,
    webhooks: &Read<Vec<MutatingWebhookConfiguration>>,
) -> Vec<(ObjectName, Read<Option<usize>>)> {
    let webhooks = webhooks.iter().flatten();
    let ours = webhooks.filter(|one| one.name_any() == CONFIGURATION);
    let mut names: Vec<ObjectName> = ours
        .flat_map(|one| one.webhooks.iter().flatten())
        .filter_map(|webhook| webhook.client_config.service.as_ref())
        .map(|service| ObjectName::new(&service.namespace, &service.name))
        .collect();
    names.sort();
    names.dedup();
    join_all(names.into_iter().map(async |name| {
        let endpoints = ready_endpoints(cluster, &name).await;
        (name, endpoints)
    }))
    .await
}

async fn ready_endpoints(cluster: &Cluster, name: &ObjectName) -> Read<Option<usize>> {
    let services = cluster.within::<Service>(&name.namespace);
    let service = services.get_opt(&name.name).await;
    if service.map_err(unread("Services"))?.is_none() {
        return Ok(None);
    }
    let selector = format!("kubernetes.io/service-name={}", name.name);
    let selected = ListParams::default().labels(&selector);
    let slices = list(&cluster.within(&name.namespace), &selected).await;
    let slices: Vec<EndpointSlice> = slices.map_err(unread("EndpointSlices"))?;
    let endpoints = slices.iter().flat_map(|it| it.endpoints.iter().flatten());
    let ready =
        endpoints.filter(|it| it.conditions.as_ref().and_then(|it| it.ready) != Some(false));
    Ok(Some(ready.count()))
}

async fn certificates(cluster: &Cluster, suite: &[Program<'_>]) -> Vec<CertificateFact> {
    let entries = suite.iter().flat_map(|program| {
        let entries = program.certificates();
        entries.into_iter().map(|entry| (*program, entry))
    });
    join_all(entries.map(async |(program, entry)| {
        let secret = ObjectName::new(program.namespace(), &entry.secret);
        let secrets = cluster.within(&secret.namespace);
        let chain = secrets.get_opt(&secret.name).await;
        let chain = chain.map_err(unread("this Secret"));
        CertificateFact {
            program: program.name,
            secret,
            chain: chain.map(|secret| stored_chain(secret, entry.entry)),
            entry,
        }
    }))
    .await
}

/// The certificates of an entry. Private keys are dropped with the Secret.
fn stored_chain(secret: Option<Secret>, entry: &str) -> StoredChain {
    let Some(secret) = secret else {
        return StoredChain::NoSecret;
    };
    let data = secret.data.unwrap_or_default();
    let pem = data.get(entry).map(|pem| String::from_utf8_lossy(&pem.0));
    let chain = pem.and_then(|pem| ServedChain::read(&pem));
    chain.map_or(StoredChain::Invalid, StoredChain::Chain)
}

pub(crate) async fn stop_fact(cluster: &Cluster, name: &ObjectName) -> Read<Option<StopFact>> {
    let api = cluster.within::<ConfigMap>(&name.namespace);
    let found = api.get_opt(&name.name).await;
    let found = found.map_err(unread(&format!("the ConfigMap {name}")))?;
    Ok(found.map(|found| StopFact {
        since: found.metadata.creation_timestamp.map(|time| time.0),
        reason: found.data.and_then(|mut data| data.remove("reason")),
    }))
}

async fn self_reviews(
    cluster: &Cluster,
    system_namespace: &str,
    rights: Rights,
) -> Vec<(&'static str, Read<bool>)> {
    let api = cluster.all::<SelfSubjectAccessReview>();
    let review = async |(right, namespace): (&'static str, Option<&str>)| {
        let mut words = right.split(' ');
        let verb = words.next().map(str::to_owned);
        let (resource, group) = split(words.next().unwrap_or_default(), '.');
        let (resource, subresource) = split(resource, '/');
        let mut review = SelfSubjectAccessReview::default();
        review.spec.resource_attributes = Some(ResourceAttributes {
            verb,
            group: group.map(str::to_owned),
            resource: Some(resource.to_owned()),
            subresource: subresource.map(str::to_owned),
            namespace: namespace.map(str::to_owned),
            ..ResourceAttributes::default()
        });
        let reviewed = api.create(&PostParams::default(), &review).await;
        let allowed = reviewed.map(|review| review.status.is_some_and(|status| status.allowed));
        (right, allowed.map_err(unread("your rights")))
    };
    let of_cluster = rights.of_cluster.iter().map(|right| (*right, None));
    let own = rights.own.iter();
    let own = own.map(|right| (*right, Some(system_namespace)));
    join_all(of_cluster.chain(own).map(review)).await
}

fn split(text: &str, mark: char) -> (&str, Option<&str>) {
    let parts = text.split_once(mark);
    parts.map_or((text, None), |(first, rest)| (first, Some(rest)))
}

async fn prometheus(cluster: &Cluster, suite: &[Program<'_>]) -> Option<PrometheusFact> {
    let recommender = suite.iter().find(|program| program.name == "recommender")?;
    recommender
        .flag("storage")
        .filter(|it| it == "prometheus")?;
    let address = recommender.flag("prometheus-address").unwrap_or_default();
    let matchers = recommender.flag("prometheus-matchers").unwrap_or_default();
    let (series, refusal) = match (proxy_path(&address), matchers.parse()) {
        (Some(path), Ok(matchers)) => series(cluster, &path, matchers).await,
        (None, _) => {
            let why = "is not a Service, so the API server cannot forward to it";
            (Err(Unread::new(format!("{address:?} {why}"))), None)
        }
        (_, Err(error)) => (
            Err(Unread::new(format!("--prometheus-matchers: {error}"))),
            None,
        ),
    };
    Some(PrometheusFact {
        address,
        series,
        refusal,
    })
}

/// Numbers of series, and the refusal of several clusters.
async fn series(
    cluster: &Cluster,
    path: &str,
    matchers: Matchers,
) -> (Read<Vec<u64>>, Option<String>) {
    let connection = Connection {
        matchers,
        query_timeout: PATIENCE,
        ..Connection::default()
    };
    let client = cluster.client.clone();
    let store = Prometheus::with_client(client, path, &connection, Arc::new(|_| ()));
    let mut counts = Vec::new();
    for metric in SERIES {
        match store.query(&format!("count({metric})"), PATIENCE).await {
            Ok(found) => counts.push(found.first().map_or(0, |count| count.value as u64)),
            Err(error) => {
                let subject = "Prometheus through the Service's proxy";
                let why = match error {
                    PrometheusError::Refused { code: 403, .. } => {
                        format!("you have no right to read {subject}")
                    }
                    error => format!("cannot read {subject}: {}", with_causes(&error)),
                };
                return (Err(Unread::new(why)), None);
            }
        }
    }
    let checked = ClusterCheck::default().run(&store, Timestamp::now()).await;
    (Ok(counts), checked.err().map(|error| error.to_string()))
}

/// The path of the API server that leads to a Service, such as
/// `http://prometheus.monitoring.svc:9090`.
fn proxy_path(address: &str) -> Option<String> {
    let uri: http::Uri = address.parse().ok()?;
    let mut labels = uri.host()?.split('.');
    let (name, namespace) = (labels.next()?, labels.next()?);
    if labels.next().is_some_and(|third| third != "svc") {
        return None;
    }
    let scheme = uri.scheme_str()?;
    let default = if scheme == "https" { 443 } else { 80 };
    let port = uri.port_u16().unwrap_or(default);
    let folder = uri.path().trim_end_matches('/');
    Some(format!(
        "/api/v1/namespaces/{namespace}/services/{scheme}:{name}:{port}/proxy{folder}"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(address: &str, expected: Option<&str>) {
        assert_eq!(proxy_path(address).as_deref(), expected, "{address}");
    }

    #[test]
    fn services_are_reached_through_the_api_server() {
        let path = "/api/v1/namespaces/monitoring/services/http:prometheus:9090/proxy";
        check("http://prometheus.monitoring.svc:9090", Some(path));
        check("http://prometheus.monitoring:9090/", Some(path));
        let path = "/api/v1/namespaces/b/services/https:a:443/proxy/tenant";
        check("https://a.b.svc.cluster.local/tenant", Some(path));
        check("https://prometheus.example.com", None);
        check("http://prometheus:9090", None);
        check("", None);
    }
}
