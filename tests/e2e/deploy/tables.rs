//! Rights of the programs and of the components, as the documents of the architecture grant them.

/// Program, then what it may write, as `verb group/resource`. The same table as in the documents of
/// the architecture: the recommender writes VPA status, VPA checkpoints, Events and its Lease, by
/// its components what sizing policies and EHPAs ask for, and never touches a pod; the updater
/// evicts pods, resizes and annotates them, writes Events and its Lease, by its component annotates
/// pod templates of Deployments, and never writes a VPA;
/// the webhook writes its registration, its certificates, its heartbeat and Events, and never a
/// pod; the adapter writes its certificates, the authorities in its own `APIService` objects and
/// events about these, and asks for reviews of its callers.
pub(super) const WRITES: &[(&str, &[&str])] = &[
    (
        "adapter",
        &[
            "create /secrets",
            "create authentication.k8s.io/tokenreviews",
            "create authorization.k8s.io/subjectaccessreviews",
            "create events.k8s.io/events",
            "patch /secrets",
            "patch apiregistration.k8s.io/apiservices",
            "patch events.k8s.io/events",
        ],
    ),
    (
        "recommender",
        &[
            "create /secrets",
            "create autoscaling.k8s.io/verticalpodautoscalercheckpoints",
            "create coordination.k8s.io/leases",
            "create events.k8s.io/events",
            "delete autoscaling.k8s.io/verticalpodautoscalercheckpoints",
            "patch /secrets",
            "patch autoscaling.k8s.io/verticalpodautoscalercheckpoints",
            "patch autoscaling.k8s.io/verticalpodautoscalers/status",
            "patch events.k8s.io/events",
            "update coordination.k8s.io/leases",
        ],
    ),
    (
        "updater",
        &[
            "create /pods/eviction",
            "create coordination.k8s.io/leases",
            "create events.k8s.io/events",
            "patch /pods",
            "patch /pods/resize",
            "patch events.k8s.io/events",
            "update coordination.k8s.io/leases",
        ],
    ),
    (
        "webhook",
        &[
            "create /secrets",
            "create admissionregistration.k8s.io/mutatingwebhookconfigurations",
            "create coordination.k8s.io/leases",
            "create events.k8s.io/events",
            "delete admissionregistration.k8s.io/mutatingwebhookconfigurations",
            "patch /secrets",
            "patch admissionregistration.k8s.io/mutatingwebhookconfigurations",
            "update coordination.k8s.io/leases",
        ],
    ),
];

/// Component, then every right that it brings, as `verb group/resource`, and who gets which role by
/// it.
pub(super) const COMPONENTS: &[(&str, &[&str], &[&str])] = &[
    (
        "extender",
        &[
            "list /nodes",
            "list /pods",
            "list /replicationcontrollers",
            "list apps/daemonsets",
            "list apps/deployments",
            "list apps/replicasets",
            "list apps/statefulsets",
            "list autoscaling.k8s.io/verticalpodautoscalers",
            "list batch/cronjobs",
            "list batch/jobs",
            "list metrics.k8s.io/nodes",
            "list prediction.crane.io/timeseriespredictions",
            "watch /nodes",
            "watch /pods",
            "watch /replicationcontrollers",
            "watch apps/daemonsets",
            "watch apps/deployments",
            "watch apps/replicasets",
            "watch apps/statefulsets",
            "watch autoscaling.k8s.io/verticalpodautoscalers",
            "watch batch/cronjobs",
            "watch batch/jobs",
            "watch prediction.crane.io/timeseriespredictions",
        ],
        &["plimsoll-extender: plimsoll-system/plimsoll-extender"],
    ),
    (
        "horizontal",
        &[
            "create autoscaling.crane.io/substitutes",
            "create autoscaling/horizontalpodautoscalers",
            "create prediction.crane.io/timeseriespredictions",
            "delete autoscaling.crane.io/substitutes",
            "delete autoscaling/horizontalpodautoscalers",
            "delete prediction.crane.io/timeseriespredictions",
            "get autoscaling.crane.io/effectivehorizontalpodautoscalers",
            "get autoscaling.crane.io/substitutes",
            "get autoscaling/horizontalpodautoscalers",
            "get prediction.crane.io/timeseriespredictions",
            "list /namespaces",
            "list autoscaling.crane.io/effectivehorizontalpodautoscalers",
            "list autoscaling.crane.io/substitutes",
            "list autoscaling/horizontalpodautoscalers",
            "list prediction.crane.io/timeseriespredictions",
            "patch autoscaling.crane.io/effectivehorizontalpodautoscalers/status",
            "patch autoscaling.crane.io/substitutes/status",
            "patch prediction.crane.io/timeseriespredictions/status",
            "update autoscaling.crane.io/effectivehorizontalpodautoscalers/finalizers",
            "update autoscaling.crane.io/substitutes",
            "update autoscaling/horizontalpodautoscalers",
            "update prediction.crane.io/timeseriespredictions",
            "watch /namespaces",
            "watch autoscaling.crane.io/effectivehorizontalpodautoscalers",
            "watch autoscaling.crane.io/substitutes",
            "watch autoscaling/horizontalpodautoscalers",
            "watch prediction.crane.io/timeseriespredictions",
        ],
        &["plimsoll-recommender-horizontal: plimsoll-system/plimsoll-recommender"],
    ),
    (
        "keda-certificates",
        &["get /secrets"],
        &["plimsoll-adapter-upstream-certificates: plimsoll-system/plimsoll-adapter"],
    ),
    (
        "metric-routes",
        &[],
        &["plimsoll-metrics-reader: plimsoll-system/plimsoll-adapter"],
    ),
    (
        "node-capacity",
        &[
            "list /configmaps",
            "list karpenter.sh/nodeclaims",
            "list karpenter.sh/nodepools",
            "watch /configmaps",
            "watch karpenter.sh/nodeclaims",
            "watch karpenter.sh/nodepools",
        ],
        &["plimsoll-recommender-node-capacity: plimsoll-system/plimsoll-recommender"],
    ),
    (
        "node-groups",
        &["list /nodes", "watch /nodes"],
        &["plimsoll-webhook-node-groups: plimsoll-system/plimsoll-webhook"],
    ),
    (
        "rolling-updates",
        &["get apps/deployments", "patch apps/deployments"],
        &["plimsoll-updater-rolling-updates: plimsoll-system/plimsoll-updater"],
    ),
    (
        "rules",
        &[
            "get /configmaps",
            "list /namespaces",
            "list /nodes",
            "list /pods",
            "list /services",
            "watch /pods",
        ],
        &[
            "plimsoll-adapter-rules: plimsoll-system/plimsoll-adapter",
            "plimsoll-recommender-rules: plimsoll-system/plimsoll-recommender",
        ],
    ),
    (
        "schedulable",
        &[
            "list /limitranges",
            "list /nodes",
            "list /resourcequotas",
            "watch /limitranges",
            "watch /nodes",
            "watch /resourcequotas",
        ],
        &["plimsoll-recommender-schedulable: plimsoll-system/plimsoll-recommender"],
    ),
    (
        "sizing-policies",
        &[
            "create autoscaling.k8s.io/verticalpodautoscalers",
            "delete autoscaling.k8s.io/verticalpodautoscalers",
            "list /limitranges",
            "list /namespaces",
            "list /nodes",
            "list /resourcequotas",
            "list plimsoll.dev/clustersizingpolicies",
            "list plimsoll.dev/sizingpolicies",
            "patch autoscaling.k8s.io/verticalpodautoscalers",
            "patch plimsoll.dev/clustersizingpolicies/status",
            "patch plimsoll.dev/sizingpolicies/status",
            "watch /limitranges",
            "watch /namespaces",
            "watch /nodes",
            "watch /resourcequotas",
            "watch plimsoll.dev/clustersizingpolicies",
            "watch plimsoll.dev/sizingpolicies",
        ],
        &["plimsoll-recommender-sizing-policies: plimsoll-system/plimsoll-recommender"],
    ),
    (
        "specific-replicas",
        &["patch */*/scale"],
        &["plimsoll-recommender-specific-replicas: plimsoll-system/plimsoll-recommender"],
    ),
];

/// API groups and resources of the components of the recommender: without them it may not even read these.
pub(super) const OPTIONAL: [&str; 6] = [
    " autoscaling.crane.io/",
    "get autoscaling/",
    " plimsoll.dev/",
    " prediction.crane.io/",
    " /namespaces",
    " /nodes",
];

/// Program, resource, and the only objects of it that the program may name.
pub(super) const OWN: &[(&str, &str, &[&str])] = &[
    (
        "adapter",
        "apiservices",
        &[
            "v1beta2.custom.metrics.k8s.io",
            "v1beta1.custom.metrics.k8s.io",
            "v1beta1.external.metrics.k8s.io",
        ],
    ),
    ("adapter", "secrets", &["plimsoll-adapter-certificates"]),
    (
        "recommender",
        "secrets",
        &[
            "plimsoll-feed-certificates",
            "plimsoll-recommender-feed-tls",
            "plimsoll-updater-feed-tls",
            "plimsoll-webhook-feed-tls",
            "plimsoll-adapter-feed-tls",
        ],
    ),
    (
        "webhook",
        "mutatingwebhookconfigurations",
        &["vpa-webhook-config"],
    ),
    ("webhook", "secrets", &["vpa-tls-certs"]),
];
