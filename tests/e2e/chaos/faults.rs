//! Faults: what fails, how, and for how long.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::Result;
use e2e::{Link, Signal, signal};
use futures::future::try_join_all;
use rand::Rng as _;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom as _;
use sandbox::Component;
use tokio::time::sleep;

use super::fixture::{Part, REPLICAS, Suite};

/// One stall of a slow disk, and the time to the next.
const STALL: Duration = Duration::from_millis(300);

/// Largest offset of a wrong clock in seconds: two hours.
const LARGEST_OFFSET: i64 = 2 * 3600;

#[derive(Debug, Clone, Copy)]
pub(super) struct Fault {
    kind: Kind,
    lasts: Duration,
}

#[derive(Debug, Clone, Copy)]
enum Kind {
    /// SIGKILL of the processes of some replicas.
    Kill(Part, Replicas),
    /// SIGSTOP, and SIGCONT at the end.
    Pause(Part, Replicas),
    /// The link between a program and the API server fails.
    Link(Part, Link),
    /// The clocks of a program are off by these seconds until the end.
    Clock(Part, i64),
    /// SIGSTOP of a component of the control plane, and SIGCONT at the end.
    PauseComponent(Component),
    /// etcd stops again and again, as on a disk that is slow to sync.
    SlowDisk,
}

/// The replicas of a program that a fault concerns.
#[derive(Debug, Clone, Copy)]
enum Replicas {
    One(usize),
    All,
}

impl Replicas {
    fn of(self, processes: &[u32]) -> &[u32] {
        match self {
            Self::One(index) => processes.get(index..=index).unwrap_or_default(),
            Self::All => processes,
        }
    }
}

impl Fault {
    pub(super) fn some(rng: &mut StdRng) -> Vec<Self> {
        let count = rng.random_range(1..=3);
        (0..count).map(|_| Self::any(rng)).collect()
    }

    fn any(rng: &mut StdRng) -> Self {
        let part = *Part::ALL.choose(rng).expect("there are parts");
        let which = if rng.random_bool(0.5) {
            Replicas::One(rng.random_range(0..REPLICAS))
        } else {
            Replicas::All
        };
        let kind = match rng.random_range(0..11) {
            0..=2 => Kind::Kill(part, which),
            3..=4 => Kind::Pause(part, which),
            5 => Kind::Link(part, Link::Closed),
            6 => Kind::Link(part, Link::Silent),
            7 => Kind::Link(part, Link::Slow),
            8 => {
                let components = [
                    Component::KubeApiserver,
                    Component::Etcd,
                    Component::MetricsServer,
                ];
                Kind::PauseComponent(*components.choose(rng).expect("there are components"))
            }
            9 => {
                let seconds = rng.random_range(1..=LARGEST_OFFSET);
                let sign = if rng.random_bool(0.5) { 1 } else { -1 };
                Kind::Clock(part, sign * seconds)
            }
            _ => Kind::SlowDisk,
        };
        let lasts = Duration::from_millis(rng.random_range(500..8_000));
        Self { kind, lasts }
    }

    /// Begins all faults at once and waits for their ends.
    pub(super) async fn play(faults: &[Self], suite: &Suite) -> Result<()> {
        let running = suite.processes().await?;
        try_join_all(faults.iter().map(|fault| fault.happen(suite, &running)))
            .await
            .map(drop)
    }

    async fn happen(&self, suite: &Suite, running: &BTreeMap<Part, Vec<u32>>) -> Result<()> {
        let sandbox = &suite.sandbox;
        // Another fault, or a failed probe, may have ended a process before.
        let send = |part: Part, which: Replicas, to_send: Signal| {
            for process in which.of(&running[&part]) {
                let _ = signal(*process, to_send);
            }
        };
        match self.kind {
            Kind::Kill(part, which) => send(part, which, Signal::KILL),
            Kind::Pause(part, which) => {
                send(part, which, Signal::STOP);
                sleep(self.lasts).await;
                send(part, which, Signal::CONT);
            }
            Kind::Link(part, link) => {
                suite.proxy(part).set(link);
                sleep(self.lasts).await;
                suite.proxy(part).set(Link::Up);
            }
            Kind::Clock(part, seconds) => {
                suite.clock(part).set(seconds)?;
                sleep(self.lasts).await;
                suite.clock(part).set(0)?;
            }
            Kind::PauseComponent(component) => {
                sandbox.pause(component).await?;
                sleep(self.lasts).await;
                sandbox.resume(component).await?;
            }
            Kind::SlowDisk => {
                let stalls = self.lasts.as_millis() / (2 * STALL).as_millis();
                for _ in 0..=stalls {
                    sandbox.pause(Component::Etcd).await?;
                    sleep(STALL).await;
                    sandbox.resume(Component::Etcd).await?;
                    sleep(STALL).await;
                }
            }
        }
        Ok(())
    }
}
