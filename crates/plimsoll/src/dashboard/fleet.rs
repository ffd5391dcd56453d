//! VPA objects with requested, recommended and used amounts of their containers.

use std::collections::{BTreeMap, BTreeSet};

use api::vpa::{APPLIED, MODE_BEFORE_REVERT, VerticalPodAutoscaler};
use kube::ResourceExt as _;
use kube::api::{DynamicObject, ListParams};
use maud::{Markup, html};
use replay::Resource;
use serde::Serialize;
use serde_json::Value;

use super::query::ListQuery;
use crate::cluster::Cluster;
use crate::explain::plain_text;
use crate::installation::ObjectName;
use crate::json::{items, text, texts};
use crate::output::{Document, Table};
use crate::prices::Prices;
use crate::revert::is_reverted;
use crate::scan::{Scan, ScannedContainer, ScannedResource};
use crate::severity::Change;
use crate::usage::{ContainerId, ContainerUsage, Inventory, Resources, amount, amount_of};

/// Objects of a page of the list, and most pages of the API server that a search reads for one.
pub(super) const PAGE: u32 = 200;
const MAX_PAGES: usize = 25;
/// Namespaces of objects above which the pods of the whole cluster are read.
const MANY_NAMESPACES: usize = 20;
const RESOURCES: [(Resource, &str); 2] = [(Resource::Cpu, "cpu"), (Resource::Memory, "memory")];

/// Usage of the pods of a container in millicores and MiB.
#[derive(Clone, Copy, Default)]
struct Usage {
    /// That of the highest pod.
    highest: [f64; 2],
    sum: [f64; 2],
}

type Used = BTreeMap<ContainerId, Usage>;

pub(super) struct Fleet {
    pub(super) objects: Vec<VpaLine>,
    lines: Vec<Line>,
    /// CPU usage of all pods in cores, if it is known.
    pub(super) used_cores: Option<f64>,
    /// Position of the next page; empty on the last one.
    pub(super) next: String,
    pub(super) notes: Vec<String>,
}

/// The state of a VPA object's pods, by its status.
#[derive(Clone, Serialize)]
pub(super) struct VpaLine {
    /// Namespace and name.
    pub(super) object: String,
    pub(super) mode: String,
    /// Reason of the condition `Applied`.
    pub(super) applied: String,
    /// Its message.
    #[serde(skip)]
    pub(super) message: String,
    /// Whether `plimsoll revert` switched it off.
    #[serde(skip)]
    pub(super) is_reverted: bool,
}

/// A container of a VPA object.
#[derive(Serialize)]
struct Line {
    #[serde(flatten)]
    vpa: VpaLine,
    #[serde(flatten)]
    container: ScannedContainer,
    finding: String,
}

/// The objects of at most [`MAX_PAGES`] with the searched text in their name, target, mode or reason, and the
/// position behind them.
async fn vpas(
    cluster: &Cluster,
    query: &ListQuery,
    most: u32,
) -> anyhow::Result<(Vec<DynamicObject>, String)> {
    let api = cluster.untyped::<VerticalPodAutoscaler>(query.namespace());
    let (mut found, mut next) = (Vec::new(), query.after.clone());
    let search = query.search.to_lowercase();
    for _ in 0..MAX_PAGES {
        let mut params = ListParams::default().limit(PAGE);
        if !next.is_empty() {
            params = params.continue_token(&next);
        }
        let page = api.list(&params).await;
        let page = page.map_err(cluster.failed("VPA objects"))?;
        next = page.metadata.continue_.unwrap_or_default();
        let matches = |vpa: &DynamicObject| {
            let VpaLine {
                object,
                mode,
                applied,
                ..
            } = vpa_line(vpa);
            let text = format!("{object} {} {mode} {applied}", target(vpa));
            text.to_lowercase().contains(&search)
        };
        found.extend(page.items.into_iter().filter(matches).map(shortened));
        if next.is_empty() || found.len() >= most as usize {
            break;
        }
    }
    Ok((found, next))
}

/// An object without what is not shown, which may be large.
fn shortened(mut vpa: DynamicObject) -> DynamicObject {
    let metadata = &mut vpa.metadata;
    metadata.managed_fields = None;
    if let Some(annotations) = &mut metadata.annotations {
        annotations.retain(|name, _| name == MODE_BEFORE_REVERT);
    }
    vpa
}

/// Reads about `most` VPA objects, and the pods of their namespaces.
pub(super) async fn read(
    cluster: &Cluster,
    query: &ListQuery,
    most: u32,
    prices: &Prices,
) -> anyhow::Result<Fleet> {
    let (vpas, next) = vpas(cluster, query, most).await?;
    let namespaces = vpas.iter().filter_map(DynamicObject::namespace);
    let namespaces: BTreeSet<String> = namespaces.collect();
    // Of many namespaces all pods are read at once.
    let of_all = query.namespace().is_none() && namespaces.len() > MANY_NAMESPACES;
    let read: Vec<String> = namespaces.into_iter().filter(|_| !of_all).collect();
    let mut notes = Vec::new();
    let inventory = if vpas.is_empty() {
        Inventory::default()
    } else {
        let inventory = Inventory::read(cluster, &read, None).await;
        inventory.unwrap_or_else(|error| {
            notes.push(format!("Requests are not shown: {error:#}."));
            Inventory::default()
        })
    };
    let paths = read.iter().map(|it| format!("namespaces/{it}/pods"));
    let (mut used, mut is_known) = (Used::new(), true);
    for path in paths.chain(of_all.then(|| "pods".to_owned())) {
        if let Err(error) = add_usage(cluster, &path, &inventory, &mut used).await {
            notes.push(format!("Usage is not shown: {error:#}."));
            is_known = false;
            break;
        }
    }
    let lines = vpas.iter();
    let lines = lines.flat_map(|vpa| lines_of(vpa, &inventory, &used, prices));
    let lines: Vec<Line> = lines.collect();
    let sums = lines.iter().filter_map(|line| used.get(&line.container.id));
    Ok(Fleet {
        objects: vpas.iter().map(vpa_line).collect(),
        used_cores: is_known.then(|| sums.map(|usage| usage.sum[0]).sum::<f64>() / 1000.0),
        lines,
        next,
        notes,
    })
}

/// Adds the usage of the pods below a path that metrics-server knows.
async fn add_usage(
    cluster: &Cluster,
    path: &str,
    inventory: &Inventory,
    used: &mut Used,
) -> anyhow::Result<()> {
    let path = format!("/apis/metrics.k8s.io/v1beta1/{path}");
    let list = cluster.get::<Value>(&path).await;
    let list = list.map_err(cluster.failed("metrics of pods"))?;
    for pod in items(&list["items"]) {
        let [namespace, name] = texts(&pod["metadata"], ["namespace", "name"]);
        let Some(workload) = inventory.workload_of(namespace, name) else {
            continue;
        };
        for container in items(&pod["containers"]) {
            let usage = &container["usage"];
            let found = RESOURCES.map(|(resource, name)| amount(text(&usage[name]), resource));
            let id = ContainerId::new(namespace, &*workload, text(&container["name"]));
            let Usage { highest, sum } = used.entry(id).or_default();
            for (index, found) in found.into_iter().enumerate() {
                let found = found.unwrap_or_default();
                highest[index] = highest[index].max(found);
                sum[index] += found;
            }
        }
    }
    Ok(())
}

fn lines_of(vpa: &DynamicObject, inventory: &Inventory, used: &Used, prices: &Prices) -> Vec<Line> {
    let namespace = vpa.namespace().unwrap_or_default();
    let target = target(vpa);
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
            let used = used.map(|used| used.highest[usize::from(resource == Resource::Memory)]);
            ScannedResource::new(resource, change, used)
        });
        let container = ScannedContainer::new(id, (pods, pods as f64), resources, prices);
        Line {
            vpa: vpa_line(vpa),
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

/// The target, such as `deployment/web`.
fn target(vpa: &DynamicObject) -> String {
    let [kind, name] = texts(&vpa.data["spec"]["targetRef"], ["kind", "name"]);
    format!("{}/{name}", kind.to_lowercase())
}

fn vpa_line(vpa: &DynamicObject) -> VpaLine {
    let mode = vpa.data["spec"]["updatePolicy"]["updateMode"].as_str();
    let mut conditions = items(&vpa.data["status"]["conditions"]);
    let condition = conditions.find(|condition| condition["type"] == APPLIED);
    let condition = condition.unwrap_or(&Value::Null);
    VpaLine {
        object: ObjectName::from(&vpa.metadata).to_string(),
        mode: mode.unwrap_or("Recreate").to_owned(),
        applied: condition["reason"].as_str().unwrap_or("-").to_owned(),
        message: plain_text(text(&condition["message"])),
        is_reverted: is_reverted(&vpa.metadata),
    }
}

impl Fleet {
    /// Sums of all containers and of each namespace.
    pub(super) fn scan(&self, prices: &Prices) -> Scan {
        let containers = self.lines.iter().map(|line| line.container.clone());
        Scan::new(containers.collect(), &[], prices)
    }

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
            row.link = Some(format!("vpa/{}", line.vpa.object));
        }
        let totals = self.scan(prices).totals();
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
                    input type="hidden" name="search" value=(query.search);
                    input type="hidden" name="after" value=(self.next);
                    button { "Next objects" }
                }
            }
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
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

    /// Objects of these namespaces and names with the same status.
    pub(crate) fn fleet_of(names: impl Iterator<Item = (String, String)>, status: &Value) -> Fleet {
        let vpas = names.map(|(namespace, name)| {
            let target = json!({"kind": "Deployment", "name": name});
            let object = json!({
                "metadata": {"namespace": namespace, "name": name},
                "spec": {"targetRef": target}, "status": status,
            });
            parse::<DynamicObject>(object)
        });
        let vpas: Vec<DynamicObject> = vpas.collect();
        let (inventory, prices) = (Inventory::default(), Prices::default());
        let lines = |vpa| lines_of(vpa, &inventory, &Used::new(), &prices);
        Fleet {
            objects: vpas.iter().map(vpa_line).collect(),
            used_cores: Some(0.0),
            lines: vpas.iter().flat_map(lines).collect(),
            next: String::new(),
            notes: Vec::new(),
        }
    }

    fn fleet(vpa: &DynamicObject) -> Fleet {
        let id = ContainerId::new("shop", "deployment/web", "app");
        let amounts = [120.0, 64.0];
        let usage = Usage {
            highest: amounts,
            sum: amounts,
        };
        let used = Used::from([(id, usage)]);
        Fleet {
            objects: vec![vpa_line(vpa)],
            used_cores: Some(0.12),
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
            ..ListQuery::default()
        };
        let page = crate::output::page("", &document.html(), &fleet.next_page(&query));
        assert!(
            !page.contains("<script>") && !page.contains("<b>"),
            "{page}"
        );
        assert!(page.contains("&lt;script&gt;"), "{page}");
    }
}
