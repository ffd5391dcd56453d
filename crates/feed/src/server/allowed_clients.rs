//! Allowed clients: those with one of the listed names as DNS name in their certificate.

use std::str::FromStr;

use anyhow::{bail, ensure};
use rustls::client::verify_server_name;
use rustls::server::ParsedCertificate;
use rustls_pki_types::{CertificateDer, ServerName};

/// DNS names of allowed clients.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AllowedClients(Vec<ServerName<'static>>);

/// Parses names separated by commas.
impl FromStr for AllowedClients {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> anyhow::Result<Self> {
        let names = text
            .split(',')
            .map(str::trim)
            .filter(|name| !name.is_empty());
        let names = names.map(|name| match ServerName::try_from(name.to_owned()) {
            Ok(name @ ServerName::DnsName(_)) => Ok(name),
            _ => bail!("{name:?} is not a DNS name"),
        });
        let names = names.collect::<anyhow::Result<Vec<_>>>()?;
        ensure!(!names.is_empty(), "at least one name is needed");
        Ok(Self(names))
    }
}

impl AllowedClients {
    pub fn include(&self, certificate: &CertificateDer<'_>) -> bool {
        let Ok(certificate) = ParsedCertificate::try_from(certificate) else {
            return false;
        };
        self.0
            .iter()
            .any(|name| verify_server_name(&certificate, name).is_ok())
    }
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, KeyPair};

    use super::*;

    fn check(allowed: &str, certificate_names: &[&str], expected: bool) {
        let allowed: AllowedClients = allowed.parse().unwrap();
        let names: Vec<String> = certificate_names.iter().map(ToString::to_string).collect();
        let key = KeyPair::generate().unwrap();
        let certificate = CertificateParams::new(names)
            .unwrap()
            .self_signed(&key)
            .unwrap();
        assert_eq!(
            allowed.include(certificate.der()),
            expected,
            "{certificate_names:?} in {allowed:?}"
        );
    }

    #[test]
    fn a_certificate_must_carry_one_of_the_names() {
        check("plimsoll-updater", &["plimsoll-updater"], true);
        check(
            "plimsoll-webhook, plimsoll-updater",
            &["other", "plimsoll-updater"],
            true,
        );
        check("plimsoll-updater", &["plimsoll-webhook"], false);
        check("plimsoll-updater", &["plimsoll-updater.example.com"], false);
        check("plimsoll-updater", &["127.0.0.1"], false);
        check("plimsoll-updater", &[], false);
    }

    #[test]
    fn a_list_holds_at_least_one_name() {
        let error = |text: &str| text.parse::<AllowedClients>().unwrap_err().to_string();
        assert_eq!(error(" , "), "at least one name is needed");
        for name in ["a b", "10.0.0.1", "-"] {
            assert_eq!(error(name), format!("{name:?} is not a DNS name"));
        }
    }
}
