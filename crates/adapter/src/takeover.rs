//! Taking over `external.metrics.k8s.io` from the provider that has it, and giving it back:
//! commands of a person, with that person's rights. What the old provider knows is then asked of it
//! by a route, so that no question goes without its answer.

mod args;
mod conflicts;
mod plan;
#[cfg(test)]
mod tests;

use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Service};
use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1::APIService;
use kube::api::ListParams;
use kube::{Api, Client, ResourceExt as _};
use tokio::time::Instant;

use crate::act;
use crate::registration::{is_available, objects};
use crate::routes;
use crate::service_ref::OwnService;
pub use args::{AdoptArgs, Command, ReleaseArgs, TargetArgs};
use conflicts::conflicts;
use plan::{ADOPTED_FROM, AdoptionPlan, plan_adoption, plan_release, service_of};

/// The object that leads to the provider.
const EXTERNAL: &str = "v1beta1.external.metrics.k8s.io";
/// A `ConfigMap` reaches a pod within a minute or so, and a changed object the API server's
/// conditions sooner.
const TIMEOUT: Duration = Duration::from_mins(3);
/// For this time after a change, conditions may still be about what was before. The API server
/// looks for five seconds at most.
const SETTLE: Duration = Duration::from_secs(6);
/// Between two looks.
const POLL: Duration = Duration::from_secs(1);

/// Does what a person asks for.
pub async fn run(command: Command, client: Client) -> anyhow::Result<()> {
    match command {
        Command::Adopt(args) => adopt(args, &client).await,
        Command::Release(args) => release_command(args, &client).await,
    }
}

async fn adopt(args: AdoptArgs, client: &Client) -> anyhow::Result<()> {
    let AdoptArgs {
        target,
        routes_config_map,
        metrics_port,
        dry_run,
    } = args;
    let TargetArgs {
        namespace,
        service_name,
        force,
    } = target;
    let own = OwnService {
        namespace,
        name: service_name,
    };
    let services: Api<APIService> = Api::all(client.clone());
    let present = read(&services, EXTERNAL).await?;
    let mut custom = Vec::new();
    for name in objects().into_iter().filter(|name| name != EXTERNAL) {
        let object = read(&services, &name).await?;
        custom.push((name, object));
    }
    let plan = plan_adoption(present.as_ref(), &custom, &own)
        .with_context(|| format!("APIService {EXTERNAL}"))?;
    let (Some(present), Some(plan)) = (present, plan) else {
        println!("APIService {EXTERNAL} leads to {} already", name_of(&own));
        return Ok(());
    };
    let upstream = upstream(client, &own, &routes_config_map, &plan).await?;
    let mut against = conflicts(
        &present,
        deployments(client, &plan.from.namespace).await.as_deref(),
    );
    if !force && !dry_run && !against.is_empty() {
        against.push("--force does it all the same".to_owned());
        bail!(
            "APIService {EXTERNAL} stays as it is:\n  {}",
            against.join("\n  ")
        );
    }
    for why in &against {
        eprintln!("APIService {EXTERNAL}: {why}");
    }
    if dry_run {
        println!(
            "APIService {EXTERNAL} would be led from {} to {}",
            name_of(&plan.from),
            name_of(&own)
        );
        println!("the old provider would be asked as the upstream {upstream}");
        return Ok(());
    }
    wait_until(
        "all replicas know the route to the old provider",
        async || ensure_upstream_loaded(client, &own, metrics_port, &upstream).await,
    )
    .await?;
    act::adopt(
        &services,
        EXTERNAL,
        &present,
        &own,
        &plan.annotations,
        &plan.bundle,
    )
    .await
    .with_context(|| format!("cannot write APIService {EXTERNAL}"))?;
    println!(
        "APIService {EXTERNAL} leads from {} to {} now",
        name_of(&plan.from),
        name_of(&own)
    );
    wait_until(
        "the API server finds the adapter well; `release` undoes it",
        async || ensure_available(&services, &own).await,
    )
    .await?;
    println!(
        "the old provider is asked as the upstream {upstream}; `release` makes it what it was"
    );
    Ok(())
}

async fn release_command(args: ReleaseArgs, client: &Client) -> anyhow::Result<()> {
    let ReleaseArgs {
        target:
            TargetArgs {
                namespace,
                service_name,
                force,
            },
    } = args;
    let own = OwnService {
        namespace,
        name: service_name,
    };
    let services: Api<APIService> = Api::all(client.clone());
    let present = read(&services, EXTERNAL).await?;
    let released = plan_release(present.as_ref(), &own, force)
        .with_context(|| format!("APIService {EXTERNAL}"))?;
    let back = released.spec.as_ref().and_then(service_of);
    let (back, _) = back.with_context(|| {
        format!("APIService {EXTERNAL}: its annotation {ADOPTED_FROM} names no Service")
    })?;
    let theirs: Api<Service> = Api::namespaced(client.clone(), &back.namespace);
    let is_there = theirs
        .get_opt(&back.name)
        .await
        .context("cannot see whether the old Service is there")?
        .is_some();
    ensure!(
        is_there || force,
        "the Service {} is gone: --force does it all the same",
        name_of(&back)
    );
    act::release(&services, EXTERNAL, &released)
        .await
        .with_context(|| format!("cannot write APIService {EXTERNAL}"))?;
    println!("APIService {EXTERNAL} leads to {} again", name_of(&back));
    if !is_there {
        return Ok(());
    }
    tokio::time::sleep(SETTLE).await;
    wait_until("the API server finds it well", async || {
        ensure_responds(client).await?;
        ensure_available(&services, &back).await
    })
    .await
    .with_context(|| {
        format!(
            "APIService {EXTERNAL} leads to {back} again, with the authorities that it had before `adopt`. If {back} has others by now, whoever looks \
             after them must put them into it: start KEDA's operator again with --enable-apiservice-patching=true, or install the provider \
             again. `adopt` leads it to the adapter until then",
            back = name_of(&back)
        )
    })?;
    println!("the API server finds it well");
    Ok(())
}

/// Whether the API server gets an answer for whoever asks about external metrics. If not, it says
/// why.
async fn ensure_responds(client: &Client) -> anyhow::Result<()> {
    let path = format!("/apis/{}", api::external_metrics::API_VERSION);
    client
        .request_text(http::Request::get(path).body(Vec::new())?)
        .await
        .context("it does not answer")?;
    Ok(())
}

fn name_of(service: &OwnService) -> String {
    format!("{}/{}", service.namespace, service.name)
}

async fn read(services: &Api<APIService>, name: &str) -> anyhow::Result<Option<APIService>> {
    services
        .get_opt(name)
        .await
        .with_context(|| format!("cannot read APIService {name}"))
}

/// The name of the upstream that is the old provider.
async fn upstream(
    client: &Client,
    own: &OwnService,
    name: &str,
    plan: &AdoptionPlan,
) -> anyhow::Result<String> {
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), &own.namespace);
    let map = maps
        .get_opt(name)
        .await
        .with_context(|| format!("cannot read ConfigMap {name}"))?;
    let text = map
        .and_then(|map| map.data?.remove("routes.yaml"))
        .unwrap_or_default();
    let found = routes::upstream_for(&text, own, &plan.from)
        .with_context(|| format!("routes.yaml in ConfigMap {name}"))?;
    let OwnService {
        namespace,
        name: service,
    } = &plan.from;
    found.with_context(|| {
        format!(
            "routes.yaml in ConfigMap {name} leaves nothing to {namespace}/{service}, whose metrics nobody would answer. Put into it:\n\
             upstreams:\n- name: previous\n  service: {{namespace: {namespace}, name: {service}, port: {port}}}\n  \
             caFile: previous.crt\ndefaultUpstream: previous\n\
             and beside it, as previous.crt:\n\
             kubectl get apiservice {EXTERNAL} -o jsonpath='{{.spec.caBundle}}' | base64 -d",
            port = plan.port
        )
    })
}

/// Those in a namespace, if they can be seen.
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

/// Whether every pod of the adapter is ready, uses its present file of routes, and has this
/// upstream in it.
async fn ensure_upstream_loaded(
    client: &Client,
    own: &OwnService,
    port: u16,
    upstream: &str,
) -> anyhow::Result<()> {
    let services: Api<Service> = Api::namespaced(client.clone(), &own.namespace);
    let service = services
        .get(&own.name)
        .await
        .with_context(|| format!("Service {}", name_of(own)))?;
    let selector = service
        .spec
        .and_then(|spec| spec.selector)
        .unwrap_or_default();
    let selector: Vec<String> = selector
        .iter()
        .map(|(key, value)| format!("{key}={value}"))
        .collect();
    ensure!(
        !selector.is_empty(),
        "the Service {} has no selector",
        name_of(own)
    );
    let pods: Api<Pod> = Api::namespaced(client.clone(), &own.namespace);
    let pods = pods
        .list(&ListParams::default().labels(&selector.join(",")))
        .await?
        .items;
    ensure!(!pods.is_empty(), "the Service {} has no pods", name_of(own));
    for pod in pods {
        let name = pod.name_any();
        let path = format!(
            "/api/v1/namespaces/{}/pods/{name}:{port}/proxy/metrics",
            own.namespace
        );
        let metrics = client
            .request_text(http::Request::get(path).body(Vec::new())?)
            .await;
        let metrics = metrics.with_context(|| format!("the metrics of pod {name}"))?;
        let has = |line: &str| metrics.lines().any(|one| one.starts_with(line));
        ensure!(
            has("plimsoll_adapter_routes_config_last_reload_successful 1"),
            "pod {name} does not use the present file of routes"
        );
        let known = format!("plimsoll_adapter_upstream_circuit_open{{upstream=\"{upstream}\"}}");
        ensure!(
            has(&known),
            "pod {name} does not know the upstream {upstream} yet"
        );
    }
    Ok(())
}

async fn ensure_available(services: &Api<APIService>, own: &OwnService) -> anyhow::Result<()> {
    let present = services.get(EXTERNAL).await?;
    let leads = present
        .spec
        .as_ref()
        .and_then(service_of)
        .map(|(service, _)| service);
    ensure!(
        leads.as_ref() == Some(own),
        "somebody leads it to {} already",
        leads.as_ref().map(name_of).unwrap_or_default()
    );
    ensure!(is_available(&present), "it is not available");
    Ok(())
}

/// Waits until something holds.
async fn wait_until(what: &str, holds: impl AsyncFn() -> anyhow::Result<()>) -> anyhow::Result<()> {
    let began = Instant::now();
    loop {
        match holds().await {
            Ok(()) => return Ok(()),
            Err(error) if began.elapsed() > TIMEOUT => {
                return Err(error.context(format!("not so within {TIMEOUT:?}: {what}")));
            }
            Err(_) => tokio::time::sleep(POLL).await,
        }
    }
}
