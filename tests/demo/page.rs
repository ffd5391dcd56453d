//! The page that `plimsoll report` makes of the recorded day, with the requests of its beginning.

use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;

use anyhow::{Context as _, Result};
use e2e::{prints, program};
use k8s_openapi::jiff::Timestamp;
use tokio::process::Command;

use crate::day;
use crate::observe::NAMESPACE;
use crate::report::Row;

/// The day is in the recording so often: requests are only lowered after a whole day.
const DAYS: i64 = 2;
const DAY: i64 = 86_400;
/// Seconds between two samples.
const STEP: i64 = 60;

/// Writes the recording and the page below the folder of the programs; returns the page.
pub(crate) async fn write(rows: &[Row]) -> Result<PathBuf> {
    let (plimsoll, folder) = (program("plimsoll")?, folder()?);
    let (recording, page) = (folder.join("usage.csv"), folder.join("report.html"));
    fs::write(&recording, csv(rows)?).with_context(|| recording.display().to_string())?;
    let mut report = Command::new(plimsoll);
    report
        .arg("report")
        .arg(&recording)
        .arg("--file")
        .arg(&page);
    prints(&mut report).await?;
    Ok(page)
}

/// The folder of the pages, beside that of the programs.
pub(crate) fn folder() -> Result<PathBuf> {
    let plimsoll = program("plimsoll")?;
    let folder = plimsoll.parent().and_then(|debug| debug.parent());
    let folder = folder.context("the folder of the programs")?.join("demo");
    fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
    Ok(folder)
}

/// The usage of each pod, minute by minute until now.
fn csv(rows: &[Row]) -> Result<String> {
    let end = Timestamp::now().as_second() / STEP * STEP;
    let mut text = String::from(
        "time,namespace,workload,container,pod,cpu,memory,cpu_request,memory_request\n",
    );
    for row in rows {
        let (name, request) = (&row.name, row.request);
        let trace = day::trace(name)?;
        for second in (0..DAYS * DAY).step_by(STEP as usize) {
            let usage = trace.usage_in_loop(second as f64);
            let cpu = usage.cpu_millicores.context("the day has CPU")?;
            let memory = usage.memory_mib.context("the day has memory")?;
            for pod in 0..row.pods {
                let _ = writeln!(
                    text,
                    "{},{NAMESPACE},deployment/{name},{name},{name}-{pod},{cpu}m,{memory}Mi,{}m,{}",
                    end - DAYS * DAY + second,
                    request.cpu_millicores,
                    request.memory_bytes
                );
            }
        }
    }
    Ok(text)
}
