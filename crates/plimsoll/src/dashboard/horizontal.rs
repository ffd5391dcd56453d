//! EHPAs and HPAs with their replicas and metrics.

use api::ehpa::EffectiveHorizontalPodAutoscaler;
use k8s_openapi::api::autoscaling::v2::{HorizontalPodAutoscaler, MetricSpec, MetricStatus};
use kube::ResourceExt as _;
use kube::api::{DynamicObject, ListParams};
use serde_json::Value;

use crate::cluster::Cluster;
use crate::explain::metric_field;
use crate::json::{items, text, texts};
use crate::output::{Document, Row, Table, or_absent};

const MAX_OBJECTS: u32 = 500;

/// Reads both kinds. Without EHPAs, a note says why.
pub(super) async fn read(cluster: &Cluster) -> anyhow::Result<Document> {
    let params = ListParams::default().limit(MAX_OBJECTS);
    let hpas = cluster.all::<HorizontalPodAutoscaler>().list(&params).await;
    let hpas = hpas.map_err(cluster.failed("HPAs"))?;
    let ehpas = cluster.untyped::<EffectiveHorizontalPodAutoscaler>(None);
    let mut notes = Vec::new();
    let (ehpas, more) = match ehpas.list(&params).await {
        Ok(list) => (list.items, list.metadata.continue_),
        Err(error) => {
            let error = cluster.failed("EHPAs")(error);
            notes.push(format!("EHPAs are not shown: {error:#}."));
            (Vec::new(), None)
        }
    };
    let tokens = [hpas.metadata.continue_, more];
    if tokens.iter().flatten().any(|token| !token.is_empty()) {
        notes.push(format!(
            "Only the first {MAX_OBJECTS} objects of a kind are shown."
        ));
    }
    Ok(Document {
        title: "Horizontal".to_owned(),
        tables: vec![
            Table::new(
                "EHPAs",
                "object|target|strategy| current| desired|conditions that are not true",
                ehpas.iter().map(ehpa_row),
            ),
            Table::new(
                "HPAs",
                "object|target| min| max| current| desired|metrics|conditions that are not true",
                hpas.items.iter().map(hpa_row),
            ),
        ],
        notes,
        data: Value::Null,
    })
}

fn ehpa_row(ehpa: &DynamicObject) -> Row {
    let namespace = ehpa.namespace().unwrap_or_default();
    let (spec, status) = (&ehpa.data["spec"], &ehpa.data["status"]);
    let [kind, name] = texts(&spec["scaleTargetRef"], ["kind", "name"]);
    let cells = [
        format!("{namespace}/{}", ehpa.name_any()),
        format!("{}/{name}", kind.to_lowercase()),
        or_absent(spec["scaleStrategy"].as_str()),
        or_absent(status["currentReplicas"].as_i64()),
        or_absent(status["expectReplicas"].as_i64()),
        failed(&status["conditions"]),
    ];
    Row {
        link: Some(format!("ehpa/{namespace}/{}", ehpa.name_any())),
        ..Row::plain(cells)
    }
}

fn hpa_row(hpa: &HorizontalPodAutoscaler) -> Row {
    let spec = &hpa.spec;
    let target = &spec.scale_target_ref;
    let status = hpa.status.clone().unwrap_or_default();
    let current = status.current_metrics.unwrap_or_default();
    let metrics = spec.metrics.iter().flatten().enumerate();
    let metrics = metrics.map(|(index, metric)| metric_text(metric, current.get(index)));
    let conditions = serde_json::to_value(status.conditions).unwrap_or_default();
    Row::plain([
        format!("{}/{}", hpa.namespace().unwrap_or_default(), hpa.name_any()),
        format!("{}/{}", target.kind.to_lowercase(), target.name),
        or_absent(spec.min_replicas),
        spec.max_replicas.to_string(),
        or_absent(status.current_replicas),
        status.desired_replicas.to_string(),
        metrics.collect::<Vec<_>>().join(", "),
        failed(&conditions),
    ])
}

/// The conditions that are not true. `ScalingLimited` is no fault.
fn failed(conditions: &Value) -> String {
    let failed = items(conditions)
        .filter(|it| it["status"] == "False" && it["type"] != "ScalingLimited")
        .map(|it| format!("{} ({})", text(&it["type"]), text(&it["reason"])));
    failed.collect::<Vec<_>>().join(", ")
}

/// Name, current value and target, such as `cpu 63% of 70%`.
fn metric_text(metric: &MetricSpec, current: Option<&MetricStatus>) -> String {
    let json = serde_json::to_value(metric).unwrap_or_default();
    let current = serde_json::to_value(current).unwrap_or_default();
    let field = metric_field(&metric.type_);
    let value = |value: &Value| {
        let percent = value["averageUtilization"].as_i64();
        let percent = percent.map(|percent| format!("{percent}%"));
        let text = value["averageValue"].as_str().or(value["value"].as_str());
        let text = percent.or(text.map(str::to_owned));
        text.unwrap_or_else(|| "unknown".to_owned())
    };
    let of = &json[field];
    let name = of["name"].as_str().or(of["metric"]["name"].as_str());
    let name = name.unwrap_or_default();
    let (current, target) = (value(&current[field]["current"]), value(&of["target"]));
    format!("{name} {current} of {target}")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_hpa_shows_its_metrics_and_what_is_wrong() {
        let hpa = json!({
            "metadata": {"namespace": "shop", "name": "web"},
            "spec": {
                "minReplicas": 2, "maxReplicas": 9,
                "scaleTargetRef": {"kind": "Deployment", "name": "web"},
                "metrics": [
                    {"type": "Resource", "resource": {"name": "cpu", "target":
                        {"type": "Utilization", "averageUtilization": 70}}},
                    {"type": "External", "external": {"metric": {"name": "queue"}, "target":
                        {"type": "AverageValue", "averageValue": "30"}}},
                ],
            },
            "status": {
                "currentReplicas": 3, "desiredReplicas": 4,
                "currentMetrics": [
                    {"type": "Resource", "resource": {"name": "cpu", "current":
                        {"averageUtilization": 85, "averageValue": "85m"}}},
                ],
                "conditions": [
                    {"type": "AbleToScale", "status": "True"},
                    {"type": "ScalingActive", "status": "False", "reason": "FailedGetExternalMetric"},
                ],
            },
        });
        let row = hpa_row(&serde_json::from_value(hpa).expect("an HPA"));
        let expected = "shop/web|deployment/web|2|9|3|4|cpu 85% of 70%, queue unknown of 30\
                        |ScalingActive (FailedGetExternalMetric)";
        assert_eq!(row.cells.join("|"), expected);
    }

    #[test]
    fn an_ehpa_links_to_its_explanation() {
        let ehpa = json!({
            "metadata": {"namespace": "shop", "name": "web"},
            "spec": {"scaleStrategy": "Preview", "scaleTargetRef": {"kind": "Deployment", "name": "web"}},
            "status": {"currentReplicas": 3, "conditions":
                [{"type": "Ready", "status": "False", "reason": "NotFound"}]},
        });
        let row = ehpa_row(&serde_json::from_value(ehpa).expect("an object"));
        assert_eq!(row.link.as_deref(), Some("ehpa/shop/web"));
        assert_eq!(row.cells[2..], ["Preview", "3", "-", "Ready (NotFound)"]);
    }
}
