//! Certificates that the programs issue: those of the extender and of the feed.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context as _, Result};
use k8s_openapi::api::core::v1::Secret;
use kube::{Api, Client};
use rustls::crypto::aws_lc_rs;
use rustls::{ClientConfig, RootCertStore};
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use sandbox::Sandbox;

use crate::eventually;

/// The name in the feed's certificate.
pub const FEED_SERVER: &str = "plimsoll-recommender";

/// Waits until the extender has issued its certificate; returns a file with its CA, for kube-scheduler.
pub(crate) async fn extender_ca_file(sandbox: &Sandbox) -> Result<PathBuf> {
    let secrets: Api<Secret> = Api::namespaced(sandbox.client().await?, "plimsoll-system");
    let authority = eventually("the extender has issued a certificate", async || {
        let secret = secrets.get("plimsoll-extender-certificates").await?;
        let data = secret.data.unwrap_or_default();
        let authority = data.get("caCert.pem").context("no caCert.pem")?;
        Ok(authority.0.clone())
    })
    .await?;
    let file = sandbox.logs_dir().join("extender-ca.crt");
    fs::write(&file, authority)?;
    Ok(file)
}

/// The TLS configuration of the updater as a reader of the feed, once the recommender has issued its
/// certificate.
pub async fn feed_tls(client: &Client) -> Result<Arc<ClientConfig>> {
    let secrets: Api<Secret> = Api::namespaced(client.clone(), "plimsoll-system");
    eventually("the recommender has issued certificates", async || {
        let secret = secrets.get("plimsoll-updater-feed-tls").await?;
        let data = secret.data.unwrap_or_default();
        let text = |name: &str| {
            let entry = data.get(name).with_context(|| format!("no {name}"))?;
            Ok::<_, anyhow::Error>(std::str::from_utf8(&entry.0)?.to_owned())
        };
        feed_reader(&text("ca.crt")?, &text("tls.crt")?, &text("tls.key")?)
    })
    .await
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
