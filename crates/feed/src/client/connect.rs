//! One connection: TCP to an address, then TLS with the expected server name.

use std::io;
use std::sync::Arc;

use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use rustls_pki_types::ServerName;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tonic::transport::{Channel, Endpoint, Error, Uri};
use tower::{Service, service_fn};

use super::{CONNECT_TIMEOUT, KEEPALIVE};

/// Flow-control window in bytes.
const WINDOW_BYTES: u32 = 1 << 20;

/// Opens a connection to `address` (`host:port`) whose certificate must be valid for `server_name`.
pub async fn connect(
    address: &str,
    tls: Arc<ClientConfig>,
    server_name: ServerName<'static>,
) -> Result<Channel, Error> {
    // The URI only names the server in requests; the connector sets the address.
    let uri = format!("https://{}", server_name.to_str());
    let endpoint = Endpoint::from_shared(uri)?
        .connect_timeout(CONNECT_TIMEOUT)
        .http2_keep_alive_interval(KEEPALIVE)
        .keep_alive_timeout(KEEPALIVE)
        .keep_alive_while_idle(true)
        .initial_stream_window_size(WINDOW_BYTES)
        .initial_connection_window_size(2 * WINDOW_BYTES);
    endpoint
        .connect_with_connector(connector(address, tls, server_name))
        .await
}

/// Connector that always connects to `address`, whatever the URI says.
pub fn connector(
    address: &str,
    tls: Arc<ClientConfig>,
    server_name: ServerName<'static>,
) -> impl Service<Uri, Response = TokioIo<TlsStream<TcpStream>>, Error = io::Error, Future: Send>
+ Send
+ use<> {
    let address: Arc<str> = address.into();
    service_fn(move |_: Uri| {
        let (address, tls, server_name) =
            (Arc::clone(&address), Arc::clone(&tls), server_name.clone());
        async move {
            let stream = TcpStream::connect(&*address).await?;
            stream.set_nodelay(true)?;
            let stream = TlsConnector::from(tls).connect(server_name, stream).await?;
            Ok::<_, io::Error>(TokioIo::new(stream))
        }
    })
}
