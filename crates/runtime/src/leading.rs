//! Leadership as a program uses it: work that runs only while this process holds a Lease.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use anyhow::Context as _;
use http::HeaderValue;
use http::header::USER_AGENT;
use k8s_openapi::jiff::Timestamp;
use kube::Api;
use prometheus::{IntGauge, Opts};
use tokio_util::sync::CancellationToken;

use crate::args::{LeaderElectionArgs, ResourceLock};
use crate::chassis::Chassis;
use crate::client;
use crate::election::Candidate;
use crate::lease::{self, Timings, identity};
use crate::throttle::Throttle;

/// What a leader tells others by its Lease.
#[derive(Debug, Clone, Default)]
pub struct Announcement {
    /// Where it is reached, as `host:port`.
    pub address: Option<String>,
    /// Annotations of the Lease.
    pub annotations: BTreeMap<String, String>,
}

/// One term of leadership. Clones share it.
#[derive(Debug, Clone)]
pub struct Leading {
    lost: CancellationToken,
    term: u64,
    /// Absent: without end.
    until: Arc<Mutex<Option<Instant>>>,
}

impl Leading {
    pub(crate) fn new(term: u64, until: Option<Instant>) -> Self {
        Self {
            lost: CancellationToken::new(),
            term,
            until: Arc::new(Mutex::new(until)),
        }
    }

    /// A term without end that begins at `now`, for a program that runs alone.
    pub fn alone(now: Timestamp) -> Self {
        Self::new(lease::term(now, 0), None)
    }

    /// The number of the term. Later terms have greater ones, also those of other candidates.
    pub fn term(&self) -> u64 {
        self.term
    }

    /// Cancelled when the term ends, which is before another candidate may begin its own.
    pub fn lost(&self) -> &CancellationToken {
        &self.lost
    }

    /// Whether the term lasts at `now`. Worth asking before each write: a process that was stopped
    /// and goes on runs its next line before any timer.
    pub fn holds(&self, now: Instant) -> bool {
        let until = *self.until.lock().unwrap_or_else(PoisonError::into_inner);
        !self.lost.is_cancelled() && until.is_none_or(|until| now < until)
    }

    pub(crate) fn end(&self) {
        self.lost.cancel();
    }

    pub(crate) fn extend(&self, until: Instant) {
        *self.until.lock().unwrap_or_else(PoisonError::into_inner) = Some(until);
    }
}

impl Chassis {
    /// Runs `work` for each term of leadership, or once without an end where `--leader-elect` is
    /// off.
    ///
    /// When a term is lost, `work` is dropped and started anew with the next one; what must outlive
    /// a term is kept outside. (Upstream's programs exit instead.) When `work` returns, which it
    /// does soon after shutdown, the lease is released, so that the next candidate begins at once.
    pub async fn lead<W>(
        &self,
        args: &LeaderElectionArgs,
        announcement: &Announcement,
        mut work: impl FnMut(Leading) -> W,
    ) -> anyhow::Result<()>
    where
        W: Future<Output = anyhow::Result<()>>,
    {
        if !args.leader_elect {
            return work(Leading::alone(self.clock().timestamp())).await;
        }
        let ResourceLock::Leases = args.leader_elect_resource_lock;
        let timings = Timings::try_from(args)?;
        let status = Opts::new(
            "leader_election_master_status",
            "Whether this process holds the lease.",
        )
        .const_label("name", &args.leader_elect_resource_name);
        let status = IntGauge::with_opts(status)?;
        self.registry.register(Box::new(status.clone()))?;
        let api = Api::namespaced(self.lease_client()?, &args.leader_elect_resource_namespace);
        let Announcement {
            address,
            annotations,
        } = announcement;
        let me = identity(&hostname()?, rand::random(), address.as_deref());
        let candidate = Candidate::new(
            api,
            args.leader_elect_resource_name.clone(),
            me,
            timings,
            self.clock(),
        );
        let candidate = candidate.annotating(annotations.clone());
        candidate.lead(&self.shutdown, &status, &mut work).await
    }

    /// A client with a throttle of its own: renewals must not wait behind the program's other
    /// requests.
    fn lease_client(&self) -> anyhow::Result<kube::Client> {
        let mut config = self.config.clone();
        config.headers.retain(|(name, _)| name != USER_AGENT);
        let agent = format!("{}/leader-election", client::user_agent(&self.program));
        config.headers.push((
            USER_AGENT,
            HeaderValue::from_str(&agent).context("invalid user agent")?,
        ));
        Ok(client::connect(
            config,
            Throttle::new(10.0, 20),
            self.rest_metrics.clone(),
        )?)
    }
}

/// The name of this machine, or of the pod that it stands for.
pub fn hostname() -> anyhow::Result<String> {
    let kernel = "/proc/sys/kernel/hostname";
    let name = match std::env::var("HOSTNAME") {
        Ok(name) if !name.is_empty() => name,
        _ => std::fs::read_to_string(kernel)
            .with_context(|| format!("no HOSTNAME, and cannot read {kernel}"))?,
    };
    Ok(name.trim().to_owned())
}

/// The namespace of this program, as its Deployment tells it in the environment variable NAMESPACE;
/// or else kube-system.
pub fn own_namespace() -> String {
    std::env::var("NAMESPACE")
        .ok()
        .filter(|name| !name.is_empty())
        .unwrap_or_else(|| "kube-system".to_owned())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_term_ends_with_its_deadline_even_before_anyone_says_so() {
        let start = Instant::now();
        let leading = Leading::new(1, Some(start + Duration::from_secs(10)));
        let after = |seconds| leading.holds(start + Duration::from_secs(seconds));
        assert!(after(9) && !after(10));
        leading.extend(start + Duration::from_secs(12));
        assert!(after(11));
        leading.end();
        assert!(!after(11));
    }
}
