//! What the containers of a pod have together, as the API server counts it: all that run side by
//! side, sidecars among them, or an init container with the sidecars that were started before it,
//! whichever is more.
//!
//! Source: Kubernetes, `AggregateContainerRequests` of `k8s.io/component-helpers/resource`, and
//! `podRequests` and `podLimits` of `plugin/pkg/admission/limitranger`.

use model::{Quantity, ResourceName};
use sizing::ContainerSize;

use super::object::{Container, Pod};
use super::sized::Sized;
use crate::patch::{Map, Place};
use crate::review::Requirements;

/// Before containers are sized, or after.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum When {
    Before,
    After,
}

/// A container of a pod, with its new size where it is sized.
#[derive(Debug, Clone, Copy)]
pub(super) struct Member<'a> {
    role: Role,
    written: &'a Requirements,
    size: Option<&'a ContainerSize>,
}

#[derive(Debug, Clone, Copy)]
enum Role {
    /// It runs with the others.
    Main,
    /// It is started before the others, and goes on running.
    Sidecar,
    /// It has ended before the next one is started.
    Init,
}

impl<'a> Member<'a> {
    /// A container that gets this size.
    pub(super) fn sized(sized: &Sized<'a>, size: &'a ContainerSize) -> Self {
        Self {
            role: Role::Main,
            written: sized.effective,
            size: Some(size),
        }
    }

    /// Whether it is one of those that get a size.
    pub(super) fn is_sized(&self) -> bool {
        self.size.is_some()
    }

    /// What it has of a resource.
    pub(super) fn amount(
        &self,
        map: Map,
        resource: &ResourceName,
        when: When,
    ) -> Option<&'a Quantity> {
        let size = self.size.filter(|_| when == When::After);
        let new = size.map(|size| match map {
            Map::Requests => &size.requests,
            Map::Limits => &size.limits,
        });
        new.and_then(|list| list.get(resource))
            .or_else(|| self.written.list(map)?.get(resource))
    }
}

/// All containers of a pod in the order in which they are written, those of `initContainers` last.
/// `containers` and `sizes` are in the same order.
pub(super) fn members<'a>(
    pod: &'a Pod<'_>,
    containers: &'a [Sized<'_>],
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
    let main = main.map(|(index, container)| (Role::Main, Place::Container(index), container));
    let init = pod.spec.init_containers.iter().flatten().enumerate();
    let init = init
        .map(move |(index, container)| (role(container), Place::InitContainer(index), container));
    let mut sizes = containers.iter().zip(sizes).peekable();
    main.chain(init).map(move |(role, place, container)| {
        let size = sizes
            .next_if(|(sized, _)| sized.place == place)
            .map(|(_, size)| size);
        Member {
            role,
            written: pod.effective(container),
            size,
        }
    })
}

/// What they have of a resource together; none where none of them has any.
pub(super) fn total<'a>(
    members: impl Iterator<Item = Member<'a>>,
    map: Map,
    resource: &ResourceName,
    when: When,
) -> Option<Quantity> {
    let (mut together, mut sidecars, mut starting) = (None, None, None);
    for member in members {
        let amount = member.amount(map, resource, when);
        match member.role {
            Role::Main => together = plus(together, amount),
            Role::Sidecar => {
                together = plus(together, amount);
                sidecars = plus(sidecars, amount);
            }
            Role::Init => starting = starting.max(plus(sidecars.clone(), amount)),
        }
    }
    together.max(starting)
}

fn plus(sum: Option<Quantity>, amount: Option<&Quantity>) -> Option<Quantity> {
    match (sum, amount) {
        (Some(sum), Some(amount)) => Some(&sum + amount),
        (sum, amount) => sum.or_else(|| amount.cloned()),
    }
}
