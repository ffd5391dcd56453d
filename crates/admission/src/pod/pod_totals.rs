//! Totals of a pod's containers, as the API server counts them: the sum of all containers and
//! sidecars, or an init container plus the sidecars started before it, whichever is more.
//!
//! Source: Kubernetes, `AggregateContainerRequests` of `k8s.io/component-helpers/resource`, and
//! `podRequests` and `podLimits` of `plugin/pkg/admission/limitranger`.

use model::{Quantity, ResourceName};
use sizing::ContainerSize;

use super::containers::TargetContainer;
use super::object::{Container, Pod};
use crate::patch::{ContainerPath, ResourcesField};
use crate::review::Requirements;

/// A pod before or after it is patched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PodState {
    Original,
    Patched,
}

/// A container of a pod, with its recommended size if it has one.
#[derive(Debug, Clone, Copy)]
pub(super) struct Member<'a> {
    role: Role,
    original: &'a Requirements,
    size: Option<&'a ContainerSize>,
}

#[derive(Debug, Clone, Copy)]
enum Role {
    /// Runs with the others.
    Main,
    /// Starts before the others and keeps running.
    Sidecar,
    /// Ends before the next one starts.
    Init,
}

impl<'a> Member<'a> {
    /// A container with a recommended size.
    pub(super) fn new(target: &TargetContainer<'a>, size: &'a ContainerSize) -> Self {
        Self {
            role: Role::Main,
            original: target.effective,
            size: Some(size),
        }
    }

    /// Whether the container has a recommended size.
    pub(super) fn is_sized(&self) -> bool {
        self.size.is_some()
    }

    /// The request or limit of a resource.
    pub(super) fn amount(
        &self,
        field: ResourcesField,
        resource: &ResourceName,
        state: PodState,
    ) -> Option<&'a Quantity> {
        let size = self.size.filter(|_| state == PodState::Patched);
        let removes = |size: &ContainerSize| size.removed_limits.contains(resource);
        if field == ResourcesField::Limits && size.is_some_and(removes) {
            return None;
        }
        let patched = size.map(|size| match field {
            ResourcesField::Requests => &size.requests,
            ResourcesField::Limits => &size.limits,
        });
        patched
            .and_then(|list| list.get(resource))
            .or_else(|| self.original.list(field)?.get(resource))
    }
}

/// All containers of a pod in the order of the spec, those of `initContainers` last. `sizes` are
/// those of `containers`, which are in the same order.
pub(super) fn members<'a>(
    pod: &'a Pod<'_>,
    containers: &'a [TargetContainer<'_>],
    sizes: &'a [ContainerSize],
) -> impl Iterator<Item = Member<'a>> + Clone {
    let role = |container: &Container<'_>| {
        if container.is_sidecar() {
            Role::Sidecar
        } else {
            Role::Init
        }
    };
    let main = pod.spec.containers.iter().enumerate();
    let main =
        main.map(|(index, container)| (Role::Main, ContainerPath::Container(index), container));
    let init = pod.spec.init_containers.iter().flatten().enumerate();
    let init = init.map(move |(index, container)| {
        (
            role(container),
            ContainerPath::InitContainer(index),
            container,
        )
    });
    let mut sizes = containers.iter().zip(sizes).peekable();
    main.chain(init).map(move |(role, path, container)| {
        let size = sizes
            .next_if(|(target, _)| target.path == path)
            .map(|(_, size)| size);
        Member {
            role,
            original: pod.effective(container),
            size,
        }
    })
}

/// The total of a resource; `None` if no container has a value.
pub(super) fn total<'a>(
    members: impl Iterator<Item = Member<'a>>,
    field: ResourcesField,
    resource: &ResourceName,
    state: PodState,
) -> Option<Quantity> {
    let (mut running, mut sidecars, mut starting) = (None, None, None);
    for member in members {
        let amount = member.amount(field, resource, state);
        match member.role {
            Role::Main => running = plus(running, amount),
            Role::Sidecar => {
                running = plus(running, amount);
                sidecars = plus(sidecars, amount);
            }
            Role::Init => starting = starting.max(plus(sidecars.clone(), amount)),
        }
    }
    running.max(starting)
}

fn plus(sum: Option<Quantity>, amount: Option<&Quantity>) -> Option<Quantity> {
    match (sum, amount) {
        (Some(sum), Some(amount)) => Some(&sum + amount),
        (sum, amount) => sum.or_else(|| amount.cloned()),
    }
}
