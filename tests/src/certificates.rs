//! New certificates in each run: for the recommender's feed and its readers, and for the extender.

use std::sync::Arc;

use anyhow::Result;
use k8s_openapi::api::core::v1::Secret;
use kube::{Api, Client};
use rustls::crypto::aws_lc_rs;
use rustls::{ClientConfig, RootCertStore};
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use serde_json::json;

use crate::{Authority, Issued, create};

/// The name in the feed's certificate.
pub const FEED_SERVER: &str = "plimsoll-recommender";
/// Names that the feed lets in, of programs that read it.
const READERS: [&str; 3] = ["plimsoll-updater", "plimsoll-webhook", "plimsoll-adapter"];
/// The name in the extender's certificate, and in the configuration of kube-scheduler.
const EXTENDER: &str = "plimsoll-extender.plimsoll-system.svc";

/// Puts the extender's certificate into its Secret; returns the authority that signed it.
pub async fn extender_certificate(client: &Client) -> Result<Authority> {
    let authority = Authority::new("extender")?;
    let Issued { certificate, key } = authority.issue(EXTENDER)?;
    let data = json!({"tls.crt": certificate.pem(), "tls.key": key.serialize_pem()});
    let secret = json!({"metadata": {"name": "plimsoll-extender-tls"}, "stringData": data});
    let secrets: Api<Secret> = Api::namespaced(client.clone(), "plimsoll-system");
    create(&secrets, secret).await?;
    Ok(authority)
}

/// Puts the certificates of the server and of the suite's readers into their Secrets; returns the
/// TLS configuration of a reader.
pub async fn feed_certificates(client: &Client) -> Result<Arc<ClientConfig>> {
    let authority = Authority::new("feed")?;
    let secrets: Api<Secret> = Api::namespaced(client.clone(), "plimsoll-system");
    for name in [FEED_SERVER].into_iter().chain(READERS) {
        let Issued { certificate, key } = authority.issue(name)?;
        let data = json!({"ca.crt": authority.pem(), "tls.crt": certificate.pem(), "tls.key": key.serialize_pem()});
        let secret = json!({"metadata": {"name": format!("{name}-feed-tls")}, "stringData": data});
        create(&secrets, secret).await?;
    }

    let Issued { certificate, key } = authority.issue(READERS[0])?;
    feed_reader(&authority.pem(), &certificate.pem(), &key.serialize_pem())
}

/// The TLS configuration of a reader of the feed with this CA, certificate and key, in PEM.
pub fn feed_reader(authority: &str, certificate: &str, key: &str) -> Result<Arc<ClientConfig>> {
    let mut roots = RootCertStore::empty();
    for root in CertificateDer::pem_slice_iter(authority.as_bytes()) {
        roots.add(root?)?;
    }
    let chain = CertificateDer::pem_slice_iter(certificate.as_bytes());
    let chain = chain.collect::<Result<Vec<_>, _>>()?;
    let key = PrivateKeyDer::from_pem_slice(key.as_bytes())?;
    let mut config = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_client_auth_cert(chain, key)?;
    config.alpn_protocols = vec![b"h2".to_vec()];
    Ok(Arc::new(config))
}
