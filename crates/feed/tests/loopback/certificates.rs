//! Certificate authorities and the certificates of servers and clients.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::crypto::aws_lc_rs;
use rustls::server::WebPkiClientVerifier;
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use rustls_pki_types::{CertificateDer, PrivateKeyDer};

/// Name of every server.
pub(crate) const SERVER: &str = "plimsoll-recommender";

pub(crate) struct Authority {
    issuer: Issuer<'static, KeyPair>,
    certificate: CertificateDer<'static>,
}

const AUTHORITY: &str = "authority";
const CERTIFICATE: &str = "certificate";
const KEY: &str = "key";

type Pair = (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>);

impl Authority {
    pub(crate) fn new() -> Self {
        let mut params = CertificateParams::new([]).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let certificate = params.self_signed(&key).unwrap().der().clone();
        Self {
            issuer: Issuer::new(params, key),
            certificate,
        }
    }

    fn issue(&self, name: &str) -> Pair {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new([name.to_owned()]).unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        (
            vec![certificate.der().clone()],
            PrivateKeyDer::try_from(key.serialize_der()).unwrap(),
        )
    }

    fn roots(&self) -> RootCertStore {
        let mut roots = RootCertStore::empty();
        roots.add(self.certificate.clone()).unwrap();
        roots
    }

    pub(crate) fn server(&self) -> Arc<ServerConfig> {
        server(self.roots(), self.issue(SERVER))
    }

    /// Writes the files that a server in another process needs.
    pub(crate) fn write_server(&self, folder: &Path) {
        let (chain, key) = self.issue(SERVER);
        for (name, der) in [
            (AUTHORITY, &*self.certificate),
            (CERTIFICATE, &*chain[0]),
            (KEY, key.secret_der()),
        ] {
            fs::write(folder.join(name), der).unwrap();
        }
    }

    /// A client of this authority with this name.
    pub(crate) fn named(&self, name: &str) -> Arc<ClientConfig> {
        self.client(Some((self, name)))
    }

    /// A client that trusts this authority and presents a certificate of another, if any.
    pub(crate) fn client(&self, own: Option<(&Self, &str)>) -> Arc<ClientConfig> {
        let provider = Arc::new(aws_lc_rs::default_provider());
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap();
        let builder = builder.with_root_certificates(self.roots());
        let mut config = match own.map(|(issuer, name)| issuer.issue(name)) {
            None => builder.with_no_client_auth(),
            Some((chain, key)) => builder.with_client_auth_cert(chain, key).unwrap(),
        };
        config.alpn_protocols = vec![b"h2".to_vec()];
        Arc::new(config)
    }
}

/// A server from the files of [`Authority::write_server`].
pub(crate) fn server_from(folder: &Path) -> Arc<ServerConfig> {
    let read = |name| fs::read(folder.join(name)).unwrap();
    let mut roots = RootCertStore::empty();
    roots.add(read(AUTHORITY).into()).unwrap();
    server(
        roots,
        (
            vec![read(CERTIFICATE).into()],
            PrivateKeyDer::try_from(read(KEY)).unwrap(),
        ),
    )
}

fn server(roots: RootCertStore, (chain, key): Pair) -> Arc<ServerConfig> {
    let provider = Arc::new(aws_lc_rs::default_provider());
    let verifier =
        WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider))
            .build()
            .unwrap();
    let builder = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap();
    let mut config = builder
        .with_client_cert_verifier(verifier)
        .with_single_cert(chain, key)
        .unwrap();
    config.alpn_protocols = vec![b"h2".to_vec()];
    Arc::new(config)
}
