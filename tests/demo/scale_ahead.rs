//! The fourth step: a workload whose load rises each day at the same time is scaled before that.
//! Prometheus has five days of its CPU; the recommender forecasts the peak of the next half hour, the
//! adapter serves that, and the control plane's HPA acts on it.

use anyhow::{Context as _, Result, ensure};
use e2e::eventually;
use e2e::remote_write::{DailyCpu, Receiver};
use k8s_openapi::api::core::v1::Event;
use k8s_openapi::jiff::Timestamp;
use kube::api::ListParams;
use kube::{Api, Client};
use sandbox::Sandbox;

use crate::observe::NAMESPACE;
use crate::replicas::Seen;

pub(crate) const WORKLOAD: &str = "checkout";
/// Name of the objects that the EHPA owns.
const HPA: &str = "ehpa-checkout";
const DAY: i64 = 86_400;
const DAYS: i64 = 5;
/// The rise comes so soon, every day at the same time, and lasts so long.
const AHEAD: i64 = 20 * 60;
const BUSY: i64 = 6 * 3600;
/// Cores of all pods together.
const LOW: f64 = 0.02;
const HIGH: f64 = 0.28;

/// The replicas before and after, and how many minutes before the rise they were ready.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scaled {
    pub(crate) from: i64,
    pub(crate) to: i64,
    pub(crate) minutes: i64,
}

pub(crate) async fn watch(sandbox: &Sandbox, client: &Client) -> Result<Scaled> {
    let rise = Timestamp::now().as_second() / 60 * 60 + AHEAD;
    write_history(sandbox, rise).await?;
    println!(
        "4. The load of {WORKLOAD} rises each day at {} UTC, as {DAYS} days in Prometheus show. It is scaled up before the rise.\n",
        clock(rise)
    );
    e2e::apply(sandbox, "tests/demo/checkout.yaml").await?;
    println!(
        "  {}  created ehpa/{WORKLOAD} from tests/demo/checkout.yaml",
        time()
    );
    let first = Seen::now(client, WORKLOAD, HPA).await?.replicas;
    let mut printed = String::new();
    let last = eventually("it is scaled", async || {
        let seen = Seen::now(client, WORKLOAD, HPA).await?;
        let sentence = seen.sentence();
        if sentence != printed {
            println!("  {}  {sentence}", time());
            printed.clone_from(&sentence);
        }
        ensure!(seen.is_settled(), "{sentence}");
        Ok(seen)
    })
    .await?;
    let minutes = (rise - Timestamp::now().as_second()) / 60;
    ensure!(
        minutes > 0 && last.replicas > first,
        "it was not scaled before the rise"
    );
    let percent = last
        .measured_percent
        .context("the CPU of its pods is known")?;
    let target = last.target_percent.context("the autoscaler has a target")?;
    ensure!(
        percent < target,
        "the measured CPU asks for more replicas, too"
    );
    println!(
        "\n  Event of the HPA: {}",
        without_selector(&rescale_message(client).await?)
    );
    println!(
        "  Scaled from {first} to {} replicas {minutes} minutes before the rise. The measured CPU, {percent} % of requests with a \
         target of {target} %, needs no more.",
        last.replicas
    );
    Ok(Scaled {
        from: first,
        to: last.replicas,
        minutes,
    })
}

/// The text without the part in brackets: the labels of the metric's query.
fn without_selector(message: &str) -> String {
    match (message.split_once('('), message.rsplit_once(')')) {
        (Some((before, _)), Some((_, after))) => format!("{before}{after}"),
        _ => message.to_owned(),
    }
}

/// Message of the HPA's last event about the change.
async fn rescale_message(client: &Client) -> Result<String> {
    let events = Api::<Event>::namespaced(client.clone(), NAMESPACE);
    let fields = format!("involvedObject.name={HPA},reason=SuccessfulRescale");
    eventually("the HPA records an event", async || {
        let list = events.list(&ListParams::default().fields(&fields)).await?;
        list.items
            .into_iter()
            .max_by_key(|event| event.last_timestamp.clone())
            .and_then(|event| event.message)
            .context("no event")
    })
    .await
}

/// Days of one pod that had the load of all.
async fn write_history(sandbox: &Sandbox, rise: i64) -> Result<()> {
    let receiver = Receiver::of(sandbox)?;
    let pod = "checkout-6d5f9c7b8d-aaaaa";
    let cpu = DailyCpu {
        namespace: NAMESPACE,
        pod,
        container: WORKLOAD,
        rise,
        busy: BUSY,
        low: LOW,
        high: HIGH,
    };
    let now = rise - AHEAD;
    receiver.write_daily_cpu(&cpu, now - DAYS * DAY, now).await
}

fn time() -> String {
    Timestamp::now().strftime("%H:%M:%S").to_string()
}

/// Hours and minutes of a moment in seconds since 1970.
fn clock(second: i64) -> String {
    let minutes = second.div_euclid(60).rem_euclid(24 * 60);
    format!("{:02}:{:02}", minutes / 60, minutes % 60)
}
