//! Annotations and labels of pods that several programs read or write.

/// Annotation that Plimsoll writes on a pod: what was changed at its creation; upstream's.
pub const UPDATES: &str = "vpaUpdates";

/// Annotation that Plimsoll writes on a pod: containers that were sized at its creation;
/// upstream's.
pub const OBSERVED_CONTAINERS: &str = "vpaObservedContainers";

/// Annotation that Plimsoll writes on a pod: the resources of the container whose name follows
/// without its startup boost; upstream's.
pub const STARTUP_BOOST_PREFIX: &str = "vpaCpuStartupBoost/";

/// Label that users set on a pod and a VPA: `true` keeps the object from the webhook; see
/// docs/admission.md#opting-out.
pub const OPT_OUT_LABEL: &str = "plimsoll.dev/disable-webhook";
