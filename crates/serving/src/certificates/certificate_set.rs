//! The certificates in the Secret, with the entry names of upstream's scripts.

use std::collections::BTreeMap;

use k8s_openapi::ByteString;
use rustls::crypto::aws_lc_rs;
use rustls::sign::CertifiedKey;
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};

use super::certificate::{Certificate, join};
use super::issue;

const AUTHORITIES: &str = "caCert.pem";
const AUTHORITY_KEY: &str = "caKey.pem";
const CROSS_SIGNED: &str = "caSuccession.pem";
const CHAIN: &str = "serverCert.pem";
const KEY: &str = "serverKey.pem";

#[derive(Clone, Default, PartialEq, Eq)]
pub(super) struct CertificateSet {
    /// The CA bundle for clients, current CA first.
    pub(super) authorities: Vec<Certificate>,
    pub(super) authority_key: Option<String>,
    /// The current CA, cross-signed by its predecessor.
    pub(super) cross_signed: Option<Certificate>,
    pub(super) chain: Vec<Certificate>,
    pub(super) key: Option<String>,
}

impl CertificateSet {
    /// Parses the entries of the Secret. Invalid ones count as missing.
    pub(super) fn read(data: &BTreeMap<String, ByteString>) -> Self {
        let text = |name: &str| String::from_utf8(data.get(name)?.0.clone()).ok();
        let certificates = |name: &str| {
            text(name)
                .map(|text| Certificate::read_all(&text))
                .unwrap_or_default()
        };
        let authorities = certificates(AUTHORITIES);
        let authority_key = text(AUTHORITY_KEY).filter(|key| {
            authorities
                .first()
                .is_some_and(|authority| issue::can_sign(authority, key))
        });
        let chain = certificates(CHAIN);
        let key = text(KEY).filter(|key| is_pair(&chain, key));
        Self {
            authorities,
            authority_key,
            cross_signed: certificates(CROSS_SIGNED).into_iter().next(),
            chain,
            key,
        }
    }

    /// The entries of the Secret; `None` removes an entry.
    pub(super) fn entries(&self) -> BTreeMap<&'static str, Option<ByteString>> {
        let bytes = |text: Option<&str>| {
            let text = text.filter(|text| !text.is_empty())?;
            Some(ByteString(text.as_bytes().to_vec()))
        };
        let cross_signed = self.cross_signed.as_ref();
        BTreeMap::from([
            (AUTHORITIES, bytes(Some(&join(&self.authorities)))),
            (AUTHORITY_KEY, bytes(self.authority_key.as_deref())),
            (CROSS_SIGNED, bytes(cross_signed.map(|one| &*one.pem))),
            (CHAIN, bytes(Some(&join(&self.chain)))),
            (KEY, bytes(self.key.as_deref())),
        ])
    }

    pub(super) fn bundle(&self) -> String {
        join(&self.authorities)
    }

    /// The current CA with its private key, if both are present.
    pub(super) fn current(&self) -> Option<(&Certificate, &str)> {
        self.authorities.first().zip(self.authority_key.as_deref())
    }

    pub(super) fn leaf(&self) -> Option<&Certificate> {
        self.chain.first()
    }

    pub(super) fn is_signed(&self) -> bool {
        let mut authorities = self.authorities.iter();
        self.leaf()
            .is_some_and(|leaf| authorities.any(|authority| leaf.is_signed_by(authority)))
    }

    /// Whether the server certificate and a CA that issued it are valid at `now`, in seconds.
    pub(super) fn is_valid(&self, now: i64) -> bool {
        let vouches = |leaf: &Certificate| {
            let mut valid = self.authorities.iter().filter(|one| one.is_valid(now));
            leaf.is_valid(now) && valid.any(|authority| leaf.is_signed_by(authority))
        };
        self.served().is_some() && self.leaf().is_some_and(vouches)
    }

    /// Whether there is a certificate to serve, with its issuer.
    pub(super) fn is_complete(&self) -> bool {
        self.is_signed() && self.served().is_some()
    }

    /// The chain and key to serve, if both are present.
    pub(super) fn served(&self) -> Option<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>)> {
        let key = PrivateKeyDer::from_pem_slice(self.key.as_ref()?.as_bytes()).ok()?;
        let chain = self.chain.iter().map(|certificate| certificate.der.clone());
        let chain: Vec<_> = chain.collect();
        (!chain.is_empty()).then_some((chain, key))
    }
}

fn is_pair(chain: &[Certificate], key: &str) -> bool {
    let Ok(key) = PrivateKeyDer::from_pem_slice(key.as_bytes()) else {
        return false;
    };
    let chain = chain.iter().map(|certificate| certificate.der.clone());
    CertifiedKey::from_der(chain.collect(), key, &aws_lc_rs::default_provider()).is_ok()
}
