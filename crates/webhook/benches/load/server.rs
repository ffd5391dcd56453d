//! The server as who asks sees it: a process of its own.

use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};

use anyhow::{Context as _, Result};

use crate::cores::Thread;

/// The argument with which this program is the server.
pub(crate) const SERVE: &str = "serve";
const LAST_LINE: &str = "-----END CERTIFICATE-----";

/// A running server, which ends when this is dropped.
pub(crate) struct Server {
    process: Child,
    pub(crate) address: SocketAddr,
    pub(crate) certificate: String,
    /// The one that answers.
    pub(crate) thread: Thread,
}

impl Server {
    /// Starts it, and waits until it knows its cluster.
    pub(crate) fn start() -> Result<Self> {
        let mut process = Command::new(std::env::current_exe()?)
            .arg(SERVE)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("cannot start the server")?;
        let mut lines = BufReader::new(process.stdout.take().context("its output")?).lines();
        let address = lines
            .next()
            .context("the server ended")??
            .parse()
            .context("its address")?;
        let mut certificate = String::new();
        while !certificate.contains(LAST_LINE) {
            certificate += &lines.next().context("its certificate ended")??;
            certificate.push('\n');
        }
        let thread = Thread::first_of(process.id());
        Ok(Self {
            process,
            address,
            certificate,
            thread,
        })
    }

    /// Memory that it has at present.
    pub(crate) fn resident_bytes(&self) -> Result<u64> {
        let statm = std::fs::read_to_string(format!("/proc/{}/statm", self.process.id()))?;
        Ok(statm
            .split(' ')
            .nth(1)
            .context("the second field of statm")?
            .parse::<u64>()?
            * 4096)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended by itself; there is nobody left to tell.
        self.process.kill().ok();
        self.process.wait().ok();
    }
}
