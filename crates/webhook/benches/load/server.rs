//! The process of the server, as seen by the client.

use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};

use anyhow::{Context as _, Result};

use crate::cores::Thread;

/// The argument that makes this program the server.
pub(crate) const SERVE: &str = "serve";
const LAST_LINE: &str = "-----END CERTIFICATE-----";

/// A running server, which ends when dropped.
pub(crate) struct Server {
    process: Child,
    pub(crate) address: SocketAddr,
    pub(crate) certificate: String,
    pub(crate) thread: Thread,
}

impl Server {
    /// Starts the server and waits until it serves.
    pub(crate) fn start() -> Result<Self> {
        let mut process = Command::new(std::env::current_exe()?)
            .arg(SERVE)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("cannot start the server")?;
        let mut lines = BufReader::new(process.stdout.take().context("its output")?).lines();
        let address = lines.next().context("the server ended")??;
        let address = address.parse().context("its address")?;
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

    pub(crate) fn process_id(&self) -> u32 {
        self.process.id()
    }

    /// The resident memory in bytes.
    pub(crate) fn resident_bytes(&self) -> Result<u64> {
        let statm = std::fs::read_to_string(format!("/proc/{}/statm", self.process.id()))?;
        let pages = statm.split(' ').nth(1).context("statm")?;
        Ok(pages.parse::<u64>()? * 4096)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Both fail if the process has already ended.
        self.process.kill().ok();
        self.process.wait().ok();
    }
}
