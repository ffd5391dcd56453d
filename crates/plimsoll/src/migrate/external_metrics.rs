//! The commands `migrate adopt` and `migrate release`: they point the `APIService` of
//! `external.metrics.k8s.io` at the adapter, and back at its previous provider. A route forwards the
//! metrics of the previous provider to it.

mod conflicts;
mod plan;
#[cfg(test)]
mod tests;

use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, anyhow, bail, ensure};
use clap::Args;
use k8s_openapi::ByteString;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::autoscaling::v2::{HorizontalPodAutoscaler, MetricIdentifier};
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Service};
use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1::APIService;
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use kube::core::Selector;
use kube::{Api, Client, ResourceExt as _};
use metric_routes::api_service::{ADOPTER, API_SERVICES, EXTERNAL, is_available};
use metric_routes::{File, config_hash};
use serde_json::json;
use serving::own_service::OwnService;
use tokio::time::{Instant, timeout};

use crate::installation::InstallationArgs;
pub(super) use conflicts::conflicts;
use plan::{ADOPTED_FROM, AdoptionPlan, plan_adoption, plan_release, service_of};

/// The timeout of a condition. The kubelet updates a mounted `ConfigMap` within about a minute, and
/// the API server the conditions of an `APIService` sooner.
const TIMEOUT: Duration = Duration::from_mins(3);
/// The timeout for metrics of HPAs after the move. An HPA keeps its replicas without them.
const METRICS_TIMEOUT: Duration = Duration::from_secs(15);
/// The time after a change for which conditions may still describe the previous state. The API
/// server checks an `APIService` within five seconds.
const SETTLE: Duration = Duration::from_secs(6);
const POLL: Duration = Duration::from_secs(1);

/// The adapter in the cluster.
#[derive(Clone, Debug, Args)]
pub(crate) struct TargetArgs {
    #[command(flatten)]
    pub(crate) installation: InstallationArgs,
    /// Service of the adapter.
    #[arg(long, default_value = "plimsoll-adapter", value_name = "NAME")]
    pub(crate) service_name: String,
    /// Proceed despite warnings.
    #[arg(long)]
    pub(crate) force: bool,
}

#[derive(Clone, Debug, Args)]
pub(crate) struct AdoptArgs {
    #[command(flatten)]
    pub(crate) target: TargetArgs,
    /// `ConfigMap` with the routes file, in the adapter's namespace.
    #[arg(long, default_value = "plimsoll-metric-routes", value_name = "NAME")]
    pub(crate) routes_config_map: String,
    /// Port of /metrics on the adapter's pods.
    #[arg(long, default_value_t = 8945, value_name = "PORT")]
    pub(crate) metrics_port: u16,
    /// Print the change and all warnings; write nothing.
    #[arg(long)]
    pub(crate) dry_run: bool,
}

impl TargetArgs {
    fn service(&self) -> OwnService {
        let namespace = &*self.installation.system_namespace;
        OwnService::new(namespace, &*self.service_name)
    }

    async fn connect(&self) -> anyhow::Result<(Client, Option<APIService>)> {
        let cluster = self.installation.cluster.connect().await?;
        let present = cluster.all().get_opt(EXTERNAL).await;
        let subject = format!("the APIService {EXTERNAL}");
        let present = present.map_err(cluster.failed(&subject))?;
        Ok((cluster.client, present))
    }
}

pub(crate) async fn adopt(args: &AdoptArgs) -> anyhow::Result<()> {
    let (client, present) = &args.target.connect().await?;
    let (own, dry_run) = (args.target.service(), args.dry_run);
    let services: Api<APIService> = Api::all(client.clone());
    let mut custom = Vec::new();
    for name in API_SERVICES.into_iter().filter(|name| *name != EXTERNAL) {
        let object = services.get_opt(name).await;
        let object = object.with_context(|| format!("cannot read APIService {name}"))?;
        custom.push((name, object));
    }
    let plan = plan_adoption(present.as_ref(), &custom, &own)
        .with_context(|| format!("APIService {EXTERNAL}"))?;
    let (Some(present), Some(plan)) = (present, plan) else {
        println!("APIService {EXTERNAL} already points at {own}");
        return Ok(());
    };
    let (upstream, hash) = route(client, &own, &args.routes_config_map, &plan).await?;
    let deployments = deployments(client, &plan.from.namespace).await;
    let mut against = conflicts(present, deployments.as_deref());
    if !args.target.force && !dry_run && !against.is_empty() {
        against.push("use --force to proceed".to_owned());
        bail!(
            "APIService {EXTERNAL} stays as it is:\n  {}",
            against.join("\n  ")
        );
    }
    for why in &against {
        eprintln!("APIService {EXTERNAL}: {why}");
    }
    let from = &plan.from;
    if dry_run {
        println!("APIService {EXTERNAL} would point at {own} instead of {from}");
        println!(
            "requests for the metrics of the previous provider would be forwarded to the upstream {upstream}"
        );
        return Ok(());
    }
    wait_until(
        TIMEOUT,
        "all replicas have loaded the route to the previous provider",
        async || ensure_route_loaded(client, &own, args.metrics_port, hash).await,
    )
    .await?;
    let metrics = with_values(client).await;
    let metrics = metrics.unwrap_or_else(|error| {
        eprintln!("the metrics of HPAs cannot be compared: {error:#}");
        Vec::new()
    });
    write_adoption(&services, present, &own, &plan).await?;
    println!("APIService {EXTERNAL} points at {own} instead of {from}");
    wait_until(
        TIMEOUT,
        "the APIService is available; `release` reverts it",
        async || ensure_available(&services, &own).await,
    )
    .await?;
    let served = wait_until(METRICS_TIMEOUT, "HPAs have their metrics", async || {
        ensure_values(client, &metrics).await
    });
    if let Err(error) = served.await {
        let present = services.get_opt(EXTERNAL).await?;
        let released = plan_release(present.as_ref(), &own, false)?;
        write_release(&services, &released).await?;
        return Err(error.context(format!(
            "APIService {EXTERNAL} points at {} again, because the adapter did not get the metrics of HPAs from the upstream \
             {upstream}; see its log",
            plan.from
        )));
    }
    println!("{} metrics of HPAs have values as before", metrics.len());
    println!(
        "requests for the metrics of the previous provider are forwarded to the upstream {upstream}; `release` reverts this"
    );
    Ok(())
}

pub(crate) async fn run_release(args: &TargetArgs) -> anyhow::Result<()> {
    let (client, present) = args.connect().await?;
    release(args, &client, present).await
}

async fn release(
    args: &TargetArgs,
    client: &Client,
    present: Option<APIService>,
) -> anyhow::Result<()> {
    let (own, force) = (args.service(), args.force);
    let services: Api<APIService> = Api::all(client.clone());
    let released = plan_release(present.as_ref(), &own, force)
        .with_context(|| format!("APIService {EXTERNAL}"))?;
    let back = released.spec.as_ref().and_then(service_of);
    let (back, _) = back.with_context(|| {
        format!("APIService {EXTERNAL}: its annotation {ADOPTED_FROM} names no Service")
    })?;
    let theirs: Api<Service> = Api::namespaced(client.clone(), &back.namespace);
    let theirs = theirs.get_opt(&back.name).await;
    let theirs = theirs.context("cannot read the Service of the previous provider")?;
    let is_there = theirs.is_some();
    ensure!(
        is_there || force,
        "the Service {back} is gone: use --force to proceed"
    );
    write_release(&services, &released).await?;
    println!("APIService {EXTERNAL} points at {back} again");
    if !is_there {
        return Ok(());
    }
    tokio::time::sleep(SETTLE).await;
    wait_until(TIMEOUT, "the APIService is available", async || {
        ensure_responds(client).await?;
        ensure_available(&services, &back).await
    })
    .await
    .with_context(|| {
        format!(
            "APIService {EXTERNAL} points at {back} again, with its caBundle of before `adopt`. If the CA of {back} has changed since, \
             update caBundle: restart KEDA's operator with --enable-apiservice-patching=true, or reinstall the provider. \
             Until then, `adopt` points it at the adapter"
        )
    })?;
    println!("the APIService is available");
    Ok(())
}

/// Fails unless the API server gets a response from the provider of external metrics.
async fn ensure_responds(client: &Client) -> anyhow::Result<()> {
    let path = format!("/apis/{}", api::external_metrics::API_VERSION);
    let request = http::Request::get(path).body(Vec::new())?;
    let answer = client.request_text(request).await;
    answer.context("it does not answer")?;
    Ok(())
}

/// Returns the upstream of the previous provider, and the hash of the routes file.
async fn route(
    client: &Client,
    own: &OwnService,
    name: &str,
    plan: &AdoptionPlan,
) -> anyhow::Result<(String, i64)> {
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), &own.namespace);
    let map = maps.get_opt(name).await;
    let map = map.with_context(|| format!("cannot read ConfigMap {name}"))?;
    let text = map.and_then(|map| map.data?.remove("routes.yaml"));
    let text = text.unwrap_or_default();
    let file = File::read(&text, own, Path::new(""));
    let file = file.map_err(|error| anyhow!("routes.yaml in ConfigMap {name}: {error}"))?;
    let found = file.upstream_for(&plan.from).map(str::to_owned);
    let (namespace, service) = (&plan.from.namespace, &plan.from.name);
    let upstream = found.with_context(|| {
        format!(
            "routes.yaml in ConfigMap {name} has no route to {namespace}/{service}, whose metrics would be missing. Add to it:\n\
             upstreams:\n- name: previous\n  service: {{namespace: {namespace}, name: {service}, port: {port}}}\n  \
             caFile: previous.crt\ndefaultUpstream: previous\n\
             and to the ConfigMap, as previous.crt:\n\
             kubectl get apiservice {EXTERNAL} -o jsonpath='{{.spec.caBundle}}' | base64 -d",
            port = plan.port
        )
    })?;
    Ok((upstream, config_hash(&text)))
}

/// Returns the Deployments of a namespace, or `None` if they cannot be listed.
async fn deployments(client: &Client, namespace: &str) -> Option<Vec<Deployment>> {
    let deployments: Api<Deployment> = Api::namespaced(client.clone(), namespace);
    match deployments.list(&ListParams::default()).await {
        Ok(list) => Some(list.items),
        Err(error) => {
            eprintln!("whether KEDA's operator is in {namespace} cannot be seen: {error}");
            None
        }
    }
}

/// Fails unless every pod of the adapter has loaded this routes file.
async fn ensure_route_loaded(
    client: &Client,
    own: &OwnService,
    port: u16,
    hash: i64,
) -> anyhow::Result<()> {
    let services: Api<Service> = Api::namespaced(client.clone(), &own.namespace);
    let service = services.get(&own.name).await;
    let service = service.with_context(|| format!("Service {own}"))?;
    let selector = service.spec.and_then(|spec| spec.selector);
    let labels = selector.iter().flatten();
    let labels = labels.map(|(key, value)| format!("{key}={value}"));
    let selector: Vec<String> = labels.collect();
    ensure!(!selector.is_empty(), "the Service {own} has no selector");
    let pods: Api<Pod> = Api::namespaced(client.clone(), &own.namespace);
    let params = ListParams::default().labels(&selector.join(","));
    let pods = pods.list(&params).await?.items;
    ensure!(!pods.is_empty(), "the Service {own} has no pods");
    let namespace = &own.namespace;
    for pod in pods {
        let name = pod.name_any();
        let path = format!("/api/v1/namespaces/{namespace}/pods/{name}:{port}/proxy/metrics");
        let request = http::Request::get(path).body(Vec::new())?;
        let metrics = client.request_text(request).await;
        let metrics = metrics.with_context(|| format!("the metrics of pod {name}"))?;
        let has = |line: &str| metrics.lines().any(|one| one.starts_with(line));
        ensure!(
            has("plimsoll_adapter_routes_config_last_reload_successful 1"),
            "pod {name} cannot load the current routes file"
        );
        let line = format!("plimsoll_adapter_routes_config_hash {hash}");
        ensure!(
            metrics.lines().any(|one| one == line),
            "pod {name} has not loaded the current routes file yet"
        );
    }
    Ok(())
}

async fn ensure_available(services: &Api<APIService>, own: &OwnService) -> anyhow::Result<()> {
    let present = services.get(EXTERNAL).await?;
    let service = present.spec.as_ref().and_then(service_of);
    let service = service.map(|(service, _)| service);
    let named = service
        .as_ref()
        .map_or_else(String::new, OwnService::to_string);
    ensure!(service.as_ref() == Some(own), "it now points at {named}");
    ensure!(is_available(&present), "it is not available");
    Ok(())
}

async fn wait_until(
    patience: Duration,
    what: &str,
    holds: impl AsyncFn() -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let began = Instant::now();
    loop {
        match holds().await {
            Ok(()) => return Ok(()),
            Err(error) if began.elapsed() > patience => {
                return Err(error.context(format!("condition not met within {patience:?}: {what}")));
            }
            Err(_) => tokio::time::sleep(POLL).await,
        }
    }
}

/// Applies the adapter's Service and CA bundle to an object, if it has not changed since it was
/// read.
async fn write_adoption(
    services: &Api<APIService>,
    present: &APIService,
    own: &OwnService,
    plan: &AdoptionPlan,
) -> anyhow::Result<APIService> {
    let mut spec = json!({
        "service": {"namespace": own.namespace, "name": own.name, "port": 443},
        "caBundle": ByteString(plan.bundle.as_bytes().to_vec()),
    });
    let before = present.spec.as_ref();
    if before.is_some_and(|spec| spec.insecure_skip_tls_verify == Some(true)) {
        spec["insecureSkipTLSVerify"] = json!(false);
    }
    let change = json!({
        "apiVersion": "apiregistration.k8s.io/v1",
        "kind": "APIService",
        "metadata": {"name": EXTERNAL, "resourceVersion": present.metadata.resource_version, "annotations": plan.annotations},
        "spec": spec,
    });
    let (params, change) = (PatchParams::apply(ADOPTER).force(), Patch::Apply(change));
    let written = services.patch(EXTERNAL, &params, &change).await;
    written.with_context(|| format!("cannot write APIService {EXTERNAL}"))
}

/// Replaces an object with its previous state. Fields that it did not have before are removed.
async fn write_release(
    services: &Api<APIService>,
    released: &APIService,
) -> anyhow::Result<APIService> {
    let params = PostParams {
        field_manager: Some(ADOPTER.to_owned()),
        ..PostParams::default()
    };
    let written = services.replace(EXTERNAL, &params, released).await;
    written.with_context(|| format!("cannot write APIService {EXTERNAL}"))
}

const MAX_METRICS: usize = 20;
const MAX_HPAS: u32 = 500;
/// Time after which no further metric is requested: those of one tenant may all be slow.
const MAX_TIME: Duration = Duration::from_secs(30);
/// Timeout of a request. A provider may ask a system of its own.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

/// Paths of the external metrics that have values now.
async fn with_values(client: &Client) -> anyhow::Result<Vec<String>> {
    let hpas: Api<HorizontalPodAutoscaler> = Api::all(client.clone());
    let params = ListParams::default().limit(MAX_HPAS);
    let hpas = hpas.list(&params).await.context("cannot list the HPAs")?;
    let mut paths: Vec<String> = hpas.items.iter().flat_map(paths).collect();
    paths.sort();
    paths.dedup();
    let (begin, mut found) = (Instant::now(), Vec::new());
    for path in paths {
        if found.len() == MAX_METRICS || begin.elapsed() > MAX_TIME {
            break;
        }
        if request(client, &path).await.is_ok() {
            found.push(path);
        }
    }
    Ok(found)
}

/// Fails unless each of these metrics has a value.
async fn ensure_values(client: &Client, paths: &[String]) -> anyhow::Result<()> {
    for path in paths {
        let answer = request(client, path).await;
        answer.with_context(|| format!("no value of {path}"))?;
    }
    Ok(())
}

fn paths(hpa: &HorizontalPodAutoscaler) -> Vec<String> {
    let metrics = hpa.spec.metrics.iter().flatten();
    let external = metrics.filter_map(|metric| metric.external.as_ref());
    let paths = external.filter_map(|source| path(&hpa.namespace()?, &source.metric));
    paths.collect()
}

fn path(namespace: &str, metric: &MetricIdentifier) -> Option<String> {
    let selector = metric.selector.clone().unwrap_or_default();
    let selector = Selector::try_from(selector).ok()?.to_string();
    let query = form_urlencoded::Serializer::new(String::new())
        .append_pair("labelSelector", &selector)
        .finish();
    let (api, name) = (api::external_metrics::API_VERSION, &metric.name);
    Some(format!("/apis/{api}/namespaces/{namespace}/{name}?{query}"))
}

async fn request(client: &Client, path: &str) -> anyhow::Result<()> {
    let request = http::Request::get(path).body(Vec::new())?;
    let list: serde_json::Value = timeout(REQUEST_TIMEOUT, client.request(request)).await??;
    if list["items"].as_array().is_none_or(Vec::is_empty) {
        bail!("the list is empty");
    }
    Ok(())
}
