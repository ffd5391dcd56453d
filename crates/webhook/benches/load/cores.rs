//! Placement and priority of threads, so that server and client have a core each.

use std::fs::File;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use rustix::thread::{CpuSet, gettid, sched_getaffinity, sched_setaffinity};

/// Pins the calling thread to the `number`th core that it may use. Without such a core it is not
/// pinned.
pub(crate) fn stay_on(number: usize) -> Result<()> {
    let allowed = sched_getaffinity(None)?;
    let Some(core) = (0..CpuSet::MAX_CPU)
        .filter(|core| allowed.is_set(*core))
        .nth(number)
    else {
        return Ok(());
    };
    let mut only = CpuSet::new();
    only.set(core);
    Ok(sched_setaffinity(None, &only)?)
}

/// Keeps idle cores awake until it is dropped, since the wake-up time of a virtual core depends on
/// its host. Needs privileges. Source: Linux, `Documentation/power/pm_qos_interface.rst`.
pub(crate) struct Awake {
    _request: File,
}

impl Awake {
    pub(crate) fn request() -> Result<Self> {
        let mut request = File::options().write(true).open("/dev/cpu_dma_latency")?;
        let microseconds = 0_i32;
        request.write_all(&microseconds.to_ne_bytes())?;
        Ok(Self { _request: request })
    }
}

/// A thread of this or another process.
pub(crate) struct Thread {
    process: u32,
    number: u32,
}

/// CPU times of a thread since its start.
#[derive(Clone, Copy)]
pub(crate) struct Used {
    /// Time in which it ran.
    pub(crate) ran: Duration,
    /// Time in which it was ready while another thread had its core.
    pub(crate) waited: Duration,
}

impl Thread {
    pub(crate) fn current() -> Result<Self> {
        Ok(Self {
            process: std::process::id(),
            number: u32::try_from(gettid().as_raw_nonzero().get())?,
        })
    }

    /// The main thread of a process.
    pub(crate) fn first_of(process: u32) -> Self {
        Self {
            process,
            number: process,
        }
    }

    /// Gives it real-time priority. Needs privileges, and util-linux.
    pub(crate) fn raise(&self) -> Result<()> {
        let arguments = ["--fifo", "--pid", "10", &self.number.to_string()];
        let done = Command::new("chrt")
            .args(arguments)
            .output()
            .context("cannot run chrt")?;
        ensure!(
            done.status.success(),
            "{}",
            String::from_utf8_lossy(&done.stderr).trim()
        );
        Ok(())
    }

    /// Its CPU times, by the kernel.
    pub(crate) fn used(&self) -> Result<Used> {
        let schedule: PathBuf =
            format!("/proc/{}/task/{}/schedstat", self.process, self.number).into();
        let text = std::fs::read_to_string(schedule)?;
        let mut fields = text
            .split_whitespace()
            .map(|field| field.parse().map(Duration::from_nanos));
        let mut next = || anyhow::Ok(fields.next().context("a field of schedstat")??);
        Ok(Used {
            ran: next()?,
            waited: next()?,
        })
    }

    /// Its CPU times since `before`.
    pub(crate) fn used_since(&self, before: Used) -> Result<Used> {
        let now = self.used()?;
        Ok(Used {
            ran: now.ran.saturating_sub(before.ran),
            waited: now.waited.saturating_sub(before.waited),
        })
    }
}
