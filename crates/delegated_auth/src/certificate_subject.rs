//! The last common name, all organizations and the validity of a certificate, as Go reads them.

use std::ops::RangeInclusive;
use std::time::Duration;

use rustls_pki_types::{CertificateDer, UnixTime};
use serving::tls::PeerCertificates;
use x509_parser::prelude::{FromDer as _, X509Certificate};

const UNREADABLE: &str = "the certificate cannot be read";

/// Returns the common name of the first certificate of the chain, the client's; may be empty.
pub(crate) fn common_name(chain: &PeerCertificates) -> Result<String, &'static str> {
    let certificate = parse(chain.0.first().ok_or(UNREADABLE)?)?;
    let Some(name) = certificate.subject().iter_common_name().last() else {
        return Ok(String::new());
    };
    let name = name.as_str().map(str::to_owned);
    name.map_err(|_| "a name in the certificate cannot be read")
}

/// Returns the validity of a certificate; both ends are included.
pub(crate) fn validity(
    certificate: &CertificateDer<'_>,
) -> Result<RangeInclusive<UnixTime>, &'static str> {
    let certificate = parse(certificate)?;
    let time = |seconds: i64| {
        UnixTime::since_unix_epoch(Duration::from_secs(seconds.max(0).unsigned_abs()))
    };
    let validity = certificate.validity();
    Ok(time(validity.not_before.timestamp())..=time(validity.not_after.timestamp()))
}

pub(crate) fn first_expiry(chain: &PeerCertificates) -> Result<UnixTime, &'static str> {
    let ends = chain.0.iter().map(|one| Ok(*validity(one)?.end()));
    let ends = ends.collect::<Result<Vec<UnixTime>, &str>>()?;
    ends.into_iter().min().ok_or(UNREADABLE)
}

fn parse<'a>(certificate: &'a CertificateDer<'_>) -> Result<X509Certificate<'a>, &'static str> {
    X509Certificate::from_der(certificate)
        .map(|(_, certificate)| certificate)
        .map_err(|_| UNREADABLE)
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, DnType, KeyPair};

    use super::*;

    fn check(names: &[(DnType, &str)], expected: &str) {
        let mut params = CertificateParams::new([]).unwrap();
        params.distinguished_name = rcgen::DistinguishedName::new();
        for (kind, text) in names {
            params.distinguished_name.push(kind.clone(), *text);
        }
        let certificate = params.self_signed(&KeyPair::generate().unwrap()).unwrap();
        let found = common_name(&PeerCertificates([certificate.der().clone()].into()));
        assert_eq!(found.as_deref(), Ok(expected));
    }

    #[test]
    fn the_common_name_is_read_from_a_certificate() {
        let both = [
            (DnType::OrganizationName, "system:masters"),
            (DnType::CommonName, "jané"),
        ];
        check(&both, "jané");
        check(&both[..1], "");
    }

    #[test]
    fn bytes_that_are_not_a_certificate_have_no_name() {
        let bytes = CertificateDer::from(vec![0x30, 0x03, 0x02, 0x01, 0x01]);
        let chain = PeerCertificates([bytes].into());
        assert_eq!(common_name(&chain), Err(UNREADABLE));
        assert_eq!(first_expiry(&chain), Err(UNREADABLE));
    }
}
