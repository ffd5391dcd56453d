//! Listening addresses of programs in tests.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::process;
use std::sync::atomic::{AtomicU8, Ordering};

use anyhow::Result;

/// A free address: a loopback address of its own, so that no other test and no outgoing connection
/// uses a port there. It is outside the usual 127.0 and the blocks of sandboxes, which begin at
/// 127.128.
pub fn free_address() -> Result<SocketAddr> {
    static GIVEN: AtomicU8 = AtomicU8::new(0);
    let number = 1 + GIVEN.fetch_add(1, Ordering::Relaxed) % 126;
    let [.., high, low] = process::id().to_be_bytes();
    let own = Ipv4Addr::new(127, number, high, low);
    Ok(TcpListener::bind((own, 0))?.local_addr()?)
}
