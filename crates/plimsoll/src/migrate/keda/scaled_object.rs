//! A `ScaledObject` as an EHPA.

use kube::api::DynamicObject;
use serde_json::{Map, Value, json};

use super::super::facts::name_of;

/// The counterpart of a `ScaledObject`.
#[derive(Debug, PartialEq)]
pub(super) enum Counterpart {
    /// It has none, for this reason.
    Kept(String),
    /// The EHPA.
    Ehpa(Value),
}

/// Fields without a counterpart, and the reason.
const FIELDS: [(&str, &str); 3] = [
    ("/spec/idleReplicaCount", "idleReplicaCount scales to zero"),
    ("/spec/fallback", "fallback replicas have no counterpart"),
    (
        "/spec/advanced/scalingModifiers/formula",
        "the formula of scalingModifiers has no counterpart",
    ),
];

/// Returns the EHPA with the same triggers and bounds.
pub(super) fn counterpart(object: &DynamicObject) -> Counterpart {
    match ehpa(object) {
        Ok(ehpa) => Counterpart::Ehpa(ehpa),
        Err(reason) => Counterpart::Kept(reason),
    }
}

fn ehpa(object: &DynamicObject) -> Result<Value, String> {
    let root = &object.data;
    for (pointer, reason) in FIELDS {
        if root.pointer(pointer).is_some_and(|value| !value.is_null()) {
            return Err(reason.to_owned());
        }
    }
    let spec = &root["spec"];
    let min = spec["minReplicaCount"].as_i64().unwrap_or(0);
    if min < 1 {
        return Err("it scales to zero (minReplicaCount)".to_owned());
    }
    let (mut metrics, mut crons) = (Vec::new(), Vec::new());
    for trigger in spec["triggers"].as_array().into_iter().flatten() {
        match trigger["type"].as_str().unwrap_or_default() {
            kind @ ("cpu" | "memory") => metrics.push(resource(kind, trigger)?),
            "cron" => crons.push(schedule(crons.len(), trigger)?),
            other => return Err(format!("the trigger {other:?} has no counterpart")),
        }
    }
    if metrics.is_empty() {
        return Err(
            "without a CPU or memory trigger, an EHPA keeps its replicas outside of the schedules"
                .to_owned(),
        );
    }
    let target = &spec["scaleTargetRef"];
    let text = |field: &str, default: &str| target[field].as_str().unwrap_or(default).to_owned();
    let name = name_of(object);
    let mut ehpa = json!({
        "apiVersion": "autoscaling.crane.io/v1alpha1",
        "kind": "EffectiveHorizontalPodAutoscaler",
        "metadata": {"name": name.name, "namespace": name.namespace},
        "spec": {
            "scaleTargetRef": {
                "apiVersion": text("apiVersion", "apps/v1"),
                "kind": text("kind", "Deployment"),
                "name": text("name", ""),
            },
            "minReplicas": min,
            "maxReplicas": spec["maxReplicaCount"].as_i64().unwrap_or(100),
            "metrics": metrics,
        },
    });
    if !crons.is_empty() {
        ehpa["spec"]["crons"] = crons.into();
    }
    let behavior = &spec["advanced"]["horizontalPodAutoscalerConfig"]["behavior"];
    if behavior.is_object() {
        ehpa["spec"]["behavior"] = behavior.clone();
    }
    Ok(ehpa)
}

fn resource(name: &str, trigger: &Value) -> Result<Value, String> {
    let metadata = &trigger["metadata"];
    let kind = trigger["metricType"].as_str();
    let kind = kind
        .or_else(|| metadata["type"].as_str())
        .unwrap_or("Utilization");
    let value = metadata["value"].as_str().unwrap_or_default();
    let target = match kind {
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
    Ok(match metadata["containerName"].as_str() {
        Some(container) => {
            source.insert("container".to_owned(), json!(container));
            json!({"type": "ContainerResource", "containerResource": source})
        }
        None => json!({"type": "Resource", "resource": source}),
    })
}

fn schedule(index: usize, trigger: &Value) -> Result<Value, String> {
    let metadata = &trigger["metadata"];
    let text = |field: &str| {
        let value = metadata[field].as_str();
        value.ok_or_else(|| format!("the cron trigger has no {field}"))
    };
    let replicas: u32 = text("desiredReplicas")?
        .parse()
        .map_err(|_| "desiredReplicas of the cron trigger is no number".to_owned())?;
    let name = trigger["name"].as_str().map(str::to_owned);
    Ok(json!({
        "name": name.unwrap_or_else(|| format!("cron-{index}")),
        "start": text("start")?,
        "end": text("end")?,
        "timezone": text("timezone")?,
        "targetReplicas": replicas,
    }))
}
