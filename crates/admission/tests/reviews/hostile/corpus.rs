//! Valid reviews, from which invalid ones are derived.

use serde_json::{Value, json};

use crate::fixture::{merge, pod, pod_review};

pub(super) fn reviews() -> Vec<Value> {
    let sidecars = json!({
        "metadata": {"annotations": {"a/b": "c"}},
        "spec": {
            "initContainers": [{"name": "proxy", "restartPolicy": "Always", "resources": {"limits": {"cpu": "2"}}}],
            "containers": [{"name": "app", "resources": {"requests": {"cpu": "1"}, "limits": {"cpu": "3", "memory": "1Gi"}}}, {"name": "proxy"}],
            "resources": {"requests": {"cpu": "2"}, "limits": {"memory": "4Gi"}},
        },
        "status": {"containerStatuses": [{"name": "app", "resources": {"requests": {"cpu": "5"}}}]},
    });
    let pods = [json!({}), sidecars].map(|over| {
        let mut pod =
            pod(&json!({"requests": {"cpu": "250m", "memory": "1Gi"}, "limits": {"cpu": "1"}}));
        merge(&mut pod, &over);
        pod_review(&pod)
    });
    let object = json!({
        "metadata": {"name": "web"},
        "spec": {
            "targetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
            "updatePolicy": {"updateMode": "Recreate", "minReplicas": 2, "evictAfterOOMSeconds": 5},
            "resourcePolicy": {"containerPolicies": [{
                "containerName": "*", "mode": "Auto", "minAllowed": {"cpu": "1m", "memory": "1Mi"}, "maxAllowed": {"cpu": "2"},
                "controlledResources": ["cpu", "memory"], "controlledValues": "RequestsOnly", "oomBumpUpRatio": "1.2",
                "oomMinBumpUp": "1Mi", "memoryAggregationIntervalSeconds": 5, "memoryAggregationIntervalCount": 3,
                "startupBoost": {"cpu": {"type": "Quantity", "quantity": "100m"}},
            }]},
            "startupBoost": {"cpu": {"type": "Factor", "factor": 2, "durationSeconds": 5}},
            "recommenders": [{"name": "default"}],
        },
    });
    let vpa = json!({"request": {
        "uid": "u-2",
        "requestKind": {"group": "autoscaling.k8s.io", "version": "v1", "kind": "VerticalPodAutoscaler"},
        "resource": {"group": "autoscaling.k8s.io", "version": "v1", "resource": "verticalpodautoscalers"},
        "name": "web", "operation": "UPDATE", "object": object, "oldObject": object,
    }});
    pods.into_iter().chain([vpa]).collect()
}
