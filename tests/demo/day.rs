//! The first step: a recorded day of usage, replayed in two minutes, and the resulting
//! recommendations. No pod is updated yet.

use std::fs;
use std::io::{self, IsTerminal as _, Write as _};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use e2e::repository;
use kube::Client;
use sandbox::{Replay, Trace};
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;

use crate::observe::{self, NAMESPACE, WORKLOADS};
use crate::report::{self, Row};

/// Seconds of the recorded day per second of the demonstration: a day takes two minutes, as
/// `values.yaml` expects.
const SPEED: f64 = 720.0;
const DAY: Duration = Duration::from_mins(2);
/// Time between two drawings of the table; longer without a terminal, which cannot redraw it in
/// place.
const REFRESH: Duration = Duration::from_secs(1);
const REFRESH_PLAIN: Duration = Duration::from_secs(20);

/// Plays the day of each workload again and again, until this is dropped.
pub(crate) fn play(client: &Client) -> Result<JoinSet<()>> {
    let mut players = JoinSet::new();
    for name in WORKLOADS {
        let (play, client) = (recorded_day(name)?, client.clone());
        players.spawn(async move {
            if let Err(error) = play.run(client, CancellationToken::new()).await {
                eprintln!("The replay of the recorded day stopped: {error:#}");
            }
        });
    }
    Ok(players)
}

/// Draws the table until the first day is over; returns its last rows.
pub(crate) async fn watch(client: &Client) -> Result<Vec<Row>> {
    println!(
        "\n1. A recorded day of real usage is replayed in {} s; the recommender computes sizes.\n",
        DAY.as_secs()
    );
    let terminal = io::stdout().is_terminal();
    let mut ticks = interval(if terminal { REFRESH } else { REFRESH_PLAIN });
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let started = Instant::now();
    let mut drawn_lines = 0;
    loop {
        ticks.tick().await;
        let elapsed = started.elapsed().min(DAY);
        let rows = observe::rows(client).await?;
        let table = report::table(24.0 * elapsed.div_duration_f64(DAY), &rows);
        if terminal && drawn_lines > 0 {
            // Up over the last table, and clear from there.
            print!("\x1b[{drawn_lines}A\x1b[J");
        }
        drawn_lines = table.lines().count();
        print!("{table}");
        io::stdout().flush()?;
        if elapsed == DAY {
            println!("\n{}", report::summary(&rows));
            if let Some(row) = rows.iter().find(|row| row.target.is_none()) {
                bail!("{} got no recommendation", row.name);
            }
            return Ok(rows);
        }
    }
}

/// A day of one machine, which is that of one workload's pods.
pub(crate) fn trace(workload: &str) -> Result<Trace> {
    let path = repository().join(format!("tests/fixtures/traces/{workload}.csv"));
    let text = fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))?;
    Trace::parse(&text).with_context(|| format!("read {}", path.display()))
}

/// The day, played by the workload's pods.
fn recorded_day(workload: &str) -> Result<Replay> {
    let target = format!("deployment/{workload}").parse()?;
    Ok(Replay {
        trace: trace(workload)?,
        target,
        namespace: NAMESPACE.to_owned(),
        speed: SPEED,
        repeat: true,
    })
}
