//! Client certificates that the handshake accepts unverified; crate `delegated_auth` verifies them.
//!
//! The handshake only proves that the client has the private key. Each request decides whether it
//! trusts the certificate: CAs change while connections are open, and a client cannot read why a
//! handshake failed.

use std::sync::Arc;

use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::{
    CryptoProvider, WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature,
};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{DigitallySignedStruct, DistinguishedName, Error, SignatureScheme};
use rustls_pki_types::{CertificateDer, UnixTime};

/// The certificate chain of a client, leaf first; never empty. An extension of each request of the
/// connection. Its issuer is not verified: see
/// [`super::ServingProfile::request_client_certificates`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PeerCertificates(pub Arc<[CertificateDer<'static>]>);

impl PeerCertificates {
    /// The certificate chain of a connection's client, if it presented one.
    pub(crate) fn of(connection: &rustls::ServerConnection) -> Option<Self> {
        let chain = connection.peer_certificates()?.iter();
        let chain: Arc<[_]> = chain.map(|one| one.clone().into_owned()).collect();
        (!chain.is_empty()).then_some(Self(chain))
    }
}

/// A verifier that requests a client certificate, accepts connections without one, and accepts any
/// whose private key the client has.
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

    /// Empty: with hints, some clients withhold a certificate that the next set of CAs accepts.
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
