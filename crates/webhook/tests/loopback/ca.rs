//! CAs that are not managed by the webhook.

use std::time::{Duration, SystemTime};

use anyhow::Result;
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};

use crate::fixture::NAME;

const DAY: Duration = Duration::from_hours(24);

pub(crate) struct Ca {
    issuer: Issuer<'static, KeyPair>,
    pub(crate) pem: String,
}

impl Ca {
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

    /// A certificate and its key. With `left` it is valid for ninety days, of which these are left.
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
