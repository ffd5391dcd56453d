//! The containers of a pod that are sized.

use super::object::{Container, Pod};
use crate::patch::Place;
use crate::review::Requirements;

/// One of them.
pub(super) struct Sized<'a> {
    pub(super) place: Place,
    pub(super) container: &'a Container<'a>,
    /// Its resources in effect.
    pub(super) effective: &'a Requirements,
}

/// All of them, sidecars last.
pub(super) fn sized<'a>(pod: &'a Pod<'_>, native_sidecars: bool) -> Vec<Sized<'a>> {
    let containers = pod.spec.containers.iter().enumerate();
    let containers = containers.map(|(index, container)| (Place::Container(index), container));
    let sidecars = pod.spec.init_containers.iter().flatten().enumerate();
    let sidecars = sidecars.filter(|(_, container)| native_sidecars && container.is_sidecar());
    let sidecars = sidecars.map(|(index, container)| (Place::InitContainer(index), container));
    let both = containers.chain(sidecars);
    both.map(|(place, container)| Sized {
        place,
        container,
        effective: pod.effective(container),
    })
    .collect()
}
