//! Where a program of a test can listen.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::process;
use std::sync::atomic::{AtomicU8, Ordering};

use anyhow::Result;

/// An address that nobody takes before the program does: a loopback address of its own, so that no
/// other test and no outgoing connection has a port there. Clear of the usual 127.0 and of the
/// blocks of sandboxes, which begin at 127.128.
pub fn free_address() -> Result<SocketAddr> {
    static GIVEN: AtomicU8 = AtomicU8::new(0);
    let number = 1 + GIVEN.fetch_add(1, Ordering::Relaxed) % 126;
    let [.., high, low] = process::id().to_be_bytes();
    let own = Ipv4Addr::new(127, number, high, low);
    Ok(TcpListener::bind((own, 0))?.local_addr()?)
}
