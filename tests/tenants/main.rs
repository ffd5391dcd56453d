//! Two tenants on one control plane: the time until one gets its recommendation, forecast,
//! admission and metric answers, alone and together with a hostile one.
//!
//! The hostile tenant may write in one namespace only, and makes there every large, numerous or slow
//! object that the API server accepts. Fails where an answer takes more than [`MOST`] times its
//! usual time. The same answers without the webhook and without the adapter are printed, but not
//! bounded: they show the load of the API server and of Prometheus. `make bench-tenants` runs the
//! release build.

mod hostile_tenant;
mod measured_tenant;

use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use e2e::benchmark::{exit_code, in_sandbox, print_row};
use e2e::deployment::{
    self, ADAPTER, Program, RECOMMENDER, SUITE, SYSTEM, UPDATER, WEBHOOK, all_ready, process,
    prometheus_variables, replicas,
};
use e2e::process_usage::resident_text;
use e2e::{kubectl_in, program};
use kube::Client;
use sandbox::{Options, Sandbox};

use measured_tenant::{Measured, Tenant};

/// Largest accepted ratio of an answer's time to its usual time.
const MOST: f64 = 2.0;
/// Limit of every wait.
const PATIENCE: Duration = Duration::from_mins(5);
const PROGRAMS: [(&str, Program<'_>); 4] = [
    ("recommender", RECOMMENDER),
    ("updater", UPDATER),
    ("webhook", WEBHOOK),
    ("adapter", ADAPTER),
];

#[tokio::main]
async fn main() -> ExitCode {
    Box::pin(exit_code(run())).await
}

async fn run() -> Result<()> {
    let options = Options {
        prometheus: true,
        ..Options::new("tenants", program("sandbox")?)
    };
    in_sandbox(options, async |sandbox| measure(sandbox).await).await
}

async fn measure(sandbox: &Sandbox) -> Result<()> {
    let client = sandbox.client().await?;
    deploy(sandbox).await.context("deploy the suite")?;
    let tenant = Tenant::new(sandbox, "shop")
        .await
        .context("make the tenant's workload")?;
    let alone = tenant.measure("alone").await?;
    println!(
        "  median seconds; \"without\" is the same question without webhook, or without adapter"
    );
    let names = [
        "recommend",
        "forecast",
        "admission",
        "without",
        "metric",
        "without",
    ];
    print_row("", names.map(str::to_owned));
    print_row("alone", row(&alone));

    let hostile = hostile_tenant::Hostile::new(sandbox).await?;
    hostile.make().await.context("make hostile objects")?;
    let loaded = hostile.while_asking(tenant.measure("hostile")).await?;
    print_row("with a hostile tenant", row(&loaded));
    restart(sandbox, &client)
        .await
        .context("restart the suite")?;
    let after = hostile.while_asking(tenant.measure("after")).await?;
    print_row("after a restart of all programs", row(&after));
    memory(&client).await?;
    for (name, now) in [
        ("with a hostile tenant", &loaded),
        ("after a restart", &after),
    ] {
        for (what, usual, now) in alone.against(now) {
            ensure!(
                now <= MOST * usual,
                "{name}, {what} takes {now:.3} s instead of {usual:.3} s"
            );
        }
    }
    Ok(())
}

fn row(measured: &Measured) -> [String; 6] {
    let Measured {
        recommendation,
        forecast,
        admission,
        unseen,
        metric,
        store,
    } = measured;
    let seconds = [recommendation, forecast, admission, unseen, metric, store];
    seconds.map(|seconds| format!("{seconds:.4}"))
}

async fn deploy(sandbox: &Sandbox) -> Result<()> {
    prometheus_variables(sandbox, &["RECOMMENDER", "ADAPTER"]).await?;
    deployment::deploy(sandbox, "tests/tenants", SUITE).await
}

/// New processes, which list everything.
async fn restart(sandbox: &Sandbox, client: &Client) -> Result<()> {
    kubectl_in(sandbox, &format!("rollout restart deployment -n {SYSTEM}")).await?;
    for (name, _) in PROGRAMS {
        let deployment = format!("deployment/plimsoll-{name}");
        kubectl_in(
            sandbox,
            &format!("rollout status {deployment} -n {SYSTEM} --timeout=5m"),
        )
        .await?;
    }
    all_ready(client, SUITE).await
}

async fn memory(client: &Client) -> Result<()> {
    for (name, program) in PROGRAMS {
        for replica in replicas(client, program).await? {
            let memory = resident_text(process(client, &replica).await?)?;
            println!("  {name:<12} resident memory {memory}");
        }
    }
    Ok(())
}
