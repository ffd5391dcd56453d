//! Connection that can be frozen like that of a stopped process: nothing is read from either side.

use std::io;
use std::net::Ipv4Addr;

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// Proxy to a server that forwards unless frozen.
pub(crate) struct Freezer {
    pub(crate) address: String,
    is_frozen: watch::Sender<bool>,
}

impl Freezer {
    pub(crate) async fn start(server: &str) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let (is_frozen, state) = watch::channel(false);
        let server = server.to_owned();
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let (server, state) = (server.clone(), state.clone());
                // Errors are left to the two ends.
                tokio::spawn(async move {
                    pass_on(client, TcpStream::connect(server).await?, state).await
                });
            }
        });
        Self { address, is_frozen }
    }

    pub(crate) fn freeze(&self) {
        self.is_frozen.send_replace(true);
    }

    pub(crate) fn thaw(&self) {
        self.is_frozen.send_replace(false);
    }
}

async fn pass_on(
    client: TcpStream,
    server: TcpStream,
    state: watch::Receiver<bool>,
) -> io::Result<()> {
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    tokio::select! {
        ended = copy(from_client, to_server, state.clone()) => ended,
        ended = copy(from_server, to_client, state) => ended,
    }
}

async fn copy(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    mut is_frozen: watch::Receiver<bool>,
) -> io::Result<()> {
    let mut buffer = vec![0; 16 << 10];
    loop {
        is_frozen
            .wait_for(|frozen| !frozen)
            .await
            .map_err(io::Error::other)?;
        let count = from.read(&mut buffer).await?;
        is_frozen
            .wait_for(|frozen| !frozen)
            .await
            .map_err(io::Error::other)?;
        if count == 0 {
            return Ok(());
        }
        to.write_all(&buffer[..count]).await?;
    }
}
