//! Authorities as people have them who look after certificates themselves.

use std::time::{Duration, SystemTime};

use anyhow::Result;
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};

use crate::running::NAME;

const DAY: Duration = Duration::from_hours(24);

pub(crate) struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pub(crate) pem: String,
}

impl Authority {
    pub(crate) fn new(name: &str) -> Result<Self> {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, name);
        let key = KeyPair::generate()?;
        let pem = params.self_signed(&key)?.pem();
        Ok(Self {
            issuer: Issuer::new(params, key),
            pem,
        })
    }

    /// A certificate and its key; of ninety days, of which so many are left, where that is said.
    pub(crate) fn issue(&self, left: Option<u32>) -> Result<(String, String)> {
        let key = KeyPair::generate()?;
        let mut params = CertificateParams::new([NAME.to_owned()])?;
        if let Some(left) = left {
            let end = SystemTime::now() + DAY * left;
            (params.not_before, params.not_after) = ((end - DAY * 90).into(), end.into());
        }
        let certificate = params.signed_by(&key, &self.issuer)?;
        Ok((certificate.pem(), key.serialize_pem()))
    }
}
