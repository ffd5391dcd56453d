//! Plays a trace as the usage of a workload's pods. KWOK reports the values of two annotations of a
//! pod as the usage of each of its containers. Pods that appear while the trace plays get the
//! current value too.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use futures::{StreamExt, stream};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::api::{DynamicObject, ListParams, Patch, PatchParams};
use kube::core::{ApiResource, GroupVersionKind, Selector};
use kube::{Api, Client, ResourceExt};
use serde_json::{Map, Value, json};
use tokio::time::{Instant, MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;

use crate::trace::{Trace, Usage};

/// Annotations that KWOK reads.
const CPU_ANNOTATION: &str = "kwok.x-k8s.io/usage-cpu";
const MEMORY_ANNOTATION: &str = "kwok.x-k8s.io/usage-memory";
/// Time between two updates; metrics-server reads every 10 s.
const TICK: Duration = Duration::from_secs(1);
/// Patches per second at most, and how many at the same time.
const PATCHES_PER_SECOND: u32 = 100;
const PARALLEL: usize = 8;

/// The workload whose pods play a trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    kind: &'static Kind,
    name: String,
}

/// API group and kind, and the names of the kind as for kubectl, of which the first is the plural.
type Kind = (&'static str, &'static str, [&'static str; 3]);

const KINDS: [Kind; 5] = [
    (
        "apps",
        "Deployment",
        ["deployments", "deployment", "deploy"],
    ),
    ("apps", "ReplicaSet", ["replicasets", "replicaset", "rs"]),
    (
        "apps",
        "StatefulSet",
        ["statefulsets", "statefulset", "sts"],
    ),
    ("apps", "DaemonSet", ["daemonsets", "daemonset", "ds"]),
    ("batch", "Job", ["jobs", "job", "job"]),
];

impl FromStr for Target {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        let (word, name) = text
            .split_once('/')
            .with_context(|| format!("target {text:?} must be KIND/NAME"))?;
        ensure!(!name.is_empty(), "target {text:?} has no name");
        let kind = KINDS.iter().find(|(.., names)| names.contains(&word));
        let kind = kind.with_context(|| {
            format!("kind {word:?} must be deployment, replicaset, statefulset, daemonset or job")
        })?;
        Ok(Self {
            kind,
            name: name.to_owned(),
        })
    }
}

impl fmt::Display for Target {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} {}", self.kind.1, self.name)
    }
}

/// A trace and the pods that play it.
#[derive(Clone, Debug)]
pub struct Replay {
    pub trace: Trace,
    pub target: Target,
    pub namespace: String,
    /// Seconds of the trace per second of real time.
    pub speed: f64,
    /// Whether the trace starts again at its end.
    pub repeat: bool,
}

impl Replay {
    /// Plays until the trace ends or is cancelled. The pods keep their last usage.
    pub async fn run(&self, client: Client, cancel: CancellationToken) -> Result<()> {
        ensure!(
            self.speed.is_finite() && self.speed > 0.0,
            "speed {} must be above zero",
            self.speed
        );
        let selector = self.selector(&client).await?;
        let pods = Api::<Pod>::namespaced(client, &self.namespace);
        let started = Instant::now();
        let mut ticks = interval(TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
        loop {
            tokio::select! {
                _ = ticks.tick() => {}
                () = cancel.cancelled() => return Ok(()),
            }
            let Some(usage) = self.usage(started.elapsed()) else {
                return Ok(());
            };
            tokio::select! {
                // The API server may be down for a while, as tests want; the trace goes on.
                played = set_usage(&pods, &selector, usage) => if let Err(error) = played {
                    tracing::debug!(error = format!("{error:#}"), "cannot set the usage of pods");
                },
                () = cancel.cancelled() => return Ok(()),
            }
        }
    }

    fn usage(&self, elapsed: Duration) -> Option<Usage> {
        let seconds = elapsed.as_secs_f64() * self.speed;
        if self.repeat {
            Some(self.trace.usage_in_loop(seconds))
        } else {
            self.trace.usage_at(seconds)
        }
    }

    async fn selector(&self, client: &Client) -> Result<String> {
        let (group, kind, [plural, ..]) = self.target.kind;
        let resource =
            ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(group, "v1", kind), plural);
        let api = Api::<DynamicObject>::namespaced_with(client.clone(), &self.namespace, &resource);
        let workload = api
            .get(&self.target.name)
            .await
            .with_context(|| format!("read {} in {}", self.target, self.namespace))?;
        let selector = workload.data["spec"]["selector"].clone();
        let selector: LabelSelector = serde_json::from_value(selector)
            .with_context(|| format!("{} selects no pods", self.target))?;
        label_selector(selector)
    }
}

/// Sets the annotations of all selected pods to this usage; patches only pods with other values.
async fn set_usage(pods: &Api<Pod>, selector: &str, usage: Usage) -> Result<()> {
    let wanted = annotations(usage);
    // Served from the API server's cache, which makes frequent lists cheap.
    let list = ListParams::default().labels(selector).match_any();
    let found = pods.list(&list).await.context("list the pods")?;
    let stale = found
        .items
        .into_iter()
        .filter(|pod| pod.metadata.deletion_timestamp.is_none() && !has(pod, &wanted))
        .map(|pod| pod.name_any());
    let patch = json!({"metadata": {"annotations": wanted}});
    let pace = stream::unfold(
        interval(Duration::from_secs(1) / PATCHES_PER_SECOND),
        |mut pace| async {
            pace.tick().await;
            Some(((), pace))
        },
    );
    let patches = stream::iter(stale).zip(pace).map(|(name, ())| {
        let (pods, patch) = (pods.clone(), &patch);
        async move {
            pods.patch_metadata(&name, &PatchParams::default(), &Patch::Merge(patch))
                .await
                .map(drop)
        }
    });
    let mut outcomes = Box::pin(patches.buffer_unordered(PARALLEL));
    while let Some(outcome) = outcomes.next().await {
        match outcome {
            // The pod is gone.
            Err(kube::Error::Api(status)) if status.code == 404 => {}
            outcome => outcome.context("set the usage of a pod")?,
        }
    }
    Ok(())
}

fn has(pod: &Pod, wanted: &Map<String, Value>) -> bool {
    wanted
        .iter()
        .all(|(key, value)| pod.annotations().get(key).map(String::as_str) == value.as_str())
}

/// Annotations in whole microcores and whole bytes, in the larger unit where that is exact.
fn annotations(usage: Usage) -> Map<String, Value> {
    let mut annotations = Map::new();
    if let Some(millicores) = usage.cpu_millicores {
        let micro = (millicores * 1000.0).round() as u64;
        let text = if micro.is_multiple_of(1000) {
            format!("{}m", micro / 1000)
        } else {
            format!("{micro}u")
        };
        annotations.insert(CPU_ANNOTATION.to_owned(), text.into());
    }
    if let Some(mib) = usage.memory_mib {
        let bytes = (mib * f64::from(1 << 20)).round() as u64;
        let text = if bytes.is_multiple_of(1 << 20) {
            format!("{}Mi", bytes >> 20)
        } else {
            bytes.to_string()
        };
        annotations.insert(MEMORY_ANNOTATION.to_owned(), text.into());
    }
    annotations
}

fn label_selector(selector: LabelSelector) -> Result<String> {
    let selector = Selector::try_from(selector).context("understand the selector")?;
    ensure!(!selector.selects_all(), "the selector is empty");
    Ok(selector.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(usage: (f64, f64), cpu: &str, memory: &str) {
        let usage = Usage {
            cpu_millicores: Some(usage.0),
            memory_mib: Some(usage.1),
        };
        let annotations = annotations(usage);
        assert_eq!(
            (
                annotations[CPU_ANNOTATION].as_str(),
                annotations[MEMORY_ANNOTATION].as_str()
            ),
            (Some(cpu), Some(memory))
        );
    }

    #[test]
    fn usages_become_quantities() {
        check((250.0, 300.0), "250m", "300Mi");
        check((0.0, 0.0), "0m", "0Mi");
        check((0.25, 0.5), "250u", "524288");
        check(
            (f64::MAX, f64::MAX),
            &format!("{}u", u64::MAX),
            &u64::MAX.to_string(),
        );
    }

    #[test]
    fn what_a_trace_does_not_know_is_not_touched() {
        assert!(annotations(Usage::default()).is_empty());
    }

    #[test]
    fn targets_are_named_as_for_kubectl() {
        assert_eq!(
            "deploy/web".parse::<Target>().unwrap().to_string(),
            "Deployment web"
        );
        for (wrong, expected) in [
            ("web", "target \"web\" must be KIND/NAME"),
            ("deployment/", "target \"deployment/\" has no name"),
            (
                "pod/web",
                "kind \"pod\" must be deployment, replicaset, statefulset, daemonset or job",
            ),
        ] {
            assert_eq!(wrong.parse::<Target>().unwrap_err().to_string(), expected);
        }
    }
}
