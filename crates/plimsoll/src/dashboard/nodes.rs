//! Nodes: the requested and the used share of their allocatable CPU and memory.

use std::collections::BTreeMap;

use maud::{Markup, html};
use replay::Resource;
use serde_json::Value;
use view::Node;

use crate::cluster::Cluster;
use crate::json::{items, text};
use crate::output::LINE;
use crate::output::numbers::{cpu, memory, percent};
use crate::scan::nodes::{NodeLoad, loads};
use crate::usage::{amount, amount_of};

const MAX_NODES: usize = 500;
const RESOURCES: [(Resource, &str); 2] = [(Resource::Cpu, "cpu"), (Resource::Memory, "memory")];

/// Usage of a node: millicores and MiB.
type Used = BTreeMap<String, [Option<f64>; 2]>;

/// The page without its title.
pub(super) async fn read(cluster: &Cluster) -> anyhow::Result<Markup> {
    let (nodes, loads) = loads(cluster).await?;
    let list = cluster
        .get::<Value>("/apis/metrics.k8s.io/v1beta1/nodes")
        .await;
    let list = list.map_err(cluster.failed("metrics of nodes"));
    let (used, problem) = match list {
        Ok(list) => (used(&list), None),
        Err(error) => (Used::new(), Some(format!("Usage is not shown: {error:#}."))),
    };
    Ok(html! {
        (html(&nodes, &loads, &used))
        @if let Some(problem) = problem { p.note { (problem) } }
    })
}

fn used(list: &Value) -> Used {
    let nodes = items(&list["items"]).map(|node| {
        let usage = RESOURCES.map(|(resource, name)| amount(text(&node["usage"][name]), resource));
        (text(&node["metadata"]["name"]).to_owned(), usage)
    });
    nodes.collect()
}

fn html(nodes: &[Node], loads: &BTreeMap<String, NodeLoad>, used: &Used) -> Markup {
    let mut lines: Vec<_> = nodes.iter().map(|node| line(node, loads, used)).collect();
    // The fullest first.
    let highest = |shares: &[Option<f64>; 4]| shares.iter().flatten().copied().fold(0.0, f64::max);
    lines.sort_by(|one, other| highest(&other.1).total_cmp(&highest(&one.1)));
    html! {
        p { "Shares of the allocatable amounts; the stronger the colour, the larger. A node with much requested and little \
            used has pods that are too large; one with little requested and much used can get too many." }
        div.wide tabindex="0" role="region" aria-label="Nodes" { table {
            thead { tr { th scope="col" { "node" } @for name in ["CPU requested", "CPU used", "memory requested", "memory used", "CPU", "memory", "pods"] {
                th.number scope="col" { (name) }
            } } } (LINE)
            tbody { @for (node, shares, pods) in lines.iter().take(MAX_NODES) { tr {
                th scope="row" { (node.name) }
                @for share in shares { (cell(*share)) }
                @for (text, (resource, _)) in [cpu, memory].iter().zip(RESOURCES) {
                    td.number { (amount_of(node.allocatable, resource).map_or_else(|| "-".to_owned(), text)) }
                }
                td.number { (pods) }
            } (LINE) } }
        } }
        @if lines.len() > MAX_NODES { p.note { "Of " (lines.len()) " nodes, the " (MAX_NODES) " fullest are shown." } }
    }
}

/// A node with the requested and the used share of its CPU and of its memory, and the number of its pods.
fn line<'a>(
    node: &'a Node,
    loads: &BTreeMap<String, NodeLoad>,
    used: &Used,
) -> (&'a Node, [Option<f64>; 4], usize) {
    let load = loads.get(&node.name).copied().unwrap_or_default();
    let used = used.get(&node.name).copied().unwrap_or_default();
    let [cpu, memory] =
        [(Resource::Cpu, used[0]), (Resource::Memory, used[1])].map(|(of, used)| {
            let total = amount_of(node.allocatable, of).filter(|total| *total > 0.0);
            let share = used.zip(total).map(|(used, total)| used / total);
            [load.share(node, of), share]
        });
    (
        node,
        [cpu[0], cpu[1], memory[0], memory[1]],
        load.all_pods(),
    )
}

fn cell(share: Option<f64>) -> Markup {
    let Some(share) = share else {
        return html! { td.number { "-" } };
    };
    let heat = (100.0 * share).clamp(0.0, 100.0).round();
    html! { td.number.heat style={ "--heat:" (heat) } { (percent(share, 0)) } }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::json::tests::parse;

    #[test]
    fn nodes_have_requested_and_used_shares_the_fullest_first() {
        let node = |name: &str, cores: &str| {
            let allocatable = json!({"cpu": cores, "memory": "8Gi"});
            let node = json!({"metadata": {"name": name}, "status": {"allocatable": allocatable}});
            Node::from_k8s(parse(node))
        };
        let metrics = json!({"items": [
            {"metadata": {"name": "<b>"}, "usage": {"cpu": "3", "memory": "2Gi"}},
        ]});
        let nodes = [node("idle", "4"), node("<b>", "4")];
        let html = html(&nodes, &BTreeMap::new(), &used(&metrics)).into_string();
        let row = "<th scope=\"row\">&lt;b&gt;</th>\
             <td class=\"number heat\" style=\"--heat:0\">0 %</td><td class=\"number heat\" style=\"--heat:75\">75 %</td>\
             <td class=\"number heat\" style=\"--heat:0\">0 %</td><td class=\"number heat\" style=\"--heat:25\">25 %</td>\
             <td class=\"number\">4</td><td class=\"number\">8Gi</td><td class=\"number\">0</td>";
        assert!(html.contains(row), "{html}");
        assert!(html.find("&lt;b&gt;") < html.find("idle"), "{html}");
    }
}
