//! The network client of probes. It accepts every certificate, as a kubelet does.

use std::net::Ipv4Addr;
use std::pin::pin;
use std::sync::Arc;

use http::Request;
use hyper_util::rt::TokioIo;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::{ClientConfig, DigitallySignedStruct, SignatureScheme};
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

/// An HTTP request and its destination.
#[derive(Clone, Copy, Debug)]
pub(super) struct Get<'a> {
    pub(super) tls: bool,
    /// Name or address.
    pub(super) host: &'a str,
    pub(super) port: u16,
    /// Path and query.
    pub(super) path: &'a str,
    /// Headers, which replace the default ones.
    pub(super) headers: &'a [(String, String)],
}

/// Connects, or returns the error as text.
pub(super) async fn connect(host: &str, port: u16) -> Result<TcpStream, String> {
    TcpStream::connect((host, port))
        .await
        .map_err(|error| format!("dial tcp {host}:{port}: {error}"))
}

/// Succeeds when the answer's status is 200 to 399.
pub(super) async fn get(get: Get<'_>) -> Result<(), String> {
    let stream = connect(get.host, get.port).await?;
    if get.tls {
        let name = server_name(get.host);
        let stream = TlsConnector::from(Arc::new(client_config()?))
            .connect(name, stream)
            .await;
        send(
            stream.map_err(|error| format!("tls handshake: {error}"))?,
            get,
        )
        .await
    } else {
        send(stream, get).await
    }
}

async fn send(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    get: Get<'_>,
) -> Result<(), String> {
    let text = |error: hyper::Error| format!("get {}: {error}", get.path);
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
        .await
        .map_err(text)?;
    let mut request = Request::get(get.path).header("user-agent", "kube-probe/plimsoll");
    if !get
        .headers
        .iter()
        .any(|(name, _)| name.eq_ignore_ascii_case("host"))
    {
        request = request.header("host", format!("{}:{}", get.host, get.port));
    }
    let request = get.headers.iter().fold(request, |request, (name, value)| {
        request.header(name, value)
    });
    let request = request
        .body(String::new())
        .map_err(|error| error.to_string())?;
    let mut answer = pin!(sender.send_request(request));
    // The connection ends with this function; the body is not read.
    let answer = tokio::select! {
        answer = &mut answer => answer,
        _ended = connection => answer.await,
    };
    let status = answer.map_err(text)?.status();
    if (200..400).contains(&status.as_u16()) {
        Ok(())
    } else {
        Err(format!(
            "HTTP probe failed with statuscode: {}",
            status.as_u16()
        ))
    }
}

fn server_name(host: &str) -> ServerName<'static> {
    let address = host.parse().unwrap_or(Ipv4Addr::LOCALHOST);
    ServerName::try_from(host.to_owned())
        .unwrap_or(ServerName::IpAddress(std::net::IpAddr::V4(address).into()))
}

fn client_config() -> Result<ClientConfig, String> {
    let provider = Arc::new(aws_lc_rs::default_provider());
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions();
    let builder = builder.map_err(|error| error.to_string())?;
    Ok(builder
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(AnyCertificate(provider)))
        .with_no_client_auth())
}

/// Accepts every certificate, but still checks that the server holds its key.
#[derive(Debug)]
struct AnyCertificate(Arc<CryptoProvider>);

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _certificate: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _name: &ServerName<'_>,
        _ocsp: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        rustls::crypto::verify_tls12_signature(
            message,
            certificate,
            signature,
            &self.0.signature_verification_algorithms,
        )
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        rustls::crypto::verify_tls13_signature(
            message,
            certificate,
            signature,
            &self.0.signature_verification_algorithms,
        )
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use super::*;

    #[track_caller]
    fn check(answer: &'static str, expected: Result<(), &str>) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        let outcome = runtime.block_on(async {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let port = listener.local_addr().unwrap().port();
            tokio::spawn(async move {
                let (mut stream, _) = listener.accept().await.unwrap();
                let mut request = [0; 512];
                let _ = stream.read(&mut request).await.unwrap();
                stream.write_all(answer.as_bytes()).await.unwrap();
            });
            get(Get {
                tls: false,
                host: "127.0.0.1",
                port,
                path: "/readyz",
                headers: &[],
            })
            .await
        });
        assert_eq!(outcome, expected.map_err(str::to_owned));
    }

    #[test]
    fn the_status_decides() {
        check("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n", Ok(()));
        check("HTTP/1.1 302 Found\r\ncontent-length: 0\r\n\r\n", Ok(()));
        check(
            "HTTP/1.1 503 Busy\r\ncontent-length: 0\r\n\r\n",
            Err("HTTP probe failed with statuscode: 503"),
        );
    }

    #[test]
    fn a_closed_port_fails() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        let closed = std::net::TcpListener::bind("127.0.0.1:0")
            .unwrap()
            .local_addr()
            .unwrap()
            .port();
        let error = runtime.block_on(connect("127.0.0.1", closed)).unwrap_err();
        assert!(
            error.starts_with(&format!("dial tcp 127.0.0.1:{closed}: ")),
            "{error}"
        );
    }
}
