//! The time at which a certificate that another program maintains is reported as expiring.

use std::time::Duration;

use super::certificate::Certificate;

/// The last fifth of the validity.
const SHARE: i64 = 5;
/// At most 14 days.
const MOST: Duration = Duration::from_hours(14 * 24);

/// Whether `certificate` expires soon at `now` (in seconds since 1970) or has expired.
///
/// cert-manager renews certificates when a third of their validity is left.
pub(super) fn expires_soon(certificate: &Certificate, now: i64) -> bool {
    let Certificate {
        not_before,
        not_after,
        ..
    } = certificate;
    let share = not_after.saturating_sub(*not_before) / SHARE;
    let before = share.min(i64::try_from(MOST.as_secs()).unwrap_or(i64::MAX));
    now >= not_after.saturating_sub(before)
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
