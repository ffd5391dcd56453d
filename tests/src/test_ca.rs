//! A certificate authority of a test's own, and what it signs.

use anyhow::Result;
use rcgen::{BasicConstraints, Certificate, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use rustls_pki_types::CertificateDer;

/// An authority, with its key.
#[derive(Debug)]
pub struct Authority {
    certificate: Certificate,
    issuer: Issuer<'static, KeyPair>,
}

/// A certificate that an authority has signed, and its key.
#[derive(Debug)]
pub struct Issued {
    /// The certificate.
    pub certificate: Certificate,
    /// Its key.
    pub key: KeyPair,
}

impl Authority {
    /// With this common name: authorities that are trusted side by side need names of their own.
    pub fn new(name: &str) -> Result<Self> {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, name);
        let key = KeyPair::generate()?;
        let certificate = params.self_signed(&key)?;
        Ok(Self {
            certificate,
            issuer: Issuer::new(params, key),
        })
    }

    /// Its own certificate as text.
    pub fn pem(&self) -> String {
        self.certificate.pem()
    }

    /// Its own certificate.
    pub fn der(&self) -> &CertificateDer<'static> {
        self.certificate.der()
    }

    /// A certificate for this name or address.
    pub fn issue(&self, name: &str) -> Result<Issued> {
        let key = KeyPair::generate()?;
        let certificate =
            CertificateParams::new([name.to_owned()])?.signed_by(&key, &self.issuer)?;
        Ok(Issued { certificate, key })
    }
}
