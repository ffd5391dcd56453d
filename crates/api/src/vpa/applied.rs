//! Reasons of the condition `Applied` for which the updater acts on no pod of an object. The other reasons are
//! those of single pods.

/// Reason of `Applied` of a VPA: the stop switch exists.
pub const STOPPED: &str = "Stopped";
/// Reason of `Applied` of a VPA: another updater runs.
pub const ANOTHER_UPDATER: &str = "AnotherUpdater";
/// Reason of `Applied` of a VPA: the webhook does not renew its Lease.
pub const WEBHOOK_UNAVAILABLE: &str = "WebhookUnavailable";
/// Reason of `Applied` of a VPA: `SourceStale` is True.
pub const RECOMMENDATION_FROZEN: &str = "RecommendationFrozen";
/// Reason of `Applied` of a VPA: the maintenance window is closed.
pub const OUTSIDE_WINDOW: &str = "OutsideWindow";
/// Reason of `Applied` of a VPA: the updater has not reported for 15 minutes.
pub const NO_REPORT: &str = "NoReport";

/// All of them.
pub const PAUSES: [&str; 6] = [
    STOPPED,
    ANOTHER_UPDATER,
    WEBHOOK_UNAVAILABLE,
    RECOMMENDATION_FROZEN,
    OUTSIDE_WINDOW,
    NO_REPORT,
];
