//! Rules of a file and of a `ConfigMap` are read at once and followed. Errors are reported and
//! change nothing.

use parking_lot::Mutex;
use prometheus::{Registry, TextEncoder};
use serde_json::json;
use testing::{api_server, refusal};

use super::*;

const RULES: &str =
    "externalRules: [{seriesQuery: queue, metricsQuery: 'queue{<<.LabelMatchers>>}'}]";
const WRONG: &str = "externalRules: [{}]";
/// Part of the error of `WRONG`.
const FAULT: &str = "externalRules[0].seriesQuery";

/// A text, or the code of an answer without one.
type Said = Result<&'static str, u16>;

/// An API server with this text in a `ConfigMap`, or this code instead.
fn server(said: Arc<Mutex<Said>>) -> Client {
    api_server(move |request| {
        let path = "/api/v1/namespaces/monitoring/configmaps/adapter-config";
        assert_eq!(request.uri().path(), path);
        let object =
            |text| json!({"metadata": {"name": "adapter-config"}, "data": {"config.yaml": text}});
        std::future::ready(match *said.lock() {
            Ok(text) => (200, object(text)),
            Err(code) => refusal(code, "no"),
        })
    })
}

struct Fixture {
    follower: RuleFollower,
    receiver: RulesReceiver,
    registry: Registry,
}

impl Fixture {
    fn new(location: RuleLocation, client: Client) -> Self {
        let registry = Registry::new();
        let (follower, receiver) = RuleFollower::new(
            RuleFileSettings {
                location,
                matchers: Vec::new(),
            },
            client,
            register(&registry).expect("valid names"),
        );
        Self {
            follower,
            receiver,
            registry,
        }
    }

    /// `expected` after a read: `None` without a response; else whether a rule gives the metric,
    /// and part of the error.
    async fn check(&mut self, expected: Option<(bool, Option<&str>)>) {
        self.follower.refresh().await;
        let metric = serde_json::from_value(json!({"name": "queue"})).expect("a metric");
        let rules = self.receiver.borrow().clone();
        let makes = rules
            .as_ref()
            .map(|rules| rules.external(&metric, "shop").is_some());
        assert_eq!(makes, expected.map(|(makes, _)| makes), "{rules:?}");
        let error = rules.as_ref().and_then(|rules| rules.error.as_deref());
        let part = expected.and_then(|(_, part)| part);
        assert_eq!(error.is_some(), part.is_some(), "{error:?}");
        assert!(
            error.unwrap_or_default().contains(part.unwrap_or_default()),
            "{error:?} {part:?}"
        );
        let shown = TextEncoder::new()
            .encode_to_string(&self.registry.gather())
            .expect("text");
        assert!(
            shown.contains("# TYPE plimsoll_forecast_rules_config_last_reload_successful gauge\n")
        );
        assert_eq!(
            shown.contains("\nplimsoll_forecast_rules_config_last_reload_successful 0\n"),
            part.is_some(),
            "{expected:?}"
        );
    }
}

#[tokio::test]
async fn rules_in_a_config_map_are_followed_and_invalid_ones_ignored() {
    let said = Arc::new(Mutex::new(Err(503)));
    let [namespace, name, key] = ["monitoring", "adapter-config", "config.yaml"].map(str::to_owned);
    let mut fixture = Fixture::new(
        RuleLocation::ConfigMap {
            namespace,
            name,
            key,
        },
        server(Arc::clone(&said)),
    );
    for (text, expected) in [
        (Err(503), None),
        (Err(404), Some((false, Some(UNREADABLE)))),
        (Ok(RULES), Some((true, None))),
        (Err(403), Some((true, Some(UNREADABLE)))),
        (Ok(RULES), Some((true, None))),
        (Ok(WRONG), Some((true, Some(FAULT)))),
        (Err(503), Some((true, Some(FAULT)))),
        (Ok(WRONG), Some((true, Some(FAULT)))),
        (Ok("rules: []"), Some((false, None))),
    ] {
        *said.lock() = text;
        fixture.check(expected).await;
    }
}

#[tokio::test]
async fn rules_in_a_file_are_there_from_the_start_and_followed() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("rules.yaml");
    std::fs::write(&file, RULES).expect("a file");
    let mut fixture = Fixture::new(
        RuleLocation::File(file.clone()),
        server(Arc::new(Mutex::new(Err(404)))),
    );
    fixture.check(Some((true, None))).await;
    std::fs::write(&file, WRONG).expect("a file");
    fixture.check(Some((true, Some(FAULT)))).await;
    std::fs::write(&file, "rules: []").expect("a file");
    fixture.check(Some((false, None))).await;
    std::fs::remove_file(&file).expect("a file");
    fixture.check(Some((false, Some(UNREADABLE)))).await;
}
