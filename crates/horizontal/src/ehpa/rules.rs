//! How histories are asked for where a rule file of prometheus-adapter says how their metrics are
//! made.
//!
//! Where several rules may make a metric, the last one whose series have samples counts, as for
//! prometheus-adapter, from which the native autoscaler has its number. Source: gocrane/crane
//! `pkg/controller/ehpa/predict.go`.

use std::sync::Arc;

use api::ehpa::MetricIdentifier;
use model::Selector;
use promql::rules::{QueryError, Rule, RuleError, RuleSet, Workload};

use crate::pod_names::PodNames;

/// So many rules that may make a metric are asked at the most.
const MOST_RULES: usize = 4;

/// The rules of a file.
#[derive(Debug, Clone, Default)]
pub struct Rules {
    /// What they were read from; none as long as nothing could be used.
    text: Option<String>,
    set: RuleSet,
    /// Matchers that every series must fit.
    matchers: Vec<String>,
    /// Why the file that is there now cannot be used; then the rules are those before it.
    pub error: Option<String>,
}

impl Rules {
    /// No rules yet. Every series must fit `matchers` matchers.
    pub fn new(matchers: Vec<String>) -> Self {
        Self {
            matchers,
            ..Self::default()
        }
    }

    /// Takes the rules of a text. With an error the rules stay as they are.
    pub fn read(&mut self, text: String) -> Result<(), RuleError> {
        self.set = RuleSet::parse(&text)?;
        self.text = Some(text);
        Ok(())
    }

    /// The sum of a metric over pods; none where no rule makes it, or why it cannot be asked for.
    pub(super) fn of_pods(
        &self,
        metric: &MetricIdentifier,
        namespace: &str,
        pods: &PodNames,
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

    /// The sum of an external metric; none where no rule makes it, or why it cannot be asked for.
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

    /// Why it is not known what the rules are: there were none yet that could be used.
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
    let sums = sums.take(MOST_RULES).collect::<Result<Vec<_>, _>>();
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
        let matchers = matchers
            .iter()
            .map(|matcher| (*matcher).to_owned())
            .collect();
        let mut rules = Self::new(matchers);
        rules.read(text.to_owned()).expect(text);
        rules
    }
}
