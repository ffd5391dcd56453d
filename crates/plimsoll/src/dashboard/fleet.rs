//! VPA objects with requested, recommended and used amounts of their containers.

use std::collections::{BTreeMap, BTreeSet};

use api::vpa::{APPLIED, VerticalPodAutoscaler};
use kube::ResourceExt as _;
use kube::api::{DynamicObject, ListParams};
use maud::{Markup, html};
use replay::Resource;
use serde::Serialize;
use serde_json::Value;

use super::pages::ListQuery;
use crate::cluster::Cluster;
use crate::json::{items, text, texts};
use crate::output::{Document, Table};
use crate::prices::Prices;
use crate::scan::{Scan, ScannedContainer, ScannedResource};
use crate::severity::Change;
use crate::usage::{ContainerId, ContainerUsage, Inventory, Resources, amount, amount_of};

const PAGE: u32 = 200;
const RESOURCES: [(Resource, &str); 2] = [(Resource::Cpu, "cpu"), (Resource::Memory, "memory")];

/// Highest usage of a pod of each container: millicores and MiB.
type Used = BTreeMap<ContainerId, [f64; 2]>;

pub(super) struct Fleet {
    lines: Vec<Line>,
    /// Position of the next page; empty on the last one.
    next: String,
    notes: Vec<String>,
}

/// A container of a VPA object.
#[derive(Serialize)]
struct Line {
    /// Namespace and name of the VPA object.
    object: String,
    mode: String,
    #[serde(flatten)]
    container: ScannedContainer,
    applied: String,
    finding: String,
}

/// Reads a page: the VPA objects, and the pods of their namespaces.
pub(super) async fn read(
    cluster: &Cluster,
    query: &ListQuery,
    prices: &Prices,
) -> anyhow::Result<Fleet> {
    let api = cluster.untyped::<VerticalPodAutoscaler>(query.namespace());
    let mut params = ListParams::default().limit(PAGE);
    if !query.after.is_empty() {
        params = params.continue_token(&query.after);
    }
    let page = api.list(&params).await;
    let page = page.map_err(cluster.failed("VPA objects"))?;
    let namespaces = page.items.iter().filter_map(DynamicObject::namespace);
    let namespaces: BTreeSet<String> = namespaces.collect();
    let namespaces: Vec<String> = namespaces.into_iter().collect();
    let mut notes = Vec::new();
    let inventory = if namespaces.is_empty() {
        Inventory::default()
    } else {
        let inventory = Inventory::read(cluster, &namespaces, None).await;
        inventory.unwrap_or_else(|error| {
            notes.push(format!("Requests are not shown: {error:#}."));
            Inventory::default()
        })
    };
    let mut used = Used::new();
    for namespace in &namespaces {
        if let Err(error) = add_usage(cluster, namespace, &inventory, &mut used).await {
            notes.push(format!("Usage is not shown: {error:#}."));
            break;
        }
    }
    let lines = page.items.iter();
    let lines = lines.flat_map(|vpa| lines_of(vpa, &inventory, &used, prices));
    Ok(Fleet {
        lines: lines.collect(),
        next: page.metadata.continue_.unwrap_or_default(),
        notes,
    })
}

/// Adds the usage of the pods of a namespace that metrics-server knows.
async fn add_usage(
    cluster: &Cluster,
    namespace: &str,
    inventory: &Inventory,
    used: &mut Used,
) -> anyhow::Result<()> {
    let path = format!("/apis/metrics.k8s.io/v1beta1/namespaces/{namespace}/pods");
    let list = cluster.get::<Value>(&path).await;
    let list = list.map_err(cluster.failed("metrics of pods"))?;
    for pod in items(&list["items"]) {
        let Some(workload) = inventory.workload_of(namespace, text(&pod["metadata"]["name"]))
        else {
            continue;
        };
        for container in items(&pod["containers"]) {
            let usage = &container["usage"];
            let found = RESOURCES.map(|(resource, name)| amount(text(&usage[name]), resource));
            let id = ContainerId::new(namespace, &*workload, text(&container["name"]));
            let known = used.entry(id).or_default();
            for (known, found) in known.iter_mut().zip(found) {
                *known = known.max(found.unwrap_or_default());
            }
        }
    }
    Ok(())
}

fn lines_of(vpa: &DynamicObject, inventory: &Inventory, used: &Used, prices: &Prices) -> Vec<Line> {
    let namespace = vpa.namespace().unwrap_or_default();
    let [kind, name] = texts(&vpa.data["spec"]["targetRef"], ["kind", "name"]);
    let target = format!("{}/{name}", kind.to_lowercase());
    let mode = vpa.data["spec"]["updatePolicy"]["updateMode"].as_str();
    let pods = inventory.pods_of(&namespace, &target);
    let requests: BTreeMap<String, Resources> = inventory
        .containers(&namespace)
        .filter(|usage: &ContainerUsage| usage.id.workload == target)
        .map(|usage| (usage.id.container, usage.requests))
        .collect();
    let line = |container: &str, recommended: &Value| {
        let requests = requests.get(container).copied().unwrap_or_default();
        let id = ContainerId::new(&*namespace, &*target, container);
        let resources = RESOURCES.map(|(resource, name)| {
            let recommended = recommended["target"][name].as_str();
            let change = Change {
                present: amount_of(requests, resource),
                recommended: recommended.and_then(|text| amount(text, resource)),
            };
            let used = used.get(&id);
            let used = used.map(|used| used[usize::from(resource == Resource::Memory)]);
            ScannedResource::new(resource, change, used)
        });
        let container = ScannedContainer::new(id, (pods, pods as f64), resources, prices);
        Line {
            object: format!("{namespace}/{}", vpa.name_any()),
            mode: mode.unwrap_or("Recreate").to_owned(),
            applied: applied(vpa),
            finding: if recommended.is_null() {
                "no recommendation".to_owned()
            } else {
                container.finding()
            },
            container,
        }
    };
    let recommended = items(&vpa.data["status"]["recommendation"]["containerRecommendations"]);
    let name = |one: &Value| one["containerName"].as_str().unwrap_or("-").to_owned();
    let mut lines: Vec<Line> = recommended.map(|one| line(&name(one), one)).collect();
    if lines.is_empty() {
        lines.push(line("-", &Value::Null));
    }
    lines
}

fn applied(vpa: &DynamicObject) -> String {
    let mut conditions = items(&vpa.data["status"]["conditions"]);
    let condition = conditions.find(|condition| condition["type"] == APPLIED);
    let reason = condition.and_then(|condition| condition["reason"].as_str());
    reason.unwrap_or("-").to_owned()
}

impl Fleet {
    pub(super) fn document(&self, prices: &Prices) -> Document {
        let mut table = Table::of(
            "VPA objects",
            "object|mode|container| CPU=cpu/request| recommended=cpu/recommended\
             | used=cpu/highestUsage| memory=memory/request| recommended=memory/recommended\
             | used=memory/highestUsage| savings=savingsPerMonth:2|applied|finding",
            &self.lines,
        );
        for (row, line) in table.rows.iter_mut().zip(&self.lines) {
            row.severity = Some(line.container.severity);
            row.link = Some(format!("vpa/{}", line.object));
        }
        let containers = self.lines.iter().map(|line| line.container.clone());
        let totals = Scan::new(containers.collect(), &[], prices).totals();
        let mut notes = self.notes.clone();
        notes.push(format!(
            "Usage is that of the highest pod. {}",
            prices.note()
        ));
        Document {
            title: "Vertical".to_owned(),
            tables: vec![totals, table],
            notes,
            data: Value::Null,
        }
    }

    /// The button of the next page.
    pub(super) fn next_page(&self, query: &ListQuery) -> Markup {
        html! {
            @if !self.next.is_empty() {
                form {
                    input type="hidden" name="namespace" value=(query.namespace);
                    input type="hidden" name="after" value=(self.next);
                    button { "Next objects" }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::json::tests::parse;

    fn vpa(name: &str, recommendation: &Value) -> DynamicObject {
        let object = json!({
            "metadata": {"namespace": "shop", "name": name},
            "spec": {"targetRef": {"kind": "Deployment", "name": "web"},
                     "updatePolicy": {"updateMode": "<script>"}},
            "status": {
                "recommendation": {"containerRecommendations": recommendation},
                "conditions": [{"type": "Applied", "reason": "DisruptionBudget"}],
            },
        });
        parse(object)
    }

    fn fleet(vpa: &DynamicObject) -> Fleet {
        let id = ContainerId::new("shop", "deployment/web", "app");
        let used = Used::from([(id, [120.0, 64.0])]);
        Fleet {
            lines: lines_of(vpa, &Inventory::default(), &used, &Prices::default()),
            next: "\"><b>".to_owned(),
            notes: Vec::new(),
        }
    }

    #[test]
    fn recommended_and_used_amounts_are_in_one_row() {
        let target =
            json!([{"containerName": "app", "target": {"cpu": "250m", "memory": "100Mi"}}]);
        let document = fleet(&vpa("web", &target)).document(&Prices::default());
        let row = &document.tables[1].rows[0];
        assert_eq!(row.link.as_deref(), Some("vpa/shop/web"));
        let expected = "-|250m|120m|-|100Mi|64Mi|0.00|DisruptionBudget|cpu: no request";
        assert_eq!(row.cells[3..].join("|"), expected);
    }

    #[test]
    fn an_object_without_a_recommendation_has_a_row() {
        let document = fleet(&vpa("web", &Value::Null)).document(&Prices::default());
        let row = &document.tables[1].rows[0];
        assert_eq!(row.cells[11], "no recommendation");
    }

    #[test]
    fn hostile_texts_are_text() {
        let fleet = fleet(&vpa("web", &Value::Null));
        let document = fleet.document(&Prices::default());
        let query = ListQuery {
            namespace: "\"><script>".to_owned(),
            after: String::new(),
        };
        let page = crate::output::page("", &document.html(), &fleet.next_page(&query));
        assert!(
            !page.contains("<script>") && !page.contains("<b>"),
            "{page}"
        );
        assert!(page.contains("&lt;script&gt;"), "{page}");
    }
}
