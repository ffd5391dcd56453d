//! The next step of a certificate rotation, a pure function of the stored certificates and time.
//!
//! 1. A new CA is added in front of the CA bundle.
//! 2. The server certificate is replaced once clients have had that bundle for a while.
//! 3. The old CA is removed once the new server certificate has been in use for a while.
//!
//! A certificate that is unusable is replaced at once. For example, with the default policy a new
//! CA is added after 180 days, and the server certificate follows about 10 s after clients have the
//! new bundle.
//!
//! Times are those of the API server, so that replicas agree. If API servers have different clocks,
//! three rules prevent a conflict: no CA signs before it is valid, valid certificates are restored
//! over invalid ones, and each replica takes each step at most once an hour.

use std::time::{Duration, Instant};

use super::certificate_set::CertificateSet;
use super::issue::{BACKDATE, Certificate};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RotationPolicy {
    /// Validity of a CA. Default 365 days.
    pub authority_validity: Duration,
    /// Age at which a CA gets a successor. Default 180 days.
    pub authority_age: Duration,
    /// Validity of a server certificate. Default 90 days.
    pub leaf_validity: Duration,
    /// Age at which a server certificate is replaced. Default 30 days.
    pub leaf_age: Duration,
    /// Time for which clients must have had a bundle before anything relies on it. Default 10 s.
    pub settling: Duration,
    /// Time for which an old CA is kept after its last use. Default 1 h.
    pub overlap: Duration,
    /// Interval between two ticks. Default 5 s.
    pub tick: Duration,
}

impl Default for RotationPolicy {
    /// The validity is twice or three times the rotation age, so that weeks of failures do no harm.
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

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RotationStep {
    Keep,
    /// Add a new CA in front of the others.
    AddAuthority,
    ReplaceLeaf,
    RemoveOldAuthorities,
    /// Store the certificates that this replica serves.
    Restore,
}

/// Minimum interval between two equal steps of one replica. Regular rotations are months apart.
const PAUSE: Duration = Duration::from_hours(1);

/// The last steps of this replica and their monotonic times.
#[derive(Debug, Default)]
pub(super) struct StepInterval(Vec<(RotationStep, Instant)>);

impl StepInterval {
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

    pub(super) fn took(&mut self, step: RotationStep, now: Instant) {
        self.0.retain(|(taken, _)| *taken != step);
        self.0.push((step, now));
    }
}

/// Decides the next step at `now`, in seconds since 1970. `in_use` are the certificates that this
/// replica serves, if any. `in_place_for` is how long the current CA has been in the clients'
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
    if contents.authorities.len() > 1 && in_use_for >= whole_seconds(profile.overlap) {
        return RotationStep::RemoveOldAuthorities;
    }
    RotationStep::Keep
}

/// Whether a certificate has reached `age`, or a third of its validity is left.
pub(super) fn is_due(certificate: &Certificate, age: Duration, now: i64) -> bool {
    let third = (certificate.not_after - certificate.not_before) / 3;
    now.saturating_sub(issued(certificate)) >= whole_seconds(age)
        || now >= certificate.not_after - third
}

/// Time of issue in seconds since 1970.
pub(super) fn issued(certificate: &Certificate) -> i64 {
    certificate
        .not_before
        .saturating_add(whole_seconds(BACKDATE))
}

pub(super) fn whole_seconds(duration: Duration) -> i64 {
    i64::try_from(duration.as_secs()).unwrap_or(i64::MAX)
}

/// Longest time before its end at which [`expires_soon`] reports a certificate.
const LONGEST_NOTICE: Duration = Duration::from_hours(14 * 24);

/// Whether a certificate that another program maintains is in the last fifth of its validity, at most
/// 14 days, at `now` (in seconds since 1970), or has expired.
///
/// cert-manager renews certificates when a third of their validity is left.
pub(super) fn expires_soon(certificate: &Certificate, now: i64) -> bool {
    let end = certificate.not_after;
    let fifth = end.saturating_sub(certificate.not_before) / 5;
    now >= end.saturating_sub(fifth.min(whole_seconds(LONGEST_NOTICE)))
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use super::super::issue;
    use super::*;

    fn check(validity: Duration, left: Duration, expected: bool) {
        let now = SystemTime::UNIX_EPOCH + Duration::from_hours(500_000);
        let made = issue::authority("shop", now, validity, None).expect("an authority");
        let [validity_seconds, left] =
            [validity, left].map(|time| i64::try_from(time.as_secs()).expect("a time"));
        let certificate = made.authority.certificate;
        let certificate = Certificate {
            not_before: certificate.not_after - validity_seconds,
            ..certificate
        };
        assert_eq!(
            expires_soon(&certificate, certificate.not_after - left),
            expected,
            "{left} s of {validity:?}"
        );
    }

    #[test]
    fn an_expiry_is_reported_in_time_but_not_too_early() {
        let (hour, day) = (Duration::from_hours(1), Duration::from_hours(24));
        check(day * 90, day * 30, false);
        check(day * 90, day * 15, false);
        check(day * 90, day * 13, true);
        check(day * 3650, day * 15, false);
        check(day * 3650, day * 13, true);
        check(day, hour * 8, false);
        check(day, hour * 4, true);
        check(day, Duration::ZERO, true);
    }
}
