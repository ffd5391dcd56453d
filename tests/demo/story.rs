//! A page with all steps on one time axis: usage, requests, evictions and resizes, the OOM kill and what
//! followed, replicas, and the busy node.

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, Result};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Event;
use k8s_openapi::jiff::Timestamp;
use kube::api::ListParams;
use kube::{Api, Client};
use maud::{DOCTYPE, Markup, PreEscaped, html};
use plot::{Layer, Mark, Plot, Scale, Shape, Unit};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::sleep;

use crate::observe::{self, NAMESPACE};
use crate::oom_kill::Healed;
use crate::page;
use crate::placement::Placed;
use crate::report::{Amounts, Row};
use crate::scale_ahead::WORKLOAD;

const EVERY: Duration = Duration::from_secs(1);
const STYLE: &str = "body{margin:0 auto;max-width:76rem;padding:1rem;background:var(--paper);color:var(--ink);\
    font:1rem/1.5 system-ui,sans-serif}figure{margin:1rem 0 1rem 4rem}figcaption{margin:0 0 .75rem -4rem;color:var(--soft)}\
    figcaption b{display:block;color:var(--ink)}figcaption svg{display:inline}svg{display:block;overflow:visible}\
    .item{margin-right:1rem}";

/// All pods of the sized workloads, and the replicas of the scaled one, at a second.
struct Sample {
    second: f64,
    used: Amounts,
    requested: Amounts,
    replicas: Option<i32>,
}

/// A recording that goes on until the page is written.
pub(crate) struct Story {
    recording: JoinHandle<Vec<Sample>>,
    end: watch::Sender<bool>,
}

impl Story {
    pub(crate) fn record(client: &Client) -> Self {
        let (end, ended) = watch::channel(false);
        let client = client.clone();
        let recording = tokio::spawn(async move {
            let mut samples = Vec::new();
            while !*ended.borrow() {
                // A second without an answer is a gap.
                samples.extend(sample(&client).await.ok());
                sleep(EVERY).await;
            }
            samples
        });
        Self { recording, end }
    }

    /// Ends the recording, and writes the page.
    pub(crate) async fn write(
        self,
        client: &Client,
        healed: &Healed,
        placed: &Placed,
    ) -> Result<PathBuf> {
        self.end.send_replace(true);
        let samples = self.recording.await?;
        let events = Api::<Event>::namespaced(client.clone(), NAMESPACE);
        let events = events.list(&ListParams::default()).await?.items;
        let path = page::folder()?.join("story.html");
        let text = html(&samples, &events, healed, placed).into_string();
        fs::write(&path, text).with_context(|| path.display().to_string())?;
        Ok(path)
    }
}

async fn sample(client: &Client) -> Result<Sample> {
    let rows = observe::rows(client).await?;
    let deployments = Api::<Deployment>::namespaced(client.clone(), NAMESPACE);
    let scaled = deployments.get_opt(WORKLOAD).await?;
    let sum = |of: &dyn Fn(&Row) -> Amounts| {
        rows.iter().fold(Amounts::default(), |sum, row| Amounts {
            cpu_millicores: sum.cpu_millicores + row.pods as f64 * of(row).cpu_millicores,
            memory_bytes: sum.memory_bytes + row.pods as f64 * of(row).memory_bytes,
        })
    };
    Ok(Sample {
        second: Timestamp::now().as_second() as f64,
        used: sum(&|row| row.usage.unwrap_or_default()),
        requested: sum(&|row| row.request),
        replicas: scaled.and_then(|it| it.status?.ready_replicas),
    })
}

fn line(
    name: &str,
    class: &'static str,
    samples: &[Sample],
    of: impl Fn(&Sample) -> Option<f64>,
) -> Layer {
    let points = samples.iter();
    let points = points.filter_map(|sample| Some((sample.second, of(sample)?)));
    Layer::new(name, class, Shape::Line(points.collect()))
}

/// Events with these reasons, at the foot of a plot.
fn marks(name: &str, class: &'static str, events: &[Event], reasons: &[&str]) -> Layer {
    let is_shown = |event: &&Event| {
        event
            .reason
            .as_deref()
            .is_some_and(|it| reasons.contains(&it))
    };
    let marks = events.iter().filter(is_shown).filter_map(|event| {
        let time = event.last_timestamp.as_ref().map(|time| time.0);
        let time = time.or(event.event_time.as_ref().map(|time| time.0))?;
        Some(Mark {
            at: (time.as_second() as f64, 0.0),
            title: event.message.clone().unwrap_or_default(),
            label: String::new(),
        })
    });
    Layer::new(name, class, Shape::Marks(marks.collect()))
}

fn html(samples: &[Sample], events: &[Event], healed: &Healed, placed: &Placed) -> Markup {
    const GIB: f64 = 1024.0 * 1024.0 * 1024.0;
    let ends = [samples.first(), samples.last()].map(|it| it.map_or(0.0, |sample| sample.second));
    let plot = |title: &str, layers: Vec<Layer>| {
        let mut plot = Plot {
            title: title.to_owned(),
            x: Scale::Time,
            y: Scale::FromZero(Unit::NUMBER),
            layers,
        };
        // Each plot has the axis of all.
        for end in ends {
            plot.layers
                .push(Layer::new("", "usage", Shape::Line(vec![(end, 0.0)])));
        }
        plot.figure()
    };
    let acts = || {
        marks(
            "evicted or resized",
            "c4",
            events,
            &["EvictedByVPA", "InPlaceResizedByVPA"],
        )
    };
    let cpu = |of: fn(&Sample) -> Amounts| move |it: &Sample| Some(of(it).cpu_millicores / 1000.0);
    let memory = |of: fn(&Sample) -> Amounts| move |it: &Sample| Some(of(it).memory_bytes / GIB);
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { "What happened" }
                style { (PreEscaped(plot::STYLE)) (PreEscaped(STYLE)) }
            }
            body { main {
                h1 { "What happened" }
                p { "A recorded day of usage at 720 times its speed: a minute is twelve hours of it. Then the acts. All plots have the same time axis." }
                (plot("CPU cores of web, worker and cache", vec![
                    line("used", "usage", samples, cpu(|it| it.used)),
                    line("requested", "request", samples, cpu(|it| it.requested)), acts(),
                ]))
                (plot("Memory of web, worker and cache in GiB", vec![
                    line("used", "usage", samples, memory(|it| it.used)),
                    line("requested", "request", samples, memory(|it| it.requested)), acts(),
                ]))
                (plot("Memory of a pod that is killed, in GiB", heal(healed, ends)))
                (plot("Ready replicas of checkout, whose load rises 20 minutes later", vec![
                    line("replicas", "usage", samples, |it| it.replicas.map(f64::from)),
                    marks("scaled by the HPA", "c4", events, &["SuccessfulRescale"]),
                ]))
                p { "At the end, pods of a Job came. With them, the CPU of the busy node would be "
                    (format!("{:.0} % used if they are placed by requests, and {:.0} % by load", placed.by_requests, placed.by_load)) "." }
            } }
        }
    }
}

/// The request of the pod, its kill, the new recommendation and the use of it.
fn heal(healed: &Healed, [start, end]: [f64; 2]) -> Vec<Layer> {
    const GIB: f64 = 1024.0 * 1024.0 * 1024.0;
    let seconds = |time: SystemTime| {
        let since = time.duration_since(UNIX_EPOCH);
        since.unwrap_or_default().as_secs_f64()
    };
    let killed = seconds(healed.killed);
    let [had, has] = healed.memory.map(|bytes| bytes / GIB);
    let larger = killed + healed.larger_pod.as_secs_f64();
    let line = vec![(start, had), (larger, had), (larger, has), (end, has)];
    let mark = |second: f64, amount: f64, label: String| Mark {
        at: (second, amount),
        title: label.clone(),
        label,
    };
    let after = |time: Duration| format!("{:.2} s", time.as_secs_f64());
    let heals = [
        Some((healed.larger_pod, "the same pod has more memory")),
        healed.usable.map(|usable| (usable, "its program uses it")),
    ];
    let mut heals: Vec<_> = heals.into_iter().flatten().collect();
    heals.sort();
    let heals = heals.into_iter().map(|(time, text)| {
        mark(
            killed + time.as_secs_f64(),
            has,
            format!("after {}: {text}", after(time)),
        )
    });
    vec![
        Layer::new("requested", "request", Shape::Line(line)),
        Layer::new(
            "OOM kill",
            "oom",
            Shape::Marks(vec![mark(killed, had, "OOM kill".to_owned())]),
        ),
        Layer::new("what followed", "c2", Shape::Marks(heals.collect())),
    ]
}
