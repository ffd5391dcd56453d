//! Other autoscalers in the cluster: what is installed beside them changes nothing of theirs, says so,
//! and goes on when they end. A tenant that imitates one stops nothing.

use anyhow::{Context as _, Result, ensure};
use api::vpa::VerticalPodAutoscaler as Vpa;
use e2e::deployment::{RECOMMENDER, UPDATER, WEBHOOK, leader, metric, replicas, scrape, system};
use e2e::{
    Namespace, another, eventually, is_ready, kubectl_in, plimsoll, requests, target, usage,
};
use k8s_openapi::api::admissionregistration::v1::MutatingWebhookConfiguration as Configuration;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Event, Pod, Service};
use k8s_openapi::jiff::Timestamp;
use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1::APIService;
use kube::Client;
use sandbox::Sandbox;
use serde_json::{Value, json};

use e2e::helm::Helm;

/// The registration of this webhook, and upstream's.
const REGISTRATION: &str = "vpa-webhook-config";
const OTHER: &str = "looks-like-an-updater";
const EXTERNAL: &str = "v1beta1.external.metrics.k8s.io";
const CUSTOM: &str = "v1beta2.custom.metrics.k8s.io";

/// A Lease that its holder renewed just now.
fn lease(name: &str) -> Value {
    let renewed = format!("{:.6}", Timestamp::now());
    json!({
        "metadata": {"name": name},
        "spec": {"holderIdentity": "other_1", "leaseDurationSeconds": 3600, "renewTime": renewed},
    })
}

fn api_service(name: &str, service: &str) -> Value {
    let (version, group) = name.split_once('.').unwrap_or_default();
    json!({
        "metadata": {"name": name},
        "spec": {"group": group, "version": version, "insecureSkipTLSVerify": true,
                 "groupPriorityMinimum": 100, "versionPriority": 100,
                 "service": {"namespace": "keda", "name": service}},
    })
}

/// Another admission controller, which answers, with its registration. It reviews nothing here.
async fn other_webhook(cluster: &Namespace, own: &Namespace) -> Result<()> {
    let labels = json!({"app": "vpa-admission-controller"});
    let container =
        json!({"name": "app", "image": "plimsoll/sandbox:dev", "args": ["echo-server"]});
    own.create::<Pod>(json!({
        "metadata": {"name": "admission", "labels": labels},
        "spec": {"containers": [container]},
    }))
    .await?;
    own.create::<Service>(json!({
        "metadata": {"name": "vpa-webhook"},
        "spec": {"selector": labels, "ports": [{"port": 443, "targetPort": 8080}]},
    }))
    .await?;
    eventually("the other webhook is ready", async || {
        let pod: Pod = own.typed().get("admission").await?;
        ensure!(is_ready(&pod), "{:?}", pod.status);
        Ok(())
    })
    .await?;
    let client =
        json!({"service": {"namespace": own.namespace, "name": "vpa-webhook", "port": 443}});
    cluster
        .create::<Configuration>(json!({
            "metadata": {"name": REGISTRATION},
            "webhooks": [{
                "name": "vpa.k8s.io", "failurePolicy": "Ignore", "sideEffects": "None",
                "admissionReviewVersions": ["v1"], "clientConfig": client,
                "namespaceSelector": {"matchLabels": {"no-such": "label"}},
                "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"],
                           "resources": ["pods"]}],
            }],
        }))
        .await?;
    Ok(())
}

/// Leases, and a pod, with the names and labels that upstream's chart and Crane use.
async fn imitate(namespace: &Namespace, leases: &[&str]) -> Result<()> {
    let container = json!({"name": "app", "image": "registry.example.com/app"});
    namespace
        .create::<Pod>(json!({
            "metadata": {"name": OTHER, "labels": {"app": "vpa-updater"}},
            "spec": {"containers": [container]},
        }))
        .await?;
    for name in leases {
        namespace.create::<Lease>(lease(name)).await?;
    }
    Ok(())
}

/// Waits until both programs have looked for others, and do not hold: the recommender recommends, and
/// the updater waits for the webhook only.
async fn work_beside_an_imitation(client: &Client) -> Result<()> {
    let own = Namespace::new(client.clone(), "sized").await?;
    let (resources, used) = (requests("10m", "10Mi"), usage("200m", "100Mi"));
    own.deploy("web", 2, &resources, &used).await?;
    let spec = json!({"targetRef": target("Deployment", "web")});
    own.make::<Vpa>("web", spec).await?;
    own.when::<Vpa>("web", "it has a recommendation", |it| {
        it["status"]["recommendation"].is_object()
    })
    .await?;
    let waits = "vpa_updater_paused{reason=\"webhook_lease_expired\"} 1";
    eventually("the updater waits for the webhook", async || {
        let leader = leader(client, UPDATER).await?;
        let metrics = scrape(&leader).await?;
        ensure!(metrics.contains(waits), "{metrics}");
        Ok(())
    })
    .await
}

/// Waits until a replica of a program shows whether a part holds: the leader, or any replica of the
/// webhook.
pub(crate) async fn holds(client: &Client, part: &str, expected: u8) -> Result<()> {
    let program = match part {
        "webhook" => WEBHOOK,
        "updater" => UPDATER,
        _ => RECOMMENDER,
    };
    let series = format!("plimsoll_other_autoscaler_running{{part=\"{part}\"}} {expected}");
    eventually(&format!("a replica shows {series}"), async || {
        for replica in replicas(client, program).await? {
            let leads = metric(&replica, "leader_election_master_status").await;
            let counts = part == "webhook" || leads.is_ok_and(|leads| leads > 0.0);
            if counts && scrape(&replica).await?.contains(&series) {
                return Ok(());
            }
        }
        anyhow::bail!("none does")
    })
    .await
}

/// The Service that serves an API.
async fn server(cluster: &Namespace, name: &str) -> Result<String> {
    let service = cluster.get::<APIService>(name).await?["spec"]["service"].take();
    let field = |name: &str| service[name].as_str().unwrap_or_default();
    Ok(format!("{}/{}", field("namespace"), field("name")))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_other_autoscalers_own_stays_theirs_until_they_end() -> Result<()> {
    let sandbox = another("others").await?;
    let client = sandbox.client().await?;
    let cluster = Namespace::cluster(client.clone());
    let other = Namespace::new(client.clone(), "other").await?;
    other_webhook(&cluster, &other).await?;
    let registration = cluster.get::<Configuration>(REGISTRATION).await?;
    let leases = ["vpa-recommender-lease", "vpa-updater-lease", "craned"];
    imitate(&other, &leases).await?;
    let keda = api_service(EXTERNAL, "keda-operator-metrics-apiserver");
    cluster.create::<APIService>(keda).await?;

    let helm = Helm::find().await?.with(&sandbox.kubeconfig());
    let printed = helm.upgrade(&client, &["mode=all"]).await?;
    ensure!(
        printed.contains("keda/keda-operator-metrics-apiserver"),
        "{printed}"
    );
    holds(&client, "webhook", 1).await?;
    work_beside_an_imitation(&client).await?;
    holds(&client, "updater", 0).await?;
    holds(&client, "ehpa-controller", 0).await?;
    let trusted = Namespace::of(client.clone(), "kube-system");
    imitate(&trusted, &["craned"]).await?;
    holds(&client, "updater", 1).await?;
    holds(&client, "ehpa-controller", 1).await?;
    holds(&client, "recommender", 0).await?;
    let updaters = replicas(&client, UPDATER).await?;
    let metrics = scrape(updaters.first().context("a replica")?).await?;
    ensure!(metrics.contains("vpa_updater_paused"), "{metrics}");
    let found = cluster.get::<Configuration>(REGISTRATION).await?;
    assert_eq!(found["webhooks"], registration["webhooks"]);
    assert_eq!(
        server(&cluster, EXTERNAL).await?,
        "keda/keda-operator-metrics-apiserver"
    );
    events(&client).await?;
    checked(&sandbox, &other.namespace).await?;
    taken_over(&sandbox, &helm, &cluster).await?;

    other.delete::<Pod>("admission").await?;
    trusted.delete::<Pod>(OTHER).await?;
    trusted.delete::<Lease>("craned").await?;
    holds(&client, "webhook", 0).await?;
    holds(&client, "updater", 0).await?;
    holds(&client, "ehpa-controller", 0).await?;
    let client = json!({"service": {"namespace": "plimsoll-system"}});
    let own = json!({"webhooks": [{"clientConfig": client}]});
    cluster
        .await_fields::<Configuration>(REGISTRATION, own)
        .await?;
    sandbox.down().await
}

/// Each program that holds has an Event about one of its pods.
async fn events(client: &Client) -> Result<()> {
    for part in ["webhook", "updater", "ehpa-controller"] {
        let expected = format!("Another {part} runs");
        eventually(&format!("an Event says: {expected}"), async || {
            let events = system(client).list::<Event>().await?;
            let notes = events.iter().filter_map(|it| it["message"].as_str());
            let mut notes = notes.filter(|note| note.starts_with(&expected));
            notes.next().map(drop).context("no Event")
        })
        .await?;
    }
    Ok(())
}

/// `plimsoll check` names all signs.
async fn checked(sandbox: &Sandbox, webhook: &str) -> Result<()> {
    let output = plimsoll(&sandbox.kubeconfig(), "check").await?;
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    for expected in [
        format!("the Pod kube-system/{OTHER}"),
        "the Lease kube-system/craned of other_1".to_owned(),
        format!("leads to the Service {webhook}/vpa-webhook"),
        "keda/keda-operator-metrics-apiserver".to_owned(),
    ] {
        ensure!(printed.contains(&expected), "{expected:?}: {printed}");
    }
    Ok(())
}

/// An API that another program takes over from the release stays with that one when the release is
/// upgraded.
async fn taken_over(sandbox: &Sandbox, helm: &Helm, cluster: &Namespace) -> Result<()> {
    assert_eq!(
        server(cluster, CUSTOM).await?,
        "plimsoll-system/plimsoll-adapter"
    );
    let take = format!(
        r#"patch apiservice {CUSTOM} --type=merge --patch={{"spec":{{"service":{{"namespace":"keda","name":"prometheus-adapter"}}}}}}"#
    );
    kubectl_in(sandbox, &take).await?;
    for _ in 0..2 {
        helm.upgrade(&cluster.client, &["mode=all", "webhook.replicas=2"])
            .await?;
        assert_eq!(server(cluster, CUSTOM).await?, "keda/prometheus-adapter");
    }
    Ok(())
}
