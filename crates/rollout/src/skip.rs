//! Pods that want another size and do not get it now, and the reasons.

use sizing::Refusal;
use view::ObjectKey;

/// A pod that wants another size and does not get it now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Skip {
    pub vpa: ObjectKey,
    pub pod: ObjectKey,
    pub reason: SkipReason,
}

/// The reasons for which a pod does not get another size now. The table below has their texts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SkipReason {
    TooFewReplicas,
    EvictionTolerance,
    DisruptionBudget,
    /// The API server refuses the eviction of a pod that more than one budget covers.
    MultipleBudgets,
    BackingOff,
    /// Clients that poll must see the OOM kill in the pod's status.
    RecentOomKill,
    EvictionIneffective,
    WebhookNotCalled,
    Paced,
    Wave,
    HealthUnknown,
    Settling,
    EvictionRequirements,
    /// The same resize, or a smaller one, was infeasible on this node or on one of equal capacity.
    KnownInfeasible,
    ResizePending,
    MemoryInUse,
    QosClass,
    ResizeRejected,
    /// An eviction would not help against a quota, a policy or a missing right.
    ResizeForbidden,
    RecentlyReverted,
    RollingUpdatePending,
    RollingUpdateRefused,
    RollingUpdateIneffective,
    /// The resize of a stopped container would not reach the pod's cgroup.
    ContainerStopped,
    /// No act can help before the target changes.
    OomKilledAtTarget,
    /// The API server would refuse the recommended size, so that the webhook leaves the present one.
    Refused(Refusal),
    /// The annotation also is invalid if it asks for a rolling update of pods without a Deployment.
    InvalidReplacement,
}

/// The texts of skip reasons. A row is a reason of the condition `Applied`; then, for each skip reason
/// that it stands for, the label of metrics and the part of a sentence after the number of pods.
macro_rules! texts {
    ($(
        $(#[$doc:meta])+
        const $REASON:ident: &str = $reason:literal;
        $($Variant:ident $(($refusal:ident))? $label:literal $text:literal;)+
    )*) => {
        $($(#[$doc])+ const $REASON: &str = $reason;)*

        impl SkipReason {
            pub const ALL: [Self; 30] = [$($(Self::$Variant $((Refusal::$refusal))?,)+)*];

            /// Label of metrics, reason of the condition, and part of its message.
            const fn texts(self) -> [&'static str; 3] {
                match self {
                    $($(Self::$Variant $((Refusal::$refusal))? => [$label, $REASON, $text],)+)*
                }
            }
        }
    };
}

texts! {
    /// Reason of `Applied` of a VPA: fewer live pods than `minReplicas` or `--min-replicas`.
    const TOO_FEW_REPLICAS: &str = "TooFewReplicas";
    TooFewReplicas "too_few_replicas"
        "fewer live pods than minReplicas of the object or --min-replicas";
    /// Reason of `Applied` of a VPA: the eviction tolerance is used up.
    const EVICTION_TOLERANCE: &str = "EvictionTolerance";
    EvictionTolerance "eviction_tolerance" "the eviction tolerance is used up by other pods";
    /// Reason of `Applied` of a VPA: a `PodDisruptionBudget` allows no disruption.
    const DISRUPTION_BUDGET: &str = "DisruptionBudget";
    DisruptionBudget "disruption_budget" "a PodDisruptionBudget allows no disruption";
    /// Reason of `Applied` of a VPA: several `PodDisruptionBudget`s select the pod.
    const MULTIPLE_DISRUPTION_BUDGETS: &str = "MultipleDisruptionBudgets";
    MultipleBudgets "several_budgets" "several PodDisruptionBudgets select the pod";
    /// Reason of `Applied` of a VPA: refused before, tried again later.
    const BACKING_OFF: &str = "BackingOff";
    BackingOff "backing_off" "refused before, tried again later";
    /// Reason of `Applied` of a VPA: OOM-killed less than a second ago.
    const RECENT_OOM_KILL: &str = "RecentOomKill";
    RecentOomKill "recent_oom_kill" "OOM killed less than a second ago";
    /// Reason of `Applied` of a VPA: earlier evictions did not change the requests.
    const EVICTION_INEFFECTIVE: &str = "EvictionIneffective";
    EvictionIneffective "eviction_ineffective" "earlier evictions did not change the requests";
    /// Reason of `Applied` of a VPA: the API server did not call the webhook for the pod that replaced an
    /// evicted one.
    const WEBHOOK_NOT_CALLED: &str = "WebhookNotCalled";
    WebhookNotCalled "webhook_not_called"
        "the API server did not call the webhook for the last replacement, so evictions wait for 1 min, and longer each time up to 1 h";
    /// Reason of `Applied` of a VPA: as many pods as the pace allows were restarted in this minute.
    const PACED: &str = "Paced";
    Paced "paced" "enough pods were restarted in this minute, see evictionPace of --config";
    /// Reason of `Applied` of a VPA: pods must be well with the new requests before others get them.
    const WAVE: &str = "Wave";
    Wave "wave" "wait until those that have the new requests have been well for a time";
    /// Reason of `Applied` of a VPA: values of pods with the new requests cannot be read from Prometheus.
    const HEALTH_UNKNOWN: &str = "HealthUnknown";
    HealthUnknown "health_unknown"
        "wait, since Prometheus has no values of those that have the new requests; the log of the updater has its errors";
    /// Reason of `Applied` of a VPA: the object or its constraints changed just now.
    const SETTLING: &str = "Settling";
    Settling "settling" "the object or its constraints changed just now";
    /// Reason of `Applied` of a VPA: the `evictionRequirements` are not met.
    const EVICTION_REQUIREMENTS: &str = "EvictionRequirements";
    EvictionRequirements "requirements" "the evictionRequirements do not hold";
    /// Reason of `Applied` of a VPA: the node is too small.
    const RESIZE_INFEASIBLE: &str = "ResizeInfeasible";
    KnownInfeasible "known_infeasible" "the node is too small";
    /// Reason of `Applied` of a VPA: the kubelet has not completed the resize.
    const RESIZE_PENDING: &str = "ResizePending";
    ResizePending "resize_pending" "the kubelet has not completed the resize yet";
    /// Reason of `Applied` of a VPA: the kubelet does not lower the memory limit below the usage.
    const MEMORY_IN_USE: &str = "MemoryInUse";
    MemoryInUse "memory_in_use" "the kubelet does not lower the memory limit below the usage";
    /// Reason of `Applied` of a VPA: a resize would change the quality-of-service class.
    const QOS_CLASS: &str = "QosClass";
    QosClass "qos_class" "a resize would change the QoS class";
    /// Reason of `Applied` of a VPA: the API server rejected the resize.
    const RESIZE_REJECTED: &str = "ResizeRejected";
    ResizeRejected "resize_rejected" "the API server rejected the resize";
    /// Reason of `Applied` of a VPA: a quota, a policy or a missing right forbids the resize.
    const RESIZE_FORBIDDEN: &str = "ResizeForbidden";
    ResizeForbidden "resize_forbidden" "a quota, a policy or a missing right forbids the resize";
    /// Reason of `Applied` of a VPA: memory is kept for a while after an OOM kill that followed a
    /// resize, or after a resize below the usage.
    const RECENTLY_REVERTED: &str = "RecentlyReverted";
    RecentlyReverted "reverted" "more memory was needed after a resize, so it is kept for a while";
    /// Reason of `Applied` of a VPA: a rolling update is under way or recent.
    const ROLLING_UPDATE_PENDING: &str = "RollingUpdatePending";
    RollingUpdatePending "rolling_update_pending"
        "a rolling update is under way, or was less than 10 min ago";
    /// Reason of `Applied` of a VPA: the Deployment gets no rolling update.
    const ROLLING_UPDATE_REFUSED: &str = "RollingUpdateRefused";
    RollingUpdateRefused "rolling_update_refused"
        "the Deployment gets no rolling update, see the events";
    /// Reason of `Applied` of a VPA: the last rolling update did not change the requests.
    const ROLLING_UPDATE_INEFFECTIVE: &str = "RollingUpdateIneffective";
    RollingUpdateIneffective "rolling_update_ineffective"
        "the last rolling update did not change the requests";
    /// Reason of `Applied` of a VPA: a resize waits until the container runs.
    const CONTAINER_STOPPED: &str = "ContainerStopped";
    ContainerStopped "container_stopped"
        "a resize waits until the container runs, else it has no effect";
    /// Reason of `Applied` of a VPA: OOM-killed with the recommended memory.
    const OOM_KILLED_AT_TARGET: &str = "OomKilledAtTarget";
    OomKilledAtTarget "oom_killed_at_target"
        "OOM killed with the recommended memory: is maxAllowed or the quota too low?";
    /// Reason of `Applied` of a VPA: the recommended request is above the container's limit, which is not
    /// changed, so the webhook leaves the request.
    const LIMIT_TOO_LOW: &str = "LimitTooLow";
    Refused(ContainerLimit) "limit_too_low"
        "the webhook leaves the request as written: its limit stays below the recommendation";
    /// Reason of `Applied` of a VPA: a `LimitRange` would refuse the recommended size, so the webhook leaves
    /// the present one.
    const LIMIT_RANGE: &str = "LimitRange";
    Refused(LimitRange) "limit_range"
        "the webhook leaves the request as written: a LimitRange would refuse the container";
    Refused(LimitRangeOfPod) "limit_range_of_pod"
        "the webhook leaves the requests as written: a LimitRange would refuse the pod";
    /// Reason of `Applied` of a VPA: the containers would exceed the resources of the pod as a whole, so the
    /// webhook leaves their size.
    const POD_RESOURCES: &str = "PodResources";
    Refused(PodResources) "pod_resources"
        "the webhook leaves the requests as written: the pod as a whole may not have more";
    /// Reason of `Applied` of a VPA: the annotation `plimsoll.dev/replacement` is invalid.
    const INVALID_REPLACEMENT: &str = "InvalidReplacement";
    InvalidReplacement "invalid_replacement" "the annotation plimsoll.dev/replacement is invalid";
}

impl SkipReason {
    /// The label of metrics.
    pub fn as_str(self) -> &'static str {
        self.texts()[0]
    }

    /// The reason of the condition `Applied`.
    pub(crate) fn condition(self) -> &'static str {
        self.texts()[1]
    }

    /// The part of the condition's message after the number of pods.
    pub(crate) fn sentence(self) -> &'static str {
        self.texts()[2]
    }
}
