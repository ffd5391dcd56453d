//! Pod as an input of sizing: labels, phase, and the state of its containers between samples.

use std::sync::Arc;

use model::Labels;
use sizing::ContainerState;
use view::Phase;

/// Pod as passed to [`super::ClusterState::apply_pod`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PodSpec {
    pub namespace: String,
    pub name: String,
    pub labels: Labels,
    pub phase: Phase,
    /// The names of its containers.
    pub containers: Vec<String>,
    /// The names of its init containers, whose samples are ignored.
    pub init_containers: Vec<String>,
    /// Its object; `None` in a replay of history.
    pub object: Option<Arc<view::Pod>>,
}

/// Stored pod.
#[derive(Clone, Debug, Default)]
pub(super) struct Pod {
    pub(super) group: u32,
    pub(super) phase: Phase,
    pub(super) object: Option<Arc<view::Pod>>,
    containers: Vec<(Box<str>, ContainerState)>,
    init_containers: Vec<String>,
}

impl Pod {
    /// Updates phase and containers. Containers that remain keep their state.
    pub(super) fn update(
        &mut self,
        phase: Phase,
        containers: &[String],
        init_containers: Vec<String>,
    ) {
        self.phase = phase;
        self.init_containers = init_containers;
        self.containers
            .retain(|(name, _)| containers.iter().any(|container| **container == **name));
        for container in containers {
            if self.container_mut(container).is_none() {
                self.containers.reserve_exact(1);
                self.containers
                    .push((container.as_str().into(), ContainerState::default()));
            }
        }
    }

    pub(super) fn containers(&self) -> impl Iterator<Item = (&str, &ContainerState)> {
        self.containers
            .iter()
            .map(|(name, container)| (&**name, container))
    }

    pub(super) fn has_container(&self, container: &str) -> bool {
        self.containers().any(|(name, _)| name == container)
    }

    pub(super) fn has_init_container(&self, container: &str) -> bool {
        self.init_containers.iter().any(|name| name == container)
    }

    pub(super) fn container_mut(&mut self, container: &str) -> Option<&mut ContainerState> {
        self.containers
            .iter_mut()
            .find(|(name, _)| **name == *container)
            .map(|(_, state)| state)
    }
}
