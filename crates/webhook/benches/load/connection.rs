//! One connection to the server, which never waits: who asks looks from time to time whether the
//! answer has come.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context as _, Result, ensure};
use rustls::{ClientConfig, ClientConnection, StreamOwned};
use rustls_pki_types::ServerName;

const LONGEST_ANSWER: usize = 16 * 1024;

pub(crate) struct Connection {
    stream: StreamOwned<ClientConnection, TcpStream>,
    /// When the review that is being answered was due.
    due: Option<Instant>,
    answer: Vec<u8>,
    filled: usize,
}

pub(crate) struct Answered {
    /// When the review was due.
    pub(crate) due: Instant,
    pub(crate) is_changed: bool,
}

impl Connection {
    pub(crate) fn open(server: SocketAddr, config: Arc<ClientConfig>) -> Result<Self> {
        let mut stream = TcpStream::connect(server)?;
        stream.set_nodelay(true)?;
        let mut tls = ClientConnection::new(config, ServerName::try_from("webhook")?)?;
        while tls.is_handshaking() {
            tls.complete_io(&mut stream)?;
        }
        stream.set_nonblocking(true)?;
        Ok(Self {
            stream: StreamOwned::new(tls, stream),
            due: None,
            answer: vec![0; LONGEST_ANSWER],
            filled: 0,
        })
    }

    pub(crate) fn ask(&mut self, request: &[u8], due: Instant) -> Result<()> {
        self.due = Some(due);
        self.filled = 0;
        self.stream.write_all(request)?;
        loop {
            match self.stream.flush() {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                flushed => return Ok(flushed?),
            }
        }
    }

    /// The answer, which must admit the pod, once it is there whole.
    pub(crate) fn look(&mut self) -> Result<Option<Answered>> {
        let Some(due) = self.due else { return Ok(None) };
        loop {
            let room = self
                .answer
                .get_mut(self.filled..)
                .context("a long answer")?;
            match self.stream.read(room) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(None),
                read => self.filled += read?,
            }
            if let Some(is_changed) = self.answered()? {
                self.due = None;
                return Ok(Some(Answered { due, is_changed }));
            }
        }
    }

    /// Whether the pod was changed, once the answer is there whole.
    fn answered(&self) -> Result<Option<bool>> {
        let text = std::str::from_utf8(self.answer.get(..self.filled).context("what was read")?)?;
        let Some((head, body)) = text.split_once("\r\n\r\n") else {
            return Ok(None);
        };
        let length = head
            .lines()
            .find_map(|line| line.strip_prefix("content-length: "))
            .context("no length")?;
        if body.len() < length.parse()? {
            return Ok(None);
        }
        ensure!(
            head.starts_with("HTTP/1.1 200") && body.contains("\"allowed\":true"),
            "{text}"
        );
        Ok(Some(body.contains("\"patch\":")))
    }
}

impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.sock.as_fd()
    }
}
