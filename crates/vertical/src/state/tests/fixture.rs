//! A cluster of one namespace, `shop`, and the state that follows it.

use std::sync::Arc;
use std::time::Duration;

use model::ContainerUsage;
use model::{ContainerRef, Cpu, Memory, Sample};
use serde_json::json;
use sizing::Config;
use view::{Autoscaler, Checkpoint, ObjectKey, OomKill, View, WellKnown};

use crate::checkpoint::conversion;
use crate::fixture::{self, deployment};
pub(super) use crate::fixture::{at, pod};
use crate::state::checkpoints::LoadedCheckpoints;
use crate::state::{Decision, Ingested, OomKillCounts, RecommenderConfig, RecommenderState};

pub(super) const MI: i64 = 1 << 20;

/// A cluster of one namespace and the state that follows it.
pub(super) struct Cluster {
    pub(super) view: View,
    pub(super) state: RecommenderState,
}

pub(super) fn autoscaler(
    name: &str,
    deployment: &str,
    uid: &str,
    recommender: Option<&str>,
) -> Autoscaler {
    let recommenders: Vec<_> = recommender
        .into_iter()
        .map(|name| json!({"name": name}))
        .collect();
    let spec = json!({"targetRef": {"name": deployment}, "recommenders": recommenders});
    fixture::autoscaler(
        name,
        &json!({"metadata": {"uid": uid, "generation": 1}, "spec": spec}),
    )
}

impl Cluster {
    pub(super) fn new(recommender: &str, memory_saver: bool) -> Self {
        let config = RecommenderConfig {
            recommender_name: recommender.to_owned(),
            memory_saver,
            native_sidecars: false,
            usage_interval: Duration::from_mins(1),
        };
        let state = RecommenderState::new(config, Config::default()).expect("defaults are valid");
        Self {
            view: View::default(),
            state,
        }
    }

    /// A deployment `web`, an object of that name, and these pods of the deployment.
    pub(super) fn web(pods: &[&str]) -> Self {
        let mut cluster = Self::new("default", false);
        cluster.deploy("web");
        cluster
            .view
            .autoscalers
            .apply(Arc::new(autoscaler("web", "web", "u1", None)));
        for name in pods {
            cluster.view.pods.apply(Arc::new(pod(name, "web")));
        }
        cluster.load(0);
        cluster
    }

    pub(super) fn deploy(&mut self, name: &str) {
        self.view
            .controllers_mut(WellKnown::Deployment)
            .apply(deployment(name, 1));
    }

    pub(super) fn load(&mut self, second: i64) {
        self.state.load_autoscalers(&self.view);
        self.state.load_pods(&self.view, at(second));
        self.state.delete_removed_pods();
    }

    pub(super) fn measure(&mut self, pod: &str, container: &str, second: i64) -> Ingested {
        let container = ContainerRef {
            namespace: "shop".to_owned(),
            pod: pod.to_owned(),
            container: container.to_owned(),
        };
        let sample = Sample {
            at: at(second),
            cpu: Some(Cpu::from_millicores(250)),
            memory: Some(Memory::from_bytes(300 * MI)),
        };
        self.state
            .add_usage(&[ContainerUsage { container, sample }], at(second))
    }

    pub(super) fn kill(&mut self, pod: &str, second: i64) -> OomKillCounts {
        let kill = OomKill {
            pod: ObjectKey::new("shop", pod),
            container: "main".to_owned(),
            at: at(second),
            memory: Memory::from_bytes(1024 * MI),
            seen_in: None,
        };
        let mut count = OomKillCounts::default();
        self.state
            .add_oom_kill(&kill, &self.view, at(second), &mut count);
        count
    }

    /// Decides, and writes the decisions back as the API server would.
    pub(super) fn decide(&mut self, second: i64) -> Vec<Decision> {
        let decisions = self.state.decide(at(second));
        for decision in &decisions {
            let mut written = (*decision.autoscaler).clone();
            written.object.status = Some(decision.status.clone());
            self.view.autoscalers.apply(Arc::new(written));
        }
        decisions
    }
}

impl Cluster {
    /// Loads what is stored now.
    pub(super) fn load_stored(&mut self, second: i64) -> LoadedCheckpoints {
        self.state
            .load_checkpoints(&self.view.checkpoints, at(second))
    }

    /// Stores what is to be stored of the object `web`, as the API server would.
    pub(super) fn store(&mut self, second: i64) {
        let checkpoints = self
            .state
            .checkpoints(&ObjectKey::new("shop", "web"), at(second));
        for (container, checkpoint) in checkpoints {
            self.view
                .checkpoints
                .apply(Arc::new(stored("web", &container, checkpoint)));
        }
    }

    /// Number of known samples of the object `web`.
    pub(super) fn samples(&self, second: i64) -> i64 {
        let checkpoints = self
            .state
            .checkpoints(&ObjectKey::new("shop", "web"), at(second));
        checkpoints
            .get("main")
            .map_or(0, |checkpoint| checkpoint.total_samples_count)
    }

    /// Another process that finds the same objects.
    pub(super) fn restarted(self, second: i64) -> Self {
        let mut restarted = Self {
            view: self.view,
            ..Self::new("default", false)
        };
        restarted.state.load_autoscalers(&restarted.view);
        restarted.load_stored(second);
        restarted.load(second);
        restarted
    }

    pub(super) fn delete_web(&mut self, second: i64) {
        self.view.autoscalers.delete(&ObjectKey::new("shop", "web"));
        self.load(second);
        self.load_stored(second);
    }

    pub(super) fn make_web_again(&mut self, uid: &str, second: i64) {
        self.view
            .autoscalers
            .apply(Arc::new(autoscaler("web", "web", uid, None)));
        self.load(second);
        self.load_stored(second);
    }
}

pub(super) fn stored(
    autoscaler: &str,
    container: &str,
    checkpoint: sizing::Checkpoint,
) -> Checkpoint {
    let name = format!("{autoscaler}-{container}");
    Checkpoint {
        uid: name.clone(),
        key: ObjectKey::new("shop", name),
        created: None,
        spec: api::checkpoint::VerticalPodAutoscalerCheckpointSpec {
            vpa_object_name: autoscaler.to_owned(),
            container_name: container.to_owned(),
        },
        status: Some(conversion::to_object(checkpoint)),
    }
}

/// The object `web` with these annotations.
pub(super) fn annotated(annotations: &serde_json::Value) -> Autoscaler {
    let mut web = autoscaler("web", "web", "u1", None);
    web.object.metadata.annotations =
        serde_json::from_value(annotations.clone()).expect("annotations");
    web
}

/// `expected`: each object with its CPU target, or none without recommendation.
pub(super) fn check(cluster: &mut Cluster, second: i64, expected: &[(&str, Option<&str>)]) {
    let decisions = cluster.decide(second);
    let targets: Vec<_> = decisions
        .iter()
        .map(|decision| {
            let status = serde_json::to_value(&decision.status).expect("a status");
            let cpu = &status["recommendation"]["containerRecommendations"][0]["target"]["cpu"];
            (
                decision.autoscaler.key.name.clone(),
                cpu.as_str().map(str::to_owned),
            )
        })
        .collect();
    let targets: Vec<_> = targets
        .iter()
        .map(|(name, cpu)| (name.as_str(), cpu.as_deref()))
        .collect();
    assert_eq!(targets, expected, "second {second}");
}
