//! Usage from Prometheus, of the workloads in the cluster of the kubeconfig.
//!
//! One range query per namespace, resource and piece of the range; no query is per workload. Usage of
//! pods that are gone counts for the workload that their name points to.

mod discovery;
mod inventory;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use anyhow::{Context as _, anyhow, bail, ensure};
use clap::Args;
use jiff::Timestamp;
use sources::error_chain::with_causes;
use sources::prometheus::{
    Connection, Layout, PodLabelSettings, Prometheus, PrometheusClientArgs, PrometheusError, Step,
    UsageSeries, UsageSettings, Window,
};

use super::{ContainerId, ContainerUsage, MIB, PodUsage, Samples, check_size};
use crate::cluster::{Cluster, ClusterArgs, block_on};
use crate::failure::Failure;
use crate::progress::progress;
use discovery::NamedService;
pub(crate) use inventory::Inventory;

const MAX_HISTORY: i64 = 366 * 86_400;
const MIN_STEP: i64 = 60;
/// Most pods of a workload whose usage a page shows: 8 days of each have 70 kB per container.
const MAX_PODS_OF_WORKLOAD: usize = 1000;

#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Prometheus")]
#[command(mut_arg("prometheus_query_timeout", |arg| arg.default_value("2m0s")))]
pub(crate) struct ConnectionArgs {
    /// Address of Prometheus, or of a store with its API. Reads the usage of the workloads in the
    /// cluster of the kubeconfig. Without it, files and --sample, Prometheus is found by the usual
    /// labels of its Service in the usual namespaces, such as `monitoring`, and read through the API
    /// server.
    #[arg(long, value_name = "URL")]
    pub(crate) prometheus_address: Option<String>,
    /// Service of Prometheus, which is read through the API server.
    #[arg(
        long,
        value_name = "NAMESPACE/NAME[:PORT]",
        conflicts_with = "prometheus_address"
    )]
    pub(crate) prometheus_service: Option<NamedService>,
    #[command(flatten)]
    pub(crate) client: PrometheusClientArgs,
}

#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Prometheus")]
pub(crate) struct PrometheusArgs {
    #[command(flatten)]
    pub(crate) connection: ConnectionArgs,
    /// Length of the history, such as 8d; at most 366d.
    #[arg(long, default_value = "8d", value_name = "DURATION")]
    pub(crate) history: Step,
    /// Distance of its samples, at least 1m. Each one has the mean CPU and the highest memory usage.
    #[arg(long, default_value = "5m", value_name = "DURATION")]
    pub(crate) step: Step,
    /// Only pods with these labels.
    #[arg(short = 'l', long, value_name = "SELECTOR", help_heading = "Cluster")]
    pub(crate) selector: Option<String>,
    #[command(flatten)]
    pub(crate) cluster: ClusterArgs,
}

impl ConnectionArgs {
    /// The connection; without an address, that through the API server.
    fn connection(&self) -> anyhow::Result<Connection> {
        let client = &self.client;
        let of_address = [
            ("insecure", client.prometheus_insecure),
            ("ca-file", client.prometheus_ca_file.is_some()),
            (
                "client-cert-file",
                client.prometheus_client_cert_file.is_some(),
            ),
            (
                "bearer-token-file",
                !client.prometheus_bearer_token_file.is_empty(),
            ),
        ];
        let has_address = self.prometheus_address.is_some();
        if let Some((name, _)) = of_address.iter().find(|(_, set)| *set && !has_address) {
            let message = format!("--prometheus-{name} needs --prometheus-address");
            return Err(Failure::Usage(message).into());
        }
        if !client.username.is_empty() && (client.password_file.is_empty() || !has_address) {
            let message = "--username needs --password-file and --prometheus-address".to_owned();
            return Err(Failure::Usage(message).into());
        }
        let address = self.prometheus_address.clone().unwrap_or_default();
        let connection = client.clone().connection(address, None, None);
        connection.map_err(|error| Failure::Usage(format!("{error:#}")).into())
    }
}

impl PrometheusArgs {
    async fn connect_cluster(&self) -> anyhow::Result<Cluster> {
        let connected = self.cluster.connect().await;
        let connection = &self.connection;
        let is_named = connection.prometheus_address.is_some()
            || connection.prometheus_service.is_some()
            || self.cluster.is_named();
        connected.map_err(|error| {
            if is_named {
                return error;
            }
            let message = "no usage to read: name CSV files, --prometheus-address, --kubeconfig of a \
                           cluster with Prometheus, or --sample for the bundled sample";
            Failure::Usage(message.to_owned()).into()
        })
    }

    fn window(&self, now: Timestamp) -> anyhow::Result<Window> {
        let [history, step] = [self.history, self.step].map(seconds);
        ensure!(
            history <= MAX_HISTORY,
            "--history={} is longer than 366d",
            self.history
        );
        ensure!(step >= MIN_STEP, "--step={} is shorter than 1m", self.step);
        ensure!(
            history >= step,
            "--history={} is shorter than --step={}",
            self.history,
            self.step
        );
        window(history, self.step, now)
    }
}

fn seconds(step: Step) -> i64 {
    step.milliseconds() / 1000
}

/// The range of `history` seconds that ends now, at whole steps.
fn window(history: i64, step: Step, now: Timestamp) -> anyhow::Result<Window> {
    let seconds = seconds(step);
    let end = now.as_second().div_euclid(seconds) * seconds;
    let [start, end] = [end - history, end].map(Timestamp::from_second);
    Window::new(start?, end?, step).context("the range is empty")
}

/// Reads the usage of one workload, such as `deployment/web`, at a distance of five minutes.
pub(crate) async fn read_workload(
    connection: &ConnectionArgs,
    cluster: &Cluster,
    (namespace, workload): (&str, &str),
    history_days: u16,
) -> anyhow::Result<Vec<ContainerUsage>> {
    let step = "5m".parse().map_err(anyhow::Error::msg)?;
    let window = window(i64::from(history_days) * 86_400, step, Timestamp::now())?;
    let inventory = Inventory::read(cluster, &[namespace.to_owned()], None).await?;
    let pods = inventory.pods_of(namespace, workload);
    ensure!(
        pods <= MAX_PODS_OF_WORKLOAD,
        "it has {pods} pods, of which at most {MAX_PODS_OF_WORKLOAD} are read"
    );
    let store = Store::connect(connection, cluster, window, &Arc::default()).await?;
    let is_of = |pod: &str| inventory.workload_of(namespace, pod).as_deref() == Some(workload);
    let mut usage = store.read(namespace, &inventory, is_of).await?;
    usage.retain(|usage| usage.id.workload == workload);
    Ok(usage)
}

/// Sums of a week at a distance of an hour, as seconds and amounts: the first series of each query, or
/// nothing without one.
pub(crate) async fn read_sums(
    connection: &ConnectionArgs,
    cluster: &Cluster,
    queries: &[&str],
) -> anyhow::Result<Vec<Samples>> {
    let step = "1h".parse().map_err(anyhow::Error::msg)?;
    let window = window(7 * 86_400, step, Timestamp::now())?;
    let store = Store::connect(connection, cluster, window, &Arc::default()).await?;
    let mut sums = Vec::new();
    for query in queries {
        let found = store.prometheus.read_expression(query, window).await;
        let found = found.map_err(|error| failure(&error, store.service.as_deref()))?;
        let points = found.first().map(|series| series.series.points());
        let points = points.unwrap_or_default().iter();
        sums.push(
            points
                .map(|(at, amount)| (at.as_second(), *amount))
                .collect(),
        );
    }
    Ok(sums)
}

/// Reads the usage of all containers, in their order. Empty `namespaces` mean all.
pub(super) fn read(
    args: &PrometheusArgs,
    namespaces: &[String],
) -> anyhow::Result<Vec<ContainerUsage>> {
    let window = args.window(Timestamp::now());
    let window = window.map_err(|error| Failure::Usage(error.to_string()))?;
    args.connection.connection()?;
    block_on(async {
        let cluster = args.connect_cluster().await?;
        let inventory = Inventory::read(&cluster, namespaces, args.selector.as_deref()).await?;
        if inventory.is_empty() {
            let server = cluster.server;
            bail!("no pods of workloads match on the cluster {server}");
        }
        let (begun, queries) = (Instant::now(), Arc::new(AtomicUsize::new(0)));
        let store = Store::connect(&args.connection, &cluster, window, &queries).await?;
        let mut usage = Vec::new();
        let (mut samples, mut pods) = (0, 0);
        let names = inventory.namespaces();
        let bar = progress(names.len(), "namespaces read from Prometheus");
        for namespace in names {
            bar.inc(1);
            let found = store.read(namespace, &inventory, |_| true).await?;
            for container in &found {
                pods += container.pods.len();
                let counts = container.pods.iter().map(|pod| pod.samples().count());
                samples += counts.sum::<usize>();
            }
            check_size(samples, pods)?;
            usage.extend(found);
        }
        drop(bar);
        let service = store.service.as_ref();
        eprintln!(
            "{} queries to Prometheus{} in {:.1} s",
            queries.load(Ordering::Relaxed),
            service.map_or_else(String::new, |it| format!(" (Service {it})")),
            begun.elapsed().as_secs_f64()
        );
        Ok(usage)
    })
}

/// Prometheus with the names of its series.
struct Store {
    prometheus: Prometheus,
    /// The Service, if Prometheus is read through the API server.
    service: Option<String>,
    layout: Layout,
    window: Window,
}

impl Store {
    /// Counts the requests in `queries`.
    async fn connect(
        args: &ConnectionArgs,
        cluster: &Cluster,
        window: Window,
        queries: &Arc<AtomicUsize>,
    ) -> anyhow::Result<Self> {
        let queries = Arc::clone(queries);
        let observer = Arc::new(move |_| {
            queries.fetch_add(1, Ordering::Relaxed);
        });
        let connection = args.connection()?;
        let (prometheus, service) = if args.prometheus_address.is_some() {
            let prometheus = Prometheus::connect(&connection, observer).await;
            (prometheus.map_err(|error| failure(&error, None))?, None)
        } else {
            let found = match &args.prometheus_service {
                Some(service) => discovery::named(cluster, service).await?,
                None => discovery::discover(cluster).await?,
            };
            let client = cluster.patient_client(connection.query_timeout)?;
            let path = found.proxy_path();
            let prometheus = Prometheus::with_client(client, &path, &connection, observer);
            (prometheus, Some(found.text()))
        };
        let (usage, labels) = (UsageSettings::default(), PodLabelSettings::default());
        let layout = prometheus.detect(&usage, &labels, window).await;
        Ok(Self {
            layout: layout.map_err(|error| failure(&error, service.as_deref()))?,
            prometheus,
            service,
            window,
        })
    }

    /// Usage of the containers of a namespace, in pods of these names.
    async fn read(
        &self,
        namespace: &str,
        inventory: &Inventory,
        is_wanted: impl Fn(&str) -> bool,
    ) -> anyhow::Result<Vec<ContainerUsage>> {
        let (of, layout) = ((namespace, &is_wanted), &self.layout);
        let (cpu, memory) = tokio::try_join!(
            self.samples(layout.cpu.as_ref(), of, 1000.0),
            self.samples(layout.memory.as_ref(), of, 1.0 / MIB),
        )?;
        let mut pods: BTreeMap<(String, String), PodUsage> = BTreeMap::new();
        for (key, samples) in cpu {
            pods.entry(key).or_default().cpu = samples;
        }
        for (key, samples) in memory {
            pods.entry(key).or_default().memory = samples;
        }
        // Containers without usage are there too, so that they are named.
        let containers = inventory.containers(namespace);
        let containers = containers.map(|container| (container.id.clone(), container));
        let mut containers: BTreeMap<ContainerId, ContainerUsage> = containers.collect();
        for ((pod, container), mut usage) in pods {
            usage.has_ended = !inventory.is_running(namespace, &pod);
            let Some(workload) = inventory.workload_of(namespace, &pod) else {
                continue;
            };
            let id = ContainerId::new(namespace, workload, container);
            if let Some(found) = containers.get_mut(&id) {
                found.pods.push(usage);
            }
        }
        Ok(containers.into_values().collect())
    }

    /// Samples by pod and container, times a factor.
    async fn samples(
        &self,
        series: Option<&UsageSeries>,
        (namespace, is_wanted): (&str, &impl Fn(&str) -> bool),
        factor: f64,
    ) -> anyhow::Result<BTreeMap<(String, String), Samples>> {
        let mut found: BTreeMap<_, Samples> = BTreeMap::new();
        let Some(series) = series else {
            return Ok(found);
        };
        let read = self
            .prometheus
            .read_usage(series, namespace, self.window, |container| {
                if !is_wanted(&container.container.pod) {
                    return;
                }
                let key = (container.container.pod, container.container.container);
                let points = container.usage.points().iter();
                let points = points.map(|(at, value)| (at.as_second(), value * factor));
                found.entry(key).or_default().extend(points);
            });
        let service = self.service.as_deref();
        read.await.map_err(|error| failure(&error, service))?;
        Ok(found)
    }
}

/// The error for one of Prometheus. `service` is its Service, behind the API server.
fn failure(error: &PrometheusError, service: Option<&str>) -> anyhow::Error {
    let text = with_causes(error);
    let text = match service {
        Some(it) => format!("cannot read Prometheus through the Service {it}: {text}"),
        None => text,
    };
    let is_refused = matches!(
        error,
        PrometheusError::Refused {
            code: 401 | 403,
            ..
        }
    );
    let hint = match (error, service) {
        (PrometheusError::Unreachable(_) | PrometheusError::Timeout(_), _) => {
            return Failure::Unreachable(anyhow!(text)).into();
        }
        (_, Some(_)) if is_refused => {
            ": you need the right get of services/proxy in its namespace, or set --prometheus-address"
        }
        (_, None) if is_refused => {
            ": set --prometheus-bearer-token-file, or --username and --password-file"
        }
        (_, Some(_)) => ": set --prometheus-address for another one",
        (_, None) => "",
    };
    anyhow!("{text}{hint}")
}
