//! Processor time and memory of the recommender and of upstream's, each alone in a control plane of
//! its own with the same cluster: young VPA objects, whose bounds change in every round.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use e2e::benchmark::{print_row, vpas};
use e2e::deployment::system;
use e2e::{Namespace, WithUpstreamVpa, apply, eventually, process_of, process_usage, repository};
use kube::ResourceExt as _;
use tokio::time::sleep;

use crate::population;

const DEFAULT_VPAS: usize = 500;
/// The two times that are measured, one after the other: with the first recommendation of each
/// object, and after it.
const MEASURED: [Duration; 2] = [Duration::from_mins(2), Duration::from_mins(4)];
const FOLDER: &str = "tests/scale/beside_upstream";

/// Figures of one recommender: processor time in seconds per measured time.
struct Figures {
    cpu: [f64; 2],
    api_server_cpu: [f64; 2],
    peak_megabytes: f64,
}

/// Measures both and prints their ratio.
pub(crate) async fn run() -> Result<()> {
    let vpas = vpas(DEFAULT_VPAS)?;
    let upstream = measure(vpas, "upstream").await?;
    let suite = measure(vpas, "suite").await?;
    println!(
        "\n  {vpas} young VPA objects, {} pods, rounds of 15 s",
        vpas * population::REPLICAS
    );
    print_row("", ["upstream", "suite", "ratio"].map(str::to_owned));
    for (index, lasts) in MEASURED.iter().enumerate() {
        let seconds = lasts.as_secs();
        row(
            &format!("CPU, s in {seconds} s"),
            [upstream.cpu[index], suite.cpu[index]],
        );
        let api_server = [&upstream, &suite].map(|it| it.api_server_cpu[index]);
        row(&format!("CPU of API server, s in {seconds} s"), api_server);
    }
    row(
        "peak memory, MB",
        [&upstream, &suite].map(|it| it.peak_megabytes),
    );
    Ok(())
}

fn row(name: &str, [upstream, suite]: [f64; 2]) {
    let values = [upstream, suite, suite / upstream];
    print_row(name, values.map(|value| format!("{value:.2}")));
}

async fn measure(vpas: usize, which: &str) -> Result<Figures> {
    let sandbox = WithUpstreamVpa::start(&format!("beside-{which}")).await?;
    let client = sandbox.sandbox.client().await?;
    population::make(&client, vpas).await?;
    let folder = format!("{FOLDER}/{which}");
    let (namespace, prefix) = if which == "suite" {
        apply(&sandbox.sandbox, &folder).await?;
        (system(&client), "plimsoll-recommender")
    } else {
        let kustomization = repository().join(folder).join("kustomization.yaml");
        sandbox.apply(&kustomization).await?;
        let system = Namespace::of(client.clone(), "kube-system");
        (system, "vpa-recommender")
    };
    let process = eventually(&format!("{prefix} runs"), async || {
        let pods = namespace.typed::<k8s_openapi::api::core::v1::Pod>();
        let pods = pods.list(&kube::api::ListParams::default()).await?.items;
        let mut pods = pods.iter().filter(|pod| pod.name_any().starts_with(prefix));
        let pod = pods.next().context("no pod")?;
        ensure!(pods.next().is_none(), "several pods");
        process_of(pod)
    })
    .await?;
    let used = || process_usage::processor_seconds(&sandbox.sandbox, &[(which, process)]);
    let api_server = |used: &std::collections::BTreeMap<String, f64>| {
        used.get("kube-apiserver").copied().unwrap_or_default()
    };
    let mut figures = Figures {
        cpu: [0.0; 2],
        api_server_cpu: [0.0; 2],
        peak_megabytes: 0.0,
    };
    let (mut own_before, mut before) = (0.0, api_server(&used()?));
    for (index, lasts) in MEASURED.iter().enumerate() {
        // Not a wait for something: the figures are of this time.
        sleep(*lasts).await;
        let after = used()?;
        figures.cpu[index] = after[which] - own_before;
        figures.api_server_cpu[index] = api_server(&after) - before;
        (own_before, before) = (after[which], api_server(&after));
    }
    (_, figures.peak_megabytes) = process_usage::resident(process)?;
    sandbox.sandbox.down().await?;
    Ok(figures)
}
