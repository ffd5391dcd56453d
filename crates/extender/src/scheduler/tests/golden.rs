//! Requests as kube-scheduler 1.36 writes them: `json.Marshal` of `ExtenderArgs` of
//! `k8s.io/kube-scheduler` v0.36.3. The answers were read with its types and written again by
//! `json.Marshal`, without a change but in the order of the fields of nodes.

use axum::http::StatusCode;
use placement::LoadFilter;

use super::fixture::{Fixture, config};

const NAMES: &str = include_str!("golden/names.json");
const NODES: &str = include_str!("golden/nodes.json");
const NO_NODES: &str = include_str!("golden/no_nodes.json");

async fn check(path: &str, request: &str, expected: &str) {
    let mut config = config();
    config.filter = LoadFilter {
        cpu_percent: Some(80.0),
        ..LoadFilter::default()
    };
    let fixture = Fixture::new(config, &[25.0, 75.0]);
    let found = fixture.post(path, request.to_owned()).await;
    assert_eq!(found.status, StatusCode::OK, "{}", found.text);
    assert_eq!(found.basis.as_deref(), Some("load"));
    assert_eq!(found.text, expected.trim_end(), "{path}");
}

#[tokio::test]
async fn prioritize_answers_with_a_bare_list() {
    let expected = include_str!("golden/prioritize.json");
    for request in [NAMES, NODES] {
        check("/prioritize", request, expected).await;
    }
    check("/prioritize", NO_NODES, "[]").await;
}

#[tokio::test]
async fn filter_answers_with_names_or_nodes_as_it_was_asked() {
    check("/filter", NAMES, include_str!("golden/filter_names.json")).await;
    check("/filter", NODES, include_str!("golden/filter_nodes.json")).await;
    let none = r#"{"Nodes":null,"NodeNames":[],"FailedNodes":{},"FailedAndUnresolvableNodes":{},"Error":""}"#;
    check("/filter", NO_NODES, none).await;
}

#[tokio::test]
async fn lower_case_keys_are_read_too() {
    let expected = include_str!("golden/prioritize.json");
    let lower = NAMES
        .replace("\"Pod\":", "\"pod\":")
        .replace("\"Nodes\":", "\"nodes\":")
        .replace("\"NodeNames\":", "\"nodenames\":");
    check("/prioritize", &lower, expected).await;
}
