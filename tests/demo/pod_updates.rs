//! The second step: the VPA objects allow updates of their pods. The updater evicts pods within
//! their budgets or resizes them in place, and the webhook sizes the replacements.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result, ensure};
use api::vpa::VerticalPodAutoscaler;
use e2e::{AvailabilityWatch, eventually, patch};
use k8s_openapi::api::core::v1::Pod;
use kube::api::ListParams;
use kube::{Api, Client, ResourceExt as _};
use serde_json::json;
use tokio::time::Instant;

use crate::observe::{self, NAMESPACE};
use crate::report::{self, Amounts, SizedPod};

/// Update mode of each object from now on.
const MODES: [(&str, &str); 3] = [
    ("web", "Recreate"),
    ("worker", "InPlaceOrRecreate"),
    ("cache", "Recreate"),
];

/// Requests of all pods before and after their updates, and the duration of these.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Updated {
    pub(crate) before: Amounts,
    pub(crate) after: Amounts,
    pub(crate) seconds: f64,
}

pub(crate) async fn watch(client: &Client) -> Result<Updated> {
    println!(
        "2. The VPA objects now allow updates: the updater and the webhook apply the sizes.\n"
    );
    let pods = Api::<Pod>::namespaced(client.clone(), NAMESPACE);
    let autoscalers = Api::<VerticalPodAutoscaler>::namespaced(client.clone(), NAMESPACE);
    let before = observe::pods(&pods).await?;
    let watching = AvailabilityWatch::of(pods.clone()).await?;
    let started = Instant::now();
    for (name, mode) in MODES {
        let change = json!({"spec": {"updatePolicy": {"updateMode": mode}}});
        patch(&autoscalers, name, change).await?;
        println!("  vpa/{name:<8} updateMode: Off -> {mode}");
    }
    let after = eventually("all pods have the recommended size", async || {
        let after = observe::pods(&pods).await?;
        check(&before, &after, &bounds(&autoscalers).await?)?;
        Ok(after)
    })
    .await?;
    let seconds = started.elapsed().as_secs_f64();
    println!("\n{}", report::moves(&before, &after));
    println!("  It took {seconds:.0} s. Least number of ready pods meanwhile:");
    for (name, _) in MODES {
        let uids: Vec<String> = of(&after, name).map(|pod| pod.uid.clone()).collect();
        println!(
            "  {name:<8} {} of {}",
            watching.fewest(name, &uids).await?,
            uids.len()
        );
    }
    println!();
    Ok(Updated {
        before: report::total(&before),
        after: report::total(&after),
        seconds,
    })
}

fn of<'a>(pods: &'a [SizedPod], workload: &str) -> impl Iterator<Item = &'a SizedPod> {
    pods.iter().filter(move |pod| pod.workload == workload)
}

/// The recommended bounds of each workload: outside of them, the updater moves a pod at once.
async fn bounds(
    autoscalers: &Api<VerticalPodAutoscaler>,
) -> Result<BTreeMap<String, (Amounts, Amounts)>> {
    let list = autoscalers.list(&ListParams::default()).await?;
    let bounds = list
        .iter()
        .filter_map(|autoscaler| Some((autoscaler.name_any(), observe::bounds(autoscaler)?)));
    Ok(bounds.collect())
}

/// Checks that all pods exist, are within the bounds, and that the webhook sized the new ones.
fn check(
    before: &[SizedPod],
    after: &[SizedPod],
    bounds: &BTreeMap<String, (Amounts, Amounts)>,
) -> Result<()> {
    for (workload, _) in MODES {
        let (lower, upper) = bounds
            .get(workload)
            .with_context(|| format!("{workload} has no recommendation"))?;
        let (there, wanted) = (of(after, workload).count(), of(before, workload).count());
        ensure!(
            there == wanted,
            "{there} of {wanted} pods of {workload} are ready"
        );
        for pod in of(after, workload) {
            let is_within = |part: fn(&Amounts) -> f64| {
                (part(lower)..=part(upper)).contains(&part(&pod.request))
            };
            ensure!(
                is_within(|amounts| amounts.cpu_millicores)
                    && is_within(|amounts| amounts.memory_bytes),
                "{} requests {:?}, which is not between {lower:?} and {upper:?}",
                pod.name,
                pod.request
            );
            let is_old = before.iter().any(|old| old.uid == pod.uid);
            ensure!(
                is_old || pod.sized_by_webhook,
                "{} is a replacement, but was not sized by the webhook",
                pod.name
            );
        }
    }
    Ok(())
}
