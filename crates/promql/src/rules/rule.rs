//! One rule: its series, the names of their metrics, their objects, and the query for values.

mod history;

use std::collections::BTreeMap;
use std::sync::Arc;

use model::Selector;

use super::QueryError;
use super::association::Association;
use super::file::{File, RuleError, RuleText};
use super::matchers::Matchers;
use super::metric_name::Naming;
use super::series::SeriesQuery;
use super::template::{Fields, Template, Value};

pub use history::Workload;

/// Fields available in queries.
const FIELDS: &[&str] = &[
    "Series",
    "LabelMatchers",
    "LabelValuesByName",
    "GroupBy",
    "GroupBySlice",
];
/// Namespace label of external rules without their own.
const NAMESPACE_LABEL: &str = "namespace";

#[derive(Debug)]
pub struct Rule {
    /// Path in the file, such as `externalRules[2]`.
    pub at: String,
    pub series_query: String,
    pub naming: Naming,
    pub association: Association,
    /// Parsed `series_query`, if it has the usual form.
    series: Option<SeriesQuery>,
    query: Template,
    /// Whether only series of the requesting namespace count.
    is_namespaced: bool,
}

/// All rules of a file.
#[derive(Debug, Clone, Default)]
pub struct RuleSet {
    pub custom: Vec<Arc<Rule>>,
    pub external: Vec<Arc<Rule>>,
    /// Warnings about a valid file.
    pub warnings: Vec<RuleError>,
}

#[derive(Debug, Clone, Copy)]
pub struct Objects<'a> {
    /// Label with their names.
    pub label: &'a str,
    pub names: &'a [String],
    /// Label with their namespace, and the namespace.
    pub namespace: Option<(&'a str, &'a str)>,
}

impl RuleSet {
    pub fn parse(text: &str) -> Result<Self, RuleError> {
        let file = super::file::parse(text)?;
        let has_resource_rules = file.resource_rules.is_some();
        let [custom, external] = read(file).map(Iterator::collect::<Result<Vec<_>, _>>);
        let (custom, external) = (custom?, external?);
        let mut warnings = Vec::new();
        if has_resource_rules {
            let why = "metrics.k8s.io is not served here: keep metrics-server, or the program that serves it now";
            warnings.push(RuleError::new("resourceRules", why));
        }
        for rule in custom.iter().filter(|rule| rule.association.is_empty()) {
            let why = "neither template nor overrides is set, so no series belongs to an object";
            warnings.push(RuleError::new(format!("{}.resources", rule.at), why));
        }
        Ok(Self {
            custom,
            external,
            warnings,
        })
    }
}

/// All errors of a file: that of its fields, else the first error of each rule.
pub fn errors(text: &str) -> Vec<RuleError> {
    let file = match super::file::parse(text) {
        Ok(file) => file,
        Err(error) => return vec![error],
    };
    let rules = read(file).into_iter().flatten();
    rules.filter_map(Result::err).collect()
}

/// The custom and the external rules.
fn read(file: File) -> [impl Iterator<Item = Result<Arc<Rule>, RuleError>>; 2] {
    [
        ("rules", file.rules, true),
        ("externalRules", file.external_rules, false),
    ]
    .map(|(field, rules, is_of_objects)| {
        let rules = rules.unwrap_or_default().into_iter().enumerate();
        rules.map(move |(index, rule)| {
            Rule::read(&format!("{field}[{index}]"), rule, is_of_objects).map(Arc::new)
        })
    })
}

impl Rule {
    fn read(at: &str, text: RuleText, is_of_objects: bool) -> Result<Self, RuleError> {
        let required = [
            ("seriesQuery", &text.series_query),
            ("metricsQuery", &text.metrics_query),
        ];
        for (field, value) in required {
            if value.trim().is_empty() {
                return Err(RuleError::new(format!("{at}.{field}"), "must be set"));
            }
        }
        let in_query = |why: String| RuleError::new(format!("{at}.metricsQuery"), why);
        let query = Template::parse(&text.metrics_query, FIELDS);
        let rule = Self {
            naming: Naming::read(at, &text.name, &text.series_filters.unwrap_or_default())?,
            association: Association::read(at, &text.resources)?,
            query: query.map_err(in_query)?,
            is_namespaced: text.resources.namespaced.unwrap_or(true),
            series: SeriesQuery::read(&text.series_query),
            series_query: text.series_query,
            at: at.to_owned(),
        };
        rule.try_out(is_of_objects)
            .map_err(|error| in_query(error.to_string()))?;
        Ok(rule)
    }

    /// Detects errors that appear only when the query is evaluated.
    fn try_out(&self, is_of_objects: bool) -> Result<(), QueryError> {
        let names = ["one".to_owned(), "other".to_owned()];
        if is_of_objects {
            let objects = Objects {
                label: "pod",
                names: &names,
                namespace: Some((NAMESPACE_LABEL, "default")),
            };
            self.query_objects("series", objects, &Selector::everything())?;
        } else {
            self.query_external("series", None, "default", &Selector::everything())?;
        }
        Ok(())
    }

    /// The query for the values of objects. As upstream, the selector comes first, then the
    /// namespace, then the names.
    pub fn query_objects(
        &self,
        series: &str,
        objects: Objects<'_>,
        selector: &Selector,
    ) -> Result<String, QueryError> {
        let mut matchers = Matchers::of(selector)?;
        if let Some((label, namespace)) = objects.namespace {
            matchers.one_of(label, [namespace]);
        }
        matchers.one_of(objects.label, objects.names.iter().map(String::as_str));
        self.fill(series, &matchers, vec![objects.label.to_owned()])
    }

    pub fn query_external(
        &self,
        series: &str,
        namespace_label: Option<&str>,
        namespace: &str,
        selector: &Selector,
    ) -> Result<String, QueryError> {
        let mut matchers = Matchers::of(selector)?;
        if self.is_namespaced {
            matchers.one_of(namespace_label.unwrap_or(NAMESPACE_LABEL), [namespace]);
        }
        self.fill(series, &matchers, Vec::new())
    }

    fn fill(
        &self,
        series: &str,
        matchers: &Matchers,
        group_by: Vec<String>,
    ) -> Result<String, QueryError> {
        let values = if self.query.uses("LabelValuesByName") {
            matchers.plain_values()?
        } else {
            BTreeMap::default()
        };
        let query = self.query.fill(&Fields::from([
            ("Series", Value::Text(series.to_owned())),
            ("LabelMatchers", Value::Text(matchers.text())),
            ("LabelValuesByName", Value::Map(values)),
            ("GroupBy", Value::Text(group_by.join(","))),
            ("GroupBySlice", Value::List(group_by)),
        ]));
        query.map_err(|error| {
            QueryError::Wrong(format!("the query of {} cannot be made: {error}", self.at))
        })
    }
}

#[cfg(test)]
mod tests;
