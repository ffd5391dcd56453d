//! Ends a sandbox and removes all traces of it, in whatever state it is.

use std::fs;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use rustix::process::Signal;
use tokio::task::spawn_blocking;
use tokio::time::{sleep, timeout};

use crate::control::{self, ControlRequest};
use crate::layout::Layout;
use crate::lock::{lock, try_lock};
use crate::record::Record;

/// Going down takes well under a second; after this long something is stuck and is killed.
pub(crate) const DOWN_TIMEOUT: Duration = Duration::from_secs(20);
/// A request to go down is answered at once.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(3);
/// Pause between two looks at a process.
const POLL: Duration = Duration::from_millis(50);

/// Takes the sandbox of this name down, if there is one, and removes all traces of it. Says whether
/// there was one.
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
        control::send(&socket, ControlRequest::Down),
    );
    // While it starts it takes no requests.
    if !record.ready || !matches!(sent.await, Ok(Ok(()))) {
        record.supervisor.signal(Signal::TERM);
    }
    let deadline = Instant::now() + DOWN_TIMEOUT;
    while record.is_alive() && Instant::now() < deadline {
        sleep(POLL).await;
    }
    // Does nothing, unless it is stuck.
    record.supervisor.signal(Signal::KILL);
}

/// Removes what is left of a sandbox that is down. One that was not up may be about to come up,
/// which is not disturbed.
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

/// Ends whatever a dead or stuck sandbox of this name left behind.
pub(crate) fn remove_stale(layout: &Layout) -> Result<()> {
    if let Some(record) = Record::read(layout) {
        record
            .processes()
            .for_each(|process| process.signal(Signal::KILL));
    }
    layout.remove()
}
