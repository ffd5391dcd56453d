//! Name of a container's checkpoint.
//!
//! Upstream's `VPA-CONTAINER` is not unique: object `a-b` with container `c` has the name of object
//! `a` with container `b-c`, and upstream overwrites one with the other. Here a container whose
//! name is taken or too long gets one that ends with a hash of both parts. The `spec` of a
//! checkpoint names its owner, upstream as well as here.

use api::checkpoint::{VerticalPodAutoscalerCheckpointSpec, object_name};
use model::fnv1a;
use view::{Checkpoint, ObjectKey, Table};

/// Maximum length of an object's name.
const MAX: usize = 253;
/// Hexadecimal digits of the hash.
const DIGITS: usize = 16;

/// Whether a checkpoint belongs to this container of this VPA object.
pub fn is_of(spec: &VerticalPodAutoscalerCheckpointSpec, vpa: &str, container: &str) -> bool {
    spec.vpa_object_name == vpa && spec.container_name == container
}

/// Upstream's name, and the name with a hash.
pub fn names(vpa: &ObjectKey, container: &str) -> [ObjectKey; 2] {
    let whole = object_name(&vpa.name, container);
    let kept = whole
        .get(..MAX - DIGITS - 1)
        .unwrap_or(&whole)
        .trim_end_matches(['-', '.']);
    // No name contains a slash, so two pairs never hash the same text.
    let hash = fnv1a(format!("{}/{container}", vpa.name).as_bytes());
    let hashed = format!("{kept}-{hash:0DIGITS$x}");
    [whole, hashed].map(|name| ObjectKey::new(&vpa.namespace, name))
}

/// The key of a container's checkpoint: the existing object, or else upstream's name if it is free.
pub fn choose(checkpoints: &Table<Checkpoint>, vpa: &ObjectKey, container: &str) -> ObjectKey {
    let [whole, hashed] = names(vpa, container);
    let is_own = |checkpoint: &Checkpoint| is_of(&checkpoint.spec, &vpa.name, container);
    let has_hashed = checkpoints.get(&hashed).is_some_and(|found| is_own(found));
    let is_taken = checkpoints.get(&whole).is_some_and(|found| !is_own(found));
    if has_hashed || is_taken || whole.name.len() > MAX {
        hashed
    } else {
        whole
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::fixture;

    const HASHED: &str = "a-b-c-9eece1bc4331d2a5";

    /// The name for container `b-c` of object `a`, where there are checkpoints of these names,
    /// objects and containers.
    fn check(stored: &[(&str, &str, &str)], expected: &str) {
        let mut table = Table::default();
        for (name, vpa, container) in stored {
            let mut checkpoint = fixture::checkpoint(vpa, container, None);
            (*name).clone_into(&mut checkpoint.key.name);
            table.apply(Arc::new(checkpoint));
        }
        let chosen = choose(&table, &ObjectKey::new("shop", "a"), "b-c");
        assert_eq!(chosen.name, expected, "{stored:?}");
    }

    #[test]
    fn a_container_has_upstreams_name_unless_it_is_taken() {
        check(&[], "a-b-c");
        check(&[("a-b-c", "a", "b-c")], "a-b-c");
        check(&[("a-b-c", "a-b", "c")], HASHED);
    }

    #[test]
    fn a_container_keeps_the_checkpoint_that_it_has() {
        check(&[(HASHED, "a", "b-c")], HASHED);
        check(&[(HASHED, "a", "b-c"), ("a-b-c", "a", "b-c")], HASHED);
        check(&[(HASHED, "other", "b-c")], "a-b-c");
    }

    #[test]
    fn a_name_that_is_too_long_is_cut_and_stays_its_own() {
        let long = |last: &str| {
            let vpa = ObjectKey::new("shop", "a".repeat(240) + last);
            choose(&Table::default(), &vpa, "main-container").name
        };
        assert_eq!((long("b").len(), long("c").len()), (MAX, MAX));
        assert_ne!(long("b"), long("c"));
    }
}
