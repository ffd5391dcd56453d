//! JSON of load-watcher's REST API, in the order of fields and with the number format of its Go
//! program.
//!
//! Source: load-watcher `pkg/watcher`; its documented schema lacks the level `NodeMetricsMap`.

use std::collections::BTreeMap;

use placement::{NodeLoad, NodeResource, Window};
use serde::{Serialize, Serializer};

use super::collected::WindowRecord;

#[derive(Serialize)]
struct Document<'a> {
    timestamp: i64,
    window: Span,
    source: &'static str,
    data: Data<'a>,
}

#[derive(Serialize)]
struct Span {
    duration: &'static str,
    start: i64,
    end: i64,
}

#[derive(Serialize)]
struct Data<'a> {
    #[serde(rename = "NodeMetricsMap")]
    nodes: BTreeMap<&'a str, Node<'a>>,
}

#[derive(Serialize)]
struct Node<'a> {
    metrics: Vec<Metric<'a>>,
    tags: Tags,
    metadata: Metadata,
}

#[derive(Serialize)]
struct Tags {}

#[derive(Serialize)]
struct Metadata {
    #[serde(rename = "dataCenter")]
    data_center: &'static str,
}

#[derive(Serialize)]
struct Metric<'a> {
    name: &'a str,
    #[serde(rename = "type")]
    resource: &'static str,
    operator: &'static str,
    rollup: &'static str,
    value: Number,
}

/// Number without a fraction if it is whole, as Go writes it.
struct Number(f64);

impl Serialize for Number {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self(value) = *self;
        if value.fract() == 0.0 && value.abs() < 1e15 {
            serializer.serialize_i64(value as i64)
        } else {
            serializer.serialize_f64(value)
        }
    }
}

pub(super) fn all_nodes(record: &WindowRecord) -> Vec<u8> {
    let nodes = record.load.nodes.iter();
    to_json(record, nodes.map(|(name, load)| (name.as_str(), load)))
}

/// The JSON of one node; `None` if it has no load.
pub(super) fn one_node(record: &WindowRecord, node: &str) -> Option<Vec<u8>> {
    let load = record.load.nodes.get(node)?;
    Some(to_json(record, [(node, load)].into_iter()))
}

fn to_json<'a>(
    record: &'a WindowRecord,
    nodes: impl Iterator<Item = (&'a str, &'a NodeLoad)>,
) -> Vec<u8> {
    let end = record.load.end.as_second();
    let document = Document {
        timestamp: record.collected_at.as_second(),
        window: Span {
            duration: duration(record.window),
            start: end - record.window.minutes() * 60,
            end,
        },
        source: record.provider.name(),
        data: Data {
            nodes: nodes
                .map(|(name, load)| (name, node(record, load)))
                .collect(),
        },
    };
    serde_json::to_vec(&document).expect("no map has a key that is not text")
}

/// The averages of all resources, then the standard deviations.
fn node<'a>(record: &'a WindowRecord, load: &NodeLoad) -> Node<'a> {
    let rollup = duration(record.window);
    let mut metrics = Vec::with_capacity(8);
    for operator in ["AVG", "STD"] {
        for resource in NodeResource::ALL {
            let Some(usage) = load.get(resource) else {
                continue;
            };
            metrics.push(Metric {
                name: &record.metric_names[resource as usize],
                resource: metric_type(resource),
                operator,
                rollup,
                value: Number(match operator {
                    "AVG" => usage.average_percent,
                    _ => usage.deviation_percent,
                }),
            });
        }
    }
    Node {
        metrics,
        tags: Tags {},
        metadata: Metadata { data_center: "" },
    }
}

fn metric_type(resource: NodeResource) -> &'static str {
    match resource {
        NodeResource::Cpu => "CPU",
        NodeResource::Memory => "Memory",
        NodeResource::Network => "Bandwidth",
        NodeResource::Disk => "Storage",
    }
}

pub(super) fn duration(window: Window) -> &'static str {
    match window {
        Window::Fifteen => "15m",
        Window::Ten => "10m",
        Window::Five => "5m",
    }
}
