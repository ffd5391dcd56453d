//! Reasons of the condition `Applied`. The feed carries them from the updater to the recommender.

/// Reason of `Applied` of a VPA: no pod needs other requests.
pub const APPLIED: &str = "Applied";

/// Reason of `Applied` of a VPA: pods get other requests now.
pub(super) const UPDATING: &str = "Updating";

/// Reason of `Applied` of a VPA: there is no recommendation.
pub(super) const NO_RECOMMENDATION: &str = "NoRecommendation";

/// Reason of `Applied` of a VPA: the mode is `InPlace`, and the updater lacks the feature gate.
pub(super) const IN_PLACE_DISABLED: &str = "InPlaceDisabled";

/// Reason of `Applied` of a VPA: the stop switch exists.
pub(super) const STOPPED: &str = "Stopped";

/// Reason of `Applied` of a VPA: another updater runs.
pub(super) const ANOTHER_UPDATER: &str = "AnotherUpdater";

/// Reason of `Applied` of a VPA: the webhook does not renew its Lease.
pub(super) const WEBHOOK_UNAVAILABLE: &str = "WebhookUnavailable";

/// Reason of `Applied` of a VPA: `SourceStale` is True.
pub(super) const RECOMMENDATION_FROZEN: &str = "RecommendationFrozen";

/// Reason of `Applied` of a VPA: the maintenance window is closed.
pub(super) const OUTSIDE_WINDOW: &str = "OutsideWindow";

/// Reason of `Applied` of a VPA: the maintenance window cannot be parsed.
pub(super) const INVALID_WINDOW: &str = "InvalidWindow";

/// Reason of `Applied` of a VPA: pods have a startup boost.
pub(super) const STARTUP_BOOST: &str = "StartupBoost";

/// Reason of `Applied` of a VPA: fewer live pods than `minReplicas` or `--min-replicas`.
pub(super) const TOO_FEW_REPLICAS: &str = "TooFewReplicas";

/// Reason of `Applied` of a VPA: the eviction tolerance is used up.
pub(super) const EVICTION_TOLERANCE: &str = "EvictionTolerance";

/// Reason of `Applied` of a VPA: a `PodDisruptionBudget` allows no disruption.
pub(super) const DISRUPTION_BUDGET: &str = "DisruptionBudget";

/// Reason of `Applied` of a VPA: several `PodDisruptionBudget`s select the pod.
pub(super) const MULTIPLE_DISRUPTION_BUDGETS: &str = "MultipleDisruptionBudgets";

/// Reason of `Applied` of a VPA: refused before, tried again later.
pub(super) const BACKING_OFF: &str = "BackingOff";

/// Reason of `Applied` of a VPA: OOM-killed less than a second ago.
pub(super) const RECENT_OOM_KILL: &str = "RecentOomKill";

/// Reason of `Applied` of a VPA: earlier evictions did not change the requests.
pub(super) const EVICTION_INEFFECTIVE: &str = "EvictionIneffective";

/// Reason of `Applied` of a VPA: the API server did not call the webhook for the pod that replaced an
/// evicted one.
pub(super) const WEBHOOK_NOT_CALLED: &str = "WebhookNotCalled";

/// Reason of `Applied` of a VPA: as many pods as the pace allows were restarted in this minute.
pub(super) const PACED: &str = "Paced";

/// Reason of `Applied` of a VPA: the object or its constraints changed just now.
pub(super) const SETTLING: &str = "Settling";

/// Reason of `Applied` of a VPA: the `evictionRequirements` are not met.
pub(super) const EVICTION_REQUIREMENTS: &str = "EvictionRequirements";

/// Reason of `Applied` of a VPA: the node is too small.
pub(super) const RESIZE_INFEASIBLE: &str = "ResizeInfeasible";

/// Reason of `Applied` of a VPA: the kubelet has not completed the resize.
pub(super) const RESIZE_PENDING: &str = "ResizePending";

/// Reason of `Applied` of a VPA: the API server rejected the resize.
pub(super) const RESIZE_REJECTED: &str = "ResizeRejected";

/// Reason of `Applied` of a VPA: a quota, a policy or a missing right forbids the resize.
pub(super) const RESIZE_FORBIDDEN: &str = "ResizeForbidden";

/// Reason of `Applied` of a VPA: the kubelet does not lower the memory limit below the usage.
pub(super) const MEMORY_IN_USE: &str = "MemoryInUse";

/// Reason of `Applied` of a VPA: a resize would change the quality-of-service class.
pub(super) const QOS_CLASS: &str = "QosClass";

/// Reason of `Applied` of a VPA: the recommended request is above the container's limit, which is not
/// changed, so the webhook leaves the request.
pub(super) const LIMIT_TOO_LOW: &str = "LimitTooLow";

/// Reason of `Applied` of a VPA: a `LimitRange` would refuse the recommended size, so the webhook leaves
/// the present one.
pub(super) const LIMIT_RANGE: &str = "LimitRange";

/// Reason of `Applied` of a VPA: the containers would exceed the resources of the pod as a whole, so the
/// webhook leaves their size.
pub(super) const POD_RESOURCES: &str = "PodResources";

/// Reason of `Applied` of a VPA: memory is kept for a while after an OOM kill that followed a
/// resize, or after a resize below the usage.
pub(super) const RECENTLY_REVERTED: &str = "RecentlyReverted";

/// Reason of `Applied` of a VPA: a rolling update is under way or recent.
pub(super) const ROLLING_UPDATE_PENDING: &str = "RollingUpdatePending";

/// Reason of `Applied` of a VPA: the Deployment gets no rolling update.
pub(super) const ROLLING_UPDATE_REFUSED: &str = "RollingUpdateRefused";

/// Reason of `Applied` of a VPA: the last rolling update did not change the requests.
pub(super) const ROLLING_UPDATE_INEFFECTIVE: &str = "RollingUpdateIneffective";

/// Reason of `Applied` of a VPA: the annotation `plimsoll.dev/replacement` is invalid.
pub(super) const INVALID_REPLACEMENT: &str = "InvalidReplacement";

/// Reason of `Applied` of a VPA: a resize waits until the container runs.
pub(super) const CONTAINER_STOPPED: &str = "ContainerStopped";

/// Reason of `Applied` of a VPA: OOM-killed with the recommended memory.
pub(super) const OOM_KILLED_AT_TARGET: &str = "OomKilledAtTarget";
