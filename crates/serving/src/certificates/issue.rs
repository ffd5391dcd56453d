//! Issues CAs and server certificates: ECDSA with P-256.

use std::net::IpAddr;
use std::time::{Duration, SystemTime};

use anyhow::{Context as _, Result};
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, KeyUsagePurpose,
};
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject as _;
use x509_parser::certificate::X509Certificate;
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::FromDer as _;

use super::seconds;

/// Validity before the time of issue: the clocks of several API servers may differ.
pub(super) const BACKDATE: Duration = Duration::from_hours(24);

pub(super) struct Pair {
    pub(super) certificate: Certificate,
    pub(super) key: String,
}

/// A new CA, also cross-signed by its predecessor for clients that do not have the new one yet.
pub(super) struct NewAuthority {
    pub(super) authority: Pair,
    pub(super) cross_signed: Option<Certificate>,
}

/// Issues a CA, cross-signed by `last` if that can sign.
pub(super) fn authority(
    name: &str,
    now: SystemTime,
    validity: Duration,
    last: Option<(&Certificate, &str)>,
) -> Result<NewAuthority> {
    let mut params = dated(CertificateParams::default(), now, validity)?;
    // Clients look up CAs by name, so each name is unique.
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(
        DnType::CommonName,
        format!("{name} {}.{:08x}", seconds(now), rand::random::<u32>()),
    );
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![
        KeyUsagePurpose::KeyCertSign,
        KeyUsagePurpose::CrlSign,
        KeyUsagePurpose::DigitalSignature,
    ];
    let key = KeyPair::generate()?;
    let certificate = readable(&params.self_signed(&key)?)?;
    let cross_signed = match last.and_then(|(certificate, key)| issuer(certificate, key).ok()) {
        Some(issuer) => {
            params.use_authority_key_identifier_extension = true;
            Some(readable(&params.signed_by(&key, &issuer)?)?)
        }
        None => None,
    };
    Ok(NewAuthority {
        authority: Pair {
            certificate,
            key: key.serialize_pem(),
        },
        cross_signed,
    })
}

/// The side of a connection that presents a certificate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    Server,
    Both,
}

/// Issues a certificate for these DNS names and IP addresses.
pub(super) fn leaf(
    (authority, key): (&Certificate, &str),
    names: &[String],
    side: Side,
    now: SystemTime,
    validity: Duration,
) -> Result<Pair> {
    let issuer = issuer(authority, key)?;
    let mut params = dated(CertificateParams::new(names)?, now, validity)?;
    params.distinguished_name = DistinguishedName::new();
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    if side == Side::Both {
        let client = ExtendedKeyUsagePurpose::ClientAuth;
        params.extended_key_usages.push(client);
    }
    params.use_authority_key_identifier_extension = true;
    let key = KeyPair::generate()?;
    let certificate = readable(&params.signed_by(&key, &issuer)?)?;
    Ok(Pair {
        certificate,
        key: key.serialize_pem(),
    })
}

/// Whether the key can sign for the CA.
pub(super) fn can_sign(authority: &Certificate, key: &str) -> bool {
    issuer(authority, key)
        .and_then(|issuer| {
            let params = CertificateParams::new(["probe.invalid".to_owned()])?;
            readable(&params.signed_by(issuer.key(), &issuer)?)
        })
        .is_ok_and(|signed| signed.is_signed_by(authority))
}

fn issuer(authority: &Certificate, key: &str) -> Result<Issuer<'static, KeyPair>> {
    let key = KeyPair::from_pem(key)?;
    Ok(Issuer::from_ca_cert_der(&authority.der, key)?)
}

fn dated(
    mut params: CertificateParams,
    now: SystemTime,
    validity: Duration,
) -> Result<CertificateParams> {
    let (begin, end) = (now.checked_sub(BACKDATE), now.checked_add(validity));
    let (begin, end) = begin
        .zip(end)
        .context("the clock is outside the range of certificates")?;
    params.not_before = begin.into();
    params.not_after = end.into();
    Ok(params)
}

fn readable(certificate: &rcgen::Certificate) -> Result<Certificate> {
    Certificate::read(&certificate.pem()).context("cannot parse an issued certificate")
}

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
