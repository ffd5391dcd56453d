//! A client of a program's port, with or without TLS.

use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, ServerName};
use tokio::net::TcpSocket;
use tokio::runtime;

/// Time limit of one read and of one write.
const PATIENCE: Duration = Duration::from_secs(20);

/// The address of a port, and the trust in its certificate, if it has one.
#[derive(Clone)]
pub(crate) struct Client {
    address: SocketAddr,
    /// The client's own address. Every address that begins with 127 is this machine's.
    from: IpAddr,
    tls: Option<(Arc<ClientConfig>, ServerName<'static>)>,
}

pub(crate) struct Connection(Box<dyn Stream>);

trait Stream: Read + Write {}

impl<S: Read + Write> Stream for S {}

impl Client {
    /// A client without TLS.
    pub(crate) fn plain(address: SocketAddr) -> Self {
        Self {
            address,
            from: Ipv4Addr::LOCALHOST.into(),
            tls: None,
        }
    }

    /// A client that trusts these CAs, in PEM.
    pub(crate) fn trusting(address: SocketAddr, name: &'static str, authorities: &[u8]) -> Self {
        let mut roots = RootCertStore::empty();
        for authority in CertificateDer::pem_slice_iter(authorities) {
            roots.add(authority.expect("PEM")).expect("a certificate");
        }
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("versions of TLS")
            .with_root_certificates(roots)
            .with_no_client_auth();
        let name = ServerName::try_from(name).expect("a DNS name");
        Self {
            tls: Some((Arc::new(config), name)),
            ..Self::plain(address)
        }
    }

    /// The same client with another address of its own.
    pub(crate) fn with_own_address(&self, from: Ipv4Addr) -> Self {
        Self {
            from: from.into(),
            ..self.clone()
        }
    }

    pub(crate) fn connect(&self) -> io::Result<TcpStream> {
        // The standard library cannot bind the address of a client.
        let runtime = runtime::Builder::new_current_thread().enable_io().build()?;
        let stream = runtime.block_on(async {
            let socket = TcpSocket::new_v4()?;
            socket.bind((self.from, 0).into())?;
            socket.connect(self.address).await?.into_std()
        })?;
        stream.set_nonblocking(false)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        Ok(stream)
    }

    pub(crate) fn open(&self) -> io::Result<Connection> {
        let mut stream = self.connect()?;
        let Some((config, name)) = &self.tls else {
            return Ok(Connection(Box::new(stream)));
        };
        let mut tls =
            ClientConnection::new(Arc::clone(config), name.clone()).map_err(io::Error::other)?;
        while tls.is_handshaking() {
            tls.complete_io(&mut stream)?;
        }
        Ok(Connection(Box::new(StreamOwned::new(tls, stream))))
    }
}

impl Connection {
    pub(crate) fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.0.write_all(bytes)?;
        self.0.flush()
    }

    /// Sends a request. Returns the status of the response once it is complete.
    pub(crate) fn ask(&mut self, request: &[u8]) -> io::Result<u16> {
        self.send(request)?;
        let (mut seen, mut part) = (Vec::new(), [0; 16 << 10]);
        loop {
            let read = self.0.read(&mut part)?;
            if read == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            seen.extend_from_slice(&part[..read]);
            let text = String::from_utf8_lossy(&seen);
            let Some((head, body)) = text.split_once("\r\n\r\n") else {
                continue;
            };
            let length = head.lines().find_map(|line| {
                let line = line.to_ascii_lowercase();
                line.strip_prefix("content-length: ")?.parse::<usize>().ok()
            });
            if body.len() >= length.unwrap_or(0) {
                let code = head.split(' ').nth(1).and_then(|code| code.parse().ok());
                return code.ok_or_else(|| io::ErrorKind::InvalidData.into());
            }
        }
    }
}

/// A request that announces a JSON body of `length` bytes, of which `body` is there.
pub(crate) fn post(path: &str, body: &[u8], length: usize) -> Vec<u8> {
    let head = format!(
        "POST {path} HTTP/1.1\r\nhost: a\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n"
    );
    [head.as_bytes(), body].concat()
}
