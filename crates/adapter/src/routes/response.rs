//! What comes of one question to another provider, whatever it speaks. Bounded in time and size.
//!
//! The text of an error is for whoever asks, who may be any user with an autoscaler.

use std::time::Duration;

use api::external_metrics::ExternalMetricValue;
use model::Quantity;
use sources::prometheus::Detail;

use crate::request::ExternalMetricRequest;
use crate::value::{ExternalValue, MilliValue};

/// Of one answer.
pub(super) const MAX_BYTES: usize = 1 << 20;
/// Of one answer.
const MAX_VALUES: usize = 1000;
/// Of what another provider says about itself: the autoscaler shows it in an event.
const MAX_CHARACTERS: usize = 200;

/// Why there is no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum UpstreamError {
    /// It says that it does not have the metric.
    #[error("{0}")]
    NotFound(String),
    /// It says that the question makes no sense.
    #[error("{0}")]
    BadRequest(String),
    /// It has the metric, but no value of it.
    #[error("it has no value: {0}")]
    NoValue(String),
    /// It lets us not ask.
    #[error("it does not let the adapter's service account read ({code}): {message}")]
    Denied {
        /// The code.
        code: u16,
        /// What it says.
        message: String,
    },
    /// It answered with something else.
    #[error("it answered {code}: {message}")]
    Code {
        /// The code.
        code: u16,
        /// What it says.
        message: String,
    },
    /// The answer cannot be used.
    #[error("its answer cannot be used: {0}")]
    Invalid(String),
    /// There was none. Callers see the text alone; addresses and names of the connection are in its
    /// source, for the log.
    #[error("no answer: {said}")]
    Connection {
        /// What it said, or the kind of the failure.
        said: String,
        /// What only the log may have.
        #[source]
        detail: Option<Detail>,
    },
    /// There was none in time.
    #[error("no answer within {0:?}")]
    Timeout(Duration),
}

impl UpstreamError {
    /// There was no connection, or it broke.
    pub(super) fn connection(detail: String) -> Self {
        Self::Connection {
            said: "the connection failed".to_owned(),
            detail: Some(detail.into()),
        }
    }

    /// Whether it is there at all. A single metric's trouble is no reason to ask about no other:
    /// providers answer 500 when the query behind one fails.
    pub(super) fn is_provider_alive(&self) -> bool {
        match self {
            Self::NotFound(_)
            | Self::BadRequest(_)
            | Self::NoValue(_)
            | Self::Denied { .. }
            | Self::Invalid(_) => true,
            // It has too much to do, or somebody in front of it answers in its place.
            Self::Code { code, .. } => !matches!(code, 429 | 502..=504),
            Self::Connection { .. } | Self::Timeout(_) => false,
        }
    }
}

/// The values of an answer, as they are served.
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
        let why = format!("{} values, at most {MAX_VALUES} are possible", items.len());
        return Err(UpstreamError::Invalid(why));
    }
    items.into_iter().map(|item| value(request, item)).collect()
}

fn value(
    request: &ExternalMetricRequest,
    item: ExternalMetricValue,
) -> Result<ExternalValue, UpstreamError> {
    let ExternalMetricValue {
        metric_name,
        metric_labels,
        timestamp,
        window,
        value,
    } = item;
    let quantity =
        value.ok_or_else(|| UpstreamError::Invalid("a value is no quantity".to_owned()))?;
    if is_not_a_number(&quantity) {
        return Err(UpstreamError::NoValue("one is not a number".to_owned()));
    }
    Ok(ExternalValue {
        metric: if metric_name.is_empty() {
            request.metric.clone()
        } else {
            metric_name
        },
        labels: metric_labels,
        at: timestamp.0,
        window_seconds: window.and_then(|seconds| u32::try_from(seconds).ok()),
        value: MilliValue::from_milli(quantity.milli_value()),
    })
}

/// What becomes of no number, and of infinity, in providers written in Go, prometheus-adapter and KEDA among them: the smallest count of thousandths on
/// amd64, and of infinity the largest on arm64. There, no number becomes 0, which cannot be told from one that is.
fn is_not_a_number(quantity: &Quantity) -> bool {
    quantity.milli_value() == i64::MIN || *quantity == Quantity::from_milli(i64::MAX)
}

/// So much of what another provider says as people are shown.
pub(super) fn truncated(message: &str) -> String {
    message
        .chars()
        .filter(|one| !one.is_control())
        .take(MAX_CHARACTERS)
        .collect()
}

/// An error and those behind it.
pub(super) fn sources<'a>(
    error: &'a (dyn std::error::Error + 'static),
) -> impl Iterator<Item = &'a (dyn std::error::Error + 'static)> {
    std::iter::successors(Some(error), |error| error.source())
}
