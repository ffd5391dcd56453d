//! The HTTPS port of a program. It stays open for a while after shutdown begins, because clients
//! keep sending requests until they notice.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use anyhow::Context as _;
use axum::Router;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::http_server::{Limits, raise_connection_limit, serve};
use crate::tls::CurrentServerTls;
use runtime::address::{ListenAddress, listen_ip_from_environment};

/// A bound port that is not served yet. Clients that connect wait.
#[derive(Debug)]
pub struct Port {
    listener: TcpListener,
    limits: Limits,
}

impl Port {
    /// Binds the port that was given with `flag`.
    pub async fn open(flag: &str, number: u16, limits: Limits) -> anyhow::Result<Self> {
        let limits = limits.within(raise_connection_limit(limits.connections)?);
        let listen: ListenAddress = format!(":{number}").parse()?;
        let listen = listen.or_host(listen_ip_from_environment()?);
        let listener = listen
            .bind()
            .await
            .with_context(|| format!("cannot listen on --{flag}={number}"))?;
        Ok(Self { listener, limits })
    }

    pub fn on(listener: TcpListener, limits: Limits) -> Self {
        Self { listener, limits }
    }

    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves until `leaving` after `shutdown`. Returns when the last connection is closed.
    pub async fn serve(
        self,
        router: Router,
        tls: CurrentServerTls,
        shutdown: CancellationToken,
        leaving: Duration,
    ) {
        let serving = CancellationToken::new();
        let server = serve(
            self.listener,
            router,
            Some(tls),
            self.limits,
            serving.clone(),
        );
        let end = async {
            shutdown.cancelled().await;
            tokio::time::sleep(leaving).await;
            serving.cancel();
        };
        tokio::join!(server, end);
    }
}
