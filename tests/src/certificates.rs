//! Certificates for the recommender's feed and for its readers, made anew in each run.

use std::sync::Arc;

use anyhow::Result;
use k8s_openapi::api::core::v1::Secret;
use kube::api::PostParams;
use kube::{Api, Client};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::crypto::aws_lc_rs;
use rustls::{ClientConfig, RootCertStore};
use rustls_pki_types::PrivateKeyDer;
use serde_json::json;

/// The name in the feed's certificate.
pub const FEED_SERVER: &str = "plimsoll-recommender";
/// A name that the feed lets in.
const CLIENT: &str = "plimsoll-updater";

/// Puts the certificates of the server and of the suite's readers into their Secrets, and gives what a client needs.
pub async fn feed_certificates(client: &Client) -> Result<Arc<ClientConfig>> {
    let mut params = CertificateParams::new([])?;
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let key = KeyPair::generate()?;
    let authority = params.self_signed(&key)?;
    let issuer = Issuer::new(params, key);

    let key = KeyPair::generate()?;
    let server = CertificateParams::new([FEED_SERVER.to_owned()])?.signed_by(&key, &issuer)?;
    let data = json!({"ca.crt": authority.pem(), "tls.crt": server.pem(), "tls.key": key.serialize_pem()});
    let secret = json!({"metadata": {"name": "plimsoll-recommender-feed-tls"}, "stringData": data});
    let secrets: Api<Secret> = Api::namespaced(client.clone(), "plimsoll-system");
    secrets.create(&PostParams::default(), &serde_json::from_value(secret)?).await?;
    for reader in ["plimsoll-updater", "plimsoll-webhook", "plimsoll-adapter"] {
        let key = KeyPair::generate()?;
        let own = CertificateParams::new([reader.to_owned()])?.signed_by(&key, &issuer)?;
        let data = json!({"ca.crt": authority.pem(), "tls.crt": own.pem(), "tls.key": key.serialize_pem()});
        let secret = json!({"metadata": {"name": format!("{reader}-feed-tls")}, "stringData": data});
        secrets.create(&PostParams::default(), &serde_json::from_value(secret)?).await?;
    }

    let key = KeyPair::generate()?;
    let own = CertificateParams::new([CLIENT.to_owned()])?.signed_by(&key, &issuer)?;
    let key = PrivateKeyDer::try_from(key.serialize_der()).map_err(anyhow::Error::msg)?;
    let mut roots = RootCertStore::empty();
    roots.add(authority.der().clone())?;
    let mut config = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_client_auth_cert(vec![own.der().clone()], key)?;
    config.alpn_protocols = vec![b"h2".to_vec()];
    Ok(Arc::new(config))
}
