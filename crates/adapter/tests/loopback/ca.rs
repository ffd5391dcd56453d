//! CAs and the certificates that they sign.

use std::time::{Duration, SystemTime};

use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair,
};
use rustls_pki_types::{CertificateDer, PrivateKeyDer};

pub(crate) struct Ca {
    issuer: Issuer<'static, KeyPair>,
    certificate: rcgen::Certificate,
    /// The CA and its intermediates, which a client must present too.
    between: Vec<CertificateDer<'static>>,
}

pub(crate) struct Identity {
    pub(crate) chain: Vec<CertificateDer<'static>>,
    pub(crate) key: PrivateKeyDer<'static>,
    /// The client's certificate and key.
    pub(crate) pem: (String, String),
}

pub(crate) struct CertificateSpec<'a> {
    pub(crate) common_name: &'a str,
    pub(crate) organizations: &'a [&'a str],
    pub(crate) purposes: &'a [ExtendedKeyUsagePurpose],
    pub(crate) has_ended: bool,
}

impl Default for CertificateSpec<'_> {
    fn default() -> Self {
        Self {
            common_name: "client",
            organizations: &[],
            purposes: &[ExtendedKeyUsagePurpose::ClientAuth],
            has_ended: false,
        }
    }
}

impl Ca {
    pub(crate) fn new(name: &str) -> Self {
        let (params, key) = (authority_params(name), KeyPair::generate().unwrap());
        let certificate = params.self_signed(&key).unwrap();
        Self {
            issuer: Issuer::new(params, key),
            certificate,
            between: Vec::new(),
        }
    }

    /// Issues an intermediate CA.
    pub(crate) fn below(&self, name: &str) -> Self {
        let (params, key) = (authority_params(name), KeyPair::generate().unwrap());
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        Self {
            issuer: Issuer::new(params, key),
            between: vec![certificate.der().clone()],
            certificate,
        }
    }

    pub(crate) fn pem(&self) -> String {
        self.certificate.pem()
    }

    pub(crate) fn der(&self) -> &CertificateDer<'static> {
        self.certificate.der()
    }

    pub(crate) fn server(&self, common_name: &str) -> Identity {
        self.issue(&CertificateSpec {
            common_name,
            purposes: &[],
            ..CertificateSpec::default()
        })
    }

    pub(crate) fn client(&self, common_name: &str) -> Identity {
        self.issue(&CertificateSpec {
            common_name,
            ..CertificateSpec::default()
        })
    }

    pub(crate) fn issue(&self, says: &CertificateSpec<'_>) -> Identity {
        let mut params = CertificateParams::new(["localhost".to_owned()]).unwrap();
        params.distinguished_name = DistinguishedName::new();
        let name = &mut params.distinguished_name;
        for organization in says.organizations {
            name.push(DnType::OrganizationName, *organization);
        }
        name.push(DnType::CommonName, says.common_name);
        params.extended_key_usages = says.purposes.to_vec();
        let now = SystemTime::now();
        let hours = |hours| Duration::from_hours(hours);
        let (from, until) = if says.has_ended {
            (now - hours(48), now - hours(1))
        } else {
            (now - hours(1), now + hours(24))
        };
        (params.not_before, params.not_after) = (from.into(), until.into());
        let key = KeyPair::generate().unwrap();
        let own = params.signed_by(&key, &self.issuer).unwrap();
        let mut chain = vec![own.der().clone()];
        chain.extend(self.between.clone());
        Identity {
            chain,
            key: PrivateKeyDer::try_from(key.serialize_der()).unwrap(),
            pem: (own.pem(), key.serialize_pem()),
        }
    }
}

fn authority_params(name: &str) -> CertificateParams {
    let mut params = CertificateParams::new([]).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
    params
}
