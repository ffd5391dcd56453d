//! The record of the last complete run of the end-to-end tests: the audit logs of its sandboxes.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::time::SystemTime;

use anyhow::{Context as _, Result, ensure};
use e2e::{audit_logs, program};

use crate::audit_event::AuditEvent;
use crate::requests::Request;

pub(crate) const COMMAND: &str = "cargo build --workspace --bins && cargo test -p e2e --test e2e";
/// Programs whose requests are recorded.
const PROGRAMS: [&str; 5] = ["adapter", "extender", "recommender", "updater", "webhook"];

/// The requests of the last complete run. Names of objects that no rule names are left out.
pub(crate) fn recorded(names: &BTreeSet<String>) -> Result<BTreeSet<Request>> {
    ensure!(
        is_complete()?,
        "no complete run of the end-to-end tests with these programs is recorded: run {COMMAND}"
    );
    let mut requests = BTreeSet::new();
    for entry in fs::read_dir(audit_logs::folder()?)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "log") {
            read(&path, names, &mut requests)
                .with_context(|| format!("read {}", path.display()))?;
        }
    }
    Ok(requests)
}

/// Whether there is a record of a run that began after the programs were built.
fn is_complete() -> Result<bool> {
    let Ok(start) = audit_logs::start().and_then(|start| modified(&start)) else {
        return Ok(false);
    };
    for name in PROGRAMS {
        if modified(&program(name)?)? > start {
            return Ok(false);
        }
    }
    Ok(true)
}

fn modified(path: &Path) -> Result<SystemTime> {
    Ok(fs::metadata(path)?.modified()?)
}

fn read(path: &Path, names: &BTreeSet<String>, requests: &mut BTreeSet<Request>) -> Result<()> {
    let file = path.file_stem().unwrap_or_default().to_string_lossy();
    let sandbox = sandbox(&file);
    for line in BufReader::new(File::open(path)?).lines() {
        // The end of the sandbox may cut the last line short.
        let Ok(event) = serde_json::from_str::<AuditEvent>(&line?) else {
            continue;
        };
        requests.extend(event.requests(sandbox, names));
    }
    Ok(())
}

/// The sandbox of an audit log. The API server moves a log that is full to
/// `SANDBOX-2026-12-01T08-09-10.123.log`.
fn sandbox(file: &str) -> &str {
    const TIME: &str = "-0000-00-00T00-00-00.000";
    let is_time = |text: &str| {
        let digits = text
            .chars()
            .map(|c| if c.is_ascii_digit() { '0' } else { c });
        digits.eq(TIME.chars())
    };
    let split = file.len().checked_sub(TIME.len());
    match split.and_then(|at| file.split_at_checked(at)) {
        Some((sandbox, time)) if is_time(time) => sandbox,
        _ => file,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_log_and_the_next_one_are_of_one_sandbox() {
        for file in ["e2e-7-node-1", "e2e-7-node-1-2026-12-01T08-09-10.123"] {
            assert_eq!(sandbox(file), "e2e-7-node-1");
        }
        assert_eq!(sandbox("e2e"), "e2e");
    }
}
