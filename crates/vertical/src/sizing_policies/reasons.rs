//! Reasons of the conditions of sizing policies.

/// Reason of `Ready` of a sizing policy: all VPA objects are as the policy demands.
pub(super) const UP_TO_DATE: &str = "UpToDate";

/// Reason of `Ready` of a sizing policy: VPA objects are being written.
pub(super) const WRITING: &str = "Writing";

/// Event, and reason of `Ready`, of a sizing policy: VPA objects could not be written.
pub(super) const WRITE_FAILED: &str = "WriteFailed";

/// Event, and reason of `Ready`, of a sizing policy: the selector cannot be used.
pub(super) const INVALID_SELECTOR: &str = "InvalidSelector";

/// Event, and reason of `Ready`, of a sizing policy: the name of the policy cannot be a label
/// value.
pub(super) const INVALID_NAME: &str = "InvalidName";

/// Event, and reason of `Ready`, of a sizing policy: `kinds` cannot be used.
pub(super) const INVALID_KINDS: &str = "InvalidKinds";

/// Event, and reason of `Ready`, of a sizing policy: `sizing` has an invalid method, setting or
/// caution.
pub(super) const INVALID_SIZING: &str = "InvalidSizing";

/// Event, and reason of `Ready`, of a sizing policy: `limitMode` cannot be used.
pub(super) const INVALID_LIMIT_MODE: &str = "InvalidLimitMode";

/// Event, and reason of `Ready`, of a sizing policy: `resourcePolicy` cannot be used.
pub(super) const INVALID_RESOURCE_POLICY: &str = "InvalidResourcePolicy";

/// Event, and reason of `Ready`, of a sizing policy: a kind is not installed, has no scale
/// subresource or is forbidden.
pub(super) const KIND_UNAVAILABLE: &str = "KindUnavailable";

/// Reason of `Conflicting` of a sizing policy: other VPA objects exist; the status names the
/// workloads.
pub(super) const OTHER_AUTOSCALERS: &str = "OtherAutoscalers";

/// Reason of `Overridden` of a sizing policy: other policies precede.
pub(super) const OTHER_POLICIES: &str = "OtherPolicies";

/// Reason of `Conflicting` and `Overridden` of a sizing policy: there are no such workloads.
pub(super) const NO_WORKLOADS: &str = "None";
