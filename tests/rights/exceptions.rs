//! Exceptions, each with its reason. One that is not necessary any more fails its test.

/// Rights that no request in the audit logs uses.
pub(crate) const UNUSED: &[(&str, &str)] = &[
    (
        "adapter: ClusterRole plimsoll-metrics-reader: get custom.metrics.k8s.io/*",
        "another provider asks for it; the tests have another provider of external metrics only",
    ),
    (
        "extender: Role plimsoll-extender: create events.k8s.io/events",
        "a certificate of another tool has to be about to expire, as in the tests of the adapter",
    ),
    (
        "recommender: ClusterRole plimsoll-recommender-horizontal: update autoscaling.crane.io/effectivehorizontalpodautoscalers/finalizers",
        "the admission plugin OwnerReferencesPermissionEnforcement asks for it, without a request",
    ),
    (
        "scheduler: Role plimsoll-scheduler: create coordination.k8s.io/leases",
        KUBE_SCHEDULER,
    ),
    (
        "scheduler: Role plimsoll-scheduler: get coordination.k8s.io/leases [plimsoll-scheduler]",
        KUBE_SCHEDULER,
    ),
    (
        "scheduler: Role plimsoll-scheduler: update coordination.k8s.io/leases [plimsoll-scheduler]",
        KUBE_SCHEDULER,
    ),
    (
        "webhook: ClusterRole plimsoll-webhook: delete admissionregistration.k8s.io/mutatingwebhookconfigurations [vpa-webhook-config]",
        "the admission plugin OwnerReferencesPermissionEnforcement asks for it, without a request",
    ),
];

const KUBE_SCHEDULER: &str = "the tests run kube-scheduler as a process with other rights";

/// Programs with roles that the chart makes of those in `deploy/`, for a release that watches one
/// namespace.
pub(crate) const OF_CHART: [&str; 7] = [
    "recommender: ClusterRole plimsoll-recommender-sizing-policies-plimsoll-system",
    "recommender: Role plimsoll-recommender-sizing-policies-workloads-plimsoll-system",
    "recommender: Role plimsoll-recommender-workloads-plimsoll-system",
    "updater: ClusterRole plimsoll-updater-plimsoll-system",
    "updater: Role plimsoll-updater-workloads-plimsoll-system",
    "webhook: ClusterRole plimsoll-webhook-plimsoll-system",
    "webhook: Role plimsoll-webhook-workloads-plimsoll-system",
];

/// Programs with other roles that are not in `deploy/`.
pub(crate) const NOT_IN_DEPLOY: &[(&str, &str)] = &[
    (
        "adapter: Role extension-apiserver-authentication-reader",
        "the API server creates the role; deploy/base/adapter/rbac.yaml binds it",
    ),
    (
        "recommender: ClusterRole external-usage",
        "docs/sizing.md has the role for usage from external metrics",
    ),
];

/// Requests that are refused.
pub(crate) const FORBIDDEN: &[(&str, &str)] = &[
    (
        "recommender: list autoscaling.crane.io/effectivehorizontalpodautoscalers",
        "the recommender looks whether the component horizontal was added",
    ),
    (
        "recommender: list plimsoll.dev/sizingpolicies",
        "the recommender looks whether the component sizing-policies was added",
    ),
];
