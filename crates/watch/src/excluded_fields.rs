//! The fields of each kind of object that no decision reads, left out before parsing.
//!
//! A field that is missing here is read and counts towards the weight of an object, so an
//! incomplete list costs memory but never changes a decision.

use view::ANNOTATION_PREFIXES;

use crate::splitter::ExcludedField;

const MANAGED_FIELDS: ExcludedField = ExcludedField::at(&["metadata", "managedFields"]);
/// kubectl's annotation with a copy of the whole object.
const LAST_APPLIED: ExcludedField = ExcludedField::at(&[
    "metadata",
    "annotations",
    "kubectl.kubernetes.io/last-applied-configuration",
]);
const ANNOTATIONS: ExcludedField = ExcludedField::at(&["metadata", "annotations"]);

const JOB_POD_ANNOTATIONS: ExcludedField = ExcludedField::at(&[
    "spec",
    "jobTemplate",
    "spec",
    "template",
    "metadata",
    "annotations",
]);

/// Of full objects.
pub(crate) const WHOLE: &[ExcludedField] = &[MANAGED_FIELDS, LAST_APPLIED];

/// Of `VerticalPodAutoscaler` objects: annotations of other tools.
pub(crate) const VPAS: &[ExcludedField] = &[
    MANAGED_FIELDS,
    ExcludedField::all_but(&["metadata", "annotations"], &ANNOTATION_PREFIXES),
];

/// Of objects whose annotations change no decision.
pub(crate) const PLAIN: &[ExcludedField] = &[MANAGED_FIELDS, ANNOTATIONS];

/// Of checkpoints, whose annotations have histories. A write has to know whether there are any.
pub(crate) const CHECKPOINTS: &[ExcludedField] = &[MANAGED_FIELDS];

/// Of objects with annotations of ours: the other annotations.
pub(crate) const OTHERS: &[ExcludedField] = &[
    MANAGED_FIELDS,
    ExcludedField::all_but(&["metadata", "annotations"], &["plimsoll.dev/"]),
];

/// Of `ConfigMap` objects: everything but the name, so that none is too large to be read.
pub(crate) const CONFIG_MAPS: &[ExcludedField] = &[
    ExcludedField::all_but(&["metadata"], &["name", "resourceVersion"]),
    ExcludedField::at(&["data"]),
    ExcludedField::at(&["binaryData"]),
];

/// Of HPAs reduced to their utilization targets: status, behavior, and annotations other than that
/// of the EHPA that adopted them.
pub(crate) const HPA_TARGETS: &[ExcludedField] = &[
    MANAGED_FIELDS,
    ExcludedField::all_but(&["metadata", "annotations"], &["plimsoll.dev/adopted-by"]),
    ExcludedField::at(&["metadata", "labels"]),
    ExcludedField::at(&["spec", "behavior"]),
    ExcludedField::at(&["status"]),
];

/// Of nodes reduced to their labels: everything else.
pub(crate) const NODE_LABELS: &[ExcludedField] = &[
    MANAGED_FIELDS,
    ANNOTATIONS,
    ExcludedField::at(&["spec"]),
    ExcludedField::at(&["status"]),
];

/// Of nodes: all of the status but their capacity.
pub(crate) const NODES: &[ExcludedField] = &[
    ExcludedField::at(&["status", "addresses"]),
    MANAGED_FIELDS,
    ANNOTATIONS,
    ExcludedField::at(&["status", "images"]),
    ExcludedField::at(&["status", "conditions"]),
    ExcludedField::at(&["status", "nodeInfo"]),
    ExcludedField::at(&["status", "volumesInUse"]),
    ExcludedField::at(&["status", "volumesAttached"]),
];

/// The same without the first entry, where the addresses are read.
pub(crate) const ADDRESSED_NODES: &[ExcludedField] = NODES.split_at(1).1;

/// Of claims of nodes: requirements and conditions.
pub(crate) const NODE_CLAIMS: &[ExcludedField] = &[
    MANAGED_FIELDS,
    ANNOTATIONS,
    ExcludedField::at(&["spec", "requirements"]),
    ExcludedField::at(&["status", "conditions"]),
];

/// Of events about evicted pods: all but their annotations and the involved object.
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

/// Of workload controllers: labels of the controller, and templates but for the labels of a
/// `CronJob`'s pods.
pub(crate) const CONTROLLERS: &[ExcludedField] = &[
    ExcludedField::at(&["metadata", "labels"]),
    MANAGED_FIELDS,
    ANNOTATIONS,
    ExcludedField::at(&["spec", "template"]),
    ExcludedField::at(&["spec", "volumeClaimTemplates"]),
    ExcludedField::at(&["spec", "jobTemplate", "metadata"]),
    ExcludedField::at(&["spec", "jobTemplate", "spec", "template", "spec"]),
    JOB_POD_ANNOTATIONS,
];

/// The same without the first entry, where the labels of the controller are read.
pub(crate) const LABELLED_CONTROLLERS: &[ExcludedField] = CONTROLLERS.split_at(1).1;

/// Of workload controllers whose templates count: all but names and resources of containers.
pub(crate) const TEMPLATED_CONTROLLERS: &[ExcludedField] = &[
    ExcludedField::at(&["metadata", "labels"]),
    MANAGED_FIELDS,
    ANNOTATIONS,
    ExcludedField::at(&["spec", "template", "metadata"]),
    ExcludedField::all_but(
        &["spec", "template", "spec"],
        &["containers", "initContainers"],
    ),
    ExcludedField::all_but(
        &["spec", "template", "spec", "containers"],
        &["name", "resources"],
    ),
    ExcludedField::all_but(
        &["spec", "template", "spec", "initContainers"],
        &["name", "resources"],
    ),
    ExcludedField::at(&["spec", "volumeClaimTemplates"]),
    ExcludedField::at(&["spec", "jobTemplate", "metadata"]),
    ExcludedField::at(&["spec", "jobTemplate", "spec", "template", "spec"]),
    JOB_POD_ANNOTATIONS,
];

/// Of `DaemonSet` objects whose templates count: all but scheduling constraints and resources.
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

/// Of pods: commands and probes of their containers, and annotations of other tools.
pub(crate) const PODS: &[ExcludedField] = &[
    MANAGED_FIELDS,
    ExcludedField::all_but(&["metadata", "annotations"], &ANNOTATION_PREFIXES),
    ExcludedField::all_but(
        &["spec", "volumes"],
        &[
            "name",
            "persistentVolumeClaim",
            "hostPath",
            "emptyDir",
            "ephemeral",
        ],
    ),
    ExcludedField::at(&["spec", "ephemeralContainers"]),
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

/// Of pods on nodes: all but labels, owners, resources and conditions.
pub(crate) const BOUND_PODS: &[ExcludedField] = &[
    MANAGED_FIELDS,
    ANNOTATIONS,
    ExcludedField::all_but(
        &["spec"],
        &[
            "containers",
            "initContainers",
            "nodeName",
            "overhead",
            "resources",
        ],
    ),
    ExcludedField::all_but(&["spec", "containers"], &["name", "resources"]),
    ExcludedField::all_but(
        &["spec", "initContainers"],
        &["name", "resources", "restartPolicy"],
    ),
    ExcludedField::all_but(&["status"], &["conditions"]),
    ExcludedField::at(&["status", "conditions", "message"]),
];

/// Of predictions reduced to their samples: annotations and conditions.
pub(crate) const PREDICTED_METRICS: &[ExcludedField] = &[
    MANAGED_FIELDS,
    ANNOTATIONS,
    ExcludedField::at(&["status", "conditions"]),
];

/// Of pods reduced to labels and phase: everything else.
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
    fn no_kind_has_more_excluded_fields_than_count() {
        let all = [
            WHOLE,
            VPAS,
            PLAIN,
            OTHERS,
            CONFIG_MAPS,
            HPA_TARGETS,
            NODES,
            ADDRESSED_NODES,
            NODE_LABELS,
            NODE_CLAIMS,
            EVENTS,
            CONTROLLERS,
            DAEMONS,
            PODS,
            BOUND_PODS,
            PREDICTED_METRICS,
        ];
        for excluded in
            all.into_iter()
                .chain([LABELLED_PODS, LABELLED_CONTROLLERS, TEMPLATED_CONTROLLERS])
        {
            assert!(excluded.len() <= 32, "{excluded:?}");
        }
    }
}
