//! One page of the scans of several clusters, from files or read at once.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail, ensure};
use clap::Args;
use maud::html;
use serde::Deserialize;
use serde_json::Value;

use super::PageArgs;
use crate::failure::Outcome;
use crate::output;
use crate::scan::{Order, Scan, VERSION, fleet};

const MAX_CONTAINERS: usize = 1000;

#[derive(Clone, Debug, Args)]
pub(crate) struct MergeArgs {
    /// Outputs of `plimsoll scan -o json`. Without the field `cluster`, the name of the file without
    /// its ending is the name of the cluster.
    #[arg(required = true, value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) page: PageArgs,
}

/// The scan of a cluster, with its name if the file has one.
#[derive(Deserialize)]
struct NamedScan {
    cluster: Option<String>,
    #[serde(flatten)]
    scan: Scan,
}

/// The output of `scan` for several clusters.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct SavedScans {
    clusters: Vec<NamedScan>,
    left_out: Vec<LeftOut>,
}

#[derive(Deserialize)]
struct LeftOut {
    cluster: String,
    error: String,
}

pub(super) fn run(args: &MergeArgs) -> anyhow::Result<Outcome> {
    let (mut scans, mut left_out) = (Vec::new(), Vec::new());
    let mut names = BTreeSet::new();
    for file in &args.files {
        let path = file.display();
        let saved = read(file).with_context(|| format!("{path}"))?;
        for NamedScan { cluster, scan } in saved.clusters {
            let stem = || file.file_stem().unwrap_or_default().to_string_lossy();
            let cluster = cluster.unwrap_or_else(|| stem().into_owned());
            ensure!(
                names.insert(cluster.clone()),
                "{path}: another file has the cluster {cluster}, too: rename one"
            );
            scans.push((cluster, scan));
        }
        for LeftOut { cluster, error } in saved.left_out {
            eprintln!("left out: {path}: {cluster}: {error}");
            left_out.push(format!("{cluster}: {error}"));
        }
    }
    let outcome = Outcome::of(left_out.is_empty());
    let currency = scans.first().map(|(_, scan)| scan.currency.as_str());
    let currency = currency.unwrap_or_default();
    let note = format!(
        "Savings in {currency} per month at the prices of each scan, for the pods of its last hour."
    );
    args.page.write(&page(&scans, left_out, note)?)?;
    Ok(outcome)
}

fn read(file: &Path) -> anyhow::Result<SavedScans> {
    let text = std::fs::read_to_string(file).context("cannot read the file")?;
    let saved: Value = serde_json::from_str(&text).context("not JSON")?;
    match saved.get("version") {
        None => {}
        Some(version) if *version == VERSION => {}
        Some(version) => bail!("version {version} is not supported, only {VERSION}"),
    }
    let scans = if saved.get("clusters").is_some() {
        serde_json::from_value(saved)
    } else {
        serde_json::from_value(saved).map(|scan| SavedScans {
            clusters: vec![scan],
            left_out: Vec::new(),
        })
    };
    scans.context("not an output of `plimsoll scan -o json`")
}

/// The page of scans with the names of their clusters. `left_out` names the others.
pub(super) fn page(
    scans: &[(String, Scan)],
    left_out: Vec<String>,
    note: String,
) -> anyhow::Result<String> {
    let containers: usize = scans.iter().map(|(_, scan)| scan.containers.len()).sum();
    ensure!(containers > 0, "no container has an hour of usage");
    if let [(first, scan), others @ ..] = scans
        && let Some((other, another)) = others.iter().find(|it| it.1.currency != scan.currency)
    {
        let (one, two) = (&scan.currency, &another.currency);
        bail!("savings of {first} are in {one} and those of {other} in {two}: use one currency");
    }
    let mut document = fleet(scans, Order::Severity);
    document.title = format!("Plimsoll report of {} clusters", scans.len());
    document.tables.rotate_right(1);
    document.notes.insert(0, note);
    if containers > MAX_CONTAINERS {
        document.tables[1].rows.truncate(MAX_CONTAINERS);
        document.notes.push(format!(
            "{MAX_CONTAINERS} of {containers} containers: those of the highest severity."
        ));
    }
    let incomplete = scans.iter().flat_map(|(cluster, scan)| {
        let reasons = scan.left_out.iter();
        reasons.map(move |reason| format!("{cluster}: {reason}"))
    });
    let reasons = left_out.into_iter().chain(incomplete);
    let reasons = reasons.map(|reason| format!("Left out: {reason}."));
    document.notes.extend(reasons);
    Ok(output::page(&document.title, &html! {}, &document.html()))
}
