//! Processor time and memory of the recommender and of upstream's, each alone in a control plane of
//! its own with the same cluster: young VPA objects, whose bounds change in every round.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use e2e::benchmark::vpas;
use e2e::deployment::system;
use e2e::{Namespace, WithUpstreamVpa, apply, eventually, process_of, process_usage, repository};
use kube::ResourceExt as _;
use tokio::time::sleep;

use crate::population;

const DEFAULT_VPAS: usize = 500;
/// Time from the start of a recommender to its figures: some seven rounds.
const MEASURED: Duration = Duration::from_mins(2);
const FOLDER: &str = "tests/scale/beside_upstream";

/// Figures of one recommender.
struct Figures {
    cpu_seconds: f64,
    peak_megabytes: f64,
    api_server_cpu_seconds: f64,
}

/// Measures both and prints their ratio.
pub(crate) async fn run() -> Result<()> {
    let vpas = vpas(DEFAULT_VPAS)?;
    let upstream = measure(vpas, "upstream").await?;
    let suite = measure(vpas, "suite").await?;
    println!(
        "\n  {vpas} VPA objects, {} pods, rounds of 15 s, the first {} s of a young fleet",
        vpas * population::REPLICAS,
        MEASURED.as_secs()
    );
    println!("                      upstream     suite     ratio");
    for (name, of) in [
        ("CPU, s", (|it| it.cpu_seconds) as fn(&Figures) -> f64),
        ("peak memory, MB", |it| it.peak_megabytes),
        ("CPU of API server, s", |it| it.api_server_cpu_seconds),
    ] {
        let (upstream, suite) = (of(&upstream), of(&suite));
        let ratio = suite / upstream;
        println!("  {name:<20} {upstream:>8.2}  {suite:>8.2}  {ratio:>8.2}");
    }
    Ok(())
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
    let before = api_server(&used()?);
    // Not a wait for something: the figures are of this time.
    sleep(MEASURED).await;
    let after = used()?;
    let (_, peak_megabytes) = process_usage::resident(process)?;
    let figures = Figures {
        cpu_seconds: after[which],
        peak_megabytes,
        api_server_cpu_seconds: api_server(&after) - before,
    };
    sandbox.sandbox.down().await?;
    Ok(figures)
}
