//! Leadership by a Lease on the real API server: its holder after a leader ends, is killed, or is
//! suspended, and together with a candidate of client-go's.
//!
//! The candidates are the manager's example program, identified by the host name in their identity.
//! A lease that lasts an hour can only move because it was released; one that lasts seconds also
//! because it has run out.

use std::ffi::OsStr;
use std::process::Stdio;

use anyhow::{Context as _, Result, ensure};
use e2e::{PATIENCE, Signal, eventually, namespace, program, shared};
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use kube::Api;
use tokio::io::{AsyncBufReadExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStderr, Command};

const AN_HOUR: [&str; 3] = [
    "--leader-elect-lease-duration=1h",
    "--leader-elect-renew-deadline=30m",
    "--leader-elect-retry-period=20m",
];
/// Long enough that a leader on a busy machine keeps its lease.
const SECONDS: [&str; 3] = [
    "--leader-elect-lease-duration=12s",
    "--leader-elect-renew-deadline=9s",
    "--leader-elect-retry-period=1s",
];

/// A namespace with the lease that this test is about.
struct Fixture {
    namespace: String,
    leases: Api<Lease>,
}

/// A running candidate; killed when dropped.
struct Candidate {
    child: Child,
    lines: Lines<BufReader<ChildStderr>>,
}

impl Fixture {
    async fn new() -> Result<Self> {
        let client = shared().await?.client().await?;
        let namespace = namespace(&client, "lease").await?;
        Ok(Self {
            leases: Api::namespaced(client, &namespace),
            namespace,
        })
    }

    async fn candidate(&self, host: &str, periods: [&str; 3]) -> Result<Candidate> {
        let mut command = self.command(program("examples/hello")?, periods).await?;
        command
            .args(["--address=127.0.0.1:0", "--log-format=json"])
            .env("HOSTNAME", host)
            .stderr(Stdio::piped());
        let mut child = command.spawn().context("start a candidate")?;
        let lines = BufReader::new(child.stderr.take().context("the candidate's log")?).lines();
        Ok(Candidate { child, lines })
    }

    /// Upstream's controller manager with one controller that does nothing here: a candidate of
    /// client-go's.
    async fn client_go(&self, periods: [&str; 3]) -> Result<Child> {
        let program = shared().await?.programs().join("kube-controller-manager");
        let mut command = self.command(program, periods).await?;
        command
            .args(["--controllers=bootstrap-signer-controller"])
            .arg("--secure-port=0")
            .stderr(Stdio::null());
        command.spawn().context("start a candidate of client-go's")
    }

    async fn command(&self, program: impl AsRef<OsStr>, periods: [&str; 3]) -> Result<Command> {
        let mut command = Command::new(program);
        command
            .args(["--leader-elect=true", "--leader-elect-resource-name=leader"])
            .args(["--leader-elect-resource-namespace", &self.namespace])
            .arg("--kubeconfig")
            .arg(shared().await?.kubeconfig())
            .args(periods)
            .kill_on_drop(true);
        Ok(command)
    }

    /// Waits until the lease is held by a candidate of which `belongs` is true, and hands it back.
    async fn held_by(&self, who: &str, belongs: impl Fn(&str) -> bool) -> Result<LeaseSpec> {
        eventually(&format!("{who} leads"), async || {
            let spec = self.spec().await?;
            let holder = spec.holder_identity.clone().unwrap_or_default();
            ensure!(belongs(&holder), "the holder is {holder:?}");
            Ok(spec)
        })
        .await
    }

    async fn spec(&self) -> Result<LeaseSpec> {
        let lease = self.leases.get("leader").await?;
        lease.spec.context("an empty lease")
    }

    async fn led_by(&self, host: &str) -> Result<LeaseSpec> {
        self.held_by(host, |holder| holder.starts_with(&format!("{host}_")))
            .await
    }
}

impl Candidate {
    fn signal(&self, signal: Signal) -> Result<()> {
        let process = self.child.id().context("the candidate has ended")?;
        e2e::signal(process, signal)
    }

    /// Waits for a log line that holds `text`.
    async fn says(&mut self, text: &str) -> Result<()> {
        let search = async {
            while let Some(line) = self.lines.next_line().await? {
                if line.contains(text) {
                    return Ok(());
                }
            }
            anyhow::bail!("the candidate ended without saying {text:?}")
        };
        tokio::time::timeout(PATIENCE, search)
            .await
            .with_context(|| format!("waited for {text:?}"))?
    }
}

#[tokio::test]
async fn a_leader_that_is_asked_to_end_hands_over_at_once() -> Result<()> {
    let fixture = Fixture::new().await?;
    let mut first = fixture.candidate("first", AN_HOUR).await?;
    let before = fixture.led_by("first").await?;
    let mut second = fixture.candidate("second", AN_HOUR).await?;
    second.says("waiting for leadership").await?;

    first.signal(Signal::TERM)?;
    let after = fixture.led_by("second").await?;
    ensure!(
        first.child.wait().await?.success(),
        "the first did not end in order"
    );
    second.says("\"leading\"").await?;
    let transitions = (before.lease_transitions, after.lease_transitions);
    ensure!(
        transitions == (Some(0), Some(1)),
        "transitions {transitions:?}"
    );
    // Not ordered: each candidate knows the API server's time to a second.
    ensure!(
        after.lease_duration_seconds == Some(3600) && after.acquire_time != before.acquire_time,
        "{after:?}"
    );

    second.signal(Signal::TERM)?;
    ensure!(
        second.child.wait().await?.success(),
        "the second did not end in order"
    );
    let left = fixture.spec().await?;
    let (holder, seconds) = (left.holder_identity.as_deref(), left.lease_duration_seconds);
    ensure!(
        (holder, seconds, left.lease_transitions) == (Some(""), Some(1), Some(1)),
        "left as {left:?}"
    );
    Ok(())
}

#[tokio::test]
async fn a_killed_leader_is_followed_when_its_lease_has_run_out() -> Result<()> {
    let fixture = Fixture::new().await?;
    let mut first = fixture.candidate("first", SECONDS).await?;
    fixture.led_by("first").await?;
    let _second = fixture.candidate("second", SECONDS).await?;
    first.child.kill().await?;
    let after = fixture.led_by("second").await?;
    ensure!(after.lease_transitions == Some(1), "{after:?}");
    Ok(())
}

#[tokio::test]
async fn a_leader_that_stood_still_does_not_lead_on() -> Result<()> {
    let fixture = Fixture::new().await?;
    let mut first = fixture.candidate("first", SECONDS).await?;
    fixture.led_by("first").await?;
    first.says("\"leading\"").await?;
    let second = fixture.candidate("second", SECONDS).await?;

    first.signal(Signal::STOP)?;
    fixture.led_by("second").await?;
    first.signal(Signal::CONT)?;
    first.says("leadership lost").await?;
    fixture.led_by("second").await?;

    // It did not exit: it leads again when its turn comes.
    second.signal(Signal::TERM)?;
    fixture.led_by("first").await?;
    first.says("\"leading\"").await
}

#[tokio::test]
async fn ours_and_client_gos_exclude_and_follow_each_other() -> Result<()> {
    let fixture = Fixture::new().await?;
    let mut upstream = fixture.client_go(AN_HOUR).await?;
    let before = fixture
        .held_by("client-go", |holder| !holder.is_empty())
        .await?;
    let theirs = before.holder_identity.context("a holder")?;
    let mut ours = fixture.candidate("ours", SECONDS).await?;
    ours.says("waiting for leadership").await?;

    // Killed, client-go's leaves an hour on the lease, which ours keeps to; given three seconds,
    // ours takes it.
    upstream.kill().await?;
    fixture
        .held_by("client-go", |holder| holder == theirs)
        .await?;
    let mut lease = fixture.leases.get("leader").await?;
    if let Some(spec) = &mut lease.spec {
        spec.lease_duration_seconds = Some(3);
    }
    fixture
        .leases
        .replace("leader", &kube::api::PostParams::default(), &lease)
        .await?;
    let after = fixture.led_by("ours").await?;
    ensure!(
        after.lease_transitions == before.lease_transitions.map(|count| count + 1),
        "{after:?}"
    );

    // Released, ours is followed by client-go's, which waits for it with periods of its own.
    let _upstream = fixture.client_go(SECONDS).await?;
    ours.signal(Signal::TERM)?;
    let last = fixture
        .held_by("client-go", |holder| {
            !holder.is_empty() && !holder.starts_with("ours_")
        })
        .await?;
    ensure!(
        last.lease_transitions == after.lease_transitions.map(|count| count + 1),
        "{last:?}"
    );
    Ok(())
}
