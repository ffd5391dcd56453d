//! The parts of each kind of object that no decision reads. They are left out before the object is
//! parsed.
//!
//! A field that is not listed here is read and counts towards the largest size of an object, so a
//! list that is too short costs memory and never an answer.

use view::ANNOTATION_PREFIXES;

use crate::splitter::ExcludedField;

const MANAGED_FIELDS: ExcludedField = ExcludedField::at(&["metadata", "managedFields"]);
/// The annotation that kubectl keeps a copy of the whole object in.
const LAST_APPLIED: ExcludedField = ExcludedField::at(&[
    "metadata",
    "annotations",
    "kubectl.kubernetes.io/last-applied-configuration",
]);
const ANNOTATIONS: ExcludedField = ExcludedField::at(&["metadata", "annotations"]);

/// Of objects that are kept nearly whole.
pub(crate) const WHOLE: &[ExcludedField] = &[MANAGED_FIELDS, LAST_APPLIED];

/// Of `VerticalPodAutoscaler` objects: annotations of others.
pub(crate) const AUTOSCALERS: &[ExcludedField] = &[
    MANAGED_FIELDS,
    ExcludedField::all_but(&["metadata", "annotations"], &ANNOTATION_PREFIXES),
];

/// Of objects whose annotations change no decision.
pub(crate) const PLAIN: &[ExcludedField] = &[MANAGED_FIELDS, ANNOTATIONS];

/// Of objects of which only our annotations are read: the others.
pub(crate) const OTHERS: &[ExcludedField] = &[
    MANAGED_FIELDS,
    ExcludedField::all_but(&["metadata", "annotations"], &["plimsoll.dev/"]),
];

/// Of `ConfigMap` objects: everything but their names, so that none is too large to be seen.
pub(crate) const CONFIG_MAPS: &[ExcludedField] = &[
    ExcludedField::all_but(&["metadata"], &["name", "resourceVersion"]),
    ExcludedField::at(&["data"]),
    ExcludedField::at(&["binaryData"]),
];

/// Of nodes: what they say of themselves beside their size.
pub(crate) const NODES: &[ExcludedField] = &[
    MANAGED_FIELDS,
    ANNOTATIONS,
    ExcludedField::at(&["status", "images"]),
    ExcludedField::at(&["status", "conditions"]),
    ExcludedField::at(&["status", "addresses"]),
    ExcludedField::at(&["status", "nodeInfo"]),
    ExcludedField::at(&["status", "volumesInUse"]),
    ExcludedField::at(&["status", "volumesAttached"]),
];

/// Of events about evicted pods: all but their annotations and what they are about.
pub(crate) const EVENTS: &[ExcludedField] = &[
    MANAGED_FIELDS,
    ExcludedField::all_but(
        &["metadata", "annotations"],
        &["offending_containers", "starved_resource"],
    ),
    ExcludedField::at(&["metadata", "labels"]),
    ExcludedField::at(&["message"]),
    ExcludedField::at(&["source"]),
    ExcludedField::at(&["related"]),
];

/// Of workload controllers: templates, but for the labels of a `CronJob`'s pods.
pub(crate) const CONTROLLERS: &[ExcludedField] = &[
    MANAGED_FIELDS,
    ANNOTATIONS,
    ExcludedField::at(&["spec", "template"]),
    ExcludedField::at(&["spec", "volumeClaimTemplates"]),
    ExcludedField::at(&["spec", "jobTemplate", "metadata"]),
    ExcludedField::at(&["spec", "jobTemplate", "spec", "template", "spec"]),
    ExcludedField::at(&[
        "spec",
        "jobTemplate",
        "spec",
        "template",
        "metadata",
        "annotations",
    ]),
];

/// The same, where their labels change no decision either.
pub(crate) const UNLABELLED_CONTROLLERS: &[ExcludedField] = &[
    MANAGED_FIELDS,
    ANNOTATIONS,
    ExcludedField::at(&["metadata", "labels"]),
    ExcludedField::at(&["spec", "template"]),
    ExcludedField::at(&["spec", "volumeClaimTemplates"]),
    ExcludedField::at(&["spec", "jobTemplate", "metadata"]),
    ExcludedField::at(&["spec", "jobTemplate", "spec", "template", "spec"]),
    ExcludedField::at(&[
        "spec",
        "jobTemplate",
        "spec",
        "template",
        "metadata",
        "annotations",
    ]),
];

/// Of `DaemonSet` objects whose templates count: what does not say where their pods go and what
/// they ask for.
pub(crate) const DAEMONS: &[ExcludedField] = &[
    MANAGED_FIELDS,
    ANNOTATIONS,
    ExcludedField::at(&["metadata", "labels"]),
    ExcludedField::at(&["spec", "template", "metadata"]),
    ExcludedField::at(&["spec", "template", "spec", "volumes"]),
    ExcludedField::at(&["spec", "template", "spec", "containers", "args"]),
    ExcludedField::at(&["spec", "template", "spec", "containers", "command"]),
    ExcludedField::at(&["spec", "template", "spec", "containers", "env"]),
    ExcludedField::at(&["spec", "template", "spec", "containers", "envFrom"]),
    ExcludedField::at(&["spec", "template", "spec", "containers", "ports"]),
    ExcludedField::at(&["spec", "template", "spec", "containers", "volumeMounts"]),
    ExcludedField::at(&["spec", "template", "spec", "initContainers", "args"]),
    ExcludedField::at(&["spec", "template", "spec", "initContainers", "command"]),
    ExcludedField::at(&["spec", "template", "spec", "initContainers", "env"]),
    ExcludedField::at(&["spec", "template", "spec", "initContainers", "envFrom"]),
    ExcludedField::at(&["spec", "template", "spec", "initContainers", "volumeMounts"]),
    ExcludedField::at(&["status", "conditions"]),
];

/// Of pods: what their containers run, and annotations of others.
pub(crate) const PODS: &[ExcludedField] = &[
    MANAGED_FIELDS,
    ExcludedField::all_but(&["metadata", "annotations"], &ANNOTATION_PREFIXES),
    ExcludedField::at(&["spec", "volumes"]),
    ExcludedField::at(&["spec", "ephemeralContainers"]),
    ExcludedField::at(&["spec", "topologySpreadConstraints"]),
    ExcludedField::at(&["spec", "containers", "args"]),
    ExcludedField::at(&["spec", "containers", "command"]),
    ExcludedField::at(&["spec", "containers", "env"]),
    ExcludedField::at(&["spec", "containers", "envFrom"]),
    ExcludedField::at(&["spec", "containers", "lifecycle"]),
    ExcludedField::at(&["spec", "containers", "livenessProbe"]),
    ExcludedField::at(&["spec", "containers", "ports"]),
    ExcludedField::at(&["spec", "containers", "readinessProbe"]),
    ExcludedField::at(&["spec", "containers", "securityContext"]),
    ExcludedField::at(&["spec", "containers", "startupProbe"]),
    ExcludedField::at(&["spec", "containers", "volumeMounts"]),
    ExcludedField::at(&["spec", "initContainers", "args"]),
    ExcludedField::at(&["spec", "initContainers", "command"]),
    ExcludedField::at(&["spec", "initContainers", "env"]),
    ExcludedField::at(&["spec", "initContainers", "envFrom"]),
    ExcludedField::at(&["spec", "initContainers", "securityContext"]),
    ExcludedField::at(&["spec", "initContainers", "volumeMounts"]),
    ExcludedField::at(&["status", "containerStatuses", "volumeMounts"]),
    ExcludedField::at(&["status", "initContainerStatuses", "volumeMounts"]),
    ExcludedField::at(&["status", "ephemeralContainerStatuses"]),
    ExcludedField::at(&[
        "status",
        "containerStatuses",
        "state",
        "terminated",
        "message",
    ]),
    ExcludedField::at(&["status", "containerStatuses", "state", "waiting", "message"]),
    ExcludedField::at(&[
        "status",
        "containerStatuses",
        "lastState",
        "terminated",
        "message",
    ]),
];

/// Of predictions by the numbers in them: what is written in words.
pub(crate) const PREDICTED_METRICS: &[ExcludedField] = &[
    MANAGED_FIELDS,
    ANNOTATIONS,
    ExcludedField::at(&["status", "conditions"]),
];

/// Of pods by their labels: everything else.
pub(crate) const LABELLED_PODS: &[ExcludedField] = &[
    MANAGED_FIELDS,
    ANNOTATIONS,
    ExcludedField::at(&["spec"]),
    ExcludedField::all_but(&["status"], &["phase"]),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_kind_has_more_cuts_than_count() {
        let all = [
            WHOLE,
            AUTOSCALERS,
            PLAIN,
            OTHERS,
            CONFIG_MAPS,
            NODES,
            EVENTS,
            CONTROLLERS,
            DAEMONS,
            PODS,
            PREDICTED_METRICS,
        ];
        for excluded in all
            .into_iter()
            .chain([LABELLED_PODS, UNLABELLED_CONTROLLERS])
        {
            assert!(excluded.len() <= 32, "{excluded:?}");
        }
    }
}
