//! The series that a selector matches. A series has four labels, which the HPA of an EHPA selects:
//! kind, name and namespace of the workload, and the identifier of the metric.

use std::collections::BTreeMap;
use std::sync::Arc;

use model::{Requirement, Selector, Workload, WorkloadRef};
use view::{Entry, ObjectKey, Table};

const KIND: &str = "targetKind";
const NAME: &str = "targetName";
const NAMESPACE: &str = "targetNamespace";
const IDENTIFIER: &str = "resourceIdentifier";

/// Returns the labels of a series.
pub(super) fn labels(target: &WorkloadRef, identifier: &str) -> BTreeMap<String, String> {
    [
        (KIND, &*target.kind),
        (NAME, &target.name),
        (NAMESPACE, &target.namespace),
        (IDENTIFIER, identifier),
    ]
    .map(|(label, value)| (label.to_owned(), value.to_owned()))
    .into()
}

/// Returns candidates for a selector: the objects of the workload that it names, else all of the
/// namespace.
pub(super) fn candidates<'a, T: Entry<Key = ObjectKey>>(
    table: &'a Table<T>,
    namespace: &str,
    selector: &Selector,
) -> Vec<&'a Arc<T>> {
    let (Some(kind), Some(name)) = (only(selector, KIND), only(selector, NAME)) else {
        let all = table.starting_at(ObjectKey::new(namespace, ""));
        return all
            .take_while(|object| object.key().namespace == namespace)
            .collect();
    };
    // An object may only target a workload in its own namespace.
    table
        .by_workload(Workload {
            api_version: "",
            kind,
            namespace,
            name,
        })
        .filter(|object| object.key().namespace == namespace)
        .collect()
}

/// Returns the only value that the selector allows for a label.
pub(super) fn only<'a>(selector: &'a Selector, label: &str) -> Option<&'a str> {
    selector
        .requirements()
        .iter()
        .find_map(|requirement| match requirement {
            Requirement::In(key, values) if key == label && values.len() == 1 => {
                values.first().map(String::as_str)
            }
            _ => None,
        })
}
