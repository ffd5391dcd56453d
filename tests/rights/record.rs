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
    let log = path.file_name().unwrap_or_default().to_string_lossy();
    for line in BufReader::new(File::open(path)?).lines() {
        // The end of the sandbox may cut the last line short.
        let Ok(event) = serde_json::from_str::<AuditEvent>(&line?) else {
            continue;
        };
        requests.extend(event.requests(&log, names));
    }
    Ok(())
}
