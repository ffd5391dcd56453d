//! The probes of a running container, and their effects: started, ready, or to be restarted.

use std::time::Duration;

use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::container::ContainerConfig;
use super::container_state::Slot;
use super::pod_context::PodContext;
use super::probe::{Handler, Probe};
use super::process_spec::ProcessSpec;
use super::{probe_client, process};

/// A kubelet needs about this long to notice that a container runs; earlier failures do not count.
const UNNOTICED: Duration = Duration::from_secs(1);

/// Time between two attempts in that time.
const ASK_AGAIN: Duration = Duration::from_millis(50);

/// The probes of one run of a container.
pub(super) struct Prober<'a> {
    pub(super) context: &'a PodContext,
    /// Index of its report.
    pub(super) slot: Slot,
    pub(super) name: &'a str,
    pub(super) prepared: &'a ContainerConfig,
    pub(super) launch: &'a ProcessSpec,
}

impl Prober<'_> {
    /// Returns the name of a startup or liveness probe when it has failed.
    pub(super) async fn until_failure(&self) -> &'static str {
        let began = Instant::now();
        if let Some(probe) = &self.prepared.startup {
            if !self.worker("startup probe", probe, began).next().await {
                return "startup probe";
            }
            self.context.report(self.slot, |report| {
                report.started = true;
                report.ready = self.prepared.readiness.is_none();
            });
        }
        tokio::select! {
            failed = self.liveness(began) => failed,
            () = self.readiness(began) => std::future::pending().await,
        }
    }

    async fn liveness(&self, began: Instant) -> &'static str {
        let Some(probe) = &self.prepared.liveness else {
            return std::future::pending().await;
        };
        let mut worker = self.worker("liveness probe", probe, began);
        while worker.next().await {}
        "liveness probe"
    }

    async fn readiness(&self, began: Instant) {
        let Some(probe) = &self.prepared.readiness else {
            return;
        };
        let mut worker = self.worker("readiness probe", probe, began);
        loop {
            let ready = worker.next().await;
            self.context
                .report(self.slot, |report| report.ready = ready);
        }
    }

    fn worker<'a>(
        &'a self,
        kind: &'static str,
        probe: &'a Probe,
        began: Instant,
    ) -> ProbeWorker<'a> {
        ProbeWorker {
            prober: self,
            kind,
            probe,
            counter: probe.counter(),
            began,
            next: began + probe.initial_delay,
        }
    }
}

struct ProbeWorker<'a> {
    prober: &'a Prober<'a>,
    kind: &'static str,
    probe: &'a Probe,
    counter: super::probe::ResultCounter,
    began: Instant,
    next: Instant,
}

impl ProbeWorker<'_> {
    /// Probes until a threshold is reached.
    async fn next(&mut self) -> bool {
        loop {
            let success = self.attempt().await;
            if let Some(result) = self.counter.count(success) {
                return result;
            }
        }
    }

    /// Makes one attempt at its time.
    async fn attempt(&mut self) -> bool {
        sleep_until(self.next).await;
        let mut answer = self.answer().await;
        while answer.is_err() && self.began.elapsed() < self.probe.initial_delay + UNNOTICED {
            sleep(ASK_AGAIN).await;
            answer = self.answer().await;
        }
        self.next = Instant::now() + self.probe.period;
        if let Err(error) = &answer {
            let Prober { context, name, .. } = self.prober;
            let note = format!("{} of container {name} failed: {error}", self.kind);
            context.warn("Unhealthy", note);
        }
        answer.is_ok()
    }

    async fn answer(&self) -> Result<(), String> {
        let Prober {
            context, launch, ..
        } = self.prober;
        let attempt = probe_once(context, &self.probe.handler, launch);
        timeout(self.probe.timeout, attempt)
            .await
            .unwrap_or_else(|_| {
                Err(format!(
                    "no answer within {} s",
                    self.probe.timeout.as_secs()
                ))
            })
    }
}

pub(super) async fn probe_once(
    context: &PodContext,
    handler: &Handler,
    launch: &ProcessSpec,
) -> Result<(), String> {
    let own = context.address.on_loopback().to_string();
    match handler {
        Handler::Http(get) => probe_client::get(get, &own).await,
        Handler::Tcp { host, port } => {
            let host = host.as_deref().unwrap_or(&own);
            probe_client::connect(host, *port).await.map(drop)
        }
        Handler::Exec(command) => {
            let arguments = launch.arguments_of(command);
            let arguments = arguments.map_err(|problem| problem.message)?;
            process::run(&context.hosting.config.options.program, launch, &arguments).await
        }
    }
}
