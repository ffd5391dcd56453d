//! Metrics to predict and the queries for their history.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Algorithm;

/// Metric to predict.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    {
        "rule": "self.type == 'ResourceQuery' ? has(self.resourceQuery) : self.type == 'MetricQuery' ? has(self.metricQuery) : has(self.expressionQuery)",
        "message": "a metric has the query that its type names",
    },
]))]
pub struct PredictionMetric {
    /// Name of the metric within the object, such as resource.cpu.
    #[schemars(length(min = 1, max = 1024))]
    pub resource_identifier: String,
    /// Type of the query for its history.
    #[serde(rename = "type")]
    pub kind: QueryKind,
    /// CPU or memory of the target.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource_query: Option<String>,
    /// A metric selected by name and labels.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metric_query: Option<MetricQuery>,
    /// A PromQL expression.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expression_query: Option<ExpressionQuery>,
    /// Prediction algorithm.
    #[serde(default)]
    pub algorithm: Algorithm,
}

/// Type of a query for a metric's history.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum QueryKind {
    /// CPU or memory of the target.
    ResourceQuery,
    /// A metric selected by name and labels.
    MetricQuery,
    /// A PromQL expression.
    ExpressionQuery,
}

/// A metric selected by name and labels.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct MetricQuery {
    /// Name of the metric.
    pub metric_name: String,
    /// Label matchers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub labels: Vec<LabelQuery>,
}

/// Label matcher.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq, Eq)]
pub struct LabelQuery {
    /// Name of the label.
    pub key: String,
    /// Comparison of the label's value.
    pub operator: QueryOperator,
    /// The value, or with In the values.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub value: Vec<String>,
}

/// Comparison of a label's value.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum QueryOperator {
    /// Equal to the value.
    #[serde(rename = "=")]
    Equal,
    /// Not equal to the value.
    #[serde(rename = "!=")]
    NotEqual,
    /// Matches the regular expression.
    #[serde(rename = "=~")]
    Matches,
    /// Does not match the regular expression.
    #[serde(rename = "!~")]
    MatchesNot,
    /// One of several values.
    #[serde(rename = "in")]
    In,
}

/// A PromQL expression.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq, Eq)]
pub struct ExpressionQuery {
    /// The expression.
    pub expression: String,
}
