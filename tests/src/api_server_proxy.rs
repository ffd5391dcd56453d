//! TCP proxies to the API server that tests cut off, one per program.

use std::io;
use std::net::Ipv4Addr;
use std::time::Duration;

use anyhow::{Context as _, Result};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::sleep;

/// Bytes of one turn of a slow link, and the time between two turns: 20 kB per second.
const SLOW: usize = 400;
const TURN: Duration = Duration::from_millis(20);

/// State of the network between a program and the API server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Link {
    Up,
    /// Connections are closed, new ones at once.
    Closed,
    /// Connections stay, and no byte passes.
    Silent,
    /// [`SLOW`] bytes pass per [`TURN`] in each direction of a connection, so that the queues of the
    /// sender fill up.
    Slow,
}

/// A proxy; it ends when this is dropped.
#[derive(Debug)]
pub struct ApiServerProxy {
    pub port: u16,
    link: watch::Sender<Link>,
    task: JoinHandle<()>,
}

impl ApiServerProxy {
    /// A proxy to the API server at this port of 127.0.0.1, on a free port.
    pub async fn start(api_server_port: u16) -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let port = listener.local_addr().context("the proxy's port")?.port();
        let link = watch::Sender::new(Link::Up);
        let receiver = link.subscribe();
        let task = tokio::spawn(accept(listener, api_server_port, receiver));
        Ok(Self { port, link, task })
    }

    pub fn set(&self, link: Link) {
        self.link.send_replace(link);
    }
}

impl Drop for ApiServerProxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn accept(listener: TcpListener, port: u16, link: watch::Receiver<Link>) {
    let mut connections = JoinSet::new();
    while let Ok((client, _)) = listener.accept().await {
        while connections.try_join_next().is_some() {}
        connections.spawn(forward(client, port, link.clone()));
    }
}

async fn forward(client: TcpStream, port: u16, mut link: watch::Receiver<Link>) -> io::Result<()> {
    if is_closed(&mut link).await {
        return Ok(());
    }
    let server = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await?;
    let ((from_client, to_client), (from_server, to_server)) =
        (client.into_split(), server.into_split());
    let there = pass(from_client, to_server, link.clone());
    let back = pass(from_server, to_client, link);
    tokio::try_join!(there, back).map(drop)
}

/// Passes the bytes of one direction while the link is up.
async fn pass(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    mut link: watch::Receiver<Link>,
) -> io::Result<()> {
    let mut buffer = vec![0; 16 << 10];
    loop {
        if is_closed(&mut link).await {
            return Err(io::ErrorKind::ConnectionAborted.into());
        }
        let is_slow = *link.borrow_and_update() == Link::Slow;
        let most = if is_slow { SLOW } else { buffer.len() };
        let read = tokio::select! {
            biased;
            _ = link.changed() => continue,
            read = from.read(&mut buffer[..most]) => read?,
        };
        if read == 0 {
            return to.shutdown().await;
        }
        to.write_all(&buffer[..read]).await?;
        if is_slow {
            sleep(TURN).await;
        }
    }
}

/// Waits while the link is silent; returns whether it is closed.
async fn is_closed(link: &mut watch::Receiver<Link>) -> bool {
    let state = link.wait_for(|link| *link != Link::Silent).await;
    state.map_or(true, |link| *link == Link::Closed)
}

#[cfg(test)]
mod tests {
    use tokio::time::{Instant, timeout};

    use super::*;

    const SOON: Duration = Duration::from_millis(50);

    /// Sends a byte and reads one.
    async fn echo(connection: &mut TcpStream) -> io::Result<u8> {
        connection.write_all(b"x").await?;
        connection.read_u8().await
    }

    #[tokio::test]
    async fn bytes_pass_until_the_link_is_silent_or_closed() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let server = tokio::spawn(async move {
            loop {
                let (connection, _) = listener.accept().await.unwrap();
                let (mut from, mut to) = connection.into_split();
                tokio::spawn(async move { tokio::io::copy(&mut from, &mut to).await });
            }
        });
        let proxy = ApiServerProxy::start(port).await.unwrap();
        let connect = || TcpStream::connect((Ipv4Addr::LOCALHOST, proxy.port));
        let mut connection = connect().await.unwrap();
        assert_eq!(echo(&mut connection).await.unwrap(), b'x');
        proxy.set(Link::Silent);
        assert!(timeout(SOON, echo(&mut connection)).await.is_err());
        proxy.set(Link::Up);
        let late = connection.read_u8().await.unwrap();
        assert_eq!(late, b'x', "the byte was only delayed");
        proxy.set(Link::Slow);
        let started = Instant::now();
        let sent = vec![b'x'; 5 * SLOW];
        connection.write_all(&sent).await.unwrap();
        connection.read_exact(&mut sent.clone()).await.unwrap();
        assert!(started.elapsed() >= 4 * TURN, "{:?}", started.elapsed());
        proxy.set(Link::Closed);
        assert!(connection.read_u8().await.is_err());
        let mut refused = connect().await.unwrap();
        assert!(echo(&mut refused).await.is_err());
        proxy.set(Link::Up);
        let mut connection = connect().await.unwrap();
        assert_eq!(echo(&mut connection).await.unwrap(), b'x');
        server.abort();
    }
}
