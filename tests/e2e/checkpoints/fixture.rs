//! One namespace of workloads, VPA objects and checkpoints, and a recommender of it as a process of the
//! test that can be killed, under its own service account with exactly the RBAC of `deploy/`.

use std::net::SocketAddr;
use std::path::PathBuf;

use anyhow::{Context as _, Result, ensure};
use api::checkpoint::{VerticalPodAutoscalerCheckpoint as Checkpoint, object_name};
use api::vpa::VerticalPodAutoscaler as Vpa;
use e2e::deployment::{SYSTEM, scrape_at, sum};
use e2e::process::{account, command};
use e2e::{Namespace, apply, eventually, free_address, shared, target, until, usage, with};
use kube::ResourceExt;
use kube::api::ListParams;
use serde_json::{Value, json};
use tokio::process::Child;
use tokio::sync::OnceCell;

pub(crate) struct Fixture(Namespace);

e2e::deref_to_namespace!(Fixture, 0);

impl Fixture {
    pub(crate) async fn new(prefix: &str) -> Result<Self> {
        let client = shared().await?.client().await?;
        Ok(Self(Namespace::new(client, prefix).await?))
    }

    /// A Deployment with one container `app` whose pods use `cpu` and `memory`.
    pub(crate) async fn deploy(
        &self,
        name: &str,
        replicas: usize,
        cpu: &str,
        memory: &str,
    ) -> Result<()> {
        self.0
            .deploy(name, replicas, &json!({}), &usage(cpu, memory))
            .await?;
        Ok(())
    }

    /// A VPA object that points at the Deployment `web`. `extra` goes into its spec.
    pub(crate) async fn autoscale(&self, name: &str, extra: Value) -> Result<()> {
        let spec = with(json!({"targetRef": target("Deployment", "web")}), extra);
        self.make::<Vpa>(name, spec).await?;
        Ok(())
    }

    /// A checkpoint that another recommender wrote.
    pub(crate) async fn store(&self, vpa: &str, container: &str, status: &Value) -> Result<()> {
        let name = object_name(vpa, container);
        let spec = json!({"vpaObjectName": vpa, "containerName": container});
        let object = json!({"metadata": {"name": name}, "spec": spec, "status": status});
        let created = self.create::<Checkpoint>(object).await;
        created.with_context(|| format!("create {name}")).map(drop)
    }

    pub(crate) async fn await_checkpoint(
        &self,
        name: &str,
        what: &str,
        is_so: impl Fn(&Value) -> bool,
    ) -> Result<Value> {
        self.when::<Checkpoint>(name, what, |object| is_so(&object["status"]))
            .await
    }

    /// Waits until the names of all checkpoints, in order, are so.
    pub(crate) async fn await_checkpoints(
        &self,
        what: &str,
        is_so: impl Fn(&[&str]) -> bool,
    ) -> Result<()> {
        let checkpoints = self.api::<Checkpoint>();
        eventually(what, async || {
            let list = checkpoints.list_metadata(&ListParams::default()).await?;
            let names: Vec<String> = list.iter().map(ResourceExt::name_any).collect();
            let mut names: Vec<&str> = names.iter().map(String::as_str).collect();
            names.sort_unstable();
            ensure!(is_so(&names), "there are {names:?}");
            Ok(())
        })
        .await
    }

    /// Waits until the recommendations for the containers of an object are so.
    pub(crate) async fn await_recommendation(
        &self,
        name: &str,
        is_so: impl Fn(&Value) -> bool,
    ) -> Result<Value> {
        let recommendation =
            |object: &Value| is_so(&object["status"]["recommendation"]["containerRecommendations"]);
        self.when::<Vpa>(name, "it is recommended", recommendation)
            .await
    }
}

/// A running recommender; killed when dropped.
pub(crate) struct Recommender {
    child: Child,
    address: SocketAddr,
}

impl Recommender {
    /// Starts one that looks at this namespace only, each second, stores all changes and collects
    /// garbage every two seconds.
    pub(crate) async fn start(namespace: &str) -> Result<Self> {
        let address = free_address()?;
        let log = format!("recommender-{namespace}.log");
        let log = shared().await?.logs_dir().join(log);
        let child = command("recommender", kubeconfig().await?, &log)?
            .arg(format!("--address={address}"))
            .arg(format!("--vpa-object-namespace={namespace}"))
            .args(["--leader-elect=false", "--recommender-interval=1s"])
            .args([
                "--checkpoints-gc-interval=2s",
                "--config={refreshInterval: 0s}",
            ])
            .spawn()
            .context("start a recommender")?;
        Ok(Self { child, address })
    }

    pub(crate) async fn kill(mut self) -> Result<()> {
        self.child.kill().await.context("kill the recommender")
    }

    /// Waits until three more checkpoints were looked at and found unchanged.
    pub(crate) async fn await_looks(&self) -> Result<()> {
        let looks = async || {
            let series = r#"vpa_recommender_checkpoint_writes_total{result="unchanged"}"#;
            let text = scrape_at(self.address).await?;
            sum(&text, series).with_context(|| format!("no {series}"))
        };
        let before = eventually("metrics are served", looks).await?;
        until(
            "checkpoints are looked at",
            async || looks().await,
            |now| *now >= before + 3.0,
        )
        .await
    }
}

/// The credentials of the recommender's service account, made once per run.
async fn kubeconfig() -> Result<&'static PathBuf> {
    static KUBECONFIG: OnceCell<PathBuf> = OnceCell::const_new();
    KUBECONFIG.get_or_try_init(make_kubeconfig).await
}

async fn make_kubeconfig() -> Result<PathBuf> {
    let sandbox = shared().await?;
    for file in [
        "namespace",
        "recommender/service-account",
        "recommender/rbac",
    ] {
        apply(sandbox, &format!("deploy/base/{file}.yaml")).await?;
    }
    let config = account(sandbox, SYSTEM, "plimsoll-recommender").await?;
    let path = sandbox
        .kubeconfig()
        .with_file_name("recommender.kubeconfig");
    std::fs::write(&path, serde_yaml_ng::to_string(&config)?)?;
    Ok(path)
}
