//! The suite in a sandbox of its own, each program behind a proxy to the API server and with a clock
//! that can be wrong, and the workloads by which the suite's work is seen.

use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use api::vpa::VerticalPodAutoscaler as Vpa;
use e2e::deployment::{
    ADAPTER, EXTENDER, Program, RECOMMENDER, SUITE, UPDATER, WEBHOOK, all_ready, process, replicas,
};
use e2e::scheduler::{Scheduler, with_extender};
use e2e::{
    ApiServerProxy, Namespace, OffsetClock, OffsetClockLibrary, another_with, apply, eventually,
    eventually_within, is_available, kubectl_in, requests, requests_in_effect, target, usage,
    workload,
};
use k8s_openapi::api::apps::v1::Deployment;
use kube::Client;
use model::{Cpu, Quantity};
use sandbox::Sandbox;
use serde_json::json;

/// After some kills in ten minutes a kubelet's ten seconds would be five minutes.
const RESTART_BACK_OFF: Duration = Duration::from_millis(50);
/// Half a minute on two idle cores. An eviction without effect, and the next one, have a pause of six
/// minutes after them.
const CONVERGENCE: Duration = Duration::from_mins(8);
pub(super) const REPLICAS: usize = 2;
/// Scheduler of the pods of a new workload.
const SCHEDULER: &str = "load-aware";
/// Usage of the pods of a new workload, and their first request.
const PROBE_USAGE: &str = "300m";
const PROBE_REQUEST: &str = "50m";
const PROBE_REPLICAS: usize = 2;

/// A program of the suite.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Part {
    Recommender,
    Updater,
    Webhook,
    Adapter,
    Extender,
}

impl Part {
    pub(super) const ALL: [Self; 5] = [
        Self::Recommender,
        Self::Updater,
        Self::Webhook,
        Self::Adapter,
        Self::Extender,
    ];

    fn program(self) -> Program<'static> {
        match self {
            Self::Recommender => RECOMMENDER,
            Self::Updater => UPDATER,
            Self::Webhook => WEBHOOK,
            Self::Adapter => ADAPTER,
            Self::Extender => EXTENDER,
        }
    }

    fn deployment(self) -> String {
        format!("plimsoll-{self:?}").to_lowercase()
    }
}

pub(super) struct Suite {
    pub(super) sandbox: Sandbox,
    /// A client of the API server without a proxy.
    pub(super) client: Client,
    pub(super) own: Namespace,
    proxies: BTreeMap<Part, ApiServerProxy>,
    clocks: BTreeMap<Part, OffsetClock>,
    _scheduler: Scheduler,
}

impl Suite {
    pub(super) async fn start() -> Result<Self> {
        let sandbox = another_with("chaos", |options| {
            options.restart_back_off = RESTART_BACK_OFF;
        })
        .await?;
        let client = sandbox.client().await?;
        apply(&sandbox, "deploy/base/namespace.yaml").await?;
        apply(&sandbox, "tests/e2e/chaos").await?;
        let library = OffsetClockLibrary::compile(&sandbox.logs_dir()).await?;
        let (mut proxies, mut clocks) = (BTreeMap::new(), BTreeMap::new());
        for part in Part::ALL {
            let proxy = ApiServerProxy::start(api_server_port(&sandbox)?).await?;
            let (name, port) = (part.deployment(), proxy.port);
            let clock = library.clock(&name)?;
            let variables = format!("KUBERNETES_SERVICE_PORT={port} {}", clock.variables());
            let set = format!("-n plimsoll-system set env deployment/{name} {variables}");
            kubectl_in(&sandbox, &set).await?;
            let wait = format!("-n plimsoll-system rollout status deployment/{name}");
            kubectl_in(&sandbox, &wait).await?;
            proxies.insert(part, proxy);
            clocks.insert(part, clock);
        }
        for part in Part::ALL {
            eventually(
                &format!("the first replicas of {part:?} are gone"),
                async || {
                    let found = replicas(&client, part.program()).await?.len();
                    ensure!(found == REPLICAS, "there are {found}");
                    Ok(())
                },
            )
            .await?;
        }
        let extenders = replicas(&client, EXTENDER).await?;
        let extender = extenders.first().context("an extender")?;
        let configuration = with_extender(&sandbox, extender).await?;
        let scheduler = Scheduler::start(&sandbox, SCHEDULER, configuration)?;
        let own = Namespace::new(client.clone(), "chaos").await?;
        let suite = Self {
            sandbox,
            client,
            own,
            proxies,
            clocks,
            _scheduler: scheduler,
        };
        suite.add_probe(0).await?;
        Ok(suite)
    }

    pub(super) fn proxy(&self, part: Part) -> &ApiServerProxy {
        &self.proxies[&part]
    }

    /// The clock of all replicas of a program.
    pub(super) fn clock(&self, part: Part) -> &OffsetClock {
        &self.clocks[&part]
    }

    pub(super) async fn processes(&self) -> Result<BTreeMap<Part, Vec<u32>>> {
        let mut running = BTreeMap::new();
        for part in Part::ALL {
            let mut processes = Vec::new();
            for replica in replicas(&self.client, part.program()).await? {
                processes.push(process(&self.client, &replica).await?);
            }
            running.insert(part, processes);
        }
        Ok(running)
    }

    /// Creates a workload with too small requests, and its VPA object.
    pub(super) async fn add_probe(&self, round: u64) -> Result<()> {
        let name = probe(round);
        let annotations = usage(PROBE_USAGE, "64Mi");
        let requests = requests(PROBE_REQUEST, "64Mi");
        let mut deployment = workload(&name, PROBE_REPLICAS, &requests, &annotations);
        deployment["spec"]["template"]["spec"]["schedulerName"] = SCHEDULER.into();
        self.own.create::<Deployment>(deployment).await?;
        let mode = ["Recreate", "InPlaceOrRecreate"][round as usize % 2];
        let spec = json!({
            "targetRef": target("Deployment", &name),
            "updatePolicy": {"updateMode": mode},
        });
        self.own.make::<Vpa>(&name, spec).await?;
        Ok(())
    }

    /// Waits until all programs are ready and the workload of a round has its size, then deletes it.
    pub(super) async fn converges(&self, round: u64) -> Result<()> {
        all_ready(&self.client, SUITE).await?;
        let name = probe(round);
        let wanted: Quantity = PROBE_USAGE.parse()?;
        let what = format!("the pods of {name} have their size");
        eventually_within(CONVERGENCE, &what, async || {
            let pods = self.own.pods_of(&name).await?;
            let available = pods.iter().filter(|pod| is_available(pod)).count();
            ensure!(available == PROBE_REPLICAS, "{available} are available");
            for pod in &pods {
                let requests = requests_in_effect(pod).context("no requests")?;
                let cpu: Quantity = requests.get("cpu").context("no cpu")?.0.parse()?;
                if Cpu::from(&cpu) < Cpu::from(&wanted) {
                    let vpa = self.own.get::<Vpa>(&name).await?;
                    bail!("a pod requests {cpu}: {}", vpa["status"]["conditions"]);
                }
            }
            Ok(())
        })
        .await?;
        self.own.delete::<Vpa>(&name).await?;
        self.own.delete::<Deployment>(&name).await?;
        Ok(())
    }

    pub(super) async fn end(self) -> Result<()> {
        self.sandbox.down().await
    }
}

fn probe(round: u64) -> String {
    format!("probe-{round}")
}

fn api_server_port(sandbox: &Sandbox) -> Result<u16> {
    let text = fs::read_to_string(sandbox.kubeconfig())?;
    let kubeconfig: kube::config::Kubeconfig = serde_yaml_ng::from_str(&text)?;
    let cluster = kubeconfig.clusters.first().context("no cluster")?;
    let server = cluster.cluster.as_ref().and_then(|it| it.server.as_deref());
    let port = server.and_then(|server| server.rsplit(':').next());
    port.context("no port")?.parse().context("the port")
}
