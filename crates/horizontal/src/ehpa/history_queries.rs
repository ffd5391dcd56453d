//! Queries for the histories of custom and external metrics by the rules of prometheus-adapter.
//!
//! If several rules may produce a metric, the last one whose series have samples counts, as in
//! prometheus-adapter, which gives the HPA its values. Source: gocrane/crane
//! `pkg/controller/ehpa/predict.go`.

use std::sync::Arc;

use api::ehpa::MetricIdentifier;
use model::Selector;
use promql::rules::{QueryError, Rule, RuleError, RuleSet, Workload};

use crate::pod_name_pattern::PodNamePattern;

/// Maximum number of rules in the query for one metric.
const MAX_RULES: usize = 4;

#[derive(Debug, Clone, Default)]
pub struct Rules {
    /// Text of the rules in effect; `None` before the first valid one.
    text: Option<String>,
    set: RuleSet,
    /// Label matchers added to every query.
    matchers: Vec<String>,
    /// Error of the present file. The rules in effect are then the previous ones.
    pub error: Option<String>,
}

impl Rules {
    /// Empty rules. `matchers` are added to every query.
    pub fn new(matchers: Vec<String>) -> Self {
        Self {
            matchers,
            ..Self::default()
        }
    }

    /// Replaces the rules by those of a text. On an error they stay.
    pub fn read(&mut self, text: String) -> Result<(), RuleError> {
        if self.text.as_ref() != Some(&text) {
            self.set = RuleSet::parse(&text)?;
            self.text = Some(text);
        }
        Ok(())
    }

    /// Query for the sum of a metric over pods; `None` if no rule produces it.
    pub(super) fn of_pods(
        &self,
        metric: &MetricIdentifier,
        namespace: &str,
        pods: &PodNamePattern,
    ) -> Option<Result<String, String>> {
        let workload = Workload {
            namespace,
            pods: &pods.expression(),
        };
        let history = |rule: &Rule, selector: &Selector| {
            rule.history_of_pods(&metric.name, selector, &self.matchers, workload)
        };
        last_of(&self.set.custom, metric, history)
    }

    /// Query for the sum of an external metric; `None` if no rule produces it.
    pub fn external(
        &self,
        metric: &MetricIdentifier,
        namespace: &str,
    ) -> Option<Result<String, String>> {
        let history = |rule: &Rule, selector: &Selector| {
            rule.history_of_external(&metric.name, selector, &self.matchers, namespace)
        };
        last_of(&self.set.external, metric, history)
    }

    /// The error if no valid file has been read yet.
    pub(super) fn unknown(&self) -> Option<&str> {
        self.error.as_deref().filter(|_| self.text.is_none())
    }
}

fn last_of(
    rules: &[Arc<Rule>],
    metric: &MetricIdentifier,
    history: impl Fn(&Rule, &Selector) -> Option<Result<String, QueryError>>,
) -> Option<Result<String, String>> {
    if rules.is_empty() {
        return None;
    }
    let selector = match Selector::try_from(&metric.selector.clone().unwrap_or_default()) {
        Ok(selector) => selector,
        Err(error) => return Some(Err(format!("selector: {error}"))),
    };
    let sums = rules.iter().rev().filter_map(|rule| {
        let query = history(rule, &selector)?;
        Some(query.map_err(|error| format!("{}: {error}", rule.at)))
    });
    let sums = sums.take(MAX_RULES).collect::<Result<Vec<_>, _>>();
    sums.map(|sums| (!sums.is_empty()).then(|| sums.join(" or ")))
        .transpose()
}

impl Eq for Rules {}

impl PartialEq for Rules {
    fn eq(&self, other: &Self) -> bool {
        (&self.text, &self.matchers, &self.error) == (&other.text, &other.matchers, &other.error)
    }
}

#[cfg(test)]
impl Rules {
    pub(crate) fn of(text: &str, matchers: &[&str]) -> Self {
        let matchers = matchers.iter().map(|matcher| (*matcher).to_owned());
        let mut rules = Self::new(matchers.collect());
        rules.read(text.to_owned()).expect(text);
        rules
    }
}
