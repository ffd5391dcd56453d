//! How several recommenders divide the namespaces, and the notice of one that divides them
//! otherwise.
//!
//! Each shard has a Lease of its own, `NAME-INDEX`, with an annotation that says how many shards
//! there are. Two recommenders with different numbers would both size some namespaces, and perhaps
//! nobody others. That harms nothing (their numbers agree, and no checkpoint goes over a later
//! one), but nobody should leave it so: each shard looks at the Lease of the first shard and at
//! that of an undivided recommender, ours or upstream's, and says when somebody holds it who
//! divides otherwise.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;
use prometheus::{IntGauge, Opts};
use runtime::lease::shard_lease;
use runtime::{Announcement, Chassis, LeaderElectionArgs};
use tokio::time::{MissedTickBehavior, interval};
use view::Shard;

/// The annotation of a shard's Lease.
const SHARDS: &str = "plimsoll.dev/shards";
/// A Lease that is held changes between two looks.
const LOOK: Duration = Duration::from_secs(15);

/// How one shard stands for election, and what its Lease tells. Starts to look out for others.
pub(crate) fn stand(
    shard: Shard,
    election: LeaderElectionArgs,
    address: Option<String>,
    chassis: &Chassis,
) -> anyhow::Result<(LeaderElectionArgs, Announcement)> {
    if shard.is_whole() {
        return Ok((
            election,
            Announcement {
                address,
                ..Announcement::default()
            },
        ));
    }
    let undivided = election.leader_elect_resource_name;
    let lease = |index| shard_lease(&undivided, index, shard.count());
    if election.leader_elect {
        let leases = Api::namespaced(
            chassis.client.clone(),
            &election.leader_elect_resource_namespace,
        );
        let conflict = Opts::new(
            "vpa_recommender_shard_conflict",
            "Whether another recommender divides the namespaces into another number of shards.",
        );
        let conflict = conflict
            .const_label("shard", shard.index().to_string())
            .const_label("shards", shard.count().to_string());
        let conflict = IntGauge::with_opts(conflict)?;
        chassis.registry.register(Box::new(conflict.clone()))?;
        let lookout = Lookout {
            leases,
            names: [undivided.clone(), lease(0)],
            count: shard.count(),
            conflict,
        };
        chassis
            .tasks
            .spawn_until_shutdown("lookout for other shards", lookout.run());
    }
    let annotations = [(SHARDS.to_owned(), shard.count().to_string())].into();
    let election = LeaderElectionArgs {
        leader_elect_resource_name: lease(shard.index()),
        ..election
    };
    Ok((
        election,
        Announcement {
            address,
            annotations,
        },
    ))
}

struct Lookout {
    leases: Api<Lease>,
    names: [String; 2],
    count: u16,
    conflict: IntGauge,
}

/// What a Lease says.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Look {
    holder: String,
    renewed: Option<Timestamp>,
    /// How many shards its holder knows of.
    shards: Option<String>,
}

impl From<Lease> for Look {
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

impl Look {
    /// Whether the Lease has a holder now, renewed since the look `before`, who divides otherwise.
    fn is_conflict(&self, before: &Self, count: u16) -> bool {
        let is_held =
            !self.holder.is_empty() && before.renewed.is_some() && before.renewed < self.renewed;
        is_held && self.shards.as_deref() != Some(count.to_string().as_str())
    }
}

impl Lookout {
    /// Goes on for ever.
    async fn run(self) {
        let mut looks = interval(LOOK);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut before: [Look; 2] = Default::default();
        let mut said = None;
        loop {
            looks.tick().await;
            let mut found = None;
            for (name, before) in self.names.iter().zip(&mut before) {
                let now = match self.leases.get_opt(name).await {
                    Ok(lease) => lease.map(Look::from).unwrap_or_default(),
                    Err(error) => {
                        tracing::debug!(lease = name, %error, "cannot see whether another recommender holds the lease");
                        continue;
                    }
                };
                if now.is_conflict(before, self.count) {
                    found = Some((name.clone(), now.clone()));
                }
                *before = now;
            }
            self.conflict.set(i64::from(found.is_some()));
            if let Some((lease, look)) = found
                .as_ref()
                .filter(|(lease, _)| said.as_ref() != Some(lease))
            {
                let Look { holder, shards, .. } = look;
                let theirs = shards.as_deref().unwrap_or("1");
                let ours = self.count;
                tracing::error!(
                    lease,
                    holder,
                    theirs,
                    ours,
                    "another recommender divides the namespaces otherwise"
                );
            }
            said = found.map(|(lease, _)| lease);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn look(holder: &str, renewed: i64, shards: Option<&str>) -> Look {
        let renewed = Some(Timestamp::from_second(renewed).expect("in range"));
        Look {
            holder: holder.to_owned(),
            renewed,
            shards: shards.map(str::to_owned),
        }
    }

    fn check(before: &Look, now: &Look, expected: bool) {
        assert_eq!(
            now.is_conflict(before, 3),
            expected,
            "{before:?}, then {now:?}"
        );
    }

    #[test]
    fn a_holder_that_renews_with_another_number_is_a_conflict() {
        check(&look("a", 10, Some("2")), &look("a", 20, Some("2")), true);
        check(&look("a", 10, None), &look("a", 20, None), true);
        check(&look("a", 10, Some("3")), &look("b", 20, Some("2")), true);
        check(&look("a", 10, Some("2")), &look("b", 20, Some("3")), false);
        check(&look("a", 10, Some("3")), &look("a", 20, Some("3")), false);
    }

    #[test]
    fn a_lease_that_nobody_renews_is_none() {
        check(&Look::default(), &look("a", 20, Some("2")), false);
        check(&look("a", 20, Some("2")), &look("a", 20, Some("2")), false);
        check(&look("a", 10, Some("2")), &look("", 20, Some("2")), false);
        check(&look("a", 10, Some("2")), &Look::default(), false);
    }
}
