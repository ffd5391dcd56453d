//! Order of work in which namespaces alternate, so that none delays the others.

use std::collections::HashMap;

use crate::table::ObjectKey;

/// The first object of each namespace, then the second of each, and so on; each in its order.
pub fn interleave_namespaces<T>(objects: Vec<T>, key: impl Fn(&T) -> &ObjectKey) -> Vec<T> {
    let mut counts: HashMap<String, usize> = HashMap::new();
    let mut ranked = Vec::with_capacity(objects.len());
    for object in objects {
        let count = counts.entry(key(&object).namespace.clone()).or_default();
        *count += 1;
        ranked.push((*count, object));
    }
    ranked.sort_by_key(|(rank, _)| *rank);
    ranked.into_iter().map(|(_, object)| object).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn namespaces_alternate_and_keep_their_order() {
        let many = (0..1000).map(|number| ("a", number));
        let objects = many.chain([("b", 7), ("c", 5), ("b", 3)]);
        let objects = objects.map(|(namespace, name)| ObjectKey::new(namespace, name.to_string()));
        let found = interleave_namespaces(objects.collect(), |key| key);
        let found: Vec<_> = found.iter().map(ToString::to_string).collect();
        let (first, rest) = found.split_at(5);
        assert_eq!(first, ["a/0", "b/7", "c/5", "a/1", "b/3"]);
        let others = (2..1000).map(|number| format!("a/{number}"));
        assert_eq!(rest, others.collect::<Vec<_>>());
    }
}
