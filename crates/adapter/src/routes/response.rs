//! Responses of other providers and their errors, bounded in size.
//!
//! The text of an error is shown to callers, so it contains no addresses.

use std::time::Duration;

use api::external_metrics::ExternalMetricValue;
use model::Quantity;
use sources::prometheus::Detail;

use crate::request::ExternalMetricRequest;
use crate::value::{ExternalValue, MilliValue};

pub(super) const MAX_BYTES: usize = 1 << 20;
const MAX_VALUES: usize = 1000;
/// The largest length of a provider's message, which becomes part of an event.
const MAX_CHARACTERS: usize = 200;

/// The error of a request to another provider.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum UpstreamError {
    /// The provider does not have the metric.
    #[error("{0}")]
    NotFound(String),
    /// The provider rejects the request as not valid.
    #[error("{0}")]
    BadRequest(String),
    /// The provider has the metric, but no value.
    #[error("{0}")]
    NoValue(String),
    #[error("it denies access to the adapter's service account ({code}): {message}")]
    Denied { code: u16, message: String },
    /// The provider responded with another status code.
    #[error("it responded {code}: {message}")]
    Code { code: u16, message: String },
    #[error("its response is not valid: {0}")]
    Invalid(String),
    /// There was no response. The source, with addresses, is for the log only.
    #[error("no response: {message}")]
    Connection {
        /// The provider's message, or the kind of the failure.
        message: String,
        #[source]
        detail: Option<Detail>,
    },
    /// There was no response in time.
    #[error("no response within {0:?}")]
    Timeout(Duration),
    /// No request was sent.
    #[error("its circuit is open for some seconds after repeated failures")]
    CircuitOpen,
    /// There is no client. The log has the reason.
    #[error("its certificates or settings are not valid")]
    NoClient,
}

impl UpstreamError {
    pub(super) fn connection(detail: String) -> Self {
        Self::Connection {
            message: "the connection failed".to_owned(),
            detail: Some(detail.into()),
        }
    }

    /// Whether the provider works, so that other metrics can be requested. Providers respond 500 if
    /// the query of a single metric fails.
    pub(super) fn is_provider_alive(&self) -> bool {
        match self {
            Self::NotFound(_)
            | Self::BadRequest(_)
            | Self::NoValue(_)
            | Self::Denied { .. }
            | Self::Invalid(_) => true,
            // The provider is overloaded, or a proxy responded in its place.
            Self::Code { code, .. } => !matches!(code, 429 | 502..=504),
            Self::Connection { .. } | Self::Timeout(_) | Self::CircuitOpen | Self::NoClient => {
                false
            }
        }
    }
}

pub(super) fn values(
    request: &ExternalMetricRequest,
    items: Vec<ExternalMetricValue>,
) -> Result<Vec<ExternalValue>, UpstreamError> {
    if items.is_empty() {
        return Err(UpstreamError::NotFound(format!(
            "there are no values of the metric {}",
            request.metric
        )));
    }
    if items.len() > MAX_VALUES {
        let why = format!("{} values, at most {MAX_VALUES} are allowed", items.len());
        return Err(UpstreamError::Invalid(why));
    }
    items.into_iter().map(|item| value(request, item)).collect()
}

fn value(
    request: &ExternalMetricRequest,
    item: ExternalMetricValue,
) -> Result<ExternalValue, UpstreamError> {
    let quantity = item
        .value
        .ok_or_else(|| UpstreamError::Invalid("a value is not a quantity".to_owned()))?;
    if is_not_a_number(&quantity) {
        return Err(UpstreamError::NoValue("a value is not a number".to_owned()));
    }
    Ok(ExternalValue {
        metric: if item.metric_name.is_empty() {
            request.metric.clone()
        } else {
            item.metric_name
        },
        labels: item.metric_labels,
        at: item.timestamp.0,
        window_seconds: item.window.and_then(|seconds| u32::try_from(seconds).ok()),
        value: MilliValue::from_milli(quantity.milli_value()),
    })
}

/// Whether a number encodes NaN or infinity. Go providers, prometheus-adapter and KEDA among them,
/// encode both as the minimum int64 of thousandths on amd64, and infinity as the maximum on arm64.
/// There NaN becomes 0, which cannot be detected.
fn is_not_a_number(quantity: &Quantity) -> bool {
    quantity.milli_value() == i64::MIN || *quantity == Quantity::from_milli(i64::MAX)
}

/// Truncates a provider's message and removes control characters.
pub(super) fn truncated(message: &str) -> String {
    message
        .chars()
        .filter(|one| !one.is_control())
        .take(MAX_CHARACTERS)
        .collect()
}
