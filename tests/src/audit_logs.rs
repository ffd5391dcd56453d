//! The audit logs of all sandboxes of the last complete run of the binary `e2e`, in one folder.
//!
//! A run of selected tests leaves the folder alone: its audit logs are among the other logs of its
//! sandboxes.

use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::{env, fs};

use anyhow::{Context as _, Result, anyhow};

use crate::program;

/// The binary whose runs are recorded.
const BINARY: &str = "e2e-";
/// Empty file from the start of the run.
const START: &str = "start";
/// Options of the test harness whose value is an argument of its own.
const WITH_VALUE: [&str; 6] = [
    "--color",
    "--format",
    "--logfile",
    "--shuffle-seed",
    "--test-threads",
    "-Z",
];
/// Options of the test harness that select tests.
const SELECTING: [&str; 2] = ["--ignored", "--skip"];

/// The folder of the audit logs of this run, empty at the first call; `None` unless this process is
/// a complete run.
pub(crate) fn of_this_run() -> Result<Option<PathBuf>> {
    static FOLDER: LazyLock<Result<Option<PathBuf>>> = LazyLock::new(begin);
    FOLDER
        .as_ref()
        .cloned()
        .map_err(|error| anyhow!("begin the record of audit logs: {error:#}"))
}

pub fn folder() -> Result<PathBuf> {
    Ok(program("sandbox")?.with_file_name("audit"))
}

/// The file that the start of the last complete run made.
pub fn start() -> Result<PathBuf> {
    Ok(folder()?.join(START))
}

fn begin() -> Result<Option<PathBuf>> {
    let this = env::current_exe().context("find this program")?;
    let name = this.file_name().and_then(|name| name.to_str());
    let is_recorded = name.is_some_and(|name| name.starts_with(BINARY));
    if !is_recorded || selects(env::args().skip(1)) {
        return Ok(None);
    }
    let folder = folder()?;
    clear(&folder)?;
    fs::write(start()?, "").context("mark the start of the run")?;
    Ok(Some(folder))
}

fn clear(folder: &Path) -> Result<()> {
    if folder.exists() {
        fs::remove_dir_all(folder).with_context(|| format!("clear {}", folder.display()))?;
    }
    fs::create_dir_all(folder).with_context(|| format!("create {}", folder.display()))
}

/// Whether arguments of the test harness select some of the tests.
fn selects(arguments: impl Iterator<Item = String>) -> bool {
    let mut is_value = false;
    for argument in arguments {
        let is_option = argument.starts_with('-');
        if SELECTING.contains(&argument.as_str()) || !(is_option || is_value) {
            return true;
        }
        is_value = WITH_VALUE.contains(&argument.as_str());
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(arguments: &str, expected: bool) {
        let found = selects(arguments.split_whitespace().map(str::to_owned));
        assert_eq!(found, expected, "{arguments:?}");
    }

    #[test]
    fn a_run_with_a_filter_is_no_complete_run() {
        check("", false);
        check("--nocapture --test-threads 4", false);
        check("-Z unstable-options --report-time", false);
        check("--test-threads=1", false);
        check("webhook", true);
        check("--exact lease::tests", true);
        check("--skip chart", true);
        check("--nocapture --test-threads 4 webhook", true);
    }
}
