//! A recording: rules, series, questions, and what was said to them.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::api_server::Cluster;

/// Everything about one rule file.
#[derive(Default, Deserialize)]
pub(crate) struct Recording {
    /// The lines of the rule file.
    rules: Vec<String>,
    /// The series that a query finds: their names and the names of their labels.
    series: BTreeMap<String, Vec<(String, Vec<String>)>>,
    /// What discovery lists.
    pub(crate) listed: Vec<Listed>,
    /// What Prometheus said to a query; nothing to those that it refused.
    answers: BTreeMap<String, Value>,
    /// What was asked.
    pub(crate) questions: Vec<Question>,
}

/// The metrics that an API lists, and whether they are of something in namespaces.
#[derive(Deserialize)]
pub(crate) struct Listed {
    /// The API.
    pub(crate) api: String,
    /// What prometheus-adapter lists.
    there: Vec<(String, bool)>,
    /// What is listed here, where that is something else.
    here: Option<Vec<(String, bool)>>,
    /// Why it is something else.
    because: Option<String>,
}

impl Listed {
    /// What this adapter should list.
    pub(crate) fn expected(&self) -> &[(String, bool)] {
        expected::<Vec<_>>(
            &self.api,
            &self.there,
            self.here.as_ref(),
            self.because.as_deref(),
        )
    }
}

/// What is said here, where it is something else for a reason, or what is said there.
fn expected<'a, T>(what: &str, there: &'a T, here: Option<&'a T>, because: Option<&str>) -> &'a T {
    assert_eq!(
        here.is_some(),
        because.is_some(),
        "a difference has a reason: {what}"
    );
    here.unwrap_or(there)
}

/// A question.
#[derive(Deserialize)]
pub(crate) struct Question {
    /// The path with its query.
    pub(crate) path: String,
    /// What prometheus-adapter says.
    there: Said,
    /// What is said here, where that is something else.
    here: Option<Said>,
    /// Why it is something else.
    because: Option<String>,
}

/// What somebody says.
#[derive(Deserialize)]
pub(crate) struct Said {
    /// The status.
    pub(crate) code: u16,
    /// The items without their times; quantities are in thousandths.
    #[serde(default)]
    pub(crate) items: Vec<Value>,
    /// What Prometheus was asked.
    query: Option<String>,
}

impl Recording {
    pub(crate) fn read(name: &str) -> Self {
        one(name)
    }

    /// These rules, and no series.
    pub(crate) fn of(rules: &str) -> Self {
        Self {
            rules: rules.lines().map(str::to_owned).collect(),
            ..Self::default()
        }
    }

    /// The rule file.
    pub(crate) fn rules(&self) -> String {
        self.rules.join("\n")
    }

    /// The series by the queries that find them, as Prometheus says them.
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

    /// What Prometheus says to queries.
    pub(crate) fn answers(&self) -> BTreeMap<String, Value> {
        self.answers.clone()
    }

    /// What Prometheus should be asked by this adapter.
    pub(crate) fn queries(&self) -> BTreeSet<String> {
        self.questions
            .iter()
            .filter_map(|question| question.expected().query.clone())
            .collect()
    }
}

impl Question {
    /// What this adapter should say.
    pub(crate) fn expected(&self) -> &Said {
        expected(
            &self.path,
            &self.there,
            self.here.as_ref(),
            self.because.as_deref(),
        )
    }
}

/// The cluster of all recordings.
pub(crate) fn the_cluster() -> Cluster {
    one("cluster")
}

/// Rule files that are right or wrong.
pub(crate) fn rule_files() -> Vec<RuleFile> {
    testing::vectors::load("prometheus-adapter/files")
}

fn one<T: DeserializeOwned>(name: &str) -> T {
    testing::vectors::load(&format!("prometheus-adapter/{name}"))
        .pop()
        .expect("a case")
}

/// A rule file that is right or wrong.
#[derive(Deserialize)]
pub(crate) struct RuleFile {
    /// What is in it.
    pub(crate) text: String,
    /// Whether prometheus-adapter runs with it.
    there: bool,
    /// Whether this adapter does, where that is something else.
    here: Option<bool>,
    /// Why it is something else.
    because: Option<String>,
}

impl RuleFile {
    /// Whether this adapter should run with it.
    pub(crate) fn is_right(&self) -> bool {
        *expected(
            &self.text,
            &self.there,
            self.here.as_ref(),
            self.because.as_deref(),
        )
    }
}
