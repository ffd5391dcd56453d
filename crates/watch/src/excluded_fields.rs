//! The fields of each kind of object that no decision reads, left out before parsing.
//!
//! A field that is missing here is read and counts towards the weight of an object, so an
//! incomplete list costs memory but never changes a decision.

use view::ANNOTATION_PREFIXES;

use crate::splitter::ExcludedField;

/// Declares lists of excluded fields. A row has the path of a map, and its entries that are left out
/// (`only`), or the prefixes of those that stay (`all_but`).
macro_rules! excluded {
    ($($(#[$doc:meta])* $NAME:ident { $($kind:ident $($part:ident).*: $names:tt;)* })*) => {$(
        $(#[$doc])*
        pub(crate) const $NAME: &[ExcludedField] = &[$(
            excluded!(@$kind &[$(stringify!($part)),*], $names)
        ),*];
    )*};
    (@only $path:expr, [$($name:ident)*]) => {
        ExcludedField::only($path, &[$(stringify!($name)),*])
    };
    (@all_but $path:expr, ($keep:expr)) => {
        ExcludedField::all_but($path, $keep)
    };
}

/// Of full objects: kubectl's annotation with a copy of the whole object.
pub(crate) const WHOLE: &[ExcludedField] = &[
    ExcludedField::only(&["metadata"], &["managedFields"]),
    ExcludedField::only(
        &["metadata", "annotations"],
        &["kubectl.kubernetes.io/last-applied-configuration"],
    ),
];

excluded! {
    /// Of `VerticalPodAutoscaler` objects: annotations of other tools.
    VPAS {
        only metadata: [managedFields];
        all_but metadata.annotations: (&ANNOTATION_PREFIXES);
    }

    /// Of objects whose annotations change no decision.
    PLAIN {
        only metadata: [managedFields annotations];
    }

    /// Of checkpoints, whose annotations have histories. A write has to know whether there are any.
    CHECKPOINTS {
        only metadata: [managedFields];
    }

    /// Of objects with annotations of ours: the other annotations.
    OTHERS {
        only metadata: [managedFields];
        all_but metadata.annotations: (&["plimsoll.dev/"]);
    }

    /// Of `ConfigMap` objects: everything but the name, so that none is too large to be read.
    CONFIG_MAPS {
        all_but metadata: (&["name", "resourceVersion"]);
        only: [data binaryData];
    }

    /// Of HPAs reduced to their utilization targets: status, behavior, and annotations other than that
    /// of the EHPA that adopted them.
    HPA_TARGETS {
        only metadata: [managedFields labels];
        all_but metadata.annotations: (&["plimsoll.dev/adopted-by"]);
        only spec: [behavior];
        only: [status];
    }

    /// Of nodes reduced to their labels: everything else.
    NODE_LABELS {
        only metadata: [managedFields annotations];
        only: [spec status];
    }

    /// Of nodes: all of the status but their capacity.
    NODES {
        only status: [addresses];
        only metadata: [managedFields annotations];
        only status: [images conditions nodeInfo volumesInUse volumesAttached];
    }

    /// Of claims of nodes: requirements and conditions.
    NODE_CLAIMS {
        only metadata: [managedFields annotations];
        only spec: [requirements];
        only status: [conditions];
    }

    /// Of events about evicted pods: all but their annotations and the involved object.
    EVENTS {
        only metadata: [managedFields labels];
        all_but metadata.annotations: (&["offending_containers", "starved_resource"]);
        only: [message source related];
    }

    /// Of workload controllers: labels of the controller, and templates but for the labels of a
    /// `CronJob`'s pods.
    CONTROLLERS {
        only metadata: [labels];
        only metadata: [managedFields annotations];
        only spec: [template volumeClaimTemplates];
        only spec.jobTemplate: [metadata];
        only spec.jobTemplate.spec.template: [spec];
        only spec.jobTemplate.spec.template.metadata: [annotations];
    }

    /// Of workload controllers whose templates count: all but names and resources of containers.
    TEMPLATED_CONTROLLERS {
        only metadata: [managedFields annotations labels];
        only spec: [volumeClaimTemplates];
        only spec.template: [metadata];
        all_but spec.template.spec: (&["containers", "initContainers"]);
        all_but spec.template.spec.containers: (&["name", "resources"]);
        all_but spec.template.spec.initContainers: (&["name", "resources"]);
        only spec.jobTemplate: [metadata];
        only spec.jobTemplate.spec.template: [spec];
        only spec.jobTemplate.spec.template.metadata: [annotations];
    }

    /// Of `DaemonSet` objects whose templates count: all but scheduling constraints and resources.
    DAEMONS {
        only metadata: [managedFields annotations labels];
        only spec.template: [metadata];
        only spec.template.spec: [volumes];
        only spec.template.spec.containers: [args command env envFrom ports volumeMounts];
        only spec.template.spec.initContainers: [args command env envFrom volumeMounts];
        only status: [conditions];
    }

    /// Of pods: commands and probes of their containers, and annotations of other tools.
    PODS {
        only metadata: [managedFields];
        all_but metadata.annotations: (&ANNOTATION_PREFIXES);
        all_but spec.volumes:
            (&["name", "persistentVolumeClaim", "hostPath", "emptyDir", "ephemeral"]);
        only spec: [ephemeralContainers];
        only spec.containers: [
            args command env envFrom lifecycle livenessProbe ports readinessProbe securityContext
            startupProbe volumeMounts
        ];
        only spec.initContainers: [args command env envFrom securityContext volumeMounts];
        only status: [ephemeralContainerStatuses];
        only status.containerStatuses: [volumeMounts];
        only status.containerStatuses.state.terminated: [message];
        only status.containerStatuses.state.waiting: [message];
        only status.containerStatuses.lastState.terminated: [message];
        only status.initContainerStatuses: [volumeMounts];
    }

    /// Of pods on nodes: all but labels, owners, resources and conditions.
    BOUND_PODS {
        only metadata: [managedFields annotations];
        all_but spec: (&["containers", "initContainers", "nodeName", "overhead", "resources"]);
        all_but spec.containers: (&["name", "resources"]);
        all_but spec.initContainers: (&["name", "resources", "restartPolicy"]);
        all_but status: (&["conditions"]);
        only status.conditions: [message];
    }

    /// Of predictions reduced to their samples: annotations and conditions.
    PREDICTED_METRICS {
        only metadata: [managedFields annotations];
        only status: [conditions];
    }

    /// Of pods reduced to labels and phase: everything else.
    LABELLED_PODS {
        only metadata: [managedFields annotations];
        only: [spec];
        all_but status: (&["phase"]);
    }
}

/// [`NODES`] without the first entry: with the addresses.
pub(crate) const ADDRESSED_NODES: &[ExcludedField] = NODES.split_at(1).1;

/// [`CONTROLLERS`] without the first entry: with the labels of the controller.
pub(crate) const LABELLED_CONTROLLERS: &[ExcludedField] = CONTROLLERS.split_at(1).1;

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
