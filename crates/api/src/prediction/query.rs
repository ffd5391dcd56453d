//! What is predicted, and how its history is asked for.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Algorithm;

/// One metric that is predicted.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    {
        "rule": "self.type == 'ResourceQuery' ? has(self.resourceQuery) : self.type == 'MetricQuery' ? has(self.metricQuery) : has(self.expressionQuery)",
        "message": "a metric has the query that its type names",
    },
]))]
pub struct PredictionMetric {
    /// Name of the metric among those of the object, such as resource.cpu.
    #[schemars(length(min = 1, max = 1024))]
    pub resource_identifier: String,
    /// Which of the queries asks for its history.
    #[serde(rename = "type")]
    pub kind: QueryKind,
    /// CPU or memory of the target.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource_query: Option<String>,
    /// A metric by its name and labels.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metric_query: Option<MetricQuery>,
    /// An expression in PromQL.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expression_query: Option<ExpressionQuery>,
    /// By which algorithm it is predicted.
    #[serde(default)]
    pub algorithm: Algorithm,
}

/// How the history of a metric is asked for.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum QueryKind {
    /// CPU or memory of the target.
    ResourceQuery,
    /// A metric by its name and labels.
    MetricQuery,
    /// An expression in PromQL.
    ExpressionQuery,
}

/// A metric by its name and labels.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct MetricQuery {
    /// Name of the metric.
    pub metric_name: String,
    /// Conditions on its labels.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub labels: Vec<LabelQuery>,
}

/// A condition on one label.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq, Eq)]
pub struct LabelQuery {
    /// Name of the label.
    pub key: String,
    /// How its value must be.
    pub operator: QueryOperator,
    /// The value, or with in the values.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub value: Vec<String>,
}

/// How the value of a label must be.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum QueryOperator {
    /// The same.
    #[serde(rename = "=")]
    Equal,
    /// Another.
    #[serde(rename = "!=")]
    NotEqual,
    /// Matched by the expression.
    #[serde(rename = "=~")]
    Matches,
    /// Not matched by the expression.
    #[serde(rename = "!~")]
    MatchesNot,
    /// One of several.
    #[serde(rename = "in")]
    In,
}

/// An expression in PromQL.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq, Eq)]
pub struct ExpressionQuery {
    /// The expression.
    pub expression: String,
}
