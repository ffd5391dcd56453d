//! The containers of a pod that get a recommended size.

use super::object::{Container, Pod};
use crate::patch::ContainerPath;
use crate::review::Requirements;

/// A container that gets a recommended size.
pub(super) struct TargetContainer<'a> {
    pub(super) path: ContainerPath,
    pub(super) container: &'a Container<'a>,
    /// The resources in effect.
    pub(super) effective: &'a Requirements,
}

/// The containers of a pod, then its native sidecars if these are sized.
pub(super) fn target_containers<'a>(
    pod: &'a Pod<'_>,
    native_sidecars: bool,
) -> Vec<TargetContainer<'a>> {
    let containers = pod.spec.containers.iter().enumerate();
    let containers =
        containers.map(|(index, container)| (ContainerPath::Container(index), container));
    let sidecars = pod.spec.init_containers.iter().flatten().enumerate();
    let sidecars = sidecars.filter(|(_, container)| native_sidecars && container.is_sidecar());
    let sidecars =
        sidecars.map(|(index, container)| (ContainerPath::InitContainer(index), container));
    let both = containers.chain(sidecars);
    both.map(|(path, container)| TargetContainer {
        path,
        container,
        effective: pod.effective(container),
    })
    .collect()
}
