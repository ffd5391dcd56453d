//! The certificates in the Secret, with the entry names of upstream's scripts.

use std::collections::BTreeMap;

use anyhow::Result;
use http::StatusCode;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{Patch, PatchParams};
use rustls::crypto::aws_lc_rs;
use rustls::sign::CertifiedKey;
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use serde_json::{Value, json};

use super::issue::{Certificate, join};
use super::{ManagedConfig, failed, issue};

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

/// The Secret as last read or written.
/// A write fails if another one came after the read.
#[derive(Clone)]
pub(super) struct StoredSecret {
    pub(super) contents: CertificateSet,
    /// The resource version; absent if there is no Secret.
    version: Option<String>,
}

impl StoredSecret {
    pub(super) async fn read(managed: &ManagedConfig) -> Result<Self> {
        let secret = managed.secrets.get_opt(&managed.secret).await;
        let secret = secret.map_err(|error| failed(&managed.secret, &error))?;
        Ok(Self::of(secret.unwrap_or_default()))
    }

    fn of(secret: Secret) -> Self {
        let contents = CertificateSet::read(&secret.data.unwrap_or_default());
        Self {
            contents,
            version: secret.metadata.resource_version,
        }
    }

    /// Writes `contents` unless the Secret has changed since it was read. Returns whether it was
    /// written, and the Secret afterwards.
    pub(super) async fn write(
        self,
        managed: &ManagedConfig,
        contents: CertificateSet,
    ) -> Result<(bool, Self)> {
        let ManagedConfig {
            secrets,
            secret: name,
            ..
        } = managed;
        let written = if let Some(version) = &self.version {
            let change =
                json!({"metadata": {"resourceVersion": version}, "data": contents.entries()});
            let params = PatchParams::default();
            secrets.patch(name, &params, &Patch::Merge(change)).await
        } else {
            // The random field manager makes the request conflict with a Secret that another replica
            // created meanwhile.
            let applied_by = format!("plimsoll-{:016x}", rand::random::<u64>());
            let params = PatchParams::apply(&applied_by);
            let secret = Patch::Apply(complete(name, &contents.entries()));
            secrets.patch(name, &params, &secret).await
        };
        match written {
            Ok(secret) => Ok((true, Self::of(secret))),
            Err(kube::Error::Api(status)) if status.code == StatusCode::CONFLICT.as_u16() => {
                Ok((false, Self::read(managed).await?))
            }
            Err(error) => Err(failed(name, &error)),
        }
    }
}

/// The complete Secret for a server-side apply, since RBAC can limit patch to a name, but not create.
pub(super) fn complete(name: &str, entries: &BTreeMap<&str, Option<ByteString>>) -> Value {
    let data: BTreeMap<_, _> = entries
        .iter()
        .filter(|(_, value)| value.is_some())
        .collect();
    json!({
        "apiVersion": "v1",
        "kind": "Secret",
        "type": "Opaque",
        "metadata": {"name": name, "labels": {"app.kubernetes.io/part-of": "plimsoll"}},
        "data": data,
    })
}
