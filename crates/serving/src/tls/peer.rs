//! Certificates that clients may show, without being judged in the handshake.
//!
//! The handshake proves that the client has the key of the certificate that it shows, and nothing
//! more. Whom to trust is decided for each request: authorities change while connections live, and
//! a verification_error in the handshake reaches nobody who could read it.

use std::sync::Arc;

use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::{
    CryptoProvider, WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature,
};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{DigitallySignedStruct, DistinguishedName, Error, SignatureScheme};
use rustls_pki_types::{CertificateDer, UnixTime};

/// The chain that a client showed in the handshake, its own certificate first; never empty. An
/// extension of each request of the connection. Whoever signed it is not known: see
/// [`super::ServingProfile::request_client_certificates`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PeerCertificates(pub Arc<[CertificateDer<'static>]>);

impl PeerCertificates {
    /// What a connection's client showed, if it showed anything.
    pub(crate) fn of(connection: &rustls::ServerConnection) -> Option<Self> {
        let chain = connection
            .peer_certificates()
            .filter(|chain| !chain.is_empty())?;
        Some(Self(
            chain
                .iter()
                .map(|certificate| certificate.clone().into_owned())
                .collect(),
        ))
    }
}

/// Asks clients for a certificate, is content without one, and takes any whose key the client has.
#[derive(Debug)]
pub(super) struct AnyClientCertificate {
    algorithms: WebPkiSupportedAlgorithms,
}

impl AnyClientCertificate {
    pub(super) fn new(provider: &CryptoProvider) -> Arc<Self> {
        Arc::new(Self {
            algorithms: provider.signature_verification_algorithms,
        })
    }
}

impl ClientCertVerifier for AnyClientCertificate {
    fn client_auth_mandatory(&self) -> bool {
        false
    }

    /// Nothing: with hints some clients would keep a certificate to themselves that the next set of
    /// authorities accepts.
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signature, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signature, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}
