//! Annotations and labels of pods that several programs read or write.

use jiff::SignedDuration;

/// Annotation that Plimsoll writes on a pod: what was changed at its creation; upstream's.
pub const UPDATES: &str = "vpaUpdates";

/// Annotation that Plimsoll writes on a pod: containers that were sized at its creation;
/// upstream's.
pub const OBSERVED_CONTAINERS: &str = "vpaObservedContainers";

/// Annotation that Plimsoll writes on a pod: the resources of the container whose name follows
/// without its startup boost; upstream's.
pub const STARTUP_BOOST_PREFIX: &str = "vpaCpuStartupBoost/";

/// Annotation that Plimsoll writes on a pod: last resize after an OOM kill, by which a new leader
/// knows whether it helped; see docs/updating.md#acts-that-are-proven.
pub const OOM_RESIZE: &str = "plimsoll.dev/oom-resize";

/// The time within which a resize of a running container takes effect: about a second on a real
/// kubelet. A kill of the same run after this time refutes the resize too.
pub const OOM_RESIZE_EFFECT_WITHIN: SignedDuration = SignedDuration::from_secs(10);

/// Label that users set on a pod and a VPA: `true` keeps the object from the webhook; see
/// docs/admission.md#opting-out.
pub const OPT_OUT_LABEL: &str = "plimsoll.dev/disable-webhook";
