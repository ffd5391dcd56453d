//! The events that watches deliver, and the scale subresources.

use std::sync::Arc;

use jiff::Timestamp;
use model::{Cpu, Labels, Memory, Quantity, ResourceList, ResourceName};
use rollout::REBALANCE;
use view::{
    Container, ContainerSpec, Controller, ObjectKey, Owner, Phase, Pod, ResizeCondition,
    ResizeStage, Resources, Running, Scale, ScaleKey, WellKnown,
};

use super::rolling_updates::set_name;
use super::{ClusterModel, Event, Kind};

impl ClusterModel {
    /// The scale subresources as they are read now, and their version.
    pub(in crate::chaos) fn read_scales(&self) -> (Vec<(ScaleKey, Scale)>, usize) {
        let read = self
            .apps
            .iter()
            .filter(|app| app.kind == Kind::CloneSet)
            .map(|app| {
                let [group, kind, namespace] =
                    ["apps.kruise.io", "CloneSet", "shop"].map(str::to_owned);
                let selector = format!("app={}", app.name);
                let scale = Scale::Found {
                    selector,
                    owner: None,
                    replicas: Some(app.replicas as i32),
                };
                (
                    ScaleKey {
                        group,
                        kind,
                        namespace,
                        name: app.name.clone(),
                    },
                    scale,
                )
            });
        (read.collect(), self.scales)
    }

    pub(super) fn publish_controller(&mut self, app: usize) {
        if self.apps[app].kind == Kind::Deployment {
            return self.publish_sets(app);
        }
        let app = &self.apps[app];
        let kind = match app.kind {
            Kind::ReplicaSet | Kind::Deployment => WellKnown::ReplicaSet,
            Kind::Job => WellKnown::Job,
            Kind::CloneSet => return,
        };
        let known = self
            .fixture
            .view
            .controller(kind, &ObjectKey::new("shop", &app.name))
            .expect("it is there");
        let controller = Controller {
            replicas: Some(app.wanted() as i32),
            ..known.as_ref().clone()
        };
        self.pod_events
            .push(Event::Controller(kind, Arc::new(controller)));
    }

    pub(super) fn sync_budget(&mut self, app: usize) {
        let healthy = self
            .pods
            .values()
            .filter(|pod| pod.app == app && pod.is_ready && !pod.is_terminating)
            .count() as i64;
        let app = &mut self.apps[app];
        let Some(desired) = app.desired_healthy else {
            return;
        };
        (app.healthy, app.allowed) = (healthy, (healthy - desired).max(0));
        app.disrupted.clear();
        self.budget_events
            .push(Event::Budget(Arc::new(app.budget(self.now.wall))));
    }

    pub(super) fn publish_pod(&mut self, name: &str) {
        let pod = &self.pods[name];
        let list = |cpu: i64, mib: i64| {
            ResourceList::of(Cpu::from_millicores(cpu), Memory::from_bytes(mib << 20))
        };
        let app = &self.apps[pod.app];
        let annotations = app
            .may_move
            .then(|| (REBALANCE.to_owned(), "true".to_owned()));
        let annotations = annotations
            .into_iter()
            .chain(pod.memory.annotations.iter().cloned());
        let review = pod
            .is_reviewed
            .then(|| ("vpaObservedContainers".to_owned(), "app".to_owned()));
        let is_limited = app.is_limited();
        let limits = |mib: i64| {
            let memory = Memory::from_bytes(mib << 20);
            let limit = is_limited.then(|| (ResourceName::Memory, Quantity::from(memory)));
            limit.into_iter().collect::<ResourceList>()
        };
        let (specified, reported) = (pod.memory.specified, pod.memory.reported);
        let resizes = pod.refusal.into_iter().map(|reason| ResizeCondition {
            stage: ResizeStage::Pending,
            is_true: true,
            reason: reason.to_owned(),
            message: String::new(),
            since: None,
            observed_generation: Some(pod.generation),
        });
        let running = Running {
            created_at: Some(pod.created_at),
            annotations: annotations.chain(review).collect(),
            priority: app.priority,
            resizes: resizes.collect(),
            generation: Some(pod.generation),
            observed_generation: Some(pod.observed),
            node: Some(format!("n{}", pod.node)),
            is_terminating: pod.is_terminating,
            ready_since: pod.is_ready.then_some(Timestamp::UNIX_EPOCH),
            qos_class: "Burstable".to_owned(),
            containers: vec![ContainerSpec {
                name: "app".to_owned(),
                requests: Some(list(pod.cpu, specified)),
                limits: Some(limits(specified)),
                reported: Some([list(pod.reported, reported), limits(reported)]),
                restarts_for: app
                    .restarts
                    .then_some(ResourceName::Cpu)
                    .into_iter()
                    .collect(),
                is_ready: pod.is_ready,
                ..ContainerSpec::default()
            }],
            ..Running::default()
        };
        // As the status says, which a refused resize does not change.
        let in_effect = Container {
            name: "app".to_owned(),
            requests: Resources {
                cpu: Some(Cpu::from_millicores(pod.reported)),
                memory: Some(Memory::from_bytes(reported << 20)),
            },
            limits: Resources {
                cpu: None,
                memory: is_limited.then(|| Memory::from_bytes(reported << 20)),
            },
            status: is_limited.then(|| pod.memory.status()),
        };
        let pod = Pod {
            key: ObjectKey::new("shop", name),
            uid: pod.uid.clone(),
            labels: Labels::from_iter([("app", app.name.as_str())]),
            phase: if pod.is_running {
                Phase::Running
            } else {
                Phase::Pending
            },
            owner: Some(Owner {
                api_version: app.kind.name().0.to_owned(),
                kind: app.kind.name().1.to_owned(),
                name: set_name(&app.name, pod.revision),
                uid: set_name(&app.name, pod.revision),
            }),
            started_at: None,
            containers: vec![in_effect],
            init_containers: Vec::new(),
            sidecars: Vec::new(),
            resources: None,
            memory_cgroup: view::MemoryCgroup {
                is_sum: is_limited,
                ..view::MemoryCgroup::default()
            },
            placement: None,
            running: Some(Arc::new(running)),
            ready_after_seconds: None,
        };
        self.pod_events.push(Event::Pod(Arc::new(pod)));
    }
}
