//! Memory of pods with limits: programs that need more, the kernel, and a kubelet whose resizes of
//! stopped containers do not reach the pod's cgroup.

use jiff::Timestamp;
use json_patch::Patch;
use model::{Memory, Quantity};
use rand::Rng as _;
use rand::rngs::StdRng;
use rollout::AnnotationChanges;
use view::{ContainerState, ContainerStatus, Termination};

use super::{App, ClusterModel};

/// `maxAllowed` in MiB. No program needs more.
const MAX_MIB: i64 = 400;

/// Memory that a workload's program needs, in MiB.
pub(super) struct MemoryNeed {
    /// Whether its pods have limits. Not where nodes are full: a pod whose resize is deferred and
    /// whose budget allows no eviction is killed for ever.
    pub(super) has_limit: bool,
    pub(super) need: i64,
    pub(super) target: i64,
}

impl MemoryNeed {
    pub(super) fn new(has_limit: bool) -> Self {
        Self {
            has_limit,
            need: 80,
            target: 100,
        }
    }
}

/// Memory of a pod, in MiB.
pub(super) struct PodMemory {
    pub(super) specified: i64,
    pub(super) reported: i64,
    /// The limit of the pod's cgroup.
    cgroup: i64,
    /// Start of the present run; `None` while the container is stopped.
    pub(super) run_began: Option<Timestamp>,
    /// Start and end of the run that was OOM killed last.
    killed: Option<[Timestamp; 2]>,
    restarts: i32,
    pub(super) annotations: Vec<(String, String)>,
}

impl PodMemory {
    pub(super) fn new(mib: i64, now: Timestamp) -> Self {
        Self {
            specified: mib,
            reported: mib,
            cgroup: mib,
            run_began: Some(now),
            killed: None,
            restarts: 0,
            annotations: Vec::new(),
        }
    }

    /// The limit at which the kernel kills.
    pub(super) fn in_effect(&self) -> i64 {
        self.reported.min(self.cgroup)
    }

    pub(super) fn resize(&mut self, patch: &Patch, annotations: &AnnotationChanges) {
        if let Some(memory) = amount(patch, "/limits/memory") {
            self.specified = Memory::from(&memory).bytes() >> 20;
        }
        for (key, value) in annotations {
            self.annotations.retain(|(known, _)| known != key);
            self.annotations
                .extend(value.iter().map(|value| (key.clone(), value.clone())));
        }
    }

    pub(super) fn is_resized(&self) -> bool {
        self.reported != self.specified
    }

    /// The kubelet carries out a resize of a running container.
    pub(super) fn carry_out(&mut self) {
        if self.is_resized() {
            (self.reported, self.cgroup) = (self.specified, self.specified);
        }
    }

    pub(super) fn status(&self) -> ContainerStatus {
        let last_termination = self.killed.map(|[began, ended]| Termination {
            reason: "OOMKilled".to_owned(),
            started_at: Some(began),
            finished_at: Some(ended),
        });
        ContainerStatus {
            restart_count: self.restarts,
            state: if self.run_began.is_some() {
                ContainerState::Running
            } else {
                ContainerState::Waiting
            },
            last_termination,
        }
    }
}

/// The first quantity that a patch sets at a path with this end.
pub(super) fn amount(patch: &Patch, end: &str) -> Option<Quantity> {
    let text = serde_json::to_value(patch).expect("a patch");
    let add = text.as_array().expect("a list").iter().find(|add| {
        let found = add["path"].as_str();
        found.is_some_and(|found| found.ends_with(end))
    })?;
    add["value"].as_str()?.parse().ok()
}

impl App {
    /// Whether its pods have limits. Those of workloads whose resizes restart have none.
    pub(super) fn is_limited(&self) -> bool {
        self.memory.has_limit && !self.restarts
    }
}

impl ClusterModel {
    /// Programs need more than before.
    pub(super) fn need_more_memory(&mut self, rng: &mut StdRng) {
        for app in self.apps.iter_mut().filter(|app| app.is_limited()) {
            if rng.random_bool(0.02) {
                app.memory.need = app.memory.need.max(rng.random_range(80..=MAX_MIB));
            }
        }
    }

    /// The kernel kills a program that needs more than it may have, and the kubelet starts it again.
    /// `has_room` says whether the node has room for a resize. Returns whether either did anything.
    pub(super) fn oom_kill(&mut self, name: &str, has_room: bool, rng: &mut StdRng) -> bool {
        let now = self.now.wall;
        let pod = &self.pods[name];
        let app = &self.apps[pod.app];
        let memory = &app.memory;
        if !app.is_limited() || !pod.is_running {
            return false;
        }
        let limit = pod.memory.in_effect();
        let Some(began) = pod.memory.run_began else {
            let memory = &mut self.pods.get_mut(name).expect("it is there").memory;
            memory.run_began = Some(now);
            if has_room {
                memory.reported = memory.specified;
            }
            memory.restarts += 1;
            return true;
        };
        if limit >= memory.need || rng.random_bool(0.7) {
            return false;
        }
        self.record_loss(name);
        self.count.oom_kills += 1;
        let pod = self.pods.get_mut(name).expect("it is there");
        (pod.memory.run_began, pod.is_ready) = (None, false);
        pod.memory.killed = Some([began.min(now), now]);
        // The recommender counts the memory that was in effect.
        let memory = &mut self.apps[pod.app].memory;
        memory.target = memory.target.max((limit * 6 / 5 + 1).min(MAX_MIB));
        true
    }
}
