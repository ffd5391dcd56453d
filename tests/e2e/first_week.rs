//! The first week of a platform team that runs upstream's VPA: installed beside it, looked at, switched
//! on, rolled back, and taken out again with nothing lost.

use anyhow::{Context as _, Result, ensure};
use api::checkpoint::VerticalPodAutoscalerCheckpoint as Checkpoint;
use api::vpa::VerticalPodAutoscaler as Vpa;
use e2e::deployment::{RECOMMENDER, SYSTEM, leader};
use e2e::remote_write::Receiver;
use e2e::{
    Namespace, WithUpstreamVpa, eventually, kubectl_in, plimsoll_prints, repository, requested,
    requests, target, until, usage,
};
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::jiff::Timestamp;
use kube::api::DeleteParams;
use kube::{Api, Client, ResourceExt as _};
use sandbox::Sandbox;
use serde_json::{Value, json};

use super::chart::release::check_uninstalled;
use super::other_autoscalers::holds;
use e2e::helm::{Helm, RELEASE};

/// Each change of a status is written in each round: one to the same numbers as upstream's waits for
/// minutes by default.
const FAST: &str =
    r#"recommender.pod.extraArgs=["--recommender-interval=2s", "--config={refreshInterval: 0s}"]"#;
const EAGER: &str = "updater.settlingTime=0s";

fn managers(object: &Value) -> Vec<&str> {
    let entries = object["metadata"]["managedFields"].as_array();
    let entries = entries.into_iter().flatten();
    entries
        .filter_map(|entry| entry["manager"].as_str())
        .collect()
}

fn is_written_by_suite(object: &Value) -> bool {
    managers(object).contains(&"plimsoll-recommender")
}

fn cpu_target(vpa: &Value) -> Option<&str> {
    vpa["status"]["recommendation"]["containerRecommendations"][0]["target"]["cpu"].as_str()
}

/// The namespace with two pods that use more than they request, and a VPA object of them with the mode Off.
async fn team(client: &Client, name: &str) -> Result<Namespace> {
    let own = Namespace::new(client.clone(), name).await?;
    let (resources, used) = (requests("10m", "10Mi"), usage("200m", "100Mi"));
    own.deploy("web", 2, &resources, &used).await?;
    let spec =
        json!({"targetRef": target("Deployment", "web"), "updatePolicy": {"updateMode": "Off"}});
    own.make::<Vpa>("web", spec).await?;
    Ok(own)
}

/// Waits until upstream's recommender has written a recommendation and a checkpoint. Returns the name of
/// the checkpoint.
async fn upstream_recommends(own: &Namespace) -> Result<String> {
    let vpa = own
        .when::<Vpa>("web", "upstream recommends", |it| cpu_target(it).is_some())
        .await?;
    ensure!(!is_written_by_suite(&vpa), "{vpa:#}");
    eventually("upstream writes a checkpoint", async || {
        let found = own.list::<Checkpoint>().await?;
        let is_full = |it: &&Value| it["status"]["firstSampleStart"].is_string();
        let full = found.iter().find(is_full);
        let name = full.and_then(|it| it["metadata"]["name"].as_str());
        name.map(str::to_owned).context("none")
    })
    .await
}

async fn scale_upstream(sandbox: &Sandbox, replicas: u32) -> Result<()> {
    let scale = format!(
        "-n kube-system scale deployment vpa-recommender vpa-updater --replicas={replicas}"
    );
    kubectl_in(sandbox, &scale).await.map(drop)
}

/// The pods of the workload that request more than before.
async fn sized(own: &Namespace) -> Result<usize> {
    let pods = own.pods_of("web").await?;
    let requests = pods.iter().filter_map(|pod| requested(pod, "cpu"));
    Ok(requests.filter(|cpu| *cpu != "10m").count())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_team_with_upstreams_vpa_installs_the_suite_beside_it_and_takes_it_out_again()
-> Result<()> {
    let upstream = WithUpstreamVpa::start("first-week").await?;
    let sandbox = &upstream.sandbox;
    let client = sandbox.client().await?;
    upstream
        .apply(&repository().join("tests/e2e/first_week/kustomization.yaml"))
        .await?;
    let [shop, stock] = [team(&client, "shop").await?, team(&client, "stock").await?];
    let checkpoint = upstream_recommends(&shop).await?;
    upstream_recommends(&stock).await?;

    monday(sandbox, &client, &shop, &checkpoint).await?;
    tuesday(sandbox, &shop).await?;
    let helm = Helm::find().await?.with(&sandbox.kubeconfig());
    wednesday(sandbox, &helm, [&shop, &stock], &checkpoint).await?;
    thursday(&helm, &client, &shop).await?;
    friday(sandbox, &helm, &client, [&shop, &stock], &checkpoint).await?;
    upstream.sandbox.down().await
}

/// Installs the suite beside upstream's VPA. It changes nothing of it, and says so.
async fn monday(
    sandbox: &Sandbox,
    client: &Client,
    shop: &Namespace,
    checkpoint: &str,
) -> Result<()> {
    let helm = Helm::find().await?.with(&sandbox.kubeconfig());
    helm.upgrade(client, &[FAST]).await?;
    holds(client, "recommender", 1).await?;
    let replica = leader(client, RECOMMENDER).await?;
    let suite = e2e::deployment::system(client);
    suite.await_event(&replica.pod, "AnotherAutoscaler").await?;
    for object in [
        shop.get::<Vpa>("web").await?,
        shop.get::<Checkpoint>(checkpoint).await?,
    ] {
        ensure!(!is_written_by_suite(&object), "{object:#}");
    }
    Ok(())
}

/// Looks at what it found and what it would do.
async fn tuesday(sandbox: &Sandbox, shop: &Namespace) -> Result<()> {
    let kubeconfig = sandbox.kubeconfig();
    let check = e2e::plimsoll(&kubeconfig, "check").await?;
    let printed = String::from_utf8_lossy(&check.stdout);
    for expected in [
        "the Pod kube-system/vpa-recommender-",
        "the Pod kube-system/vpa-updater-",
    ] {
        ensure!(printed.contains(expected), "{printed}");
    }

    let pods = shop.pods_of("web").await?;
    let pod = pods.first().context("a pod")?.name_any();
    let namespace = shop.namespace.as_str();
    let begin = Timestamp::now().as_second() - 7200;
    let minutes = (0..=7200).step_by(60);
    let samples = minutes.map(|second| (begin + i64::from(second), 0.2 * f64::from(second), 100e6));
    let prometheus = Receiver::of(sandbox)?;
    prometheus.write_usage([namespace, &pod], samples).await?;
    let url = sandbox.prometheus_url().context("a Prometheus")?;
    let authority = sandbox.authority();
    let authority = format!("--prometheus-ca-file {}", authority.display());
    let scan = format!("scan --prometheus-address {url} {authority} -n {namespace}");
    let printed = plimsoll_prints(&kubeconfig, &scan).await?;
    ensure!(printed.contains("web"), "{printed}");

    let explain = format!("explain deployment/web -n {namespace}");
    let printed = plimsoll_prints(&kubeconfig, &explain).await?;
    ensure!(printed.contains("target"), "{printed}");
    Ok(())
}

/// Stops upstream's programs, and switches one namespace on. The history is taken over.
async fn wednesday(
    sandbox: &Sandbox,
    helm: &Helm,
    [shop, stock]: [&Namespace; 2],
    checkpoint: &str,
) -> Result<()> {
    let client = &shop.client;
    helm.upgrade(client, &["mode=vertical", FAST, EAGER])
        .await?;
    holds(client, "updater", 1).await?;
    let first_sample = |checkpoint: &Value| checkpoint["status"]["firstSampleStart"].clone();
    let before = shop.get::<Checkpoint>(checkpoint).await?;

    scale_upstream(sandbox, 0).await?;
    holds(client, "recommender", 0).await?;
    holds(client, "updater", 0).await?;
    shop.when::<Vpa>(
        "web",
        "the recommender of the suite writes",
        is_written_by_suite,
    )
    .await?;
    let after = shop
        .when::<Checkpoint>(checkpoint, "it writes the checkpoint", is_written_by_suite)
        .await?;
    assert_eq!(
        first_sample(&before),
        first_sample(&after),
        "the history goes on"
    );

    assert_eq!((sized(shop).await?, sized(stock).await?), (0, 0));
    let mode = json!({"spec": {"updatePolicy": {"updateMode": "Recreate"}}});
    shop.patch::<Vpa>("web", mode).await?;
    until(
        "both pods of the namespace have their size",
        async || sized(shop).await,
        |found| *found == 2,
    )
    .await?;
    assert_eq!(
        sized(stock).await?,
        0,
        "the other namespace is not switched on"
    );
    Ok(())
}

/// Upgrades while the certificates of the feed are replaced.
async fn thursday(helm: &Helm, client: &Client, shop: &Namespace) -> Result<()> {
    let secrets: Api<Secret> = Api::namespaced(client.clone(), SYSTEM);
    let name = "plimsoll-feed-certificates";
    let before = secrets.get(name).await?;
    secrets.delete(name, &DeleteParams::default()).await?;
    let replaced = ["mode=vertical", "recommender.replicas=2", FAST, EAGER];
    helm.upgrade(client, &replaced).await?;
    eventually("the certificates are replaced", async || {
        let after = secrets.get(name).await?;
        ensure!(
            after.metadata.uid != before.metadata.uid,
            "they are the old ones"
        );
        Ok(())
    })
    .await?;
    // A new limit reaches new pods through recommender, feed, updater and webhook.
    let limit = json!({"containerName": "*", "maxAllowed": {"cpu": "50m"}});
    let policy = json!({"spec": {"resourcePolicy": {"containerPolicies": [limit]}}});
    shop.patch::<Vpa>("web", policy).await?;
    eventually("both pods have the smaller size", async || {
        let pods = shop.pods_of("web").await?;
        let found: Vec<_> = pods.iter().map(|pod| requested(pod, "cpu")).collect();
        ensure!(found == [Some("50m"); 2], "{found:?}");
        Ok(())
    })
    .await
}

/// Rolls back, goes back to upstream's programs, and uninstalls.
async fn friday(
    sandbox: &Sandbox,
    helm: &Helm,
    client: &Client,
    [shop, stock]: [&Namespace; 2],
    checkpoint: &str,
) -> Result<()> {
    let rollback = ["rollback", RELEASE, "1", "--namespace", SYSTEM, "--wait"];
    helm.run_without_chart(&rollback).await?;
    scale_upstream(sandbox, 1).await?;
    holds(client, "recommender", 1).await?;
    helm.uninstall().await?;
    check_uninstalled(client).await?;

    let kept = shop.get::<Checkpoint>(checkpoint).await?;
    ensure!(kept["status"]["firstSampleStart"].is_string(), "{kept:#}");
    for own in [shop, stock] {
        let kept = own.get::<Vpa>("web").await?;
        ensure!(cpu_target(&kept).is_some(), "{kept:#}");
    }
    // Upstream goes on with the checkpoint that the suite wrote.
    let version = kept["metadata"]["resourceVersion"].clone();
    let first = kept["status"]["firstSampleStart"].clone();
    let written = shop
        .when::<Checkpoint>(checkpoint, "upstream writes the checkpoint", |it| {
            it["metadata"]["resourceVersion"] != version
        })
        .await?;
    assert_eq!(written["status"]["firstSampleStart"], first);
    Ok(())
}
