//! Resources that processes use: processor time and resident memory, from `/proc` (proc(5)).

use std::collections::BTreeMap;
use std::fs;

use anyhow::{Context as _, Result};
use sandbox::{Component, Sandbox};
use tokio::time::Instant;

/// `/proc` counts processor time in hundredths of a second (`USER_HZ`, the same on every Linux that
/// Rust supports).
const TICKS_PER_SECOND: f64 = 100.0;

/// Processor time that is used from a moment on.
pub struct Measurement<'a> {
    sandbox: &'a Sandbox,
    programs: &'a [(&'a str, u32)],
    started: Instant,
    before: BTreeMap<String, f64>,
}

impl<'a> Measurement<'a> {
    /// Begins now, for each component and for these processes.
    pub fn start(sandbox: &'a Sandbox, programs: &'a [(&'a str, u32)]) -> Result<Self> {
        Ok(Self {
            sandbox,
            programs,
            started: Instant::now(),
            before: processor_seconds(sandbox, programs)?,
        })
    }

    /// Seconds since the beginning.
    pub fn seconds(&self) -> f64 {
        self.started.elapsed().as_secs_f64()
    }

    /// Seconds of processor time since the beginning, by name.
    pub fn used(&self) -> Result<BTreeMap<String, f64>> {
        let mut used = processor_seconds(self.sandbox, self.programs)?;
        for (name, seconds) in &mut used {
            *seconds -= self.before.get(name).copied().unwrap_or_default();
        }
        Ok(used)
    }
}

/// Seconds of processor time that each component and each of these processes has used since it
/// started, by its name.
pub fn processor_seconds(
    sandbox: &Sandbox,
    programs: &[(&str, u32)],
) -> Result<BTreeMap<String, f64>> {
    let mut seconds = BTreeMap::new();
    for (program, process) in programs {
        seconds.insert((*program).to_owned(), used(*process)?);
    }
    for component in Component::ALL {
        // Not every sandbox has every component.
        if let Some(process) = sandbox
            .status(component)
            .ok()
            .and_then(|status| status.process)
        {
            seconds.insert(component.to_string(), used(process.pid)?);
        }
    }
    Ok(seconds)
}

fn used(process: u32) -> Result<f64> {
    let path = format!("/proc/{process}/stat");
    let stat = fs::read_to_string(&path).with_context(|| format!("read {path}"))?;
    // The name, in brackets, may hold anything; user and system time are the 12th and 13th fields
    // after it.
    let (_, fields) = stat
        .rsplit_once(')')
        .with_context(|| format!("{path}: {stat}"))?;
    let times = fields
        .split_whitespace()
        .skip(11)
        .take(2)
        .map(str::parse::<f64>);
    let ticks = times
        .sum::<Result<f64, _>>()
        .with_context(|| format!("{path}: {stat}"))?;
    Ok(ticks / TICKS_PER_SECOND)
}

pub fn resident_text(process: u32) -> Result<String> {
    let (now, peak) = resident(process)?;
    Ok(format!("{now:.0} MB, at most {peak:.0} MB"))
}

/// Resident memory of a process in megabytes, now and at most.
pub fn resident(process: u32) -> Result<(f64, f64)> {
    let megabytes = |field| anyhow::Ok(status_bytes(process, field)? as f64 / 1e6);
    Ok((megabytes("VmRSS:")?, megabytes("VmHWM:")?))
}

/// A field of `/proc/PID/status` that is an amount of memory.
pub fn status_bytes(process: u32, field: &str) -> Result<usize> {
    let path = format!("/proc/{process}/status");
    let status = fs::read_to_string(&path).with_context(|| format!("read {path}"))?;
    let mut lines = status.lines();
    let line = lines.find_map(|line| line.strip_prefix(field));
    let line = line.with_context(|| format!("no {field}"))?;
    Ok(line.trim().trim_end_matches(" kB").parse::<usize>()? << 10)
}
