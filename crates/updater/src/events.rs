//! Kubernetes events about evictions and resizes, with upstream's reasons and texts.
//!
//! Events are written in the background, one after the other. One that cannot be written is
//! dropped.

mod reasons;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ObjectReference, Pod};
use kube::runtime::events::{Event, EventType, Recorder, Reporter};
use kube::{Client, Resource as _};
use rollout::{
    Action, ActionKind, ActionReason, PreemptionMethod, PreemptionPlan, QuickOomKill, REBALANCE,
    REPLACEMENT, Relocation, RollingUpdate, RollingUpdateRefusal,
};
use tokio::sync::mpsc;
use view::{ObjectKey, Vpa};

/// The source component of events, upstream's.
const CONTROLLER: &str = "vpa-updater";
/// The length of the queue. Further events are dropped.
const QUEUE_LENGTH: usize = 10_000;

/// An event to write.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct EventRecord {
    about: ObjectReference,
    kind: EventType,
    reason: &'static str,
    action: &'static str,
    note: String,
}

impl EventRecord {
    /// The events about an eviction, for the pod and for its VPA object.
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
        let QuickOomKill {
            container,
            ran_for,
            ended_at: _,
            request,
            limit,
            target,
        } = kill;
        let (event_action, verb) = match action.kind {
            ActionKind::Evict => ("Evict", "evict"),
            ActionKind::Resize { .. } => ("Resize", "resize"),
            ActionKind::RollingUpdate(_) => ("RollingUpdate", "replace"),
        };
        let note = format!(
            "Container {container} of Pod {} was OOM killed {}s after its start (memory request: {}, limit: {}). \
             VPA Updater will {verb} the Pod; new memory request: {}.",
            action.pod.name,
            ran_for.as_secs(),
            amount(request.as_ref()),
            amount(limit.as_ref()),
            amount(target.as_ref()),
        );
        [pod_reference(&action.pod, &action.pod_uid), vpa.reference()]
            .map(|about| Self::warning(about, reasons::OOM_KILLED, event_action, note.clone()))
    }

    /// The event about an in-place resize.
    pub(crate) fn resized(pod: &ObjectKey, uid: &str, changes: &str) -> Self {
        Self::normal(
            pod_reference(pod, uid),
            reasons::IN_PLACE_RESIZED_BY_VPA,
            "Resize",
            with_changes("Pod was resized in place by VPA Updater.", changes),
        )
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
        Self::normal(
            pod_reference(&preemption.pod, &preemption.pod_uid),
            reasons::MAKE_ROOM,
            "Evict",
            note,
        )
    }

    /// The event about a move to another node.
    pub(crate) fn moved(action: &Action, relocation: &Relocation) -> Self {
        let Relocation {
            from,
            to,
            load_percent,
            threshold_percent,
            gain,
            ..
        } = relocation;
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
        let about = pod_reference(pod, uid);
        Self::warning(
            about,
            reasons::INVALID_REBALANCE_ANNOTATION,
            "Rebalance",
            note,
        )
    }

    /// The events about a rolling update, for the Deployment and for the VPA object. `changes` are
    /// those of the pod that needs another size most urgently.
    pub(crate) fn rolled(update: &RollingUpdate, changes: &str, vpa: &Vpa) -> [Self; 2] {
        let name = &update.deployment.name;
        let note = format!(
            "VPA Updater began a rolling update of Deployment {name} to apply resource recommendation: {changes}."
        );
        [deployment_reference(update), vpa.reference()].map(|about| {
            Self::normal(
                about,
                reasons::ROLLING_UPDATE_BEGUN,
                "RollingUpdate",
                bounded(&note),
            )
        })
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
        Self::warning(
            vpa.reference(),
            reasons::ROLLING_UPDATE_INEFFECTIVE,
            "RollingUpdate",
            note,
        )
    }

    /// The event about an annotation of a VPA object that asks for no valid replacement of pods.
    pub(crate) fn invalid_replacement(vpa: &Vpa) -> Self {
        let note = format!(
            "The annotation {REPLACEMENT} must be \"Eviction\", or \"RollingUpdate\" with pods of a Deployment of the API group apps. \
             Pods are not evicted."
        );
        Self::warning(
            vpa.reference(),
            reasons::INVALID_REPLACEMENT_ANNOTATION,
            "RollingUpdate",
            note,
        )
    }

    /// The event about memory that is restored after an OOM kill.
    pub(crate) fn reverted(pod: &ObjectKey, uid: &str) -> Self {
        let note = "Pod was OOM killed after VPA Updater reduced its memory; the previous memory is restored and kept.";
        Self::warning(
            pod_reference(pod, uid),
            reasons::RESIZE_REVERTED,
            "Resize",
            note,
        )
    }

    /// The event about a resize that is known to be infeasible on the pod's node.
    pub(crate) fn resize_skipped(pod: &ObjectKey, uid: &str) -> Self {
        let note = "Previously recorded in-place update was infeasible, current recommendation is not lower than previous, skipping resize";
        Self::normal(
            pod_reference(pod, uid),
            reasons::IN_PLACE_RESIZE_SKIPPED,
            "Resize",
            note,
        )
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
    ObjectReference {
        api_version: Some(Deployment::api_version(&()).into_owned()),
        kind: Some(Deployment::kind(&()).into_owned()),
        namespace: Some(update.deployment.namespace.clone()),
        name: Some(update.deployment.name.clone()),
        uid: Some(update.uid.clone()),
        ..ObjectReference::default()
    }
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

fn pod_reference(pod: &ObjectKey, uid: &str) -> ObjectReference {
    ObjectReference {
        api_version: Some(Pod::api_version(&()).into_owned()),
        kind: Some(Pod::kind(&()).into_owned()),
        namespace: Some(pod.namespace.clone()),
        name: Some(pod.name.clone()),
        uid: Some(uid.to_owned()),
        ..ObjectReference::default()
    }
}

/// The queue of events to write. Clones share it.
#[derive(Debug, Clone)]
pub(crate) struct EventQueue(mpsc::Sender<EventRecord>);

impl EventQueue {
    /// The queue, and the future that writes its events. `client` should have a throttle of its
    /// own.
    pub(crate) fn new(client: Client) -> (Self, impl Future<Output = ()> + Send) {
        let (queue, mut records) = mpsc::channel::<EventRecord>(QUEUE_LENGTH);
        let events = Recorder::new(
            client,
            Reporter {
                controller: CONTROLLER.to_owned(),
                instance: None,
            },
        );
        let writing = async move {
            while let Some(EventRecord {
                about,
                kind,
                reason,
                action,
                note,
            }) = records.recv().await
            {
                let event = Event {
                    type_: kind,
                    reason: reason.to_owned(),
                    note: Some(note),
                    action: action.to_owned(),
                    secondary: None,
                };
                if let Err(error) = events.publish(&event, &about).await {
                    tracing::debug!(name = about.name, reason, %error, "cannot write event");
                }
            }
        };
        (Self(queue), writing)
    }

    /// Enqueues an event, or drops it if the queue is full.
    pub(crate) fn push(&self, record: EventRecord) {
        if self.0.try_send(record).is_err() {
            tracing::debug!("event queue is full; dropping event");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use rollout::ActionReason;
    use serde_json::json;

    use super::*;
    use crate::fixture;

    #[test]
    fn an_oom_kill_is_recorded_with_its_numbers_on_the_pod_and_its_vpa_object() {
        let vpa = fixture::vpa(&json!({}));
        let kill = QuickOomKill {
            container: "app".to_owned(),
            ran_for: Duration::from_millis(29_500),
            ended_at: "2026-01-01T11:59:59Z".parse().expect("a time"),
            request: "100Mi".parse().ok(),
            limit: None,
            target: "300Mi".parse().ok(),
        };
        let action = fixture::eviction(ActionReason::QuickOom);
        let [pod, object] = EventRecord::oom_killed(&action, &kill, &vpa);
        let uids = [&pod, &object].map(|event| event.about.uid.as_deref());
        assert_eq!(uids, [Some("uid-0"), Some("of-web")]);
        assert_eq!((pod.reason, pod.action), ("OOMKilled", "Evict"));
        assert_eq!(pod.note, object.note);
        assert_eq!(
            pod.note,
            "Container app of Pod web-0 was OOM killed 29s after its start (memory request: 100Mi, limit: none). \
             VPA Updater will evict the Pod; new memory request: 300Mi."
        );
    }

    #[test]
    fn a_move_is_recorded_with_the_load_the_threshold_and_the_expected_node() {
        let relocation = Relocation {
            from: "n1".to_owned(),
            to: "n2".to_owned(),
            load_percent: 91.4,
            threshold_percent: 80.0,
            gain: 42,
            load: placement::Amounts::default(),
            owner_uid: "uid-web".to_owned(),
        };
        for (reason, expected) in [
            (
                ActionReason::HotNode,
                "Node n1 is hot: its utilization is 91%, the threshold is 80%. Pod was evicted; node n2 has a \
                 score that is better by 42, and the scheduler decides.",
            ),
            (
                ActionReason::FragmentedNode,
                "Node n1 is emptied: its utilization of 91% and its requests are below 80%. Pod was evicted; \
                 node n2 has a score that is better by 42, and the scheduler decides.",
            ),
        ] {
            let event = EventRecord::moved(&fixture::eviction(reason), &relocation);
            assert_eq!(event.reason, "EvictedForRebalancing");
            assert_eq!(event.note, expected);
        }
    }

    #[test]
    fn a_rolling_update_is_recorded_on_the_deployment_and_the_vpa_object() {
        let vpa = fixture::vpa(&json!({}));
        let update = RollingUpdate {
            deployment: ObjectKey::new("shop", "web"),
            uid: "uid-web".to_owned(),
        };
        let changes = "app cpu request 100m -> 320m: below lower bound 300m";
        let events = EventRecord::rolled(&update, changes, &vpa);
        let about = |event: &EventRecord| (event.about.kind.clone(), event.about.uid.clone());
        let text = |text: &str| Some(text.to_owned());
        assert_eq!(about(&events[0]), (text("Deployment"), text("uid-web")));
        assert_eq!(about(&events[1]).1, text("of-web"));
        let note = format!(
            "VPA Updater began a rolling update of Deployment web to apply resource recommendation: {changes}."
        );
        assert!(events.iter().all(|event| event.note == note));
        let [long, _] = EventRecord::rolled(&update, &"ä".repeat(2000), &vpa);
        assert!(long.note.len() <= 1024 && long.note.ends_with("ä..."));
    }

    #[test]
    fn a_refusal_that_only_the_user_can_end_is_a_warning() {
        let vpa = fixture::vpa(&json!({}));
        let update = RollingUpdate {
            deployment: ObjectKey::new("shop", "web"),
            uid: "uid-web".to_owned(),
        };
        for refusal in RollingUpdateRefusal::ALL {
            let event = EventRecord::roll_refused(&update, refusal, &vpa);
            let ends_itself = matches!(
                refusal,
                RollingUpdateRefusal::RolloutInProgress | RollingUpdateRefusal::TooSoon
            );
            assert_eq!(event.kind == EventType::Normal, ends_itself, "{refusal:?}");
            assert!(event.note.contains(&refusal.to_string()), "{}", event.note);
        }
    }

    #[test]
    fn pods_of_other_namespaces_are_not_named() {
        let [own, other] = ["web-1", "web-2"].map(|name| ObjectKey::new("shop", name));
        let (vault, pay) = (
            ObjectKey::new("bank", "vault-0"),
            ObjectKey::new("hr", "pay-1"),
        );
        for (pods, expected) in [
            (vec![own.clone(), other], "shop/web-1, shop/web-2"),
            (vec![vault.clone()], "a pod of another namespace"),
            (
                vec![vault, own, pay],
                "shop/web-1, 2 pods of other namespaces",
            ),
        ] {
            assert_eq!(evicted(&pods, "shop"), expected);
        }
    }

    #[test]
    fn changes_follow_the_sentence_within_the_limit() {
        assert_eq!(with_changes("Resized.", ""), "Resized.");
        assert_eq!(with_changes("Resized.", "a 1 -> 2"), "Resized. a 1 -> 2.");
        assert_eq!(with_changes("Resized.", &"a".repeat(2000)).len(), 1024);
    }
}
