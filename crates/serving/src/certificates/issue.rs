//! Issues CAs and server certificates: ECDSA with P-256.

use std::time::{Duration, SystemTime};

use anyhow::{Context as _, Result};
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, KeyUsagePurpose,
};

use super::certificate::Certificate;
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
