//! VPA as an input of sizing: selector, policies and checkpoints.

use std::collections::BTreeSet;
use std::sync::Arc;

use model::{Selector, WHOLE_POD};
use sizing::{ContainerPolicy, MethodSettings, VpaMethodSettings};

use super::method_history::MethodHistories;
use super::selection::ByContainer;

/// Autoscaler as passed to [`super::ClusterState::apply_vpa`].
#[derive(Clone, Debug, PartialEq)]
pub struct VpaSpec {
    /// Selector of the target's pods. [`Selector::nothing`] while unknown.
    pub selector: Selector,
    pub policies: Vec<ContainerPolicy>,
    /// Containers with whole cores; see [`sizing::integer_cpu_containers`].
    pub integer_cpu: BTreeSet<String>,
    /// Whether its target exists. If so, finished pods keep empty histories alive.
    pub target_exists: bool,
    /// Settings of the VPA's method that take precedence over the flags.
    pub vpa_method: VpaMethodSettings,
    /// Sizing policy other than the VPA's.
    pub sizing: Option<Arc<MethodSettings>>,
}

impl Default for VpaSpec {
    fn default() -> Self {
        Self {
            selector: Selector::nothing(),
            policies: Vec::new(),
            integer_cpu: BTreeSet::new(),
            target_exists: true,
            vpa_method: VpaMethodSettings::default(),
            sizing: None,
        }
    }
}

impl VpaSpec {
    /// Whether pods are sized as a whole, in place of their containers.
    pub(super) fn sizes_whole_pods(&self) -> bool {
        self.policies
            .iter()
            .any(|it| it.container_name == WHOLE_POD)
    }

    /// Whether it overrides memory rules of a container.
    pub(super) fn has_rules(&self) -> bool {
        self.policies.iter().any(ContainerPolicy::has_rules)
    }
}

#[derive(Clone, Debug, Default)]
pub(super) struct Vpa {
    pub(super) spec: VpaSpec,
    /// Number of its last change within the namespace.
    pub(super) changed: u64,
    pub(super) selection: Option<u32>,
    /// Number of the change that linked it to its selection.
    pub(super) linked: u64,
    /// Checkpoints by container name.
    pub(super) stored: ByContainer,
    /// History for its own sizing policy, if it has one.
    pub(super) own: Option<Box<MethodHistories>>,
}

impl Vpa {
    /// Its own sizing policy with the histories for it; `None` with the VPA's policy.
    pub(super) fn method(&self) -> Option<(&MethodSettings, &MethodHistories)> {
        self.spec.sizing.as_deref().zip(self.own.as_deref())
    }

    pub(super) fn method_mut(&mut self) -> Option<(&MethodSettings, &mut MethodHistories)> {
        self.spec.sizing.as_deref().zip(self.own.as_deref_mut())
    }
}
