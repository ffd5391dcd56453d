//! Model of a kubelet with one pod of one container, whose program grows until it is OOM killed or
//! has what it needs.

use std::collections::BTreeMap;

use json_patch::Patch;
use model::Memory;
use rollout::AnnotationChanges;
use serde_json::{Value, json};

use super::Scenario;

/// The kubelet's treatment of resizes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Flavour {
    /// A resize of a stopped container does not reach the pod's cgroup, as in kubelets before 1.37.
    Real,
    /// As `Real`, but it takes a second to carry out a resize, and the container may be killed
    /// meanwhile.
    Slow,
    /// No resize reaches the pod's cgroup.
    Deaf,
    /// Each does, as in kubelet 1.37.
    Mended,
}

/// A pod and its kubelet. Times are seconds since noon.
#[derive(Debug, Clone)]
pub(super) struct PodModel {
    flavour: Flavour,
    number: u32,
    pub(super) spec_mib: i64,
    /// The limit of the container's cgroup, and that of the pod's.
    own_mib: i64,
    pod_mib: i64,
    restarts: i32,
    /// Start of the present run.
    run: Option<i64>,
    /// Start of the next run.
    due: i64,
    back_off: i64,
    /// Start and end of the run that was OOM killed last.
    killed: Option<(i64, i64)>,
    pub(super) generation: i64,
    /// Whether the kubelet has not carried out the last resize.
    is_resizing: bool,
    annotations: BTreeMap<String, String>,
}

impl PodModel {
    pub(super) fn new(spec_mib: i64, pod_mib: i64, flavour: Flavour) -> Self {
        Self {
            flavour,
            number: 0,
            spec_mib,
            own_mib: spec_mib,
            pod_mib,
            restarts: 0,
            run: Some(-30),
            due: 0,
            back_off: 0,
            killed: None,
            generation: 1,
            is_resizing: false,
            annotations: BTreeMap::new(),
        }
    }

    pub(super) fn replacement(&self, mib: i64, now: i64) -> Self {
        Self {
            number: self.number + 1,
            run: None,
            due: now + 5,
            ..Self::new(mib, mib, self.flavour)
        }
    }

    pub(super) fn name(&self) -> String {
        format!("web-{}", self.number)
    }

    pub(super) fn annotate(&mut self, key: &str, value: &str) {
        self.annotations.insert(key.to_owned(), value.to_owned());
    }

    /// The limit at which the kernel kills.
    pub(super) fn in_effect(&self) -> i64 {
        self.own_mib.min(self.pod_mib)
    }

    pub(super) fn resize(&mut self, patch: &Patch, annotations: &AnnotationChanges) {
        let text = serde_json::to_value(patch).expect("a patch");
        let limit = text.as_array().expect("a list").iter().find(|add| {
            let field = add["path"].as_str().unwrap_or_default();
            field.ends_with("/limits/memory")
        });
        let limit = limit.and_then(|add| add["value"].as_str()?.parse().ok());
        let limit: model::Quantity = limit.expect("a limit of memory");
        self.spec_mib = Memory::from(&limit).bytes() >> 20;
        self.generation += 1;
        if self.flavour == Flavour::Slow {
            self.is_resizing = true;
        } else {
            self.carry_out();
        }
        for (key, value) in annotations {
            match value {
                Some(value) => self.annotations.insert(key.clone(), value.clone()),
                None => self.annotations.remove(key),
            };
        }
    }

    fn carry_out(&mut self) {
        self.is_resizing = false;
        let reaches_pod = match self.flavour {
            Flavour::Real | Flavour::Slow => self.run.is_some(),
            Flavour::Deaf => false,
            Flavour::Mended => true,
        };
        if reaches_pod {
            self.pod_mib = self.spec_mib;
        }
        if self.run.is_some() {
            self.own_mib = self.spec_mib;
        }
    }

    /// A second passes. Returns whether anything changed.
    pub(super) fn step(&mut self, now: i64, scenario: &Scenario) -> bool {
        let Some(began) = self.run else {
            if now < self.due {
                return false;
            }
            self.run = Some(now);
            self.restarts += i32::from(self.killed.is_some());
            self.own_mib = self.spec_mib;
            return true;
        };
        let used = (scenario.rate * (now - began)).min(scenario.need);
        if used <= self.in_effect() {
            let was_resizing = self.is_resizing;
            if was_resizing {
                self.carry_out();
            }
            return was_resizing;
        }
        // The first restart is immediate, the next after 10 s, 20 s, up to 5 min.
        self.due = now + self.back_off;
        self.back_off = (self.back_off * 2).clamp(10, 300);
        self.killed = Some((began, now));
        self.run = None;
        self.is_resizing = false;
        true
    }

    pub(super) fn write(&self, pod: &mut Value) {
        let time = |second: i64| {
            let noon: jiff::Timestamp = "2026-01-01T12:00:00Z".parse().expect("a time");
            (noon + jiff::SignedDuration::from_secs(second)).to_string()
        };
        let resources = |mib: i64| {
            let memory = format!("{mib}Mi");
            json!({"requests": {"cpu": "1", "memory": memory}, "limits": {"memory": memory}})
        };
        let reported = if self.is_resizing {
            self.own_mib
        } else {
            self.spec_mib
        };
        let last = self.killed.map(|(began, ended)| {
            json!({"terminated": {"exitCode": 137, "reason": "OOMKilled",
                "startedAt": time(began), "finishedAt": time(ended)}})
        });
        let state = match self.run {
            Some(began) => json!({"running": {"startedAt": time(began)}}),
            None => json!({"waiting": {"reason": "CrashLoopBackOff"}}),
        };
        pod["metadata"]["annotations"] = json!(self.annotations);
        pod["metadata"]["generation"] = json!(self.generation);
        pod["spec"]["containers"][0]["resources"] = resources(self.spec_mib);
        pod["status"]["containerStatuses"] = json!([{
            "name": "app", "ready": self.run.is_some(), "restartCount": self.restarts,
            "image": "", "imageID": "", "resources": resources(reported),
            "state": state, "lastState": last.unwrap_or(json!({})),
        }]);
        let ready = if self.run.is_some() { "True" } else { "False" };
        pod["status"]["conditions"][0]["status"] = json!(ready);
    }
}
