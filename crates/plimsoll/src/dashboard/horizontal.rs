//! EHPAs and HPAs with their replicas and metrics.

use api::ehpa::EffectiveHorizontalPodAutoscaler;
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use kube::api::{DynamicObject, ListParams};
use serde_json::{Value, json};

use crate::cluster::Cluster;
use crate::explain::hpa_metrics;
use crate::installation::ObjectName;
use crate::json::{items, text, texts};
use crate::output::{Document, Table};

const MAX_OBJECTS: u32 = 500;

/// Reads both kinds, in all namespaces without one. Without EHPAs, a note says why.
pub(super) async fn read(cluster: &Cluster, namespace: Option<&str>) -> anyhow::Result<Document> {
    let params = ListParams::default().limit(MAX_OBJECTS);
    let hpas = cluster.untyped::<HorizontalPodAutoscaler>(namespace);
    let hpas = hpas.list(&params).await;
    let hpas = hpas.map_err(cluster.failed("HPAs"))?;
    let ehpas = cluster.untyped::<EffectiveHorizontalPodAutoscaler>(namespace);
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
        tables: tables(&ehpas, &hpas.items),
        notes,
        data: Value::Null,
    })
}

fn tables(ehpas: &[DynamicObject], hpas: &[DynamicObject]) -> Vec<Table> {
    let ehpas: Vec<Value> = ehpas.iter().map(line).collect();
    let mut linked = Table::of(
        "EHPAs",
        "object|target|strategy=spec/scaleStrategy| current=status/currentReplicas\
         | desired=status/expectReplicas|conditions that are not true=failed",
        &ehpas,
    );
    for (row, ehpa) in linked.rows.iter_mut().zip(&ehpas) {
        row.link = Some(format!("ehpa/{}", text(&ehpa["object"])));
    }
    let others = Table::of(
        "HPAs",
        "object|target| min=spec/minReplicas| max=spec/maxReplicas| current=status/currentReplicas\
         | desired=status/desiredReplicas|metrics|conditions that are not true=failed",
        hpas.iter().map(line).collect::<Vec<_>>(),
    );
    vec![linked, others]
}

/// An autoscaler as JSON, with names, metrics and the conditions that are not true.
fn line(object: &DynamicObject) -> Value {
    let mut line = object.data.clone();
    let [kind, name] = texts(&line["spec"]["scaleTargetRef"], ["kind", "name"]);
    let target = format!("{}/{name}", kind.to_lowercase());
    // `ScalingLimited` is no fault.
    let failed = items(&line["status"]["conditions"])
        .filter(|it| it["status"] == "False" && it["type"] != "ScalingLimited")
        .map(|it| format!("{} ({})", text(&it["type"]), text(&it["reason"])));
    let failed: Vec<String> = failed.collect();
    let metrics = hpa_metrics(&line).into_iter().map(|metric| {
        let amount = |field: &str| metric[field].as_str().unwrap_or("unknown").to_owned();
        let (name, current, target) = (text(&metric["name"]), amount("current"), amount("target"));
        format!("{name} {current} of {target}")
    });
    line["metrics"] = metrics.collect();
    line["object"] = json!(ObjectName::from(&object.metadata).to_string());
    line["target"] = json!(target);
    line["failed"] = json!(failed);
    line
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::json::tests::parse;

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
        let line = line(&parse(hpa));
        assert_eq!(line["object"], "shop/web");
        assert_eq!(line["target"], "deployment/web");
        let metrics = [
            "cpu 85% (85m per pod) of 70%",
            "queue unknown of 30 per pod",
        ];
        assert_eq!(line["metrics"], json!(metrics));
        assert_eq!(
            line["failed"],
            json!(["ScalingActive (FailedGetExternalMetric)"])
        );
    }

    #[test]
    fn an_ehpa_links_to_its_explanation() {
        let ehpa = json!({
            "metadata": {"namespace": "shop", "name": "web"},
            "spec": {"scaleStrategy": "Preview", "scaleTargetRef": {"kind": "Deployment", "name": "web"}},
            "status": {"currentReplicas": 3, "conditions":
                [{"type": "Ready", "status": "False", "reason": "NotFound"}]},
        });
        let tables = tables(&[parse(ehpa)], &[]);
        let row = &tables[0].rows[0];
        assert_eq!(row.link.as_deref(), Some("ehpa/shop/web"));
        assert_eq!(row.cells[2..], ["Preview", "3", "-", "Ready (NotFound)"]);
    }
}
