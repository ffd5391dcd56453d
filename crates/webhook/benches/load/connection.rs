//! Non-blocking connections to the server, and those of them that are readable, by epoll. Reading each
//! one instead would take the locks of its socket, for which the server would wait when it writes.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context as _, Result, ensure};
use rustix::buffer::spare_capacity;
use rustix::event::{Timespec, epoll};
use rustls::{ClientConfig, ClientConnection, StreamOwned};
use rustls_pki_types::ServerName;

const MAX_RESPONSE_BYTES: usize = 16 * 1024;

pub(crate) struct Connection {
    stream: StreamOwned<ClientConnection, TcpStream>,
    /// The due time of the review in progress.
    due: Option<Instant>,
    response: Vec<u8>,
    filled: usize,
}

pub(crate) struct Reviewed {
    /// The due time of the review.
    pub(crate) due: Instant,
    pub(crate) is_patched: bool,
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
            response: vec![0; MAX_RESPONSE_BYTES],
            filled: 0,
        })
    }

    pub(crate) fn send(&mut self, request: &[u8], due: Instant) -> Result<()> {
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

    /// The response, once complete. It must admit the pod.
    pub(crate) fn poll(&mut self) -> Result<Option<Reviewed>> {
        let Some(due) = self.due else { return Ok(None) };
        loop {
            let room = self
                .response
                .get_mut(self.filled..)
                .context("response too long")?;
            match self.stream.read(room) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(None),
                read => self.filled += read?,
            }
            if let Some(is_patched) = self.parse()? {
                self.due = None;
                return Ok(Some(Reviewed { due, is_patched }));
            }
        }
    }

    /// Whether the pod was patched, once the response is complete.
    fn parse(&self) -> Result<Option<bool>> {
        let text = std::str::from_utf8(self.response.get(..self.filled).context("what was read")?)?;
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

pub(crate) struct Readiness {
    queue: OwnedFd,
    events: Vec<epoll::Event>,
}

impl Readiness {
    pub(crate) fn of(connections: &[Connection]) -> Result<Self> {
        let queue = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        for (number, connection) in (0..).zip(connections) {
            let data = epoll::EventData::new_u64(number);
            epoll::add(&queue, connection, data, epoll::EventFlags::IN)?;
        }
        Ok(Self {
            queue,
            events: Vec::with_capacity(connections.len()),
        })
    }

    /// The numbers of the readable connections. Does not block.
    pub(crate) fn now(&mut self) -> Result<impl Iterator<Item = usize>> {
        self.events.clear();
        let events = spare_capacity(&mut self.events);
        epoll::wait(&self.queue, events, Some(&Timespec::default()))?;
        let numbers = self.events.iter().map(|event| event.data.u64());
        Ok(numbers.filter_map(|number| usize::try_from(number).ok()))
    }
}
