//! Readable connections, by epoll. Reading each one instead would take the locks of its socket, for
//! which the server would wait when it writes.

use std::os::fd::OwnedFd;

use anyhow::Result;
use rustix::buffer::spare_capacity;
use rustix::event::{Timespec, epoll};

use crate::connection::Connection;

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
