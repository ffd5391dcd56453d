//! Load during the faults: pods that come and go, usage that changes, and callers of the adapter.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use api::ehpa::EffectiveHorizontalPodAutoscaler as Ehpa;
use api::vpa::VerticalPodAutoscaler as Vpa;
use e2e::deployment::{ADAPTER, replicas};
use e2e::{
    AvailabilityWatch, Namespace, eventually, kubectl_in, requests, target, usage, workload,
};
use k8s_openapi::ByteString;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Pod, ServiceAccount};
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1::APIService;
use kube::config::AuthInfo;
use kube::{Api, Client, Config, ResourceExt as _};
use parking_lot::Mutex;
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject as _;
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::checkpoint_watch::CheckpointWatch;
use super::fixture::Suite;

/// Workloads whose usage changes all the time, their replicas, and the fewest that their budgets
/// allow.
const GUARDED: [&str; 2] = ["guarded-recreate", "guarded-in-place"];
const REPLICAS: usize = 4;
const FEWEST: usize = 3;
/// Workload whose pods are deleted one by one.
const CHURN: &str = "churn";
const CHURN_REPLICAS: usize = 4;
/// Workload with an open cron window, and its replicas in it.
const SCHEDULED: &str = "scheduled";
const WINDOW_REPLICAS: &str = "3";
/// Usage of the guarded pods, in turn.
const USAGE: [&str; 2] = ["150m", "450m"];
const FLIP: Duration = Duration::from_secs(8);
const PAUSE: Duration = Duration::from_millis(200);
/// Limit of one call of the adapter.
const CALL: Duration = Duration::from_secs(5);
/// Headers of a client that claims to be an administrator.
const CLAIM: [(&str, &str); 2] = [
    ("X-Remote-User", "admin"),
    ("X-Remote-Group", "system:masters"),
];
const SECURE_PORT: u16 = 6443;

/// Calls of the adapter by caller and result.
type Calls = Arc<Mutex<BTreeMap<(&'static str, String), usize>>>;

/// The load, until it is dropped.
pub(super) struct Load {
    own: Namespace,
    availability: AvailabilityWatch,
    checkpoints: CheckpointWatch,
    calls: Calls,
    _tasks: JoinSet<()>,
}

impl Load {
    pub(super) async fn start(suite: &Suite) -> Result<Self> {
        let own = suite.own.clone();
        for (name, mode) in GUARDED.into_iter().zip(["Recreate", "InPlaceOrRecreate"]) {
            guarded(&own, name, mode).await?;
        }
        own.deploy(CHURN, CHURN_REPLICAS, &requests("10m", "10Mi"), &json!({}))
            .await?;
        scheduled(&own).await?;
        for (name, count) in [
            (GUARDED[0], REPLICAS),
            (GUARDED[1], REPLICAS),
            (CHURN, CHURN_REPLICAS),
        ] {
            own.when::<Deployment>(name, "all pods are ready", |it| {
                it["status"]["readyReplicas"] == count
            })
            .await?;
        }
        let calls = Calls::default();
        let callers = callers(suite).await?;
        let path = metric_path(&own.namespace);
        eventually("the adapter answers", async || {
            let (code, body) = call(&callers[0].2, &path, &[]).await?;
            ensure!(code == 200 && is_right(&body), "{code} {body}");
            Ok(())
        })
        .await?;
        let mut tasks = JoinSet::new();
        tasks.spawn(change_usage(own.clone()));
        tasks.spawn(delete_pods(own.clone()));
        for (name, headers, client) in callers {
            tasks.spawn(keep_calling(
                name,
                headers,
                client,
                path.clone(),
                Arc::clone(&calls),
            ));
        }
        Ok(Self {
            availability: AvailabilityWatch::of(own.typed::<Pod>()).await?,
            checkpoints: CheckpointWatch::of(own.typed(), "guarded-"),
            own,
            calls,
            _tasks: tasks,
        })
    }

    /// Checks the invariants up to now.
    pub(super) async fn check(&self) -> Result<()> {
        for name in GUARDED {
            let fewest = self.availability.fewest(name, &[]).await?;
            ensure!(
                fewest >= FEWEST,
                "{name}: only {fewest} pods were available"
            );
        }
        self.checkpoints.check()?;
        let refused = self.own.list::<Event>().await?;
        let refused: Vec<&Value> = refused
            .iter()
            .filter(|event| event["reason"] == "FailedCreate" && !is_of_a_slow_api_server(event))
            .collect();
        ensure!(refused.is_empty(), "pods were refused: {refused:#?}");
        for ((caller, result), count) in &*self.calls.lock() {
            let is_allowed = match *caller {
                "reader" => result != "wrong",
                _ => result != "200" && result != "wrong",
            };
            ensure!(is_allowed, "{caller}: {result} in {count} calls");
        }
        Ok(())
    }

    /// Sentence with the figures.
    pub(super) async fn summary(&self) -> Result<String> {
        let events = self.own.list::<Event>().await?;
        let count = |reason: &str| events.iter().filter(|it| it["reason"] == reason).count();
        let (evicted, resized) = (count("EvictedByVPA"), count("InPlaceResizedByVPA"));
        let writes = self.checkpoints.check()?;
        let calls = self.calls.lock();
        Ok(format!(
            "{evicted} pods evicted and {resized} resized, {writes} checkpoint writes seen; calls of the adapter: {calls:?}"
        ))
    }
}

/// Whether a pod was not made within the API server's own limit of a request, which no call of a
/// webhook reaches. The controller makes it later.
fn is_of_a_slow_api_server(event: &Value) -> bool {
    let note = event["note"].as_str().unwrap_or_default();
    note.contains("request did not complete within requested timeout")
}

/// A workload whose usage changes, with a budget and a VPA object.
async fn guarded(own: &Namespace, name: &str, mode: &str) -> Result<()> {
    let mut deployment = workload(
        name,
        REPLICAS,
        &requests("100m", "64Mi"),
        &usage(USAGE[0], "64Mi"),
    );
    deployment["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] = json!(1);
    own.create::<Deployment>(deployment).await?;
    let budget = json!({"maxUnavailable": 1, "selector": {"matchLabels": {"app": name}}});
    own.make::<PodDisruptionBudget>(name, budget).await?;
    let spec =
        json!({"targetRef": target("Deployment", name), "updatePolicy": {"updateMode": mode}});
    own.make::<Vpa>(name, spec).await?;
    Ok(())
}

/// A workload that a cron window scales, open all day.
async fn scheduled(own: &Namespace) -> Result<()> {
    own.deploy(SCHEDULED, 1, &requests("10m", "10Mi"), &json!({}))
        .await?;
    let replicas: u32 = WINDOW_REPLICAS.parse()?;
    // Two windows that overlap, so that one is open at any time of the day.
    let crons = [
        ("first", "0 0 * * *", "0 13 * * *"),
        ("second", "0 12 * * *", "0 1 * * *"),
    ];
    let crons = crons.map(|(name, start, end)| {
        json!({"name": name, "start": start, "end": end, "targetReplicas": replicas})
    });
    let spec = json!({
        "scaleTargetRef": target("Deployment", SCHEDULED),
        "minReplicas": 1, "maxReplicas": 10, "scaleStrategy": "Auto", "crons": crons,
    });
    own.make::<Ehpa>(SCHEDULED, spec).await?;
    Ok(())
}

/// Changes the usage of the guarded workloads in turn.
async fn change_usage(own: Namespace) {
    for cpu in USAGE.iter().cycle().skip(1) {
        for name in GUARDED {
            let annotations = usage(cpu, "64Mi");
            let _ = timeout(CALL, own.annotate_pods(name, &annotations)).await;
        }
        sleep(FLIP).await;
    }
}

/// Deletes one pod after the other; each is created again.
async fn delete_pods(own: Namespace) {
    loop {
        if let Ok(Ok(pods)) = timeout(CALL, own.pods_of(CHURN)).await
            && let Some(pod) = pods.iter().find(|pod| e2e::is_available(pod))
        {
            let _ = timeout(CALL, own.delete::<Pod>(&pod.name_any())).await;
        }
        sleep(PAUSE).await;
    }
}

type Caller = (
    &'static str,
    &'static [(&'static str, &'static str)],
    Client,
);

/// Callers of each replica of the adapter: with rights, with an account without rights, and
/// anonymous with the headers of a front proxy.
async fn callers(suite: &Suite) -> Result<Vec<Caller>> {
    let own = &suite.own;
    for name in ["reader", "stranger"] {
        own.create::<ServiceAccount>(json!({"metadata": {"name": name}}))
            .await?;
    }
    let rule =
        json!({"apiGroups": ["external.metrics.k8s.io"], "resources": ["*"], "verbs": ["list"]});
    own.create::<Role>(json!({"metadata": {"name": "reader"}, "rules": [rule]}))
        .await?;
    let subject = json!({"kind": "ServiceAccount", "name": "reader", "namespace": own.namespace});
    let reader = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "reader"});
    own.create::<RoleBinding>(
        json!({"metadata": {"name": "reader"}, "roleRef": reader, "subjects": [subject]}),
    )
    .await?;
    let mut callers: Vec<Caller> = Vec::new();
    for (name, headers) in [
        ("reader", &[][..]),
        ("stranger", &[][..]),
        ("anonymous", &CLAIM[..]),
    ] {
        let identity = if name == "anonymous" {
            AuthInfo::default()
        } else {
            let create = format!("create token {name} -n {} --duration=2h", own.namespace);
            let token = kubectl_in(&suite.sandbox, &create).await?;
            serde_json::from_value(json!({"token": token.trim()}))?
        };
        for replica in replicas(&suite.client, ADAPTER).await? {
            let client = client(&suite.client, replica.address, identity.clone()).await?;
            callers.push((name, headers, client));
        }
    }
    Ok(callers)
}

async fn client(cluster: &Client, address: Ipv4Addr, identity: AuthInfo) -> Result<Client> {
    let services: Api<APIService> = Api::all(cluster.clone());
    let roots = eventually("the adapter's CA is known", async || {
        let service = services.get("v1beta1.external.metrics.k8s.io").await?;
        let bundle = service.spec.and_then(|spec| spec.ca_bundle);
        let ByteString(bundle) = bundle.context("no bundle")?;
        let roots = CertificateDer::pem_slice_iter(&bundle).map(|root| Ok(root?.to_vec()));
        roots.collect::<Result<Vec<_>>>()
    })
    .await?;
    let mut config = Config::new(format!("https://{address}:{SECURE_PORT}").parse()?);
    config.root_cert = Some(roots);
    config.tls_server_name = Some("plimsoll-adapter.plimsoll-system.svc".to_owned());
    config.auth_info = identity;
    config.default_retry = false;
    Ok(Client::try_from(config)?)
}

fn metric_path(namespace: &str) -> String {
    let selector = format!(
        "targetKind%3DDeployment%2CtargetName%3D{SCHEDULED}%2CtargetNamespace%3D{namespace}%2CresourceIdentifier%3Dcron"
    );
    format!(
        "/apis/external.metrics.k8s.io/v1beta1/namespaces/{namespace}/crane_autoscaling_cron?labelSelector={selector}"
    )
}

fn is_right(body: &Value) -> bool {
    body["items"][0]["value"] == WINDOW_REPLICAS
}

async fn call(client: &Client, path: &str, headers: &[(&str, &str)]) -> Result<(u16, Value)> {
    let request = headers
        .iter()
        .fold(http::Request::get(path), |request, (name, value)| {
            request.header(*name, *value)
        });
    match client.request::<Value>(request.body(Vec::new())?).await {
        Ok(body) => Ok((200, body)),
        Err(kube::Error::Api(status)) => Ok((status.code, Value::Null)),
        Err(error) => Err(error.into()),
    }
}

/// Calls the adapter again and again and counts the results.
async fn keep_calling(
    name: &'static str,
    headers: &'static [(&'static str, &'static str)],
    client: Client,
    path: String,
    calls: Calls,
) {
    loop {
        let result = match timeout(CALL, call(&client, &path, headers)).await {
            Ok(Ok((200, body))) if !is_right(&body) => "wrong".to_owned(),
            Ok(Ok((code, _))) => code.to_string(),
            Ok(Err(_)) => "no answer".to_owned(),
            Err(_) => "late".to_owned(),
        };
        *calls.lock().entry((name, result)).or_default() += 1;
        sleep(PAUSE).await;
    }
}
