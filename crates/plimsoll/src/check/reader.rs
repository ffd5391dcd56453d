//! Reads the facts, with the rights of the user. Writes nothing but reviews of these rights.

use futures::future::join_all;
use http::Request;
use jiff::Timestamp;
use jiff::fmt::rfc2822::DateTimeParser;
use k8s_openapi::api::admissionregistration::v1::MutatingWebhookConfiguration;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec,
};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{ConfigMap, Node, Secret, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1::APIService;
use kube::api::{ListParams, PostParams};
use kube::client::Body;
use kube::core::ObjectList;
use kube::{Api, Client, ResourceExt as _};
use serde::de::DeserializeOwned;
use serde_json::Value;
use serving::certificates::ServedChain;
use view::OtherAutoscaler;
use watch::{FoundAutoscalers, OtherAutoscalers};

use super::facts::{
    CertificateFact, Facts, OtherDeployment, PrometheusFact, Right, ServerVersion, StopFact,
    StoredChain,
};
use super::finding::{Read, Unread};
use super::judge::{CONFIGURATION, OTHER_IMAGES, SERIES};
use super::units;
use crate::cluster::{Cluster, request_failure};
use crate::failure::Failure;
use crate::installation::{self, ObjectName, Program, SELECTOR, image_name, programs};

/// Objects per page of a list.
const PAGE: u32 = 500;
/// Most pages of a list.
const MAX_PAGES: usize = 200;

/// Reads all facts. An error only if the API server does not respond.
pub(crate) async fn read(
    cluster: &Cluster,
    system_namespace: &str,
    rights: &[Right],
) -> Result<Facts, Failure> {
    let client = &cluster.client;
    let (version, server_time) = version(cluster).await?;
    let local_time = Timestamp::now();
    let deployments = deployments(client, system_namespace).await;
    let empty = Vec::new();
    let suite = programs(deployments.as_ref().unwrap_or(&empty));
    let stop = installation::stop_switch(&suite, system_namespace);
    let webhooks = list::<MutatingWebhookConfiguration>(Api::all(client.clone())).await;
    let (api_services, nodes, measured_nodes, others, definitions) = tokio::join!(
        list::<APIService>(Api::all(client.clone())),
        count::<Node>(client),
        measured_nodes(client),
        others(client),
        definitions(client),
    );
    let (leases, signs, services, certificates, stop_fact, rights, prometheus, unit_slips) = tokio::join!(
        leases(client, &suite),
        signs(client, &suite),
        services(client, &webhooks),
        certificates(client, &suite),
        stop_fact(client, &stop),
        self_reviews(client, system_namespace, rights),
        prometheus(client, &suite),
        units::read(client, &definitions),
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
        unit_slips,
        webhooks,
        services,
        certificates,
        stop: (stop, stop_fact),
        rights,
        prometheus,
    })
}

/// The Deployments of the suite.
pub(crate) async fn deployments(client: &Client, namespace: &str) -> Read<Vec<Deployment>> {
    let api: Api<Deployment> = Api::namespaced(client.clone(), namespace);
    let found = api.list(&ListParams::default().labels(SELECTOR)).await;
    let found = found.map_err(unread("Deployments"))?;
    Ok(found.items)
}

/// The reason why something was not read.
pub(crate) fn unread(subject: &str) -> impl Fn(kube::Error) -> Unread {
    move |error| match error {
        kube::Error::Api(status) if status.code == 403 => {
            Unread(format!("you have no right to read {subject}"))
        }
        kube::Error::Api(status) => Unread(format!(
            "cannot read {subject}: {}",
            status.message.trim_end_matches('.')
        )),
        error => Unread(format!("cannot read {subject}: {error}")),
    }
}

async fn version(cluster: &Cluster) -> Result<(ServerVersion, Option<Timestamp>), Failure> {
    let failed = |error| request_failure("the version of the API server", &cluster.server, error);
    let request = Request::get("/version")
        .body(Body::empty())
        .map_err(anyhow::Error::from)?;
    let response = cluster.client.send(request).await.map_err(failed)?;
    let date = response.headers().get(http::header::DATE);
    let date = date.and_then(|date| {
        DateTimeParser::new()
            .parse_timestamp(date.to_str().ok()?)
            .ok()
    });
    let body = response.into_body().collect_bytes().await.map_err(failed)?;
    let body: Value = serde_json::from_slice(&body).unwrap_or_default();
    let text = |field: &str| body[field].as_str().unwrap_or_default().to_owned();
    let version = ServerVersion {
        major: text("major"),
        minor: text("minor"),
        text: text("gitVersion"),
    };
    Ok((version, date))
}

async fn list<K>(api: Api<K>) -> Read<Vec<K>>
where
    K: kube::Resource<DynamicType = ()> + Clone + DeserializeOwned + std::fmt::Debug,
{
    let mut items = Vec::new();
    let list = async |params: &ListParams| api.list(params).await;
    each_page(&K::plural(&()), list, |page| items.extend(page)).await?;
    Ok(items)
}

/// Passes each page of `list` to `visit`, so that a large list is never held.
pub(crate) async fn each_page<T: Clone>(
    plural: &str,
    list: impl AsyncFn(&ListParams) -> kube::Result<ObjectList<T>>,
    mut visit: impl FnMut(Vec<T>),
) -> Read<()> {
    let mut params = ListParams::default().limit(PAGE);
    for _ in 0..MAX_PAGES {
        let page = list(&params).await.map_err(unread(plural))?;
        let next = page.metadata.continue_.unwrap_or_default();
        visit(page.items);
        if next.is_empty() {
            return Ok(());
        }
        params = params.continue_token(&next);
    }
    let most = PAGE as usize * MAX_PAGES;
    Err(Unread(format!("there are more than {most} {plural}")))
}

/// Number of objects of a kind. Reads their metadata alone: an object with fields that our types
/// do not accept counts too.
pub(crate) async fn count<K>(client: &Client) -> Read<usize>
where
    K: kube::Resource<DynamicType = ()> + Clone + DeserializeOwned + std::fmt::Debug,
{
    let api: Api<K> = Api::all(client.clone());
    let list = async |params: &ListParams| api.list_metadata(params).await;
    let mut count = 0;
    each_page(&K::plural(&()), list, |page| count += page.len()).await?;
    Ok(count)
}

async fn get<T: DeserializeOwned>(client: &Client, path: &str, subject: &str) -> Read<T> {
    let request = Request::get(path).body(Vec::new());
    let request = request.map_err(|error| Unread(format!("cannot read {subject}: {error}")))?;
    client.request(request).await.map_err(unread(subject))
}

async fn measured_nodes(client: &Client) -> Read<usize> {
    let path = "/apis/metrics.k8s.io/v1beta1/nodes";
    let list: Value = get(client, path, "metrics of nodes").await?;
    Ok(list["items"].as_array().map_or(0, Vec::len))
}

async fn others(client: &Client) -> Read<Vec<OtherDeployment>> {
    let mut found = Vec::new();
    let visit = |page: Vec<Deployment>| found.extend(page.iter().filter_map(other));
    let api: Api<Deployment> = Api::all(client.clone());
    each_page("deployments", async |params| api.list(params).await, visit).await?;
    Ok(found)
}

fn other(deployment: &Deployment) -> Option<OtherDeployment> {
    let spec = &deployment.spec;
    let containers = &spec.template.spec.as_ref()?.containers;
    let image = containers.iter().find_map(|container| {
        let image = image_name(container.image.as_deref()?);
        OTHER_IMAGES
            .iter()
            .any(|(known, _)| *known == image)
            .then_some(image)
    })?;
    Some(OtherDeployment {
        name: ObjectName {
            namespace: deployment.namespace().unwrap_or_default(),
            name: deployment.name_any(),
        },
        image: image.to_owned(),
        replicas: spec.replicas.unwrap_or(1),
    })
}

async fn definitions(client: &Client) -> Read<Vec<CustomResourceDefinition>> {
    let api: Api<CustomResourceDefinition> = Api::all(client.clone());
    let mut found = Vec::new();
    for definition in api::crd::all() {
        let name = definition.name_any();
        let read = api.get_opt(&name).await;
        found.extend(read.map_err(unread("CustomResourceDefinitions"))?);
    }
    Ok(found)
}

/// Signs of other autoscalers, as the programs look for them.
async fn signs(client: &Client, suite: &[Program<'_>]) -> Read<Vec<OtherAutoscaler>> {
    let own = suite.iter().filter_map(|program| program.lease());
    let own = own.map(|lease| (lease.namespace, lease.name));
    let others = OtherAutoscalers::new(client.clone(), own);
    let FoundAutoscalers { found, errors } = others.read(Timestamp::now).await;
    if found.is_empty() && !errors.is_empty() {
        let errors = errors.join("; ");
        return Err(Unread(format!(
            "cannot read signs of other autoscalers: {errors}"
        )));
    }
    Ok(found)
}

async fn leases(client: &Client, suite: &[Program<'_>]) -> Vec<(ObjectName, Read<Option<Lease>>)> {
    let names = suite.iter().filter_map(|program| program.lease());
    join_all(names.map(async |name| {
        let api: Api<Lease> = Api::namespaced(client.clone(), &name.namespace);
        let lease = api.get_opt(&name.name).await.map_err(unread("Leases"));
        (name, lease)
    }))
    .await
}

/// The Services of our registration.
async fn services(
    client: &Client,
    webhooks: &Read<Vec<MutatingWebhookConfiguration>>,
) -> Vec<(ObjectName, Read<Option<usize>>)> {
    let ours = webhooks
        .iter()
        .flatten()
        .filter(|one| one.name_any() == CONFIGURATION);
    let mut names: Vec<ObjectName> = ours
        .flat_map(|one| one.webhooks.iter().flatten())
        .filter_map(|webhook| webhook.client_config.service.as_ref())
        .map(|service| ObjectName {
            namespace: service.namespace.clone(),
            name: service.name.clone(),
        })
        .collect();
    names.sort();
    names.dedup();
    join_all(names.into_iter().map(async |name| {
        let endpoints = ready_endpoints(client, &name).await;
        (name, endpoints)
    }))
    .await
}

async fn ready_endpoints(client: &Client, name: &ObjectName) -> Read<Option<usize>> {
    let services: Api<Service> = Api::namespaced(client.clone(), &name.namespace);
    let service = services.get_opt(&name.name).await;
    if service.map_err(unread("Services"))?.is_none() {
        return Ok(None);
    }
    let slices: Api<EndpointSlice> = Api::namespaced(client.clone(), &name.namespace);
    let selector = format!("kubernetes.io/service-name={}", name.name);
    let slices = slices.list(&ListParams::default().labels(&selector)).await;
    let slices = slices.map_err(unread("EndpointSlices"))?;
    let is_ready = |endpoint: &&k8s_openapi::api::discovery::v1::Endpoint| {
        let conditions = endpoint.conditions.as_ref();
        conditions.and_then(|conditions| conditions.ready) != Some(false)
    };
    let endpoints = slices
        .items
        .iter()
        .flat_map(|slice| slice.endpoints.iter().flatten());
    Ok(Some(endpoints.filter(is_ready).count()))
}

async fn certificates(client: &Client, suite: &[Program<'_>]) -> Vec<CertificateFact> {
    let entries = suite.iter().flat_map(|program| {
        let entries = program.certificates();
        entries.into_iter().map(|entry| (*program, entry))
    });
    join_all(entries.map(async |(program, entry)| {
        let secret = ObjectName {
            namespace: program.namespace().to_owned(),
            name: entry.secret.clone(),
        };
        let api: Api<Secret> = Api::namespaced(client.clone(), &secret.namespace);
        let read = api.get_opt(&secret.name).await;
        let chain = read.map_err(unread("this Secret"));
        let chain = chain.map(|secret| stored_chain(secret, entry.entry));
        CertificateFact {
            program: program.name,
            secret,
            entry,
            chain,
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

/// The stop switch, if it is there.
pub(crate) async fn stop_fact(client: &Client, name: &ObjectName) -> Read<Option<StopFact>> {
    let api: Api<ConfigMap> = Api::namespaced(client.clone(), &name.namespace);
    let found = api.get_opt(&name.name).await;
    let found = found.map_err(unread(&format!("the ConfigMap {name}")))?;
    Ok(found.map(|found| StopFact {
        since: found.metadata.creation_timestamp.map(|time| time.0),
        reason: found.data.and_then(|mut data| data.remove("reason")),
    }))
}

async fn self_reviews(
    client: &Client,
    system_namespace: &str,
    rights: &[Right],
) -> Vec<(Right, Read<bool>)> {
    let api: Api<SelfSubjectAccessReview> = Api::all(client.clone());
    let review = async |right: Right| {
        let (resource, subresource) = match right.resource.split_once('/') {
            Some((resource, subresource)) => (resource, Some(subresource.to_owned())),
            None => (right.resource, None),
        };
        let attributes = ResourceAttributes {
            verb: Some(right.verb.to_owned()),
            group: Some(right.group.to_owned()),
            resource: Some(resource.to_owned()),
            subresource,
            namespace: right
                .in_system_namespace
                .then(|| system_namespace.to_owned()),
            ..ResourceAttributes::default()
        };
        let review = SelfSubjectAccessReview {
            spec: SelfSubjectAccessReviewSpec {
                resource_attributes: Some(attributes),
                ..SelfSubjectAccessReviewSpec::default()
            },
            ..SelfSubjectAccessReview::default()
        };
        let reviewed = api.create(&PostParams::default(), &review).await;
        let allowed = reviewed.map(|review| review.status.is_some_and(|status| status.allowed));
        (right, allowed.map_err(unread("your rights")))
    };
    join_all(rights.iter().map(|right| review(*right))).await
}

async fn prometheus(client: &Client, suite: &[Program<'_>]) -> Option<PrometheusFact> {
    let recommender = suite.iter().find(|program| program.name == "recommender")?;
    let storage = recommender.flag("storage");
    if storage.as_deref() != Some("prometheus") {
        return None;
    }
    let address = recommender.flag("prometheus-address").unwrap_or_default();
    let series = match proxy_path(&address) {
        Some(path) => series(client, &path).await,
        None => Err(Unread(format!(
            "{address:?} is not a Service, so the API server cannot forward to it"
        ))),
    };
    Some(PrometheusFact { address, series })
}

async fn series(client: &Client, path: &str) -> Read<Vec<u64>> {
    let mut counts = Vec::new();
    for metric in SERIES {
        let path = format!("{path}/api/v1/query?query=count({metric})");
        let answer: Value = get(client, &path, "Prometheus through the Service's proxy").await?;
        let count = answer["data"]["result"][0]["value"][1].as_str();
        counts.push(count.and_then(|count| count.parse().ok()).unwrap_or(0));
    }
    Ok(counts)
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
    let port = uri
        .port_u16()
        .unwrap_or(if scheme == "https" { 443 } else { 80 });
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
