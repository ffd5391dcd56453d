//! Verification of a served certificate against the CA bundle of its clients, as in a TLS
//! handshake.
//!
//! As in Go, and so in the API server, a CA counts only while it is valid. `webpki` does not check
//! that.

use std::sync::Arc;
use std::time::SystemTime;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier as _;
use rustls::crypto::aws_lc_rs;
use rustls::{CertificateError, RootCertStore};
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};

use super::certificate::Certificate;
use super::seconds;

/// The result of verifying the served certificate as its clients do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verification {
    /// The CA bundle of the clients is not known.
    Unknown,
    /// The clients accept it.
    Verified,
    /// The clients reject it according to a bundle that may be outdated; the bundle should be read
    /// again.
    Suspect,
    /// The clients reject it.
    Failed,
}

/// Returns why clients that connect to `name` and trust `bundle` (PEM) reject `chain`, the leaf
/// first; `None` if they accept it.
pub(super) fn verification_error(
    chain: &[Certificate],
    bundle: &str,
    name: &str,
    now: SystemTime,
) -> Option<String> {
    let Some((leaf, others)) = chain.split_first() else {
        return Some("there is no certificate".to_owned());
    };
    let trusted = Certificate::read_all(bundle);
    if trusted.is_empty() {
        return Some("no authority is trusted".to_owned());
    }
    let now_seconds = seconds(now);
    if trusted.iter().any(|one| one.der == leaf.der) {
        // A trusted leaf needs no CA: the API server accepts it even if it is marked as a CA.
        let is_named = leaf.names.iter().any(|own| own == name);
        return match (leaf.is_valid(now_seconds), is_named) {
            (false, _) => Some(reason(&CertificateError::Expired, name)),
            (true, false) => Some(reason(&CertificateError::NotValidForName, name)),
            (true, true) => None,
        };
    }
    let (valid, invalid): (Vec<_>, Vec<_>) = trusted
        .into_iter()
        .partition(|one| one.is_valid(now_seconds));
    let unknown = || match invalid
        .iter()
        .find(|authority| chain.iter().any(|one| one.is_signed_by(authority)))
    {
        Some(authority) if authority.not_before > now_seconds => {
            "the authority that signed it has not begun".to_owned()
        }
        Some(_) => "the authority that signed it has ended".to_owned(),
        None => reason(&CertificateError::UnknownIssuer, name),
    };
    if valid.is_empty() {
        return Some(unknown());
    }
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(valid.into_iter().map(|one| one.der));
    let provider = Arc::new(aws_lc_rs::default_provider());
    let verifier =
        match WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider).build() {
            Ok(verifier) => verifier,
            Err(error) => return Some(error.to_string()),
        };
    let Ok(server) = ServerName::try_from(name) else {
        return Some(format!("{name:?} is no name of a server"));
    };
    let others: Vec<CertificateDer<'_>> = others.iter().map(|one| one.der.clone()).collect();
    let now = UnixTime::since_unix_epoch(
        now.duration_since(SystemTime::UNIX_EPOCH)
            .unwrap_or_default(),
    );
    Some(
        match verifier
            .verify_server_cert(&leaf.der, &others, &server, &[], now)
            .err()?
        {
            rustls::Error::InvalidCertificate(CertificateError::UnknownIssuer) => unknown(),
            rustls::Error::InvalidCertificate(error) => reason(&error, name),
            other => other.to_string(),
        },
    )
}

/// A constant text per kind of error, without the times of the library's messages, so that a
/// lasting error is logged once.
fn reason(error: &CertificateError, name: &str) -> String {
    match error {
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            "it has ended".to_owned()
        }
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            "it has not begun".to_owned()
        }
        CertificateError::UnknownIssuer => "none of the trusted authorities signed it".to_owned(),
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            format!("it is not for {name}")
        }
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::issue;
    use super::*;

    const NAME: &str = "webhook.shop.svc";
    const DAY: Duration = Duration::from_hours(24);

    fn begin() -> SystemTime {
        SystemTime::UNIX_EPOCH + DAY * 20_000
    }

    fn authority() -> issue::Pair {
        issue::authority("shop", begin(), DAY * 10, None)
            .expect("an authority")
            .authority
    }

    fn leaf(authority: &issue::Pair) -> Certificate {
        let names = [NAME.to_owned(), "127.0.0.1".to_owned()];
        issue::leaf(
            (&authority.certificate, &authority.key),
            &names,
            begin(),
            DAY,
        )
        .expect("a leaf")
        .certificate
    }

    #[track_caller]
    fn check(
        chain: &[Certificate],
        bundle: &str,
        name: &str,
        after: Duration,
        expected: Option<&str>,
    ) {
        assert_eq!(
            verification_error(chain, bundle, name, begin() + after).as_deref(),
            expected
        );
    }

    #[test]
    fn a_certificate_is_taken_from_a_trusted_authority_for_its_names_and_in_its_time() {
        let (one, other) = (authority(), authority());
        let chain = [leaf(&one)];
        let (trusted, foreign) = (one.certificate.pem.clone(), other.certificate.pem.clone());
        let both = format!("{foreign}nonsense\n{trusted}");
        check(&chain, &trusted, NAME, DAY / 2, None);
        check(&chain, &both, "127.0.0.1", DAY / 2, None);
        check(
            &chain,
            &foreign,
            NAME,
            DAY / 2,
            Some("none of the trusted authorities signed it"),
        );
        check(
            &chain,
            &trusted,
            "other.shop.svc",
            DAY / 2,
            Some("it is not for other.shop.svc"),
        );
        check(&chain, &trusted, NAME, DAY * 2, Some("it has ended"));
        check(&chain, "", NAME, DAY / 2, Some("no authority is trusted"));
        check(
            &chain,
            "nonsense",
            NAME,
            DAY / 2,
            Some("no authority is trusted"),
        );
        check(
            &chain,
            &trusted,
            "",
            DAY / 2,
            Some("\"\" is no name of a server"),
        );
        check(
            &[],
            &trusted,
            NAME,
            DAY / 2,
            Some("there is no certificate"),
        );
    }

    #[test]
    fn a_certificate_that_is_trusted_itself_needs_no_authority() {
        let leaf = leaf(&authority());
        let bundle = leaf.pem.clone();
        let chain = [leaf];
        check(&chain, &bundle, NAME, DAY / 2, None);
        check(
            &chain,
            &bundle,
            "other",
            DAY / 2,
            Some("it is not for other"),
        );
        check(&chain, &bundle, NAME, DAY * 2, Some("it has ended"));
    }

    #[test]
    fn a_ca_counts_only_while_it_is_valid() {
        // The leaf outlives its authority, which is valid for ten days.
        let own = authority();
        let names = [NAME.to_owned()];
        let leaf = issue::leaf((&own.certificate, &own.key), &names, begin(), DAY * 90)
            .expect("a leaf")
            .certificate;
        let chain = [leaf];
        check(&chain, &own.certificate.pem, NAME, DAY * 9, None);
        check(
            &chain,
            &own.certificate.pem,
            NAME,
            DAY * 11,
            Some("the authority that signed it has ended"),
        );
    }
}
