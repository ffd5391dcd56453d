//! Prometheus' configuration: it accepts samples of any age by remote write, serves over TLS, and
//! scrapes KWOK's usage per node. It loads further rules and scrapes from a folder, at the start and by
//! `POST /-/reload`.

use std::path::Path;

use serde_json::{Value, json};

use crate::certificates::Identity;
use crate::ports::Ports;

/// Samples may arrive this much later than newer ones, so that history can be written into it.
const OUT_OF_ORDER_WINDOW: &str = "400d";

pub(crate) fn configuration(
    ports: &Ports,
    nodes: u16,
    authority: &Identity,
    further_files: &Path,
) -> Value {
    let scrapes: Vec<Value> = (0..nodes)
        .map(|number| {
            json!({
                "job_name": format!("node-{number}"),
                "scheme": "https",
                "metrics_path": format!("/metrics/nodes/node-{number}/metrics/resource"),
                "tls_config": {"ca_file": authority.certificate},
                "static_configs": [{"targets": [format!("127.0.0.1:{}", ports.kwok)], "labels": {"node": format!("node-{number}")}}],
            })
        })
        .collect();
    json!({
        "global": {"scrape_interval": "10s", "scrape_timeout": "8s"},
        "storage": {"tsdb": {"out_of_order_time_window": OUT_OF_ORDER_WINDOW}},
        "scrape_configs": scrapes,
        "rule_files": [further_files.join("rules-*.yaml")],
        "scrape_config_files": [further_files.join("scrape-*.yaml")],
    })
}

/// The configuration file of TLS.
pub(crate) fn web_configuration(serving: &Identity) -> Value {
    json!({"tls_server_config": {"cert_file": serving.certificate, "key_file": serving.key}})
}
