//! Reasons of events.

/// Event of a pod: the pod was evicted, with the changes of requests and their cause; upstream's reason.
pub(super) const EVICTED_BY_VPA: &str = "EvictedByVPA";

/// Event of a VPA: a pod was evicted, with the changes of requests and their cause; upstream's
/// reason.
pub(super) const EVICTED_POD: &str = "EvictedPod";

/// Event of a pod: the pod was resized in place, with the changes of requests; upstream's reason.
pub(super) const IN_PLACE_RESIZED_BY_VPA: &str = "InPlaceResizedByVPA";

/// Event of a pod: the resize is known to be infeasible on this node; upstream's reason.
pub(super) const IN_PLACE_RESIZE_SKIPPED: &str = "InPlaceResizeSkipped";

/// Event of a pod and a VPA: a container was OOM-killed soon after its start; the new memory
/// request.
pub(super) const OOM_KILLED: &str = "OOMKilled";

/// Event of a pod: the pod got its memory back after an OOM kill that followed a resize.
pub(super) const RESIZE_REVERTED: &str = "ResizeReverted";

/// Event of a pod and a VPA: a resize or an eviction did not help against OOM kills, and the act that
/// follows; see docs/updating.md#acts-that-are-proven.
pub(super) const ACT_REFUTED: &str = "ActRefuted";

/// Event of a VPA: pods got worse with the recommendation, so they get their former requests; see
/// docs/updating.md#waves.
pub(super) const ROLLED_BACK: &str = "RecommendationRolledBack";

/// Event of a pod: pods are, or would be, evicted for its deferred resize; see
/// docs/updating.md#preemption-on-a-full-node.
pub(super) const MAKE_ROOM: &str = "MakeRoom";

/// Event of a pod: the pod was evicted from a hot or fragmented node; see docs/rebalancing.md.
pub(super) const EVICTED_FOR_REBALANCING: &str = "EvictedForRebalancing";

/// Event of a pod: the annotation `plimsoll.dev/rebalance` of the pod or its namespace is invalid.
pub(super) const INVALID_REBALANCE_ANNOTATION: &str = "InvalidRebalanceAnnotation";

/// Event of a VPA and a Deployment: a rolling update replaces the pods; see
/// docs/updating.md#rolling-updates-in-place-of-evictions.
pub(super) const ROLLING_UPDATE_BEGUN: &str = "RollingUpdateBegun";

/// Event of a VPA: the Deployment gets no rolling update now, with the reason.
pub(super) const ROLLING_UPDATE_REFUSED: &str = "RollingUpdateRefused";

/// Event of a VPA: the last rolling update did not change the requests of the pods.
pub(super) const ROLLING_UPDATE_INEFFECTIVE: &str = "RollingUpdateIneffective";

/// Event of a VPA: the annotation `plimsoll.dev/replacement` is invalid.
pub(super) const INVALID_REPLACEMENT_ANNOTATION: &str = "InvalidReplacementAnnotation";
