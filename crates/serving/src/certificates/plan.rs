//! When certificates are replaced, and in which order, as a pure function of what there is and the
//! time.
//!
//! A new authority is added in front of the bundle, and clients are told. Only when the bundle is
//! known to have been in place for a while does the server's certificate change. Only when that has
//! been in use for a while is the old authority forgotten. A certificate that cannot be used anyway
//! has nothing to wait for.
//!
//! The time is the API server's, so that replicas agree. Where they do not (API servers with
//! different clocks), no authority signs before its time, contents that are valid are put back in
//! place of such that are not, and each replica takes each step at most once an hour.

use std::time::{Duration, Instant};

use super::certificate::Certificate;
use super::certificate_set::CertificateSet;
use super::issue::BACKDATE;

/// For how long certificates are valid, and when they are replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RotationPolicy {
    /// Of an authority.
    pub authority_validity: Duration,
    /// Age at which an authority is followed by another.
    pub authority_age: Duration,
    /// Of a server's certificate.
    pub leaf_validity: Duration,
    /// Age at which a server's certificate is replaced.
    pub leaf_age: Duration,
    /// How long a bundle must have been seen in place before anything relies on it.
    pub settling: Duration,
    /// How long an old authority stays after nothing relies on it.
    pub overlap: Duration,
    /// How often to look.
    pub tick: Duration,
}

impl Default for RotationPolicy {
    /// Half a year passes between two authorities, a month between two certificates of the server;
    /// each would be good for twice or thrice as long, so that weeks of failures do no harm.
    fn default() -> Self {
        let day = Duration::from_hours(24);
        Self {
            authority_validity: day * 365,
            authority_age: day * 180,
            leaf_validity: day * 90,
            leaf_age: day * 30,
            settling: Duration::from_secs(10),
            overlap: Duration::from_hours(1),
            tick: Duration::from_secs(5),
        }
    }
}

/// What is to be done next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RotationStep {
    /// Nothing for now.
    Keep,
    /// Put a new authority in front of the others.
    AddAuthority,
    /// Have the current authority sign a new certificate for the server.
    ReplaceLeaf,
    /// Keep the current authority alone.
    RemoveOldAuthorities,
    /// Store again what this server uses.
    Restore,
}

/// The pause of one server between two steps of one kind. Replacements that are due are months
/// apart.
const PAUSE: Duration = Duration::from_hours(1);

/// The steps that one server took last, with the time of the steady clock.
#[derive(Debug, Default)]
pub(super) struct StepInterval(Vec<(RotationStep, Instant)>);

impl StepInterval {
    /// Whether a step may be taken at `now`.
    pub(super) fn allows(
        &self,
        step: RotationStep,
        profile: &RotationPolicy,
        now: Instant,
    ) -> bool {
        let pause = PAUSE.min(profile.leaf_age).min(profile.authority_age);
        let last = self.0.iter().find(|(taken, _)| *taken == step);
        last.is_none_or(|(_, at)| now.saturating_duration_since(*at) >= pause)
    }

    /// Notes a step that was taken at `now`.
    pub(super) fn took(&mut self, step: RotationStep, now: Instant) {
        self.0.retain(|(taken, _)| *taken != step);
        self.0.push((step, now));
    }
}

/// Decides at `now`, in seconds since 1970. `in_use`: the contents that this server serves, if it
/// does already. `in_place_for`: how long the current authority has been seen in the clients'
/// bundle.
pub(super) fn step(
    contents: &CertificateSet,
    in_use: Option<&CertificateSet>,
    names: &[String],
    profile: &RotationPolicy,
    now: i64,
    in_place_for: Option<Duration>,
) -> RotationStep {
    let is_worse = |own: &CertificateSet| {
        !contents.is_complete() || !contents.is_valid(now) && own.is_valid(now)
    };
    if in_use.is_some_and(is_worse) {
        return RotationStep::Restore;
    }
    let can_sign = |authority: &Certificate| {
        authority.is_valid(now) && !is_due(authority, profile.authority_age, now)
    };
    let Some((authority, _)) = contents
        .current()
        .filter(|(authority, _)| can_sign(authority))
    else {
        return RotationStep::AddAuthority;
    };
    let is_usable = |leaf: &&Certificate| {
        names.iter().all(|name| leaf.names.contains(name)) && contents.is_valid(now)
    };
    let usable = contents.leaf().filter(is_usable);
    let Some(leaf) = usable else {
        return RotationStep::ReplaceLeaf;
    };
    let is_current = leaf.is_signed_by(authority);
    if !is_current || is_due(leaf, profile.leaf_age, now) {
        let is_settled = in_place_for.is_some_and(|duration| duration >= profile.settling);
        let is_late = now >= leaf.not_after - (leaf.not_after - leaf.not_before) / 10;
        return if is_settled || is_late {
            RotationStep::ReplaceLeaf
        } else {
            RotationStep::Keep
        };
    }
    let in_use_for = now.saturating_sub(issued(leaf));
    if contents.authorities.len() > 1 && in_use_for >= seconds(profile.overlap) {
        return RotationStep::RemoveOldAuthorities;
    }
    RotationStep::Keep
}

/// Whether a certificate is old enough to be replaced, or near its end.
fn is_due(certificate: &Certificate, age: Duration, now: i64) -> bool {
    let third = (certificate.not_after - certificate.not_before) / 3;
    now.saturating_sub(issued(certificate)) >= seconds(age) || now >= certificate.not_after - third
}

fn issued(certificate: &Certificate) -> i64 {
    certificate.not_before.saturating_add(seconds(BACKDATE))
}

fn seconds(duration: Duration) -> i64 {
    i64::try_from(duration.as_secs()).unwrap_or(i64::MAX)
}
