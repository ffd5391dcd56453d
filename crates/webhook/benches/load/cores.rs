//! Placement and priority of threads, so that server and client have a core each, and stalls of the
//! machine: two threads on a core each do nothing but read the clock. A virtual machine whose host is
//! busy loses milliseconds, which its kernel does not see.

use std::fs::File;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use rustix::thread::{CpuSet, gettid, sched_getaffinity, sched_setaffinity};

use crate::client::ROUND;

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

/// Length and number of the measurements. All together are shorter than the time after which the
/// kernel takes the core from a thread of real-time priority.
const MEASUREMENT: Duration = ROUND;
const MEASUREMENTS: usize = 9;
/// Minimum length of a stall. Shorter gaps are interrupts.
const MIN_STALL: Duration = Duration::from_micros(200);

#[derive(Default)]
pub(crate) struct Stalls {
    /// Stalled share of the time, the median of the measurements.
    pub(crate) stalled: f64,
    /// The longest stall of all measurements.
    pub(crate) longest: Duration,
}

/// Measures the cores of server and client, with real-time priority if that is permitted.
pub(crate) fn watch() -> Result<Stalls> {
    let watched: Vec<Result<Stalls>> = std::thread::scope(|scope| {
        let watchers = [0, 1].map(|core| scope.spawn(move || watch_core(core)));
        watchers
            .into_iter()
            .filter_map(|watcher| watcher.join().ok())
            .collect()
    });
    let mut worst = Stalls::default();
    for stalls in watched {
        let stalls = stalls?;
        worst.stalled = worst.stalled.max(stalls.stalled);
        worst.longest = worst.longest.max(stalls.longest);
    }
    Ok(worst)
}

fn watch_core(number: usize) -> Result<Stalls> {
    stay_on(number)?;
    // `main` reports whether it is permitted.
    let _ = Thread::current()?.raise();
    let (mut stalled, longest): (Vec<Duration>, Vec<Duration>) =
        (0..MEASUREMENTS).map(|_| measure()).unzip();
    stalled.sort();
    let middle = stalled.get(MEASUREMENTS / 2).copied().unwrap_or_default();
    Ok(Stalls {
        stalled: middle.div_duration_f64(MEASUREMENT),
        longest: longest.into_iter().max().unwrap_or_default(),
    })
}

fn measure() -> (Duration, Duration) {
    let begin = Instant::now();
    let (mut last, mut stalled, mut longest) = (begin, Duration::ZERO, Duration::ZERO);
    while last.duration_since(begin) < MEASUREMENT {
        let now = Instant::now();
        let gap = now.duration_since(last);
        if gap > MIN_STALL {
            stalled += gap;
            longest = longest.max(gap);
        }
        last = now;
    }
    (stalled, longest)
}
