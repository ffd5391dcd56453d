//! When certificates are replaced, and in which order, as a pure function of what there is and the time.
//!
//! A new authority is added in front of the bundle, and clients are told. Only when the bundle is known to have been in place
//! for a while does the server's certificate change. Only when that has been in use for a while is the old authority
//! forgotten. A certificate that cannot be used anyway has nothing to wait for.

use std::time::Duration;

use super::certificate::Certificate;
use super::contents::Contents;
use super::issue::BACKDATE;

/// For how long certificates are valid, and when they are replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Profile {
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

impl Default for Profile {
    /// Half a year passes between two authorities, a month between two certificates of the server; each would be good for
    /// twice or thrice as long, so that weeks of failures do no harm.
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
pub(super) enum Step {
    /// Nothing for now.
    Keep,
    /// Put a new authority in front of the others.
    AddAuthority,
    /// Have the current authority sign a new certificate for the server.
    ReplaceLeaf,
    /// Keep the current authority alone.
    ForgetAuthorities,
}

/// Decides at `now`, in seconds since 1970. `in_place_for`: how long the current authority has been seen in the clients' bundle.
pub(super) fn step(
    contents: &Contents,
    names: &[String],
    profile: &Profile,
    now: i64,
    in_place_for: Option<Duration>,
) -> Step {
    let Some((authority, _)) =
        contents.current().filter(|(authority, _)| !is_due(authority, profile.authority_age, now))
    else {
        return Step::AddAuthority;
    };
    let usable = contents.leaf().filter(|leaf| {
        leaf.is_valid(now) && names.iter().all(|name| leaf.names.contains(name)) && contents.are_whole()
    });
    let Some(leaf) = usable else { return Step::ReplaceLeaf };
    let is_current = leaf.is_signed_by(authority);
    if !is_current || is_due(leaf, profile.leaf_age, now) {
        let is_settled = in_place_for.is_some_and(|duration| duration >= profile.settling);
        let is_late = now >= leaf.not_after - (leaf.not_after - leaf.not_before) / 10;
        return if is_settled || is_late { Step::ReplaceLeaf } else { Step::Keep };
    }
    let in_use_for = now.saturating_sub(issued(leaf));
    if contents.authorities.len() > 1 && in_use_for >= seconds(profile.overlap) {
        return Step::ForgetAuthorities;
    }
    Step::Keep
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
