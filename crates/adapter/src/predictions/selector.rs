//! The series that a selector matches. A series has four labels, which the HPA of an EHPA selects:
//! kind, name and namespace of the workload, and the identifier of the metric.

use std::collections::BTreeMap;
use std::sync::Arc;

use model::{Requirement, Selector, Workload, WorkloadRef};
use view::{CronSchedule, Entry, ObjectKey, OldestWins, Table};

use super::snapshot::Snapshot;
use crate::request::ExternalMetricRequest;

const KIND: &str = "targetKind";
const NAME: &str = "targetName";
const NAMESPACE: &str = "targetNamespace";
const IDENTIFIER: &str = "resourceIdentifier";

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
    request: &'a ExternalMetricRequest,
) -> Vec<&'a Arc<T>> {
    let (namespace, selector) = (request.namespace.as_str(), &request.selector);
    let (Some(kind), Some(name)) = (only(selector, KIND), only(selector, NAME)) else {
        return table.in_namespace(namespace).collect();
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

/// Returns the EHPAs of [`candidates`], and the active one of each workload.
pub(super) fn schedules<'a>(
    snapshot: &Snapshot<'a>,
    request: &'a ExternalMetricRequest,
) -> (Vec<&'a Arc<CronSchedule>>, OldestWins<'a>) {
    let schedules = candidates(&snapshot.view.cron_schedules, request);
    let winners = schedules.iter().map(|schedule| schedule.contender());
    let winners = winners.collect();
    (schedules, winners)
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
