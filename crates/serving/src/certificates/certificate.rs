//! A parsed X.509 certificate: its PEM and the fields that decide its rotation.

use std::net::IpAddr;

use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject as _;
use x509_parser::certificate::X509Certificate;
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::FromDer as _;

const BEGIN: &str = "-----BEGIN CERTIFICATE-----";
const END: &str = "-----END CERTIFICATE-----";

/// A parsed certificate. Times are in seconds since 1970.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Certificate {
    pub(super) pem: String,
    pub(super) der: CertificateDer<'static>,
    pub(super) not_before: i64,
    pub(super) not_after: i64,
    /// The DNS names and IP addresses of its subject alternative name.
    pub(super) names: Vec<String>,
}

impl Certificate {
    /// Parses the certificates of a PEM bundle in order. Skips invalid ones.
    pub(super) fn read_all(text: &str) -> Vec<Self> {
        let mut found = Vec::new();
        let mut rest = text;
        while let Some((_, after)) = rest.split_once(BEGIN) {
            let Some((body, after)) = after.split_once(END) else {
                break;
            };
            found.extend(Self::read(&format!("{BEGIN}{body}{END}\n")));
            rest = after;
        }
        found
    }

    pub(super) fn read(pem: &str) -> Option<Self> {
        let der = CertificateDer::from_pem_slice(pem.as_bytes()).ok()?;
        let (_, parsed) = X509Certificate::from_der(&der).ok()?;
        let validity = parsed.validity();
        let (not_before, not_after) = (
            validity.not_before.timestamp(),
            validity.not_after.timestamp(),
        );
        let names = parsed.subject_alternative_name().ok().flatten();
        let names = names
            .iter()
            .flat_map(|names| &names.value.general_names)
            .filter_map(|name| match name {
                GeneralName::DNSName(name) => Some((*name).to_owned()),
                GeneralName::IPAddress(octets) => {
                    address(octets).map(|address| address.to_string())
                }
                _ => None,
            });
        let names = names.collect();
        Some(Self {
            pem: pem.to_owned(),
            not_before,
            not_after,
            names,
            der: der.clone(),
        })
    }

    pub(super) fn is_signed_by(&self, authority: &Self) -> bool {
        let (Ok((_, own)), Ok((_, theirs))) = (
            X509Certificate::from_der(&self.der),
            X509Certificate::from_der(&authority.der),
        ) else {
            return false;
        };
        own.issuer() == theirs.subject() && own.verify_signature(Some(theirs.public_key())).is_ok()
    }

    pub(super) fn is_valid(&self, now: i64) -> bool {
        (self.not_before..self.not_after).contains(&now)
    }
}

fn address(octets: &[u8]) -> Option<IpAddr> {
    let v4: Option<[u8; 4]> = octets.try_into().ok();
    let v6: Option<[u8; 16]> = octets.try_into().ok();
    v4.map(IpAddr::from).or(v6.map(IpAddr::from))
}

/// Joins certificates to a PEM bundle, as in files and `caBundle` fields.
pub(super) fn join(certificates: &[Certificate]) -> String {
    certificates
        .iter()
        .map(|certificate| certificate.pem.as_str())
        .collect()
}
