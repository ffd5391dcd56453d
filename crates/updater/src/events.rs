//! Kubernetes events about evictions and resizes, with upstream's reasons and texts.
//!
//! Events are written in the background, one after the other. One that cannot be written is
//! dropped.

mod reasons;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ObjectReference, Pod};
use kube::Client;
use kube::runtime::events::{Event, EventType, Recorder};
use model::WHOLE_POD;
use rollout::{
    Action, ActionKind, ActionReason, PreemptionMethod, PreemptionPlan, QuickOomKill, REBALANCE,
    REPLACEMENT, Refutation, RefutationCause, Relocation, RollingUpdate, RollingUpdateRefusal,
};
use runtime::object_writer::reference;
use tokio::sync::mpsc;
use view::{ObjectKey, Vpa};

/// The source component of events, upstream's.
const CONTROLLER: &str = "vpa-updater";
/// The length of the queue. Further events are dropped.
const QUEUE_LENGTH: usize = 10_000;

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct EventRecord {
    about: ObjectReference,
    kind: EventType,
    reason: &'static str,
    action: &'static str,
    note: String,
}

impl EventRecord {
    pub(crate) fn evicted(pod: &ObjectKey, uid: &str, changes: &str, vpa: &Vpa) -> [Self; 2] {
        let note = "Pod was evicted by VPA Updater to apply resource recommendation.";
        let of_vpa = format!(
            "VPA Updater evicted Pod {} to apply resource recommendation.",
            pod.name
        );
        let (note, of_vpa) = (with_changes(note, changes), with_changes(&of_vpa, changes));
        let about = pod_reference(pod, uid);
        [
            Self::normal(about, reasons::EVICTED_BY_VPA, "Evict", note),
            Self::normal(vpa.reference(), reasons::EVICTED_POD, "Evict", of_vpa),
        ]
    }

    /// The events about an OOM kill soon after the container's start, which `action` answers, for
    /// the pod and for its VPA object.
    pub(crate) fn oom_killed(action: &Action, kill: &QuickOomKill, vpa: &Vpa) -> [Self; 2] {
        let (event_action, verb) = match action.kind {
            ActionKind::Evict => ("Evict", "evict"),
            ActionKind::Resize { .. } => ("Resize", "resize"),
            ActionKind::RollingUpdate(_) => ("RollingUpdate", "replace"),
        };
        let note = format!(
            "{} was OOM killed {}s after its start (memory request: {}, limit: {}). \
             VPA Updater will {verb} the Pod; new memory request: {}.",
            container_of("Container", &kill.container, &action.pod),
            kill.ran_for.as_secs(),
            amount(kill.request.as_ref()),
            amount(kill.limit.as_ref()),
            amount(kill.target.as_ref()),
        );
        [pod_reference(&action.pod, &action.pod_uid), vpa.reference()]
            .map(|about| Self::warning(about, reasons::OOM_KILLED, event_action, note.clone()))
    }

    pub(crate) fn resized(pod: &ObjectKey, uid: &str, changes: &str) -> Self {
        let note = with_changes("Pod was resized in place by VPA Updater.", changes);
        let (about, reason) = (pod_reference(pod, uid), reasons::IN_PLACE_RESIZED_BY_VPA);
        Self::normal(about, reason, "Resize", note)
    }

    /// The event about a pending resize, and the evictions that make room for it. With `executes`
    /// they are carried out.
    pub(crate) fn preemption(preemption: &PreemptionPlan, executes: bool) -> Self {
        let consequence = match &preemption.method {
            PreemptionMethod::Victims(pods) => {
                let verb = if executes { "to" } else { "would" };
                let pods = evicted(pods, &preemption.pod.namespace);
                format!("evicting {pods} {verb} free them.")
            }
            PreemptionMethod::Itself => {
                let verb = if executes { "is" } else { "would be" };
                format!("the Pod {verb} evicted.")
            }
        };
        let note = format!("Node lacks resources for the deferred resize; {consequence}");
        let about = pod_reference(&preemption.pod, &preemption.pod_uid);
        Self::normal(about, reasons::MAKE_ROOM, "Evict", note)
    }

    /// The event about a move to another node.
    pub(crate) fn moved(action: &Action, relocation: &Relocation) -> Self {
        let (from, to, gain) = (&relocation.from, &relocation.to, relocation.gain);
        let (load_percent, threshold_percent) =
            (relocation.load_percent, relocation.threshold_percent);
        let cause = if action.reason == ActionReason::FragmentedNode {
            format!(
                "Node {from} is emptied: its utilization of {load_percent:.0}% and its requests are below {threshold_percent}%"
            )
        } else {
            format!(
                "Node {from} is hot: its utilization is {load_percent:.0}%, the threshold is {threshold_percent}%"
            )
        };
        let note = format!(
            "{cause}. Pod was evicted; node {to} has a score that is better by {gain}, and the scheduler decides."
        );
        let about = pod_reference(&action.pod, &action.pod_uid);
        Self::normal(about, reasons::EVICTED_FOR_REBALANCING, "Evict", note)
    }

    /// The event about an annotation of rebalancing that is neither `true` nor `false`.
    pub(crate) fn invalid_annotation(pod: &ObjectKey, uid: &str) -> Self {
        let note = format!(
            "The annotation {REBALANCE} of the Pod, or else of its namespace, must be \"true\" or \"false\". \
             The Pod is not moved."
        );
        let (about, reason) = (
            pod_reference(pod, uid),
            reasons::INVALID_REBALANCE_ANNOTATION,
        );
        Self::warning(about, reason, "Rebalance", note)
    }

    /// The events about a rolling update, for the Deployment and for the VPA object. `changes` are
    /// those of the pod that needs another size most urgently.
    pub(crate) fn rolled(update: &RollingUpdate, changes: &str, vpa: &Vpa) -> [Self; 2] {
        let name = &update.deployment.name;
        let note = format!(
            "VPA Updater began a rolling update of Deployment {name} to apply resource recommendation: {changes}."
        );
        let (reason, note) = (reasons::ROLLING_UPDATE_BEGUN, bounded(&note));
        [deployment_reference(update), vpa.reference()]
            .map(|about| Self::normal(about, reason, "RollingUpdate", note.clone()))
    }

    /// The event about a Deployment that gets no rolling update now.
    pub(crate) fn roll_refused(
        update: &RollingUpdate,
        refusal: RollingUpdateRefusal,
        vpa: &Vpa,
    ) -> Self {
        let name = &update.deployment.name;
        let note = format!(
            "Deployment {name} gets no rolling update to apply resource recommendation: {refusal}. Its pods are not evicted."
        );
        let event = match refusal {
            RollingUpdateRefusal::RolloutInProgress | RollingUpdateRefusal::TooSoon => Self::normal,
            _ => Self::warning,
        };
        let reason = reasons::ROLLING_UPDATE_REFUSED;
        event(vpa.reference(), reason, "RollingUpdate", note)
    }

    /// The event about a rolling update whose pods do not have the recommended size.
    pub(crate) fn roll_ineffective(vpa: &Vpa) -> Self {
        let note = "The last rolling update did not bring the recommended size to new pods; the next one is delayed. Check the admission webhook.";
        let reason = reasons::ROLLING_UPDATE_INEFFECTIVE;
        Self::warning(vpa.reference(), reason, "RollingUpdate", note)
    }

    /// The event about an annotation of a VPA object that asks for no valid replacement of pods.
    pub(crate) fn invalid_replacement(vpa: &Vpa) -> Self {
        let note = format!(
            "The annotation {REPLACEMENT} must be \"Eviction\", or \"RollingUpdate\" with pods of a Deployment of the API group apps. \
             Pods are not evicted."
        );
        let reason = reasons::INVALID_REPLACEMENT_ANNOTATION;
        Self::warning(vpa.reference(), reason, "RollingUpdate", note)
    }

    pub(crate) fn reverted(pod: &ObjectKey, uid: &str) -> Self {
        let note = "Pod was OOM killed after VPA Updater reduced its memory; the previous memory is restored and kept.";
        let about = pod_reference(pod, uid);
        Self::warning(about, reasons::RESIZE_REVERTED, "Resize", note)
    }

    /// The events about an act whose effect did not come about, for the pod and for its VPA object.
    pub(crate) fn act_refuted(refutation: &Refutation, vpa: &Vpa) -> [Self; 2] {
        let observed = match refutation.cause {
            RefutationCause::OomKill => "was OOM killed again",
            RefutationCause::ContainerStopped => {
                "was stopped at the resize, so the cgroup of the Pod keeps the old limit"
            }
        };
        let note = format!(
            "The last {} had no effect: {} {observed} (memory limit: {}). Next act: {}.",
            refutation.act.as_str(),
            container_of("container", &refutation.container, &refutation.pod),
            amount(refutation.limit.as_ref()),
            refutation.next.as_str(),
        );
        [
            pod_reference(&refutation.pod, &refutation.pod_uid),
            vpa.reference(),
        ]
        .map(|about| Self::warning(about, reasons::ACT_REFUTED, "Resize", note.clone()))
    }

    /// The event about a recommendation with which pods got worse.
    pub(crate) fn rolled_back(vpa: &Vpa, problem: &str) -> Self {
        let note = format!(
            "The recommendation was rolled back, and pods get their former requests: {problem}"
        );
        let reason = reasons::ROLLED_BACK;
        Self::warning(vpa.reference(), reason, "RollBack", bounded(&note))
    }

    /// The event about a resize that is known to be infeasible on the pod's node.
    pub(crate) fn resize_skipped(pod: &ObjectKey, uid: &str) -> Self {
        let note = "Previously recorded in-place update was infeasible, current recommendation is not lower than previous, skipping resize";
        let (about, reason) = (pod_reference(pod, uid), reasons::IN_PLACE_RESIZE_SKIPPED);
        Self::normal(about, reason, "Resize", note)
    }

    fn warning(
        about: ObjectReference,
        reason: &'static str,
        action: &'static str,
        note: impl Into<String>,
    ) -> Self {
        Self {
            kind: EventType::Warning,
            ..Self::normal(about, reason, action, note)
        }
    }

    fn normal(
        about: ObjectReference,
        reason: &'static str,
        action: &'static str,
        note: impl Into<String>,
    ) -> Self {
        Self {
            about,
            kind: EventType::Normal,
            reason,
            action,
            note: note.into(),
        }
    }
}

fn deployment_reference(update: &RollingUpdate) -> ObjectReference {
    let ObjectKey { namespace, name } = &update.deployment;
    reference::<Deployment>(namespace, name, &update.uid)
}

/// Upstream's sentence with the changes of requests, if there are any.
fn with_changes(sentence: &str, changes: &str) -> String {
    if changes.is_empty() {
        sentence.to_owned()
    } else {
        bounded(&format!("{sentence} {changes}."))
    }
}

/// A note within the API server's limit of 1024 bytes.
fn bounded(note: &str) -> String {
    const MAX_BYTES: usize = 1024;
    if note.len() <= MAX_BYTES {
        return note.to_owned();
    }
    let end = note.floor_char_boundary(MAX_BYTES - 3);
    format!("{}...", &note[..end])
}

fn amount(quantity: Option<&impl ToString>) -> String {
    quantity.map_or("none".to_owned(), ToString::to_string)
}

/// The names of the pods of `namespace`, and the number of others, which its users may not see.
fn evicted(pods: &[ObjectKey], namespace: &str) -> String {
    let (own, others): (Vec<_>, Vec<_>) = pods.iter().partition(|pod| pod.namespace == namespace);
    let others = match others.len() {
        0 => None,
        1 => Some("a pod of another namespace".to_owned()),
        count => Some(format!("{count} pods of other namespaces")),
    };
    own.into_iter()
        .map(ToString::to_string)
        .chain(others)
        .collect::<Vec<_>>()
        .join(", ")
}

/// A container of a pod, or the pod that is sized as a whole, in a text.
fn container_of(word: &str, container: &str, pod: &ObjectKey) -> String {
    let pod = &pod.name;
    if container == WHOLE_POD {
        return format!("Pod {pod}");
    }
    format!("{word} {container} of Pod {pod}")
}

fn pod_reference(pod: &ObjectKey, uid: &str) -> ObjectReference {
    reference::<Pod>(&pod.namespace, &pod.name, uid)
}

/// The queue of events to write. Clones share it.
#[derive(Debug, Clone)]
pub(crate) struct EventQueue(mpsc::Sender<EventRecord>);

impl EventQueue {
    /// The queue, and the future that writes its events. `client` should have a throttle of its
    /// own.
    pub(crate) fn new(client: Client) -> (Self, impl Future<Output = ()> + Send) {
        let (queue, mut records) = mpsc::channel::<EventRecord>(QUEUE_LENGTH);
        let events = Recorder::new(client, CONTROLLER.to_owned().into());
        let writing = async move {
            while let Some(record) = records.recv().await {
                let (about, reason) = (record.about, record.reason);
                let event = Event {
                    type_: record.kind,
                    reason: reason.to_owned(),
                    note: Some(record.note),
                    action: record.action.to_owned(),
                    secondary: None,
                };
                if let Err(error) = events.publish(&event, &about).await {
                    tracing::debug!(name = about.name, reason, %error, "cannot write event");
                }
            }
        };
        (Self(queue), writing)
    }

    /// Enqueues events, and drops those for which the queue has no room.
    pub(crate) fn push(&self, records: impl IntoIterator<Item = EventRecord>) {
        for record in records {
            if self.0.try_send(record).is_err() {
                tracing::debug!("event queue is full; dropping event");
            }
        }
    }
}

#[cfg(test)]
mod tests;
