//! VPA objects with requested, recommended and used amounts of their containers.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use api::vpa::{APPLIED, VerticalPodAutoscaler};
use kube::ResourceExt as _;
use kube::api::{DynamicObject, ListParams};
use replay::Resource;
use serde_json::Value;

use super::pages::FleetQuery;
use crate::cluster::Cluster;
use crate::json::{items, text, texts};
use crate::output::{Document, Row, Table, escape};
use crate::prices::Prices;
use crate::severity::{Change, Severity};
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
struct Line {
    namespace: String,
    vpa: String,
    mode: String,
    container: String,
    pods: usize,
    /// CPU and memory.
    amounts: [Amounts; 2],
    applied: String,
}

/// Amounts of a resource in millicores or MiB.
#[derive(Clone, Copy, Default)]
struct Amounts {
    change: Change,
    used: Option<f64>,
}

/// Reads a page: the VPA objects, and the pods of their namespaces.
pub(super) async fn read(cluster: &Cluster, query: &FleetQuery) -> anyhow::Result<Fleet> {
    let namespace = Some(query.namespace.as_str()).filter(|name| !name.is_empty());
    let api = cluster.untyped::<VerticalPodAutoscaler>(namespace);
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
    let lines = lines.flat_map(|vpa| lines_of(vpa, &inventory, &used));
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

fn lines_of(vpa: &DynamicObject, inventory: &Inventory, used: &Used) -> Vec<Line> {
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
        let used = used.get(&ContainerId::new(&*namespace, &*target, container));
        let amounts = |(resource, name): (Resource, &str)| {
            let recommended = recommended["target"][name].as_str();
            let change = Change {
                present: amount_of(requests, resource),
                recommended: recommended.and_then(|text| amount(text, resource)),
            };
            let used = used.map(|used| used[usize::from(resource == Resource::Memory)]);
            Amounts { change, used }
        };
        Line {
            namespace: namespace.clone(),
            vpa: vpa.name_any(),
            mode: mode.unwrap_or("Recreate").to_owned(),
            container: container.to_owned(),
            pods,
            amounts: RESOURCES.map(amounts),
            applied: applied(vpa),
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
        let mut sums = [[0.0; 2]; 2];
        let mut saved = 0.0;
        let rows = self.lines.iter().map(|line| {
            for (sums, amounts) in sums.iter_mut().zip(line.amounts) {
                for (sum, amount) in sums.iter_mut().zip(amounts.change.amounts()) {
                    *sum += line.pods as f64 * amount;
                }
            }
            saved += line.savings(prices);
            line.row(prices)
        });
        let rows: Vec<Row> = rows.collect();
        let [cpu, memory] = sums;
        let row = |name: &str, sums: [f64; 2], unit: f64| {
            let [requested, recommended] = sums.map(|sum| format!("{:.2}", sum / unit));
            Row::plain([name.to_owned(), requested, recommended])
        };
        let totals = Table::new(
            "All pods of this page",
            "resource| requested| recommended",
            [
                row("CPU in cores", cpu, 1000.0),
                row("memory in GiB", memory, 1024.0),
            ],
        );
        let mut notes = self.notes.clone();
        notes.push(format!(
            "Usage is that of the highest pod. With the recommended requests, these pods cost \
             {saved:.2} {} less per month.",
            prices.currency
        ));
        Document {
            title: "Vertical".to_owned(),
            tables: vec![
                totals,
                Table::new(
                    "VPA objects",
                    "object|mode|container| CPU requested, recommended| used\
                     | memory requested, recommended| used| savings|applied|finding",
                    rows,
                ),
            ],
            notes,
            data: Value::Null,
        }
    }

    /// The filter by namespace and the link to the next page.
    pub(super) fn navigation(&self, query: &FleetQuery) -> String {
        let namespace = escape(&query.namespace);
        let mut html = format!(
            "<form><label>Namespace <input name=\"namespace\" \
             value=\"{namespace}\"></label> <button>Show</button></form>\n"
        );
        if !self.next.is_empty() {
            let next = escape(&self.next);
            let _ = writeln!(
                html,
                "<form><input type=\"hidden\" name=\"namespace\" \
                 value=\"{namespace}\"><input type=\"hidden\" name=\"after\" value=\"{next}\">\
                 <button>Next objects</button></form>"
            );
        }
        html
    }
}

impl Line {
    fn savings(&self, prices: &Prices) -> f64 {
        let changes = self.amounts.map(|amounts| amounts.change);
        let [cpu, memory] = changes.map(|it| it.present.map_or(0.0, |_| it.saved()));
        self.pods as f64 * prices.month(cpu, memory)
    }

    fn row(&self, prices: &Prices) -> Row {
        let text = |amount: Option<f64>, unit: &str| {
            amount.map_or_else(|| "-".to_owned(), |amount| format!("{amount:.0}{unit}"))
        };
        let change = |change: Change, unit: &str| {
            let [present, recommended] = [change.present, change.recommended];
            format!("{} → {}", text(present, unit), text(recommended, unit))
        };
        let [cpu, memory] = self.amounts;
        let judged = [(cpu, false, "CPU"), (memory, true, "memory")]
            .into_iter()
            .filter(|(amounts, _, _)| amounts.change.recommended.is_some())
            .map(|(amounts, is_memory, name)| {
                let (severity, reason) = amounts.change.judge(is_memory);
                (severity, format!("{name}: {reason}"))
            })
            .max_by_key(|(severity, _)| *severity);
        let (severity, finding) = judged.unwrap_or((Severity::Ok, "no recommendation".to_owned()));
        Row {
            cells: vec![
                format!("{}/{}", self.namespace, self.vpa),
                self.mode.clone(),
                self.container.clone(),
                change(cpu.change, "m"),
                text(cpu.used, "m"),
                change(memory.change, "Mi"),
                text(memory.used, "Mi"),
                format!("{:.2}", self.savings(prices)),
                self.applied.clone(),
                finding,
            ],
            severity: Some(severity),
            link: Some(format!("vpa/{}/{}", self.namespace, self.vpa)),
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
            lines: lines_of(vpa, &Inventory::default(), &used),
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
        let expected = "- → 250m|120m|- → 100Mi|64Mi|0.00|DisruptionBudget";
        assert_eq!(row.cells[3..9].join("|"), expected);
    }

    #[test]
    fn an_object_without_a_recommendation_has_a_row() {
        let document = fleet(&vpa("web", &Value::Null)).document(&Prices::default());
        let row = &document.tables[1].rows[0];
        assert_eq!(row.cells[9], "no recommendation");
    }

    #[test]
    fn hostile_texts_are_text() {
        let fleet = fleet(&vpa("web", &Value::Null));
        let document = fleet.document(&Prices::default());
        let query = FleetQuery {
            namespace: "\"><script>".to_owned(),
            after: String::new(),
        };
        let page = crate::output::page(&document, "", &fleet.navigation(&query));
        assert!(
            !page.contains("<script>") && !page.contains("<b>"),
            "{page}"
        );
        assert!(page.contains("&lt;script&gt;"), "{page}");
    }
}
