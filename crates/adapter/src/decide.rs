//! Who answers: the first provider that knows the metric.

use jiff::Timestamp;

use crate::answer::{ExternalValue, MetricValue};
use crate::ask::{CustomAsk, ExternalAsk, Subject};
use crate::expected::Expected;
use crate::guard::User;
use crate::refusal::Refusal;

/// Whoever knows metrics.
#[derive(Debug, Default)]
pub struct Providers {
    /// Predictions and windows of time.
    pub expected: Expected,
}

impl Providers {
    /// The values of a metric of objects.
    #[expect(clippy::unused_async, reason = "providers are asked")]
    pub async fn custom(&self, ask: &CustomAsk, now: Timestamp) -> Result<Vec<MetricValue>, Refusal> {
        if let Some(values) = self.expected.custom(ask, now)? {
            return Ok(values);
        }
        let CustomAsk { resource, subject, metric, .. } = ask;
        let of = match subject {
            Subject::Named(name) => format!("{resource} {name}"),
            Subject::Selected(_) => resource.to_string(),
        };
        Err(Refusal::NotFound(format!("the server could not find the metric {metric} for {of}")))
    }

    /// The values of a metric that belongs to no object. `_user`: whoever asks, and may.
    #[expect(clippy::unused_async, reason = "providers are asked")]
    pub async fn external(
        &self,
        ask: &ExternalAsk,
        _user: &User,
        now: Timestamp,
    ) -> Result<Vec<ExternalValue>, Refusal> {
        if let Some(values) = self.expected.external(ask, now)? {
            return Ok(values);
        }
        let ExternalAsk { metric, namespace, .. } = ask;
        Err(Refusal::NotFound(format!("the server could not find the metric {metric} in the namespace {namespace}")))
    }
}
