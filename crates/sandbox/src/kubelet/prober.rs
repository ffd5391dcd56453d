//! The probes of a running container, and their effects: started, ready, or to be restarted.

use std::time::Duration;

use anyhow::Result;
use http::{Request, StatusCode};
use kube::Config;
use kube::client::{Body, ClientBuilder};
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tracing::instrument::WithSubscriber;
use tracing::subscriber::NoSubscriber;

use super::container::ContainerConfig;
use super::container_state::Slot;
use super::pod_context::PodContext;
use super::probe::{Get, Handler, Probe};
use super::process;
use super::process_spec::ProcessSpec;

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
        Handler::Http(request) => get(request, &own).await,
        Handler::Tcp { host, port } => {
            let host = host.as_deref().unwrap_or(&own);
            connect(host, *port).await.map(drop)
        }
        Handler::Exec(command) => {
            let arguments = launch.arguments_of(command);
            let arguments = arguments.map_err(|problem| problem.message)?;
            process::run(&context.hosting.config.options.program, launch, &arguments).await
        }
    }
}

/// Connects, or returns the error as text.
async fn connect(host: &str, port: u16) -> Result<TcpStream, String> {
    TcpStream::connect((host, port))
        .await
        .map_err(|error| format!("dial tcp {host}:{port}: {error}"))
}

/// Succeeds when the answer's status is 200 to 399. Every certificate is accepted, as by a kubelet.
async fn get(get: &Get, pod_address: &str) -> Result<(), String> {
    // A failed probe is an event of its pod, not an error in the log of the sandbox.
    let status = send(get, pod_address).with_subscriber(NoSubscriber::default());
    match status.await {
        Ok(status) if (200..400).contains(&status.as_u16()) => Ok(()),
        Ok(status) => Err(format!(
            "HTTP probe failed with statuscode: {}",
            status.as_u16()
        )),
        Err(error) => Err(format!("get {}: {error:#}", get.path)),
    }
}

async fn send(get: &Get, pod_address: &str) -> Result<StatusCode> {
    let scheme = if get.tls { "https" } else { "http" };
    let host = get.host.as_deref().unwrap_or(pod_address);
    let mut config = Config::new(format!("{scheme}://{host}:{}", get.port).parse()?);
    config.accept_invalid_certs = true;
    config.root_cert = Some(Vec::new());
    config.default_retry = false;
    let request = Request::get(&get.path).header("user-agent", "kube-probe/plimsoll");
    let request = get.headers.iter().fold(request, |request, (name, value)| {
        request.header(name, value)
    });
    let client = ClientBuilder::try_from(config)?.build();
    Ok(client.send(request.body(Body::empty())?).await?.status())
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use super::*;

    #[track_caller]
    fn check(answer: &'static str, expected: Result<(), &str>) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        let outcome = runtime.block_on(async {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let port = listener.local_addr().unwrap().port();
            tokio::spawn(async move {
                let (mut stream, _) = listener.accept().await.unwrap();
                let mut request = [0; 512];
                let _ = stream.read(&mut request).await.unwrap();
                stream.write_all(answer.as_bytes()).await.unwrap();
            });
            let request = Get {
                tls: false,
                host: None,
                port,
                path: "/readyz".to_owned(),
                headers: Vec::new(),
            };
            get(&request, "127.0.0.1").await
        });
        assert_eq!(outcome, expected.map_err(str::to_owned));
    }

    #[test]
    fn the_status_decides() {
        check("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n", Ok(()));
        check("HTTP/1.1 302 Found\r\ncontent-length: 0\r\n\r\n", Ok(()));
        check(
            "HTTP/1.1 503 Busy\r\ncontent-length: 0\r\n\r\n",
            Err("HTTP probe failed with statuscode: 503"),
        );
    }

    #[test]
    fn a_closed_port_fails() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        let closed = std::net::TcpListener::bind("127.0.0.1:0")
            .unwrap()
            .local_addr()
            .unwrap()
            .port();
        let error = runtime.block_on(connect("127.0.0.1", closed)).unwrap_err();
        assert!(
            error.starts_with(&format!("dial tcp 127.0.0.1:{closed}: ")),
            "{error}"
        );
    }
}
