//! How another provider is asked, by what it speaks.

use std::path::Path;
use std::time::Duration;

use http::HeaderValue;

use super::aggregated::Aggregated;
use super::file::{Kind, UpstreamSpec};
use super::keda::Keda;
use super::response::UpstreamError;
use crate::request::ExternalMetricRequest;
use crate::value::ExternalValue;

/// For a connection, so that there is time for a second one.
pub(super) const CONNECT_TIMEOUT: Duration = Duration::from_millis(600);

/// How another provider is asked. Clones share everything.
#[derive(Clone)]
pub(super) enum UpstreamClient {
    /// By the API that it answers.
    Aggregated(Aggregated),
    /// As KEDA asks its own operator.
    Keda(Keda),
}

impl UpstreamClient {
    /// `token`: the file with who we are. Nobody is connected to before the first question.
    pub(super) async fn open(spec: &UpstreamSpec, token: &Path) -> Result<Self, String> {
        match spec.kind {
            Kind::Aggregated => Aggregated::open(spec, token).await.map(Self::Aggregated),
            Kind::KedaGrpc => Keda::open(spec).await.map(Self::Keda),
        }
    }

    /// Whether it goes on as it is, with what its files hold now.
    pub(super) async fn is_up_to_date(&self, spec: &UpstreamSpec) -> bool {
        match self {
            Self::Aggregated(aggregated) => aggregated.is_up_to_date(spec).await,
            Self::Keda(keda) => {
                keda.follow_files().await;
                true
            }
        }
    }

    /// Whether such a question can be asked.
    pub(super) fn validate(&self, request: &ExternalMetricRequest) -> Result<(), UpstreamError> {
        match self {
            Self::Aggregated(_) => Ok(()),
            Self::Keda(_) => super::keda::scaled_object(request).map(drop),
        }
    }

    /// Asks; the answer takes `time` at most.
    pub(super) async fn exchange(
        &self,
        request: &ExternalMetricRequest,
        via: &HeaderValue,
        time: Duration,
    ) -> Result<Vec<ExternalValue>, UpstreamError> {
        let exchange = async {
            match self {
                Self::Aggregated(aggregated) => aggregated.exchange(request, via).await,
                Self::Keda(keda) => keda.exchange(request).await,
            }
        };
        let answer = tokio::time::timeout(time, exchange)
            .await
            .unwrap_or(Err(UpstreamError::Timeout(time)));
        if let (
            Self::Keda(keda),
            Err(UpstreamError::Timeout(_) | UpstreamError::Connection { .. }),
        ) = (self, &answer)
        {
            keda.reconnect();
        }
        answer
    }
}
