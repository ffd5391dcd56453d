//! A workload that the suite has sized, and its state, which a failure elsewhere must not change.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context as _, Result, ensure};
use api::checkpoint::VerticalPodAutoscalerCheckpoint as Checkpoint;
use api::vpa::VerticalPodAutoscaler as Vpa;
use e2e::deployment::system;
use e2e::{eventually, patch, until};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::events::v1::Event;
use kube::{Api, ResourceExt as _};
use serde_json::{Value, json};

use super::fixture::Amount;
use super::fixture::{Fixture, container};

/// Name of the workload and of its VPA object.
pub(crate) const NAME: &str = "settled";
/// Memory that each of its pods holds. So much more than it requests that it is outside the bounds of
/// half a minute's history.
const HELD_MIB: u64 = 200;

/// A workload of two pods that have the size of their recommendation.
pub(crate) struct Settled<'a> {
    pub(crate) cluster: &'a Fixture,
    leases: Api<Lease>,
}

/// State of the workload that follows from its usage.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Sized {
    /// Start of the program and requests in effect, by pod.
    pods: BTreeMap<String, (u64, Amount)>,
    /// Without limits of a policy: an OOM kill would change it.
    pub(crate) target: Amount,
    first_sample: Value,
    /// Events of the updater about evictions.
    evictions: BTreeSet<String>,
}

impl<'a> Settled<'a> {
    pub(crate) async fn new(cluster: &'a Fixture) -> Result<Self> {
        let resources = json!({"requests": {"cpu": "10m", "memory": "10Mi"}});
        let flags = [format!("--memory-mib={HELD_MIB}")];
        let containers = json!([container("app", &[&flags[0]], &resources)]);
        let pod = json!({"containers": containers, "terminationGracePeriodSeconds": 1});
        cluster.deploy(NAME, 2, &pod).await?;
        let policy = json!({"containerName": "*"});
        cluster.autoscale(NAME, "InPlaceOrRecreate", policy).await?;
        let settled = Self {
            cluster,
            leases: system(&cluster.client).typed(),
        };
        eventually("pods have the size of their usage", async || {
            let sized = settled.observed().await?;
            let held = i64::try_from(HELD_MIB << 20)?;
            ensure!(sized.target.memory > held, "{sized:?}");
            // The first checkpoint may have been written before the first sample.
            ensure!(!sized.first_sample.is_null(), "{sized:?}");
            sized.is_in_effect(2)
        })
        .await?;
        Ok(settled)
    }

    pub(crate) async fn observed(&self) -> Result<Sized> {
        let cluster = self.cluster;
        let mut pods = BTreeMap::new();
        for pod in cluster.pods_of(NAME).await? {
            let load = cluster.load(&pod).await?;
            ensure!(load.held_mib == HELD_MIB, "{load:?}");
            let state = (load.started_unix_ms, Amount::in_effect(&pod)?);
            pods.insert(pod.uid().unwrap_or_default(), state);
        }
        let checkpoint = cluster.get::<Checkpoint>(&format!("{NAME}-app")).await?;
        let events = cluster.list::<Event>().await?;
        let evictions = events
            .iter()
            .filter(|it| it["reason"] == "EvictedByVPA")
            .filter_map(|it| it["regarding"]["name"].as_str())
            .filter(|pod| pod.starts_with(NAME))
            .map(str::to_owned);
        Ok(Sized {
            pods,
            target: cluster.recommended(NAME, "target").await?,
            first_sample: checkpoint["status"]["firstSampleStart"].clone(),
            evictions: evictions.collect(),
        })
    }

    /// Checks that nothing happened since `before`.
    pub(crate) async fn is_still(&self, before: &Sized) -> Result<()> {
        let now = self.observed().await?;
        ensure!(now == *before, "was {before:#?}, is {now:#?}");
        Ok(())
    }

    /// Waits until the pods' usage is in metrics.k8s.io, or is not.
    pub(crate) async fn measured(&self, wanted: bool) -> Result<()> {
        until(
            &format!("usage is known: {wanted}"),
            async || anyhow::Ok(self.cluster.usage(&self.cluster.pod(NAME).await?).await),
            |usage| usage.is_ok() == wanted,
        )
        .await
    }

    /// Asks for more memory than now and returns the new target.
    pub(crate) async fn ask_for_more(&self, before: &Sized) -> Result<Amount> {
        let memory = before.target.memory + (50 << 20);
        let policy = json!([{"containerName": "*", "minAllowed": {"memory": memory.to_string()}}]);
        let change = json!({"spec": {"resourcePolicy": {"containerPolicies": policy}}});
        patch(&self.cluster.typed::<Vpa>(), NAME, change).await?;
        Ok(Amount {
            memory,
            ..before.target
        })
    }

    /// Waits until the same processes have these requests.
    pub(crate) async fn resized(&self, before: &Sized, target: Amount) -> Result<Sized> {
        eventually("the pods are resized in place", async || {
            let now = self.observed().await?;
            ensure!(now.target == target, "{now:?}");
            now.is_in_effect(2)?;
            let starts = |sized: &Sized| -> Vec<_> { sized.pods.values().map(|it| it.0).collect() };
            ensure!(starts(&now) == starts(before), "{before:?} {now:?}");
            Ok(now)
        })
        .await
    }

    /// Waits until recommender and updater have renewed their Leases this many times.
    pub(crate) async fn renewed(&self, times: usize) -> Result<()> {
        for name in ["vpa-recommender-lease", "vpa-updater"] {
            let mut seen = BTreeSet::new();
            eventually(&format!("{name} is renewed"), async || {
                let lease = self.leases.get(name).await?;
                let spec = lease.spec.context("it has a spec")?;
                seen.extend(spec.renew_time.map(|time| time.0));
                ensure!(seen.len() > times, "{} times", seen.len());
                Ok(())
            })
            .await?;
        }
        Ok(())
    }
}

impl Sized {
    fn is_in_effect(&self, pods: usize) -> Result<()> {
        let have = self.pods.values().all(|(_, size)| *size == self.target);
        ensure!(have && self.pods.len() == pods, "{self:?}");
        Ok(())
    }
}
