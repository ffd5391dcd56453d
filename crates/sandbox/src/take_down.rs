//! Ends a sandbox in any state and removes its files.

use std::fs;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use rustix::process::Signal;
use tokio::task::spawn_blocking;
use tokio::time::{sleep, timeout};

use super::state_file::{Record, lock, try_lock};
use crate::control_socket::{self, ControlRequest};
use crate::layout::Layout;
use crate::node::cgroups::Hierarchies;

/// Limit for going down, which takes well under a second; then the supervisor is killed.
pub(crate) const DOWN_TIMEOUT: Duration = Duration::from_secs(20);
/// Limit for the answer to a request to go down.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(3);
/// Pause between two checks whether the supervisor runs.
const POLL: Duration = Duration::from_millis(50);

/// Takes the sandbox of this name down, if it exists, and removes its files. Returns whether it was
/// up.
pub async fn down(name: &str) -> Result<bool> {
    let layout = Layout::of(name)?;
    let was_up = Record::read(&layout).is_some_and(|record| record.is_alive());
    take_down(&layout).await?;
    Ok(was_up)
}

/// Ends the sandbox and waits until all its processes are gone.
pub(crate) async fn take_down(layout: &Layout) -> Result<()> {
    let record = Record::read(layout).filter(Record::is_alive);
    if let Some(record) = &record {
        end_supervisor(layout, record).await;
    }
    let (layout, was_up) = (layout.clone(), record.is_some());
    spawn_blocking(move || clear(&layout, was_up))
        .await
        .context("join")?
}

async fn end_supervisor(layout: &Layout, record: &Record) {
    let socket = layout.control_socket();
    let sent = timeout(
        REQUEST_TIMEOUT,
        control_socket::send(&socket, ControlRequest::Down),
    );
    // A starting supervisor accepts no requests.
    if !record.ready || !matches!(sent.await, Ok(Ok(()))) {
        record.supervisor.signal(Signal::TERM);
    }
    let deadline = Instant::now() + DOWN_TIMEOUT;
    while record.is_alive() && Instant::now() < deadline {
        sleep(POLL).await;
    }
    // No effect once it has ended.
    record.supervisor.signal(Signal::KILL);
}

/// Removes the files of a sandbox that is down. One that was not up may be starting; it is left
/// alone.
fn clear(layout: &Layout, was_up: bool) -> Result<()> {
    let lock = if was_up {
        Some(lock(layout)?)
    } else {
        try_lock(layout)?
    };
    let is_up = || Record::read(layout).is_some_and(|record| record.is_alive());
    if lock.is_none() || is_up() {
        return Ok(());
    }
    remove_stale(layout)?;
    fs::remove_file(layout.lock()).context("remove the lock")
}

/// Ends the processes of a dead or stuck sandbox of this name, and removes its files.
pub(crate) fn remove_stale(layout: &Layout) -> Result<()> {
    if let Some(record) = Record::read(layout) {
        record
            .processes()
            .for_each(|process| process.signal(Signal::KILL));
        if record.real_node.is_some() {
            Hierarchies::mounted()?.remove(layout.name())?;
        }
    }
    layout.remove()
}
