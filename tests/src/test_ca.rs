//! A certificate authority of a test's own, and what it signs.

use anyhow::Result;
use k8s_openapi::jiff::{Timestamp, ToSpan as _, tz};
use rcgen::{
    BasicConstraints, Certificate, CertificateParams, DnType, IsCa, Issuer, KeyPair, date_time_ymd,
};
use rustls_pki_types::CertificateDer;
use serde_json::{Value, json};

#[derive(Debug)]
pub struct Authority {
    certificate: Certificate,
    issuer: Issuer<'static, KeyPair>,
}

/// A certificate that an authority has signed, and its key.
#[derive(Debug)]
pub struct Issued {
    pub certificate: Certificate,
    pub key: KeyPair,
}

impl Issued {
    /// A Secret of this name with both, as cert-manager writes it.
    pub fn secret(&self, name: &str) -> Value {
        json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": {"name": name},
            "stringData": {"tls.crt": self.certificate.pem(), "tls.key": self.key.serialize_pem()},
        })
    }
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

    pub fn der(&self) -> &CertificateDer<'static> {
        self.certificate.der()
    }

    /// A certificate for this name or address.
    pub fn issue(&self, name: &str) -> Result<Issued> {
        self.sign(&CertificateParams::new([name.to_owned()])?)
    }

    /// A certificate for this name that expires within three days, as one that nothing rotates.
    pub fn issue_expiring(&self, name: &str) -> Result<Issued> {
        let end = Timestamp::now().to_zoned(tz::TimeZone::UTC).date() + 2.days();
        let (month, day) = (end.month().unsigned_abs(), end.day().unsigned_abs());
        let mut params = CertificateParams::new([name.to_owned()])?;
        params.not_after = date_time_ymd(end.year().into(), month, day);
        self.sign(&params)
    }

    fn sign(&self, params: &CertificateParams) -> Result<Issued> {
        let key = KeyPair::generate()?;
        let certificate = params.signed_by(&key, &self.issuer)?;
        Ok(Issued { certificate, key })
    }
}
