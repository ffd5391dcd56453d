//! A core for each thread, so that the one that answers and the one that asks never wait for each other.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, Result};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// Keeps the calling thread on one core: the `number`th of those that it may use. Where there are fewer, it stays free.
pub(crate) fn stay_on(number: usize) -> Result<()> {
    let allowed = sched_getaffinity(None)?;
    let Some(core) = (0..CpuSet::MAX_CPU).filter(|core| allowed.is_set(*core)).nth(number) else { return Ok(()) };
    let mut only = CpuSet::new();
    only.set(core);
    Ok(sched_setaffinity(None, &only)?)
}

/// What the kernel has noted of one thread.
pub(crate) struct Thread {
    schedule: PathBuf,
}

/// Of a thread, since it began.
#[derive(Clone, Copy)]
pub(crate) struct Used {
    /// How long it ran.
    pub(crate) ran: Duration,
    /// How long it could have run while something else had its core.
    pub(crate) waited: Duration,
}

impl Thread {
    pub(crate) fn current() -> Result<Self> {
        let thread = std::fs::read_link("/proc/thread-self").context("/proc/thread-self")?;
        Ok(Self { schedule: PathBuf::from("/proc").join(thread).join("schedstat") })
    }

    pub(crate) fn used(&self) -> Result<Used> {
        let text = std::fs::read_to_string(&self.schedule)?;
        let mut fields = text.split_whitespace().map(|field| field.parse().map(Duration::from_nanos));
        let mut next = || anyhow::Ok(fields.next().context("a field of schedstat")??);
        Ok(Used { ran: next()?, waited: next()? })
    }

    /// What was used after `before`.
    pub(crate) fn used_since(&self, before: Used) -> Result<Used> {
        let now = self.used()?;
        Ok(Used { ran: now.ran.saturating_sub(before.ran), waited: now.waited.saturating_sub(before.waited) })
    }
}
