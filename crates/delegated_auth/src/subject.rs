//! Whom a certificate is about, as Go reads it: the last common name, and every organisation.

use std::ops::RangeInclusive;
use std::time::Duration;

use rustls_pki_types::{CertificateDer, UnixTime};
use serving::tls::PeerCertificates;
use x509_parser::prelude::{FromDer as _, X509Certificate};
use x509_parser::x509::{AttributeTypeAndValue, X509Name};

/// Whom a certificate is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Subject {
    /// The common name; may be empty.
    pub(crate) common_name: String,
    /// Organisations.
    pub(crate) organizations: Vec<String>,
}

/// Why nobody knows.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum SubjectError {
    /// It is no certificate.
    #[error("the certificate cannot be read")]
    Unreadable,
    /// A name is in no alphabet that is known.
    #[error("a name in the certificate cannot be read")]
    Name,
}

/// Whom the client's own certificate is about.
pub(crate) fn subject(chain: &PeerCertificates) -> Result<Subject, SubjectError> {
    let own = chain.0.first().ok_or(SubjectError::Unreadable)?;
    let certificate = read(own)?;
    let name: &X509Name<'_> = certificate.subject();
    let text = |attribute: &AttributeTypeAndValue<'_>| attribute.as_str().map(str::to_owned);
    let common_name = name
        .iter_common_name()
        .last()
        .map(text)
        .transpose()
        .map_err(|_| SubjectError::Name)?;
    let organizations: Result<_, _> = name.iter_organization().map(text).collect();
    Ok(Subject {
        common_name: common_name.unwrap_or_default(),
        organizations: organizations.map_err(|_| SubjectError::Name)?,
    })
}

/// From when until when a certificate is to be used, both included.
pub(crate) fn validity(
    certificate: &CertificateDer<'_>,
) -> Result<RangeInclusive<UnixTime>, SubjectError> {
    let certificate = read(certificate)?;
    let time = |seconds: i64| {
        UnixTime::since_unix_epoch(Duration::from_secs(seconds.max(0).unsigned_abs()))
    };
    let validity = certificate.validity();
    Ok(time(validity.not_before.timestamp())..=time(validity.not_after.timestamp()))
}

/// When the first certificate of the chain ends.
pub(crate) fn first_end(chain: &PeerCertificates) -> Result<UnixTime, SubjectError> {
    let ends = chain
        .0
        .iter()
        .map(|certificate| validity(certificate).map(|validity| *validity.end()));
    ends.collect::<Result<Vec<_>, _>>()?
        .into_iter()
        .min()
        .ok_or(SubjectError::Unreadable)
}

fn read<'a>(certificate: &'a CertificateDer<'_>) -> Result<X509Certificate<'a>, SubjectError> {
    X509Certificate::from_der(certificate)
        .map(|(_, certificate)| certificate)
        .map_err(|_| SubjectError::Unreadable)
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, DnType, KeyPair};

    use super::*;

    fn check(names: &[(DnType, &str)], common_name: &str, organizations: &[&str]) {
        let mut params = CertificateParams::new([]).unwrap();
        params.distinguished_name = rcgen::DistinguishedName::new();
        for (kind, text) in names {
            params.distinguished_name.push(kind.clone(), *text);
        }
        let certificate = params.self_signed(&KeyPair::generate().unwrap()).unwrap();
        let found = subject(&PeerCertificates([certificate.der().clone()].into())).unwrap();
        assert_eq!(found.common_name, common_name);
        assert_eq!(found.organizations, organizations);
    }

    #[test]
    fn a_certificate_says_name_and_groups() {
        check(&[(DnType::CommonName, "jane")], "jane", &[]);
        check(
            &[
                (DnType::OrganizationName, "system:masters"),
                (DnType::CommonName, "jané"),
            ],
            "jané",
            &["system:masters"],
        );
        check(&[(DnType::OrganizationName, "a")], "", &["a"]);
    }

    #[test]
    fn what_is_no_certificate_is_about_nobody() {
        let chain =
            PeerCertificates([CertificateDer::from(vec![0x30, 0x03, 0x02, 0x01, 0x01])].into());
        assert_eq!(subject(&chain), Err(SubjectError::Unreadable));
        assert_eq!(first_end(&chain), Err(SubjectError::Unreadable));
    }
}
