//! A minimal service: logs when it leads, and ends at shutdown.

use std::process::ExitCode;

use clap::Parser;
use runtime::http_endpoints::EndpointPort;
use runtime::{CommonArgs, LeaderElectionArgs, Manager, Program, Severity};
use tokio::task::JoinHandle;

#[derive(Parser)]
struct Args {
    #[command(flatten)]
    common: CommonArgs,
    #[command(flatten)]
    election: LeaderElectionArgs,
    /// Start a task that fails at once.
    #[arg(long)]
    fail: bool,
    /// Start a task that panics at once.
    #[arg(long)]
    panic: bool,
    /// Ignore the first signal.
    #[arg(long)]
    stubborn: bool,
}

const PROGRAM: Program = Program {
    name: "hello",
    version: env!("CARGO_PKG_VERSION"),
    defaults: &[("address", ":0"), ("leader-elect-resource-name", "hello")],
};

fn main() -> ExitCode {
    let args: Args = PROGRAM.parse();
    PROGRAM.run(&args.common.clone(), Severity::Info, serve, |manager| {
        work(manager, args)
    })
}

/// Serves plain HTTP without limits.
async fn serve(port: EndpointPort) -> anyhow::Result<JoinHandle<()>> {
    let server = axum::serve(port.listener, port.router)
        .with_graceful_shutdown(port.shutdown.cancelled_owned());
    Ok(tokio::spawn(async move { drop(server.await) }))
}

async fn work(
    manager: Manager,
    Args {
        common: _,
        election,
        fail,
        panic,
        stubborn,
    }: Args,
) -> anyhow::Result<()> {
    if fail {
        manager
            .tasks
            .spawn("greeting", async { anyhow::bail!("no name to greet") });
    }
    if panic {
        manager
            .tasks
            .spawn("greeting", async { panic!("no words") });
    }
    let leader = manager.readiness.condition("leader");
    let lead = async |term: runtime::Leading| {
        leader.ready();
        tracing::info!("hello");
        if stubborn {
            std::future::pending::<()>().await;
        }
        manager
            .shutdown
            .run_until_cancelled(term.lost().cancelled())
            .await;
        Ok(())
    };
    manager
        .lead(&election, &runtime::Announcement::default(), lead)
        .await
}
