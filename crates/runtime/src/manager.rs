//! The main function of every program: logs, metrics, health, API client, signals and shutdown.

use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, anyhow};
use futures::FutureExt as _;
use prometheus::{IntGaugeVec, Registry};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::address::listen_ip_from_environment;
use crate::api_server_clock::ApiServerClock;
use crate::args::CommonArgs;
use crate::client::{self, RestMetrics};
use crate::health::{Activity, Readiness};
use crate::http_endpoints::{EndpointPort, Endpoints};
use crate::log;
use crate::log::Severity;
use crate::object_writer::ObjectWriter;
use crate::pflag::{self, Program};
use crate::rate_limiter::Throttle;
use crate::shutdown::{self, Tasks};

/// Time limit of the work after shutdown begins. The kubelet kills the process after 30 s.
const DRAIN_DEADLINE: Duration = Duration::from_secs(20);

/// The reciprocal of the share of `--kube-api-burst` that is reserved for urgent requests.
const URGENT_SHARE: u32 = 4;

/// Time limit of the endpoint server after the work has ended.
const SERVER_DEADLINE: Duration = Duration::from_secs(2);

/// The parts of a running program. Clones share everything.
#[derive(Clone)]
pub struct Manager {
    pub program: Program,
    /// The client for the API server, limited by `--kube-api-qps` and `--kube-api-burst`.
    pub client: kube::Client,
    pub registry: Registry,
    pub readiness: Readiness,
    /// Activity for /healthz, /livez and /health-check.
    pub activity: Activity,
    /// Cancelled when shutdown begins: start no more work, finish what is running, return.
    pub shutdown: CancellationToken,
    /// Tasks without which the program cannot run.
    pub tasks: Tasks,
    /// The configuration of `client`, for another client with its own throttle.
    pub config: kube::Config,
    pub rest_metrics: RestMetrics,
}

impl Manager {
    pub fn clock(&self) -> ApiServerClock {
        self.rest_metrics.clock.clone()
    }

    pub fn object_writer(&self) -> ObjectWriter {
        let manager = format!("plimsoll-{}", self.program.name);
        ObjectWriter::new(self.client.clone(), &manager)
    }

    /// Returns a handle whose tasks run until `end` instead of shutdown, for a server that drains.
    #[must_use]
    pub fn until(&self, end: CancellationToken) -> Self {
        Self {
            tasks: self.tasks.until(end),
            ..self.clone()
        }
    }
}

impl Program {
    /// Runs `work` as a service until it returns, a task fails, or a signal arrives. Returns the
    /// exit code for `main`. `threshold` is the minimum severity of log lines.
    ///
    /// The order: logs, the port, the API client, `serve`, then `work`. `serve` starts the server
    /// of the endpoints and returns its task. After shutdown begins, /readyz fails, and `work` and
    /// the tasks have 20 s to finish.
    pub fn run<S, W>(
        &self,
        args: &CommonArgs,
        threshold: Severity,
        serve: impl FnOnce(EndpointPort) -> S,
        work: impl FnOnce(Manager) -> W,
    ) -> ExitCode
    where
        S: Future<Output = anyhow::Result<JoinHandle<()>>>,
        W: Future<Output = anyhow::Result<()>>,
    {
        if let Err(error) = log::init(&args.log, threshold) {
            eprintln!("{}: {error}", self.name);
            return ExitCode::FAILURE;
        }
        pflag::warn_of_service_links(self.name);
        client::install_crypto_provider();
        let ended = tokio::runtime::Builder::new_multi_thread()
            .enable_all()
            .build()
            .context("cannot start the asynchronous runtime")
            .and_then(|runtime| {
                let ended = runtime.block_on(self.serve_and_work(args, serve, work));
                // Blocking work must not delay the end of the process.
                runtime.shutdown_background();
                ended
            });
        match ended {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                tracing::error!(program = self.name, error = format!("{error:#}"), "ended");
                ExitCode::FAILURE
            }
        }
    }

    async fn serve_and_work<S, W>(
        &self,
        args: &CommonArgs,
        serve: impl FnOnce(EndpointPort) -> S,
        work: impl FnOnce(Manager) -> W,
    ) -> anyhow::Result<()>
    where
        S: Future<Output = anyhow::Result<JoinHandle<()>>>,
        W: Future<Output = anyhow::Result<()>>,
    {
        let shutdown = CancellationToken::new();
        shutdown::on_signal(shutdown.clone())?;
        let address = args.address.or_host(listen_ip_from_environment()?);
        let listener = address
            .bind()
            .await
            .with_context(|| format!("cannot listen on --address={address}"))?;
        tracing::info!(program = self.name, version = self.version, address = %listener.local_addr()?, "starting");

        let registry = registry(self)?;
        let rest_metrics = RestMetrics::register(&registry)?;
        let config = client::config(args, self).await?;
        let throttle = Throttle::new(args.kube_api_qps, args.kube_api_burst);
        let throttle = throttle.reserving(args.kube_api_burst / URGENT_SHARE);
        let client = client::connect(config.clone(), throttle, rest_metrics.clone())?;
        let (tasks, mut failures) = Tasks::new(shutdown.clone());
        let (readiness, activity) = (Readiness::default(), Activity::default());

        let endpoints = Endpoints {
            registry: registry.clone(),
            readiness: readiness.clone(),
            activity: activity.clone(),
            shutdown: shutdown.clone(),
        };
        let serving = CancellationToken::new();
        let server = serve(EndpointPort {
            listener,
            router: endpoints.router(),
            certificate_folder: args.metrics_cert_dir.clone(),
            tasks: tasks.clone(),
            shutdown: serving.clone(),
        })
        .await?;

        let program = *self;
        let manager = Manager {
            program,
            client,
            registry,
            readiness,
            activity,
            shutdown: shutdown.clone(),
            tasks: tasks.clone(),
            config,
            rest_metrics,
        };
        let work = async {
            AssertUnwindSafe(work(manager))
                .catch_unwind()
                .await
                .map_err(|_| anyhow!("the program panicked"))?
        };
        let (ended, failed) =
            until_failure(until_deadline(work, &shutdown), &mut failures, &shutdown).await;
        shutdown.cancel();
        let unfinished = tasks.drain(DRAIN_DEADLINE).await;
        serving.cancel();
        if tokio::time::timeout(SERVER_DEADLINE, server).await.is_err() {
            tracing::debug!("connections to the metrics port are still open");
        }
        if let Some(failure) = failed {
            return Err(failure);
        }
        ended?;
        if unfinished > 0 {
            return Err(anyhow!(
                "{unfinished} tasks did not end within {DRAIN_DEADLINE:?}"
            ));
        }
        tracing::info!(program = self.name, "ended");
        Ok(())
    }
}

/// Returns the result of `work` and the first failure of a task. A failure starts shutdown.
async fn until_failure(
    work: impl Future<Output = anyhow::Result<()>>,
    failures: &mut mpsc::Receiver<anyhow::Error>,
    shutdown: &CancellationToken,
) -> (anyhow::Result<()>, Option<anyhow::Error>) {
    let mut work = pin!(work);
    let mut failed = None;
    loop {
        tokio::select! {
            ended = &mut work => return (ended, failed),
            Some(failure) = failures.recv(), if failed.is_none() => {
                tracing::error!(error = format!("{failure:#}"), "shutting down");
                failed = Some(failure);
                shutdown.cancel();
            }
        }
    }
}

/// Returns the result of `work`, or an error if it does not end in time after shutdown begins.
async fn until_deadline(
    work: impl Future<Output = anyhow::Result<()>>,
    shutdown: &CancellationToken,
) -> anyhow::Result<()> {
    let deadline = async {
        shutdown.cancelled().await;
        tokio::time::sleep(DRAIN_DEADLINE).await;
    };
    tokio::select! {
        ended = work => ended,
        () = deadline => Err(anyhow!("work did not end within {DRAIN_DEADLINE:?} after shutdown")),
    }
}

/// A registry with the metrics of every program: its process and its version.
fn registry(program: &Program) -> Result<Registry, prometheus::Error> {
    let registry = Registry::new();
    // It reads /proc. The command-line tool, which shares this crate, runs elsewhere too.
    #[cfg(target_os = "linux")]
    registry.register(Box::new(
        prometheus::process_collector::ProcessCollector::for_self(),
    ))?;
    let build_info = BuildMetrics::register(&registry)?.build_info;
    let labels = [program.name, program.version];
    build_info.with_label_values(&labels).set(1);
    Ok(registry)
}

crate::metrics! {
    struct BuildMetrics {
        build_info: IntGaugeVec { program, version } = "plimsoll_build_info",
            "Always 1. The labels are the program and its version.";
    }
}
