//! Sharding by namespace, and the detection of recommenders with another number of shards.
//!
//! Each shard has a Lease of its own, `NAME-INDEX`, with the number of shards in an annotation.
//! Recommenders with different numbers would size some namespaces twice and others not at all. That
//! does no harm (their recommendations agree, and later checkpoints are not overwritten) but is a
//! configuration error: each shard watches the Lease of the first shard and that of an unsharded
//! recommender, ours or upstream's, and reports a holder with another number.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::jiff::Timestamp;
use kube::Api;
use prometheus::{IntGauge, IntGaugeVec};
use tokio::time::{MissedTickBehavior, interval};

use crate::args::LeaderElectionArgs;
use crate::leader_election::Announcement;
use crate::lease::shard_lease;
use crate::log::LogOnce;
use crate::manager::Manager;

/// Annotation that Plimsoll writes on a Lease: number of shards; see docs/operations.md#sharding.
const SHARDS: &str = "plimsoll.dev/shards";
/// Interval of the checks. A Lease that is held is renewed within it.
const CHECK_INTERVAL: Duration = Duration::from_secs(15);

/// The election settings and the announcement of the shard `index` of `count`. Starts the conflict
/// monitor if there are more than one.
pub fn election_config(
    (index, count): (u16, u16),
    election: LeaderElectionArgs,
    address: Option<String>,
    manager: &Manager,
) -> anyhow::Result<(LeaderElectionArgs, Announcement)> {
    let mut announcement = Announcement {
        address,
        ..Announcement::default()
    };
    if count == 1 {
        return Ok((election, announcement));
    }
    let undivided = election.leader_elect_resource_name;
    let lease = |index| shard_lease(&undivided, index, count);
    if election.leader_elect {
        let leases = Api::namespaced(
            manager.client.clone(),
            &election.leader_elect_resource_namespace,
        );
        let conflict = ShardMetrics::register(&manager.registry)?.conflict;
        let conflict = conflict.with_label_values(&[index.to_string(), count.to_string()]);
        let monitor = ShardConflictMonitor {
            leases,
            names: [undivided.clone(), lease(0)],
            count,
            conflict,
        };
        manager
            .tasks
            .spawn_until_shutdown("shard conflict monitor", monitor.run());
    }
    announcement.annotations = [(SHARDS.to_owned(), count.to_string())].into();
    let election = LeaderElectionArgs {
        leader_elect_resource_name: lease(index),
        ..election
    };
    Ok((election, announcement))
}

struct ShardConflictMonitor {
    leases: Api<Lease>,
    names: [String; 2],
    count: u16,
    conflict: IntGauge,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct LeaseSnapshot {
    holder: String,
    renewed: Option<Timestamp>,
    shards: Option<String>,
}

impl From<Lease> for LeaseSnapshot {
    fn from(lease: Lease) -> Self {
        let spec = lease.spec.unwrap_or_default();
        Self {
            holder: spec.holder_identity.unwrap_or_default(),
            renewed: spec.renew_time.map(|time| time.0),
            shards: lease
                .metadata
                .annotations
                .and_then(|mut annotations| annotations.remove(SHARDS)),
        }
    }
}

impl LeaseSnapshot {
    /// Whether a holder that renewed the Lease since `before` has another number of shards.
    fn is_conflict(&self, before: &Self, count: u16) -> bool {
        let is_held =
            !self.holder.is_empty() && before.renewed.is_some() && before.renewed < self.renewed;
        is_held && self.shards.as_deref() != Some(count.to_string().as_str())
    }
}

impl ShardConflictMonitor {
    /// Runs for ever.
    async fn run(self) {
        let mut ticks = interval(CHECK_INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut before: [LeaseSnapshot; 2] = Default::default();
        let mut logged = LogOnce::default();
        loop {
            ticks.tick().await;
            let mut found = None;
            for (name, before) in self.names.iter().zip(&mut before) {
                let now = match self.leases.get_opt(name).await {
                    Ok(lease) => lease.map(LeaseSnapshot::from).unwrap_or_default(),
                    Err(error) => {
                        tracing::debug!(lease = name, %error, "cannot read the lease of another shard");
                        continue;
                    }
                };
                if now.is_conflict(before, self.count) {
                    found = Some((name, now.clone()));
                }
                *before = now;
            }
            self.conflict.set(i64::from(found.is_some()));
            let lease = found.as_ref().map(|(lease, _)| *lease);
            let is_new = logged.update(lease).is_some();
            if let Some((lease, snapshot)) = found.filter(|_| is_new) {
                let LeaseSnapshot { holder, shards, .. } = snapshot;
                let theirs = shards.as_deref().unwrap_or("1");
                let ours = self.count;
                tracing::error!(
                    lease,
                    holder,
                    theirs,
                    ours,
                    "another recommender runs with another number of shards"
                );
            }
        }
    }
}

crate::metrics! {
    struct ShardMetrics {
        conflict: IntGaugeVec { shard, shards } = "vpa_recommender_shard_conflict",
            "1 if another recommender runs with another number of shards, 0 if not.";
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn snapshot(holder: &str, renewed: i64, shards: Option<&str>) -> LeaseSnapshot {
        let renewed = Some(Timestamp::from_second(renewed).expect("in range"));
        LeaseSnapshot {
            holder: holder.to_owned(),
            renewed,
            shards: shards.map(str::to_owned),
        }
    }

    fn check(before: &LeaseSnapshot, cases: &[(LeaseSnapshot, bool)]) {
        for (now, expected) in cases {
            assert_eq!(
                now.is_conflict(before, 3),
                *expected,
                "{before:?}, then {now:?}"
            );
        }
    }

    #[test]
    fn a_holder_that_renews_with_another_number_is_a_conflict() {
        check(
            &snapshot("a", 10, Some("2")),
            &[
                (snapshot("a", 20, Some("2")), true),
                (snapshot("b", 20, Some("3")), false),
            ],
        );
        check(&snapshot("a", 10, None), &[(snapshot("a", 20, None), true)]);
        check(
            &snapshot("a", 10, Some("3")),
            &[
                (snapshot("b", 20, Some("2")), true),
                (snapshot("a", 20, Some("3")), false),
            ],
        );
    }

    #[test]
    fn an_expired_lease_is_ignored() {
        let expired = snapshot("a", 20, Some("2"));
        check(&LeaseSnapshot::default(), &[(expired.clone(), false)]);
        check(&expired, &[(expired.clone(), false)]);
        check(
            &snapshot("a", 10, Some("2")),
            &[
                (snapshot("", 20, Some("2")), false),
                (LeaseSnapshot::default(), false),
            ],
        );
    }
}
