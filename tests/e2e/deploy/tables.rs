//! Rights of the programs and of the components, as the documents of the architecture grant them.

use std::collections::BTreeSet;

use anyhow::{Context as _, Result};

/// Program, then every right that it has without components, as `verbs group/resources [names]`. The
/// recommender writes VPA status, VPA checkpoints, Events, its Lease and the certificates of the
/// feed, by its components what sizing policies and EHPAs ask for, and never a pod. The updater
/// evicts, resizes and annotates pods, writes Events and its Lease, by its component annotates pod
/// templates of Deployments, and of a VPA writes the annotation of a rollback only. The webhook writes
/// its registration, its certificates, its heartbeat and Events, and never a pod. The adapter writes
/// its certificates, the authorities in its own `APIService` objects and Events about these, and asks
/// for reviews of its callers.
pub(super) const RIGHTS: &str = "\
adapter
  get */*/scale
  list,watch /pods
  create,get,patch /secrets [plimsoll-adapter-certificates]
  get,patch apiregistration.k8s.io/apiservices [v1beta1.custom.metrics.k8s.io]
  get,patch apiregistration.k8s.io/apiservices [v1beta1.external.metrics.k8s.io]
  get,patch apiregistration.k8s.io/apiservices [v1beta2.custom.metrics.k8s.io]
  list,watch apps/deployments,statefulsets
  create authentication.k8s.io/tokenreviews
  create authorization.k8s.io/subjectaccessreviews
  list,watch autoscaling.crane.io/effectivehorizontalpodautoscalers
  create,patch events.k8s.io/events
  list,watch prediction.crane.io/timeseriespredictions
recommender
  get */*/scale
  list,watch /events,pods,replicationcontrollers
  create,get,patch /secrets [plimsoll-adapter-feed-tls]
  create,get,patch /secrets [plimsoll-feed-certificates]
  create,get,patch /secrets [plimsoll-recommender-feed-tls]
  create,get,patch /secrets [plimsoll-updater-feed-tls]
  create,get,patch /secrets [plimsoll-webhook-feed-tls]
  list,watch apps/daemonsets,deployments,replicasets,statefulsets
  create,delete,list,patch,watch autoscaling.k8s.io/verticalpodautoscalercheckpoints
  get,list,watch autoscaling.k8s.io/verticalpodautoscalers
  patch autoscaling.k8s.io/verticalpodautoscalers/status
  list,watch autoscaling/horizontalpodautoscalers
  list,watch batch/cronjobs,jobs
  create,list coordination.k8s.io/leases
  get,update,watch coordination.k8s.io/leases [vpa-recommender-lease]
  create,patch events.k8s.io/events
  list metrics.k8s.io/pods
updater
  get */*/scale
  list,watch /configmaps [plimsoll-stop]
  list,watch /limitranges,namespaces,nodes,replicationcontrollers,resourcequotas
  list,patch,watch /pods
  create /pods/eviction
  patch /pods/resize
  list,watch apps/daemonsets,deployments,replicasets,statefulsets
  list,patch,watch autoscaling.k8s.io/verticalpodautoscalers
  list,watch batch/cronjobs,jobs
  create,list coordination.k8s.io/leases
  list,watch coordination.k8s.io/leases [vpa-admission-controller]
  get,update,watch coordination.k8s.io/leases [vpa-updater]
  create,patch events.k8s.io/events
  list,watch policy/poddisruptionbudgets
webhook
  get */*/scale
  list,watch /limitranges,replicationcontrollers
  create,get,patch /secrets [vpa-tls-certs]
  list admissionregistration.k8s.io/mutatingwebhookconfigurations
  create,delete,get,patch admissionregistration.k8s.io/mutatingwebhookconfigurations [vpa-webhook-config]
  list,watch apps/daemonsets,deployments,replicasets,statefulsets
  list,watch autoscaling.k8s.io/verticalpodautoscalers
  list,watch batch/cronjobs,jobs
  create coordination.k8s.io/leases
  get,update,watch coordination.k8s.io/leases [vpa-admission-controller-registration]
  get,update coordination.k8s.io/leases [vpa-admission-controller]
  list discovery.k8s.io/endpointslices
  create events.k8s.io/events
  get rbac.authorization.k8s.io/clusterroles [plimsoll-webhook]
";

/// Component, then every right that it brings, as `verbs group/resources [names]`, and after `->` the
/// accounts that get a role by it.
pub(super) const COMPONENTS: &str = "\
extender
  list,watch /nodes,pods,replicationcontrollers
  create,get,patch /secrets [plimsoll-extender-certificates]
  list,watch apps/daemonsets,deployments,replicasets,statefulsets
  list,watch autoscaling.k8s.io/verticalpodautoscalers
  list,watch batch/cronjobs,jobs
  create events.k8s.io/events
  list metrics.k8s.io/nodes
  list,watch prediction.crane.io/timeseriespredictions
  -> plimsoll-extender: plimsoll-system/plimsoll-extender
horizontal
  list,watch /namespaces
  get,list,watch autoscaling.crane.io/effectivehorizontalpodautoscalers
  update autoscaling.crane.io/effectivehorizontalpodautoscalers/finalizers
  patch autoscaling.crane.io/effectivehorizontalpodautoscalers/status,substitutes/status
  create,delete,get,list,update,watch autoscaling.crane.io/substitutes
  create,delete,get,list,update,watch autoscaling/horizontalpodautoscalers
  create,delete,get,list,update,watch prediction.crane.io/timeseriespredictions
  patch prediction.crane.io/timeseriespredictions/status
  -> plimsoll-recommender-horizontal: plimsoll-system/plimsoll-recommender
keda-certificates
  get /secrets [kedaorg-certs]
  -> plimsoll-adapter-upstream-certificates: plimsoll-system/plimsoll-adapter
metric-routes
  -> plimsoll-metrics-reader: plimsoll-system/plimsoll-adapter
node-capacity
  list,watch /configmaps [cluster-autoscaler-status]
  list,watch karpenter.sh/nodeclaims,nodepools
  -> plimsoll-recommender-node-capacity: plimsoll-system/plimsoll-recommender
node-groups
  list,watch /nodes
  -> plimsoll-webhook-node-groups: plimsoll-system/plimsoll-webhook
rolling-updates
  get,patch apps/deployments
  -> plimsoll-updater-rolling-updates: plimsoll-system/plimsoll-updater
rules
  get /configmaps [plimsoll-adapter-rules]
  list /nodes,services
  list,watch /pods
  -> plimsoll-adapter-rules: plimsoll-system/plimsoll-adapter
  -> plimsoll-recommender-rules: plimsoll-system/plimsoll-recommender
schedulable
  list,watch /limitranges,nodes,resourcequotas
  -> plimsoll-recommender-schedulable: plimsoll-system/plimsoll-recommender
scheduler
  create coordination.k8s.io/leases
  get,update coordination.k8s.io/leases [plimsoll-scheduler]
  -> extension-apiserver-authentication-reader: plimsoll-system/plimsoll-scheduler
  -> plimsoll-scheduler: plimsoll-system/plimsoll-scheduler
  -> system:kube-scheduler: plimsoll-system/plimsoll-scheduler
  -> system:volume-scheduler: plimsoll-system/plimsoll-scheduler
sizing-policies
  list,watch /limitranges,namespaces,nodes,resourcequotas
  create,delete,patch autoscaling.k8s.io/verticalpodautoscalers
  list,watch plimsoll.dev/clustersizingpolicies,sizingpolicies
  patch plimsoll.dev/clustersizingpolicies/status,sizingpolicies/status
  -> plimsoll-recommender-sizing-policies: plimsoll-system/plimsoll-recommender
specific-replicas
  patch */*/scale
  -> plimsoll-recommender-specific-replicas: plimsoll-system/plimsoll-recommender
";

/// API groups and resources of the components of the recommender: without them it may not even read these.
pub(super) const OPTIONAL: [&str; 6] = [
    " autoscaling.crane.io/",
    "get autoscaling/",
    " plimsoll.dev/",
    " prediction.crane.io/",
    " /namespaces",
    " /nodes",
];

pub(super) fn sections(table: &'static str) -> Vec<(&'static str, Vec<&'static str>)> {
    let mut sections: Vec<(&str, Vec<&str>)> = Vec::new();
    for line in table.lines() {
        match (line.strip_prefix("  "), sections.last_mut()) {
            (Some(line), Some((_, lines))) => lines.push(line),
            _ => sections.push((line, Vec::new())),
        }
    }
    sections
}

/// Each single right of lines of `verbs group/resources [names]`, whose lists have commas.
pub(super) fn expand(lines: &[&str]) -> Result<BTreeSet<String>> {
    let mut rights = BTreeSet::new();
    for line in lines {
        let (objects, names) = line.split_once(" [").unwrap_or((line, ""));
        let (verbs, objects) = objects.split_once(' ').context("no verbs")?;
        let (group, resources) = objects.split_once('/').context("no group")?;
        for verb in verbs.split(',') {
            for resource in resources.split(',') {
                let right = format!("{verb} {group}/{resource}");
                match names.strip_suffix(']') {
                    Some(names) => {
                        rights.extend(names.split(',').map(|name| format!("{right} [{name}]")));
                    }
                    None => drop(rights.insert(right)),
                }
            }
        }
    }
    Ok(rights)
}
