//! Reasons of the conditions of EHPAs. Those that begin with `Failed` are Crane's.

/// Reason of `Ready` of an EHPA: the EHPA works.
pub const EHPA_READY: &str = "EffectiveHorizontalPodAutoscalerReady";
/// Event, and reason of `Ready`, of an EHPA: the scale subresource of the target cannot be read.
pub const FAILED_GET_SCALE: &str = "FailedGetScale";
/// Reason of `Ready` of an EHPA: the HPA cannot be written, or another EHPA or HPA scales the
/// workload.
pub const FAILED_RECONCILE_HPA: &str = "FailedReconcileHPA";
/// Reason of `Ready` of an EHPA: the Substitute cannot be written.
pub const FAILED_RECONCILE_SUBSTITUTE: &str = "FailedReconcileSubstitute";
/// Reason of `Ready` of an EHPA: the prediction cannot be written.
pub const FAILED_RECONCILE_PREDICTION: &str = "FailedReconcilePrediction";
/// Reason of `Ready` of an EHPA: `specificReplicas` could not be applied.
pub const FAILED_SCALE: &str = "FailedScale";
/// Reason of `Ready` of an EHPA: an older EHPA scales the same workload, and its schedules apply.
pub const OLDER_AUTOSCALER: &str = "OlderAutoscaler";
/// Reason of `Ready` of an EHPA: the workload has zero replicas.
pub const SCALING_DISABLED: &str = "ScalingDisabled";
/// Reason of `Ready` of an EHPA: `minReplicas` is 0, and no metric permits it yet.
pub const NOT_SCALED_TO_ZERO: &str = "NotScaledToZero";
/// Reason of `Ready` of an EHPA: a schedule cannot be parsed.
pub const INVALID_CRON: &str = "InvalidCron";
/// Reason of `Ready` of an EHPA: the annotation `plimsoll.dev/holidays` cannot be parsed.
pub const INVALID_HOLIDAYS: &str = "InvalidHolidays";
/// Reason of `Ready` of an EHPA: there is no metric but a prediction that is missing.
pub const NO_SCALING_METRICS: &str = "NoScalingMetrics";
/// Reason of `Ready` of an EHPA: a metric is predicted, but the HPA cannot use it.
pub const PREDICTION_WITHOUT_TARGET: &str = "PredictionWithoutTarget";
/// Reason of `Ready` of an EHPA: the scale point is unknown; see docs/horizontal.md#next-to-a-vpa.
pub const SCALE_POINT_UNKNOWN: &str = "ScalePointUnknown";
/// Event, and reason of `MetricsPredictable`, of an EHPA: metrics cannot be predicted, with the
/// reasons; see docs/horizontal.md#conditions-of-an-ehpa.
pub const METRICS_NOT_PREDICTABLE: &str = "MetricsNotPredictable";
/// Reason of `ScheduleActive` of an EHPA: a schedule is open.
pub const SCHEDULE_OPEN: &str = "ScheduleOpen";
/// Reason of `ScheduleActive` of an EHPA: all schedules are closed.
pub const SCHEDULES_CLOSED: &str = "SchedulesClosed";
/// Reason of `MetricRulesUsable` of an EHPA: the rule file is invalid; the previous queries stay in
/// use.
pub const METRIC_RULES_BROKEN: &str = "MetricRulesBroken";
