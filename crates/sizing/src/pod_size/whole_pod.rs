//! A pod with all its containers, and their totals as the API server counts them: the sum of all
//! containers and sidecars, or an init container plus the sidecars started before it, whichever is
//! more.
//!
//! Source: Kubernetes, `AggregateContainerRequests` of `k8s.io/component-helpers/resource`, and
//! `podRequests` and `podLimits` of `plugin/pkg/admission/limitranger`.

use model::{Quantity, ResourceList, ResourceName};

use super::ContainerSize;

/// A pod as its author wrote it.
#[derive(Clone, Debug, Default)]
pub struct WholePod<'a> {
    /// Containers of `containers`, then those of `initContainers`, each in its order.
    pub containers: Vec<WholeContainer<'a>>,
    pub resources: Option<Written<'a>>,
    /// Whether the only size is that of the pod, in place of sizes of containers.
    pub is_sized: bool,
}

#[derive(Clone, Copy, Debug)]
pub struct WholeContainer<'a> {
    /// The time for which it runs.
    pub role: ContainerRole,
    pub written: Written<'a>,
    /// The index of its size, if it gets one.
    pub size: Option<usize>,
}

/// The time for which a container runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContainerRole {
    /// With the others.
    Main,
    /// Starts before the others and keeps running.
    Sidecar,
    /// Ends before the next one starts.
    Init,
}

/// Requests and limits as they are written; `None` if the field is absent.
#[derive(Clone, Copy, Debug, Default)]
pub struct Written<'a> {
    pub requests: Option<&'a ResourceList>,
    pub limits: Option<&'a ResourceList>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResourcesField {
    Requests,
    Limits,
}

impl ResourcesField {
    pub fn name(self) -> &'static str {
        match self {
            Self::Requests => "requests",
            Self::Limits => "limits",
        }
    }

    /// The name of one value: `request` or `limit`.
    pub fn singular(self) -> &'static str {
        match self {
            Self::Requests => "request",
            Self::Limits => "limit",
        }
    }
}

/// A pod before or after it is sized.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PodState {
    Written,
    Sized,
}

impl<'a> Written<'a> {
    /// The requests or the limits.
    pub(super) fn list(self, field: ResourcesField) -> Option<&'a ResourceList> {
        match field {
            ResourcesField::Requests => self.requests,
            ResourcesField::Limits => self.limits,
        }
    }

    /// The request or limit of a resource with this size.
    pub(super) fn amount<'s>(
        self,
        size: Option<&'s ContainerSize>,
        field: ResourcesField,
        resource: &ResourceName,
    ) -> Option<&'s Quantity>
    where
        'a: 's,
    {
        let is_removed = |size: &ContainerSize| size.removed_limits.contains(resource);
        if field == ResourcesField::Limits && size.is_some_and(is_removed) {
            return None;
        }
        let sized = size.map(|size| match field {
            ResourcesField::Requests => &size.requests,
            ResourcesField::Limits => &size.limits,
        });
        sized
            .and_then(|list| list.get(resource))
            .or_else(|| self.list(field)?.get(resource))
    }
}

impl WholePod<'_> {
    /// The requests of the pod as a whole: as written, else the total of its containers, else its limits.
    /// Source: `setDefaultPodRequests` of Kubernetes' `pkg/apis/core/v1`, for pods with limits.
    pub fn default_requests(&self) -> ResourceList {
        let own = self.resources.unwrap_or_default();
        let mut requests = own.requests.cloned().unwrap_or_default();
        for (resource, limit) in own.limits.into_iter().flat_map(ResourceList::iter) {
            if requests.get(resource).is_none() {
                let total = self.total(&[], ResourcesField::Requests, resource, PodState::Written);
                let total = total.filter(|total| !total.is_zero());
                requests.insert(resource.clone(), total.unwrap_or_else(|| limit.clone()));
            }
        }
        requests
    }

    /// The total of a resource; `None` if no container has a value.
    pub(super) fn total(
        &self,
        sizes: &[ContainerSize],
        field: ResourcesField,
        resource: &ResourceName,
        state: PodState,
    ) -> Option<Quantity> {
        let (mut running, mut sidecars, mut starting) = (None, None, None);
        for container in &self.containers {
            let size = container.size.and_then(|index| sizes.get(index));
            let size = size.filter(|_| state == PodState::Sized);
            let amount = container.written.amount(size, field, resource);
            match container.role {
                ContainerRole::Main => running = plus(running, amount),
                ContainerRole::Sidecar => {
                    running = plus(running, amount);
                    sidecars = plus(sidecars, amount);
                }
                ContainerRole::Init => starting = starting.max(plus(sidecars.clone(), amount)),
            }
        }
        running.max(starting)
    }
}

fn plus(sum: Option<Quantity>, amount: Option<&Quantity>) -> Option<Quantity> {
    match (sum, amount) {
        (Some(sum), Some(amount)) => Some(&sum + amount),
        (sum, amount) => sum.or_else(|| amount.cloned()),
    }
}
