//! Leader election: runs a program's work only while the process holds a Lease.

use std::collections::BTreeMap;
use std::future::Future;

use anyhow::Context as _;
use http::HeaderValue;
use http::header::USER_AGENT;
use kube::Api;
use prometheus::IntGaugeVec;

use crate::args::{LeaderElectionArgs, ResourceLock};
use crate::candidate::Candidate;
use crate::client;
use crate::leader_term::Leading;
use crate::lease::{Timings, identity};
use crate::manager::Manager;
use crate::own_pod::hostname;
use crate::rate_limiter::Throttle;

/// The content of the Lease that tells others about the leader.
#[derive(Debug, Clone, Default)]
pub struct Announcement {
    /// The leader's `host:port`.
    pub address: Option<String>,
    pub annotations: BTreeMap<String, String>,
}

impl Manager {
    /// Runs `work` for each term of leadership, or once without an end if `--leader-elect` is off.
    ///
    /// When a term is lost, `work` is dropped and started again with the next term. State that
    /// outlives a term is kept outside. (Upstream's programs exit instead.) When `work` returns,
    /// which it does soon after shutdown, the Lease is released, so that the next candidate can
    /// start at once.
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
        let status = ElectionMetrics::register(&self.registry)?.master_status;
        let status = status.with_label_values(&[&args.leader_elect_resource_name]);
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
        let candidate = candidate.with_annotations(annotations.clone());
        candidate.lead(&self.shutdown, &status, &mut work).await
    }

    /// A client with its own throttle: renewals must not wait behind the program's other requests.
    fn lease_client(&self) -> anyhow::Result<kube::Client> {
        let mut config = self.config.clone();
        config.headers.retain(|(name, _)| name != USER_AGENT);
        let agent = format!("{}/leader-election", client::user_agent(&self.program));
        config.headers.push((
            USER_AGENT,
            HeaderValue::from_str(&agent).context("invalid user agent")?,
        ));
        client::connect(config, Throttle::new(10.0, 20), self.rest_metrics.clone())
    }
}

crate::metrics! {
    struct ElectionMetrics {
        master_status: IntGaugeVec { name } = "leader_election_master_status",
            "1 if this process holds the Lease, 0 if not.";
    }
}
