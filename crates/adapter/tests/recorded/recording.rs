//! Recordings: rules, series, requests and responses.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::api_server::Cluster;

#[derive(Default, Deserialize)]
pub(crate) struct Recording {
    rules: Vec<String>,
    /// The names and label names of the series that a query finds.
    series: BTreeMap<String, Vec<(String, Vec<String>)>>,
    /// Discovery.
    pub(crate) listed: Vec<Listed>,
    /// Prometheus' responses by query; rejected queries are absent.
    answers: BTreeMap<String, Value>,
    pub(crate) questions: Vec<Question>,
}

/// The metrics in the discovery of an API, and whether their objects are namespaced.
#[derive(Deserialize)]
pub(crate) struct Listed {
    pub(crate) api: String,
    /// The metrics of prometheus-adapter.
    there: Vec<(String, bool)>,
    /// The metrics of this adapter if they differ.
    here: Option<Vec<(String, bool)>>,
    because: Option<String>,
}

impl Listed {
    /// Returns the expected metrics of this adapter.
    pub(crate) fn expected(&self) -> &[(String, bool)] {
        expected::<Vec<_>>(
            &self.api,
            &self.there,
            self.here.as_ref(),
            self.because.as_deref(),
        )
    }
}

/// Returns this adapter's expected value: the other one if there is a reason for a difference.
fn expected<'a, T>(what: &str, there: &'a T, here: Option<&'a T>, because: Option<&str>) -> &'a T {
    assert_eq!(
        here.is_some(),
        because.is_some(),
        "a difference has a reason: {what}"
    );
    here.unwrap_or(there)
}

#[derive(Deserialize)]
pub(crate) struct Question {
    pub(crate) path: String,
    /// The response of prometheus-adapter.
    there: Said,
    /// The response of this adapter if it differs.
    here: Option<Said>,
    because: Option<String>,
}

#[derive(Deserialize)]
pub(crate) struct Said {
    pub(crate) code: u16,
    /// The items without their times; quantities are in thousandths.
    #[serde(default)]
    pub(crate) items: Vec<Value>,
    query: Option<String>,
}

impl Recording {
    pub(crate) fn read(name: &str) -> Self {
        one(name)
    }

    /// Returns a recording with these rules and no series.
    pub(crate) fn of(rules: &str) -> Self {
        Self {
            rules: rules.lines().map(str::to_owned).collect(),
            ..Self::default()
        }
    }

    pub(crate) fn rules(&self) -> String {
        self.rules.join("\n")
    }

    /// Returns the series by query, as Prometheus encodes them.
    pub(crate) fn series(&self) -> BTreeMap<String, Value> {
        let said = |(name, labels): &(String, Vec<String>)| {
            let mut series: BTreeMap<&str, &str> =
                labels.iter().map(|label| (label.as_str(), "x")).collect();
            series.insert("__name__", name);
            json!(series)
        };
        self.series
            .iter()
            .map(|(query, series)| (query.clone(), series.iter().map(said).collect()))
            .collect()
    }

    /// Returns Prometheus' responses by query.
    pub(crate) fn answers(&self) -> BTreeMap<String, Value> {
        self.answers.clone()
    }

    /// Returns the queries that this adapter should send.
    pub(crate) fn queries(&self) -> BTreeSet<String> {
        self.questions
            .iter()
            .filter_map(|question| question.expected().query.clone())
            .collect()
    }
}

impl Question {
    /// Returns the response that this adapter should send.
    pub(crate) fn expected(&self) -> &Said {
        expected(
            &self.path,
            &self.there,
            self.here.as_ref(),
            self.because.as_deref(),
        )
    }
}

pub(crate) fn the_cluster() -> Cluster {
    one("cluster")
}

pub(crate) fn rule_files() -> Vec<RuleFile> {
    testing::vectors::load("prometheus-adapter/files")
}

fn one<T: DeserializeOwned>(name: &str) -> T {
    testing::vectors::load(&format!("prometheus-adapter/{name}"))
        .pop()
        .expect("a case")
}

#[derive(Deserialize)]
pub(crate) struct RuleFile {
    pub(crate) text: String,
    /// Whether prometheus-adapter accepts it.
    there: bool,
    /// Whether this adapter accepts it, if that differs.
    here: Option<bool>,
    because: Option<String>,
}

impl RuleFile {
    /// Whether this adapter should accept it.
    pub(crate) fn is_right(&self) -> bool {
        *expected(
            &self.text,
            &self.there,
            self.here.as_ref(),
            self.because.as_deref(),
        )
    }
}
