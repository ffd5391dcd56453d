//! The parts of each kind of object that no decision reads. They are left out before the object is
//! parsed.
//!
//! A field that is not listed here is read and counts towards the largest size of an object, so a
//! list that is too short costs memory and never an answer.

use view::ANNOTATION_PREFIXES;

use crate::cut::Cut;

const MANAGED_FIELDS: Cut = Cut::at(&["metadata", "managedFields"]);
/// The annotation that kubectl keeps a copy of the whole object in.
const LAST_APPLIED: Cut = Cut::at(&[
    "metadata",
    "annotations",
    "kubectl.kubernetes.io/last-applied-configuration",
]);
const ANNOTATIONS: Cut = Cut::at(&["metadata", "annotations"]);

/// Of objects that are kept nearly whole.
pub(crate) const WHOLE: &[Cut] = &[MANAGED_FIELDS, LAST_APPLIED];

/// Of `VerticalPodAutoscaler` objects: annotations of others.
pub(crate) const AUTOSCALERS: &[Cut] = &[
    MANAGED_FIELDS,
    Cut::but(&["metadata", "annotations"], &ANNOTATION_PREFIXES),
];

/// Of objects whose annotations change no decision.
pub(crate) const PLAIN: &[Cut] = &[MANAGED_FIELDS, ANNOTATIONS];

/// Of objects of which only our annotations are read: the others.
pub(crate) const OTHERS: &[Cut] = &[
    MANAGED_FIELDS,
    Cut::but(&["metadata", "annotations"], &["plimsoll.dev/"]),
];

/// Of `ConfigMap` objects: everything but their names, so that none is too large to be seen.
pub(crate) const CONFIG_MAPS: &[Cut] = &[
    Cut::but(&["metadata"], &["name", "resourceVersion"]),
    Cut::at(&["data"]),
    Cut::at(&["binaryData"]),
];

/// Of nodes: what they say of themselves beside their size.
pub(crate) const NODES: &[Cut] = &[
    MANAGED_FIELDS,
    ANNOTATIONS,
    Cut::at(&["status", "images"]),
    Cut::at(&["status", "conditions"]),
    Cut::at(&["status", "addresses"]),
    Cut::at(&["status", "nodeInfo"]),
    Cut::at(&["status", "volumesInUse"]),
    Cut::at(&["status", "volumesAttached"]),
];

/// Of events about evicted pods: all but their annotations and what they are about.
pub(crate) const EVENTS: &[Cut] = &[
    MANAGED_FIELDS,
    Cut::but(
        &["metadata", "annotations"],
        &["offending_containers", "starved_resource"],
    ),
    Cut::at(&["metadata", "labels"]),
    Cut::at(&["message"]),
    Cut::at(&["source"]),
    Cut::at(&["related"]),
];

/// Of workload controllers: templates, but for the labels of a `CronJob`'s pods.
pub(crate) const CONTROLLERS: &[Cut] = &[
    MANAGED_FIELDS,
    ANNOTATIONS,
    Cut::at(&["spec", "template"]),
    Cut::at(&["spec", "volumeClaimTemplates"]),
    Cut::at(&["spec", "jobTemplate", "metadata"]),
    Cut::at(&["spec", "jobTemplate", "spec", "template", "spec"]),
    Cut::at(&[
        "spec",
        "jobTemplate",
        "spec",
        "template",
        "metadata",
        "annotations",
    ]),
];

/// The same, where their labels change no decision either.
pub(crate) const UNLABELLED_CONTROLLERS: &[Cut] = &[
    MANAGED_FIELDS,
    ANNOTATIONS,
    Cut::at(&["metadata", "labels"]),
    Cut::at(&["spec", "template"]),
    Cut::at(&["spec", "volumeClaimTemplates"]),
    Cut::at(&["spec", "jobTemplate", "metadata"]),
    Cut::at(&["spec", "jobTemplate", "spec", "template", "spec"]),
    Cut::at(&[
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
pub(crate) const DAEMONS: &[Cut] = &[
    MANAGED_FIELDS,
    ANNOTATIONS,
    Cut::at(&["metadata", "labels"]),
    Cut::at(&["spec", "template", "metadata"]),
    Cut::at(&["spec", "template", "spec", "volumes"]),
    Cut::at(&["spec", "template", "spec", "containers", "args"]),
    Cut::at(&["spec", "template", "spec", "containers", "command"]),
    Cut::at(&["spec", "template", "spec", "containers", "env"]),
    Cut::at(&["spec", "template", "spec", "containers", "envFrom"]),
    Cut::at(&["spec", "template", "spec", "containers", "ports"]),
    Cut::at(&["spec", "template", "spec", "containers", "volumeMounts"]),
    Cut::at(&["spec", "template", "spec", "initContainers", "args"]),
    Cut::at(&["spec", "template", "spec", "initContainers", "command"]),
    Cut::at(&["spec", "template", "spec", "initContainers", "env"]),
    Cut::at(&["spec", "template", "spec", "initContainers", "envFrom"]),
    Cut::at(&["spec", "template", "spec", "initContainers", "volumeMounts"]),
    Cut::at(&["status", "conditions"]),
];

/// Of pods: what their containers run, and annotations of others.
pub(crate) const PODS: &[Cut] = &[
    MANAGED_FIELDS,
    Cut::but(&["metadata", "annotations"], &ANNOTATION_PREFIXES),
    Cut::at(&["spec", "volumes"]),
    Cut::at(&["spec", "ephemeralContainers"]),
    Cut::at(&["spec", "topologySpreadConstraints"]),
    Cut::at(&["spec", "containers", "args"]),
    Cut::at(&["spec", "containers", "command"]),
    Cut::at(&["spec", "containers", "env"]),
    Cut::at(&["spec", "containers", "envFrom"]),
    Cut::at(&["spec", "containers", "lifecycle"]),
    Cut::at(&["spec", "containers", "livenessProbe"]),
    Cut::at(&["spec", "containers", "ports"]),
    Cut::at(&["spec", "containers", "readinessProbe"]),
    Cut::at(&["spec", "containers", "securityContext"]),
    Cut::at(&["spec", "containers", "startupProbe"]),
    Cut::at(&["spec", "containers", "volumeMounts"]),
    Cut::at(&["spec", "initContainers", "args"]),
    Cut::at(&["spec", "initContainers", "command"]),
    Cut::at(&["spec", "initContainers", "env"]),
    Cut::at(&["spec", "initContainers", "envFrom"]),
    Cut::at(&["spec", "initContainers", "securityContext"]),
    Cut::at(&["spec", "initContainers", "volumeMounts"]),
    Cut::at(&["status", "containerStatuses", "volumeMounts"]),
    Cut::at(&["status", "initContainerStatuses", "volumeMounts"]),
    Cut::at(&["status", "ephemeralContainerStatuses"]),
    Cut::at(&[
        "status",
        "containerStatuses",
        "state",
        "terminated",
        "message",
    ]),
    Cut::at(&["status", "containerStatuses", "state", "waiting", "message"]),
    Cut::at(&[
        "status",
        "containerStatuses",
        "lastState",
        "terminated",
        "message",
    ]),
];

/// Of predictions by the numbers in them: what is written in words.
pub(crate) const PREDICTED_METRICS: &[Cut] = &[
    MANAGED_FIELDS,
    ANNOTATIONS,
    Cut::at(&["status", "conditions"]),
];

/// Of pods by their labels: everything else.
pub(crate) const LABELLED_PODS: &[Cut] = &[
    MANAGED_FIELDS,
    ANNOTATIONS,
    Cut::at(&["spec"]),
    Cut::but(&["status"], &["phase"]),
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
        for cuts in all
            .into_iter()
            .chain([LABELLED_PODS, UNLABELLED_CONTROLLERS])
        {
            assert!(cuts.len() <= 32, "{cuts:?}");
        }
    }
}
