//! The rules of leader election on a `coordination.k8s.io/v1` Lease, as pure functions.
//!
//! They are client-go's (`tools/leaderelection`), so that candidates of ours and of upstream
//! exclude each other: a lease stands for its duration after the moment at which *this* candidate
//! first saw its present content (clocks of different machines are never compared), an empty holder
//! can be followed at once, and every change of holder counts as one transition.

use std::time::{Duration, Instant};

use anyhow::ensure;
use k8s_openapi::api::coordination::v1::LeaseSpec;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use k8s_openapi::jiff::Timestamp;

use crate::args::LeaderElectionArgs;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    Create,
    Renew,
    /// Take a Lease that is free or has expired.
    Take,
    /// Wait: another candidate holds the Lease for at least this long unless it is released.
    Wait(Duration),
}

/// Decides the next action for the Lease (`None` if it does not exist), which is unchanged since
/// `unchanged_since`.
pub fn decide(
    lease: Option<&LeaseSpec>,
    unchanged_since: Instant,
    now: Instant,
    me: &str,
    own: Duration,
) -> Action {
    let Some(lease) = lease else {
        return Action::Create;
    };
    match lease.holder_identity.as_deref().unwrap_or_default() {
        "" => Action::Take,
        holder if holder == me => Action::Renew,
        _ => {
            let stands_until = unchanged_since + duration(lease).unwrap_or(own);
            if stands_until <= now {
                Action::Take
            } else {
                Action::Wait(stands_until - now)
            }
        }
    }
}

/// The duration that the holder wrote. A Lease without one, not of client-go, gets ours.
fn duration(lease: &LeaseSpec) -> Option<Duration> {
    let seconds = u64::try_from(lease.lease_duration_seconds?).ok();
    seconds
        .filter(|seconds| *seconds > 0)
        .map(Duration::from_secs)
}

/// The spec that `me` writes to create, take or renew the Lease at wall-clock time `now`.
pub fn held(
    previous: Option<&LeaseSpec>,
    me: &str,
    duration: Duration,
    now: Timestamp,
) -> LeaseSpec {
    let renewed = previous.filter(|lease| lease.holder_identity.as_deref() == Some(me));
    let now = Some(MicroTime(now));
    LeaseSpec {
        holder_identity: Some(me.to_owned()),
        lease_duration_seconds: Some(i32::try_from(duration.as_secs()).unwrap_or(i32::MAX)),
        acquire_time: renewed.map_or(now.clone(), |lease| lease.acquire_time.clone()),
        renew_time: now,
        lease_transitions: Some(match (renewed, previous) {
            (Some(lease), _) => lease.lease_transitions.unwrap_or(0),
            (None, Some(lease)) => lease.lease_transitions.unwrap_or(0).saturating_add(1),
            (None, None) => 0,
        }),
        ..previous.cloned().unwrap_or_default()
    }
}

/// The spec that a holder writes to release the Lease: no holder, for one second.
pub fn released(previous: &LeaseSpec, now: Timestamp) -> LeaseSpec {
    LeaseSpec {
        holder_identity: Some(String::new()),
        lease_duration_seconds: Some(1),
        acquire_time: Some(MicroTime(now)),
        renew_time: Some(MicroTime(now)),
        ..previous.clone()
    }
}

/// The number of a leadership term, which increases with each term of a Lease. It is made of the
/// Lease's creation time and its number of transitions, so that a Lease that was deleted and
/// created again continues above its predecessor.
pub fn term(created: Timestamp, transitions: i32) -> u64 {
    let seconds = u64::try_from(created.as_second()).unwrap_or(0);
    let transitions = u64::try_from(transitions).unwrap_or(0);
    (seconds << TRANSITION_BITS) | transitions.min((1 << TRANSITION_BITS) - 1)
}

/// Room for sixteen million transitions.
const TRANSITION_BITS: u32 = 24;

/// The identity of a candidate: `<hostname>_<uuid>`, and `_<address>` with the leader's address.
pub fn identity(hostname: &str, random: u128, address: Option<&str>) -> String {
    // Version 4, variant 1, as RFC 9562 marks a random UUID.
    let uuid = random & !(0xf << 76) & !(0x3 << 62) | 0x4 << 76 | 0x2 << 62;
    let mut identity = format!("{hostname}_{uuid:032x}");
    for end in [8, 13, 18, 23] {
        identity.insert(hostname.len() + 1 + end, '-');
    }
    address.map_or(identity.clone(), |address| format!("{identity}_{address}"))
}

pub fn address_of(holder: &str) -> Option<&str> {
    let mut parts = holder.splitn(3, '_');
    parts.nth(2)
}

/// The name of the Lease of shard `index` out of `count`. A single shard uses `name` itself.
pub fn shard_lease(name: &str, index: u16, count: u16) -> String {
    if count > 1 {
        format!("{name}-{index}")
    } else {
        name.to_owned()
    }
}

/// The three durations of leader election, each longer than the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timings {
    /// Time after which an unrenewed Lease expires.
    pub lease_duration: Duration,
    /// Time after its last renewal at which a leader stops.
    pub renew_deadline: Duration,
    /// Pause between attempts.
    pub retry_period: Duration,
}

impl TryFrom<&LeaderElectionArgs> for Timings {
    type Error = anyhow::Error;

    fn try_from(args: &LeaderElectionArgs) -> anyhow::Result<Self> {
        let lease_duration = args.leader_elect_lease_duration.0;
        let renew_deadline = args.leader_elect_renew_deadline.0;
        let retry_period = args.leader_elect_retry_period.0;
        ensure!(
            !lease_duration.is_zero() && lease_duration.subsec_nanos() == 0,
            "--leader-elect-lease-duration must be a whole number of seconds, at least 1s"
        );
        // The leader must not be active any more when another can take over.
        ensure!(
            renew_deadline < lease_duration,
            "--leader-elect-renew-deadline must be shorter than --leader-elect-lease-duration"
        );
        // A single failed attempt must not end the leadership.
        ensure!(
            !retry_period.is_zero() && retry_period.mul_f64(1.2) < renew_deadline,
            "--leader-elect-retry-period must be more than zero, and 1.2 times it shorter than --leader-elect-renew-deadline"
        );
        Ok(Self {
            lease_duration,
            renew_deadline,
            retry_period,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: Duration = Duration::from_secs(15);

    fn lease(holder: Option<&str>, duration_seconds: Option<i32>) -> LeaseSpec {
        LeaseSpec {
            holder_identity: holder.map(str::to_owned),
            lease_duration_seconds: duration_seconds,
            acquire_time: Some(MicroTime(at(10))),
            renew_time: Some(MicroTime(at(20))),
            lease_transitions: Some(3),
            ..LeaseSpec::default()
        }
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    /// The action for a Lease of this holder and duration that is unchanged for some seconds.
    fn check(
        holder: Option<&str>,
        duration_seconds: Option<i32>,
        unchanged: u64,
        expected: Action,
    ) {
        let (start, lease) = (Instant::now(), lease(holder, duration_seconds));
        let now = start + Duration::from_secs(unchanged);
        let action = decide(Some(&lease), start, now, "me", OWN);
        assert_eq!(action, expected, "{lease:?} after {unchanged} s");
    }

    #[test]
    fn the_next_action_follows_from_holder_and_age() {
        let wait = |seconds| Action::Wait(Duration::from_secs(seconds));
        let now = Instant::now();
        assert_eq!(decide(None, now, now, "me", OWN), Action::Create);
        check(None, Some(15), 0, Action::Take);
        check(Some(""), Some(1), 0, Action::Take);
        check(Some("me"), Some(15), 0, Action::Renew);
        check(Some("me"), Some(15), 60, Action::Renew);
        check(Some("other"), Some(15), 0, wait(15));
        check(Some("other"), Some(15), 14, wait(1));
        check(Some("other"), Some(15), 15, Action::Take);
        // The holder's own duration counts.
        check(Some("other"), Some(60), 59, wait(1));
        check(Some("other"), Some(5), 5, Action::Take);
        for nonsense in [None, Some(0), Some(-7)] {
            check(Some("other"), nonsense, 14, wait(1));
        }
    }

    #[test]
    fn a_written_lease_keeps_what_client_go_keeps() {
        let other = lease(Some("other"), Some(40));
        for (previous, acquired, transitions) in [
            (None, at(30), 0),
            (Some(&other), at(30), 4),
            (Some(&lease(Some(""), Some(1))), at(30), 4),
            (Some(&lease(Some("me"), Some(15))), at(10), 3),
        ] {
            let written = held(previous, "me", OWN, at(30));
            assert_eq!(written.holder_identity.as_deref(), Some("me"));
            assert_eq!(written.lease_duration_seconds, Some(15));
            assert_eq!(written.acquire_time, Some(MicroTime(acquired)));
            assert_eq!(written.renew_time, Some(MicroTime(at(30))));
            assert_eq!(written.lease_transitions, Some(transitions));
        }
    }

    #[test]
    fn a_released_lease_has_no_holder_and_keeps_its_transitions() {
        let left = released(&lease(Some("me"), Some(15)), at(30));
        assert_eq!(left.holder_identity.as_deref(), Some(""));
        assert_eq!(
            (left.lease_duration_seconds, left.lease_transitions),
            (Some(1), Some(3))
        );
        assert_eq!(left.renew_time, Some(MicroTime(at(30))));
    }

    #[test]
    fn an_identity_is_a_hostname_a_random_uuid_and_perhaps_an_address() {
        let unnamed = "pod-1_00000000-0000-4000-8000-000000000000";
        assert_eq!(identity("pod-1", 0, None), unnamed);
        let named = identity("pod-1", u128::MAX, Some("10.0.0.7:8945"));
        let expected = "pod-1_ffffffff-ffff-4fff-bfff-ffffffffffff_10.0.0.7:8945";
        assert_eq!(named, expected);
        assert_eq!(address_of(&named), Some("10.0.0.7:8945"));
        assert_eq!(address_of(&identity("pod-1", 7, None)), None);
    }

    #[test]
    fn every_shard_has_its_own_lease() {
        assert_eq!(shard_lease("lease", 0, 1), "lease");
        assert_eq!(
            [0, 1].map(|index| shard_lease("lease", index, 2)),
            ["lease-0", "lease-1"]
        );
    }

    #[test]
    fn later_terms_have_greater_numbers() {
        let of_one = [-1, 1, 2, i32::MAX].map(|transitions| (10, transitions));
        let in_order = of_one
            .into_iter()
            .chain([(11, 0), (11, 5), (4_000_000_000, 0)]);
        let terms: Vec<_> = in_order
            .map(|(created, count)| term(at(created), count))
            .collect();
        assert!(terms.is_sorted_by(|a, b| a < b), "{terms:?}");
    }

    #[test]
    fn periods_must_bound_each_other() {
        for (flag, value, is_refused) in [
            ("lease-duration", "15s", false),
            ("lease-duration", "1500ms", true),
            ("lease-duration", "0s", true),
            ("renew-deadline", "15s", true),
            ("retry-period", "0s", true),
            ("retry-period", "9s", true),
        ] {
            let line = format!("--leader-elect-{flag}={value}");
            let args = crate::args::tests::parse(&line).unwrap().election;
            let error = Timings::try_from(&args)
                .err()
                .map(|error| error.to_string());
            let named =
                error.map(|error| error.starts_with(&format!("--leader-elect-{flag} must")));
            assert_eq!(named, is_refused.then_some(true), "{line}");
        }
    }
}
