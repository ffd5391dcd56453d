//! A cluster of one namespace, `shop`, and the state that follows it.

use std::sync::Arc;
use std::time::Duration;

use api::checkpoint::VerticalPodAutoscalerCheckpointStatus;
use api::vpa::VerticalPodAutoscalerStatus;
use jiff::Timestamp;
use model::{ContainerUsage, Cpu, Memory, ResourceName, Sample};
use serde_json::json;
use sizing::Config;
use view::{
    Checkpoint, ContainerState, ContainerStatus, ObjectKey, OomKill, Pod, Termination, View, Vpa,
    WellKnown,
};

use crate::fixture::{self, deployment};
pub(super) use crate::fixture::{at, container, pod};
use crate::recommender_state::{
    Decision, Ingested, LoadedCheckpoints, OomKillCounts, RecommenderConfig, RecommenderState,
};

pub(super) const MI: i64 = 1 << 20;

/// A cluster of one namespace and the state that follows it.
pub(super) struct Cluster {
    pub(super) view: View,
    pub(super) state: RecommenderState,
}

/// The key of the object `web`, and of its Deployment.
pub(super) fn web_key() -> ObjectKey {
    ObjectKey::new("shop", "web")
}

pub(super) fn vpa(name: &str, deployment: &str, uid: &str) -> Vpa {
    let metadata = json!({"uid": uid, "generation": 1});
    let spec = json!({"targetRef": {"name": deployment}});
    fixture::vpa(name, &json!({"metadata": metadata, "spec": spec}))
}

pub(super) fn usage(pod: &str, second: i64, millicores: i64, bytes: i64) -> ContainerUsage {
    let (cpu, memory) = (Cpu::from_millicores(millicores), Memory::from_bytes(bytes));
    let sample = Sample {
        at: at(second),
        cpu: Some(cpu),
        memory: Some(memory),
    };
    ContainerUsage {
        container: container(pod, "main"),
        sample,
    }
}

/// A running container that was OOM killed once, at this second.
pub(super) fn killed_status(second: i64) -> ContainerStatus {
    let end = Termination {
        reason: "OOMKilled".to_owned(),
        started_at: None,
        finished_at: Some(at(second)),
    };
    ContainerStatus {
        restart_count: 1,
        state: ContainerState::Running,
        last_termination: Some(end),
    }
}

/// A kill of the container `main` at 1 GiB that no pod shows.
pub(super) fn kill(pod: &str, second: i64) -> OomKill {
    OomKill {
        pod: ObjectKey::new("shop", pod),
        container: "main".to_owned(),
        at: at(second),
        memory: Memory::from_bytes(1024 * MI),
        seen_in: None,
    }
}

impl RecommenderState {
    pub(super) fn add_usage(&mut self, usage: &[ContainerUsage], now: Timestamp) -> Ingested {
        self.begin_usage(usage, now);
        self.take_usage(usage, now, |_, _, _| ())
    }

    /// Decides about all objects with a known target.
    pub(super) fn decide(&self, now: Timestamp) -> Vec<Decision> {
        self.decide_batch(None, |_| false, now).decisions
    }
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
        cluster.apply(vpa("web", "web", "u1"));
        for name in pods {
            cluster.add_pod(pod(name, "web"));
        }
        cluster.load(0);
        cluster
    }

    /// Another process that finds the same objects, and has not loaded them yet.
    pub(super) fn new_process(self) -> Self {
        Self {
            view: self.view,
            ..Self::new("default", false)
        }
    }

    pub(super) fn apply(&mut self, vpa: Vpa) {
        self.view.vpas.apply(Arc::new(vpa));
    }

    pub(super) fn add_pod(&mut self, pod: Pod) {
        self.view.pods.apply(Arc::new(pod));
    }

    pub(super) fn delete_pod(&mut self, name: &str) {
        self.view.pods.delete(&ObjectKey::new("shop", name));
    }

    pub(super) fn deploy(&mut self, name: &str) {
        let deployments = self.view.controllers_mut(WellKnown::Deployment);
        deployments.apply(deployment(name, 1));
    }

    pub(super) fn load(&mut self, second: i64) {
        self.state.load_vpas(&self.view);
        self.state.load_pods(&self.view, at(second));
        self.state.delete_removed_pods();
    }

    pub(super) fn measure(&mut self, pod: &str, container: &str, second: i64) -> Ingested {
        let usage = usage(pod, second, 250, 300 * MI);
        let container = self::container(pod, container);
        self.add_usage(&ContainerUsage { container, ..usage }, second)
    }

    pub(super) fn add_usage(&mut self, usage: &ContainerUsage, second: i64) -> Ingested {
        self.state
            .add_usage(std::slice::from_ref(usage), at(second))
    }

    pub(super) fn kill(&mut self, pod: &str, second: i64) -> OomKillCounts {
        self.tell(&kill(pod, second), second)
    }

    pub(super) fn tell(&mut self, kill: &OomKill, second: i64) -> OomKillCounts {
        let mut count = OomKillCounts::default();
        self.state
            .add_oom_kill(kill, &self.view, at(second), &mut count);
        count
    }

    /// Decides, and writes the decisions back as the API server would.
    pub(super) fn decide(&mut self, second: i64) -> Vec<Decision> {
        let decisions = self.state.decide(at(second));
        for decision in &decisions {
            let mut written = (*decision.vpa).clone();
            written.object.status = Some(decision.status.clone());
            self.apply(written);
        }
        decisions
    }

    /// Decides about the only object.
    pub(super) fn decide_status(&mut self, second: i64) -> VerticalPodAutoscalerStatus {
        self.decide(second).remove(0).status
    }

    /// Loads what is stored now.
    pub(super) fn load_stored(&mut self, second: i64) -> LoadedCheckpoints {
        self.state
            .load_checkpoints(&self.view.checkpoints, at(second))
    }

    /// Stores what is to be stored of the object `web`, as the API server would.
    pub(super) fn store(&mut self, second: i64) {
        for (container, checkpoint) in self.state.checkpoints(&web_key(), at(second)) {
            let mut stored = stored("web", &container, checkpoint);
            let before = self.view.checkpoints.get(&stored.key);
            let history = self.state.sizing_history(&web_key(), &container);
            stored.sizing_history = match history {
                Some(text) => Some(text.into()),
                None => before.and_then(|before| before.sizing_history.clone()),
            };
            self.view.checkpoints.apply(Arc::new(stored));
        }
    }

    pub(super) fn samples(&self, second: i64) -> i64 {
        let checkpoints = self.state.checkpoints(&web_key(), at(second));
        checkpoints
            .get("main")
            .map_or(0, |checkpoint| checkpoint.total_samples_count)
    }

    /// Another process that has loaded the same objects and what is stored.
    pub(super) fn restarted(self, second: i64) -> Self {
        let mut restarted = self.new_process();
        restarted.state.load_vpas(&restarted.view);
        restarted.load_stored(second);
        restarted.load(second);
        restarted
    }

    pub(super) fn delete_web(&mut self, second: i64) {
        self.view.vpas.delete(&web_key());
        self.load(second);
        self.load_stored(second);
    }

    pub(super) fn make_web_again(&mut self, uid: &str, second: i64) {
        self.apply(vpa("web", "web", uid));
        self.load(second);
        self.load_stored(second);
    }
}

pub(super) fn stored(
    vpa: &str,
    container: &str,
    status: VerticalPodAutoscalerCheckpointStatus,
) -> Checkpoint {
    fixture::checkpoint(vpa, container, Some(status))
}

pub(super) fn annotated(annotations: &serde_json::Value) -> Vpa {
    let mut web = vpa("web", "web", "u1");
    web.object.metadata.annotations =
        serde_json::from_value(annotations.clone()).expect("annotations");
    web
}

/// `expected`: each object with its CPU target, or none without recommendation.
pub(super) fn check(cluster: &mut Cluster, second: i64, expected: &[(&str, Option<&str>)]) {
    let decisions = cluster.decide(second);
    let targets: Vec<_> = decisions
        .iter()
        .map(|decision| (decision.vpa.key.name.as_str(), cpu_target(&decision.status)))
        .collect();
    let expected: Vec<_> = expected
        .iter()
        .map(|(name, cpu)| (*name, cpu.map(str::to_owned)))
        .collect();
    assert_eq!(targets, expected, "second {second}");
}

pub(super) fn cpu_target(status: &VerticalPodAutoscalerStatus) -> Option<String> {
    let recommended = &status.recommendation.as_ref()?.containers;
    Some(
        recommended
            .first()?
            .target
            .get(&ResourceName::Cpu)?
            .to_string(),
    )
}
