//! The recorded responses of prometheus-adapter, and those of this adapter to the same requests
//! with the same rules and series.
//!
//! The recordings are in `tests/vectors/prometheus-adapter`. Where the two differ on purpose, the
//! recording also has this adapter's response and the reason; any other difference fails.

mod api_server;
mod fixture;
mod recording;
mod store;

use model::Quantity;
use serde_json::Value;

use api_server::Rights;
use fixture::Fixture;
use recording::{Question, Recording};

/// Starts an adapter, and waits until it lists the metrics of a valid rule file.
async fn listing(recording: &Recording, rights: Rights) -> Fixture {
    let fixture = Fixture::with(recording, rights).await.expect("valid rules");
    let api = &recording.listed.first().expect("an API").api;
    fixture.knows_its_metrics(api).await;
    fixture
}

/// Checks discovery, responses and the queries of a rule file.
async fn check(name: &str) {
    let recording = Recording::read(name);
    let fixture = listing(&recording, Rights::Everywhere).await;
    let mut wrong = Vec::new();
    for listed in &recording.listed {
        let (found, expected) = (fixture.listed(&listed.api).await, listed.expected());
        if found != expected {
            wrong.push(format!(
                "{} lists\n  {found:?}, not\n  {expected:?}",
                listed.api
            ));
        }
    }
    for question in &recording.questions {
        let Question { path, .. } = question;
        let expected = question.expected();
        let (code, body) = fixture.ask(path).await;
        let items = items(&body);
        if (code, &items) != (expected.code, &expected.items) {
            let items = Value::from(expected.items.clone());
            wrong.push(format!(
                "{path}\n  is answered {code} {body}, not\n  {} {items}",
                expected.code
            ));
        }
    }
    let (asked, expected) = (fixture.queries(), recording.queries());
    for query in asked.difference(&expected) {
        wrong.push(format!("Prometheus was asked {query}"));
    }
    for query in expected.difference(&asked) {
        wrong.push(format!("Prometheus was not asked {query}"));
    }
    assert!(
        wrong.is_empty(),
        "{name}: {} differences\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

/// Returns the items of a list as in recordings: without times, quantities in thousandths.
fn items(body: &Value) -> Vec<Value> {
    let mut items = body["items"].as_array().cloned().unwrap_or_default();
    for item in &mut items {
        let fields = item.as_object_mut().expect("an object");
        assert!(fields.remove("timestamp").is_some(), "{body}");
        let value = fields["value"].as_str().expect("text");
        let value: Quantity = value.parse().expect("a quantity");
        fields.insert("value".to_owned(), Value::from(value.milli_value()));
    }
    items
}

#[tokio::test]
async fn the_rules_of_the_chart() {
    check("chart").await;
}

#[tokio::test]
async fn the_sample_of_the_documentation() {
    check("sample").await;
}

#[tokio::test]
async fn the_walkthrough_of_the_documentation() {
    check("walkthrough").await;
}

#[tokio::test]
async fn templates_of_labels_and_of_queries() {
    check("templates").await;
}

#[tokio::test]
async fn metrics_of_no_object() {
    check("external").await;
}

#[tokio::test]
async fn names_of_metrics() {
    check("names").await;
}

#[tokio::test]
async fn values_of_all_kinds() {
    check("values").await;
}

#[tokio::test]
async fn rule_files_are_accepted_or_rejected_as_recorded() {
    for file in recording::rule_files() {
        let recording = Recording::of(&file.text);
        let started = Fixture::new(&recording).await.map(drop);
        let text = &file.text;
        assert_eq!(started.is_ok(), file.is_right(), "{started:?}\n{text}");
    }
}

#[tokio::test]
async fn rights_in_a_namespace_do_not_include_metrics_of_the_cluster() {
    let recording = Recording::read("chart");
    for (rights, of_nodes) in [(Rights::Everywhere, 200), (Rights::InNamespaces, 403)] {
        let fixture = listing(&recording, rights).await;
        let api = "/apis/custom.metrics.k8s.io/v1beta2/namespaces/shop";
        let ask = async |path: &str| fixture.ask(&format!("{api}/{path}/queue_length")).await;
        let (code, body) = ask("nodes/node-1").await;
        assert_eq!(code, of_nodes, "{rights:?}: {body}");
        let message = body["message"].as_str().unwrap_or_default();
        assert!(code == 200 || message.contains("at the cluster scope"));
        // The request's namespace and objects in it need no other rights.
        for own in ["metrics", "pods/*"] {
            let (code, body) = ask(own).await;
            assert_ne!(code, 403, "{rights:?}: {own}: {body}");
        }
    }
}
