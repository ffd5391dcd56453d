//! A `ScaledObject` as an EHPA.

use kube::api::DynamicObject;
use serde_json::{Map, Value, json};

use super::super::facts::name_of;
use super::super::fields::Fields;

/// Fields without which a workload would scale otherwise, and the reason.
const FIELDS: [(&str, &str); 3] = [
    ("/spec/idleReplicaCount", "idleReplicaCount scales to zero"),
    ("/spec/fallback", "fallback replicas have no counterpart"),
    (
        "/spec/advanced/scalingModifiers/formula",
        "the formula of scalingModifiers has no counterpart",
    ),
];

/// Returns the EHPA with the same triggers and bounds, and the paths of the fields that have no
/// counterpart in it. The error is the reason why it stays with KEDA.
pub(super) fn counterpart(object: &DynamicObject) -> Result<(Value, Vec<String>), String> {
    let mut fields = Fields::of(object);
    let manifest = ehpa(object, &mut fields)?;
    Ok((manifest, fields.rest()))
}

fn ehpa(object: &DynamicObject, fields: &mut Fields) -> Result<Value, String> {
    for (pointer, reason) in FIELDS {
        if !fields.take(pointer).is_null() {
            return Err(reason.to_owned());
        }
    }
    let (mut metrics, mut crons) = (Vec::new(), Vec::new());
    let triggers = object.data["spec"]["triggers"].as_array();
    for index in 0..triggers.map_or(0, Vec::len) {
        // Uses a text, such as `metadata/value`.
        let mut text = |path: &str| fields.text(&format!("/spec/triggers/{index}/{path}"));
        match text("type").unwrap_or_default().as_str() {
            kind @ ("cpu" | "memory") => metrics.push(resource(kind, text)?),
            "cron" => crons.push(schedule(crons.len(), text)?),
            other => return Err(format!("the trigger {other:?} has no counterpart")),
        }
    }
    if metrics.is_empty() {
        return Err(
            "without a CPU or memory trigger, an EHPA keeps its replicas outside of the schedules"
                .to_owned(),
        );
    }
    let min = fields.take("/spec/minReplicaCount").as_i64().unwrap_or(0);
    // With CPU and memory triggers alone, KEDA keeps one replica: `getScaledObjectState`.
    if min < 1 && !crons.is_empty() {
        return Err("it scales to zero (minReplicaCount)".to_owned());
    }
    let mut target = |field: &str, default: &str| {
        let text = fields.text(&format!("/spec/scaleTargetRef/{field}"));
        text.unwrap_or_else(|| default.to_owned())
    };
    let target = json!({
        "apiVersion": target("apiVersion", "apps/v1"),
        "kind": target("kind", "Deployment"),
        "name": target("name", ""),
    });
    let max = fields.take("/spec/maxReplicaCount").as_i64();
    let name = name_of(object);
    let mut ehpa = json!({
        "apiVersion": "autoscaling.crane.io/v1alpha1",
        "kind": "EffectiveHorizontalPodAutoscaler",
        "metadata": {"name": name.name, "namespace": name.namespace},
        "spec": {
            "scaleTargetRef": target,
            "minReplicas": min.max(1),
            "maxReplicas": max.unwrap_or(100),
            "metrics": metrics,
        },
    });
    if !crons.is_empty() {
        ehpa["spec"]["crons"] = crons.into();
    }
    let behavior = fields.take("/spec/advanced/horizontalPodAutoscalerConfig/behavior");
    if behavior.is_object() {
        ehpa["spec"]["behavior"] = behavior;
    }
    Ok(ehpa)
}

fn resource(name: &str, mut text: impl FnMut(&str) -> Option<String>) -> Result<Value, String> {
    let kind = text("metricType").or_else(|| text("metadata/type"));
    let kind = kind.unwrap_or_else(|| "Utilization".to_owned());
    let value = text("metadata/value").unwrap_or_default();
    let target = match kind.as_str() {
        "Utilization" => {
            let percent: u32 = value
                .parse()
                .map_err(|_| format!("the value {value:?} of the trigger {name} is no number"))?;
            json!({"type": kind, "averageUtilization": percent})
        }
        "AverageValue" => json!({"type": kind, "averageValue": value}),
        other => return Err(format!("the metric type {other:?} of the trigger {name}")),
    };
    let mut source = Map::from_iter([
        ("name".to_owned(), json!(name)),
        ("target".to_owned(), target),
    ]);
    Ok(match text("metadata/containerName") {
        Some(container) => {
            source.insert("container".to_owned(), json!(container));
            json!({"type": "ContainerResource", "containerResource": source})
        }
        None => json!({"type": "Resource", "resource": source}),
    })
}

fn schedule(index: usize, mut text: impl FnMut(&str) -> Option<String>) -> Result<Value, String> {
    let name = text("name");
    let mut text = |field: &str| {
        let value = text(&format!("metadata/{field}"));
        value.ok_or_else(|| format!("the cron trigger has no {field}"))
    };
    let replicas: u32 = text("desiredReplicas")?
        .parse()
        .map_err(|_| "desiredReplicas of the cron trigger is no number".to_owned())?;
    Ok(json!({
        "name": name.unwrap_or_else(|| format!("cron-{index}")),
        "start": text("start")?,
        "end": text("end")?,
        "timezone": text("timezone")?,
        "targetReplicas": replicas,
    }))
}
