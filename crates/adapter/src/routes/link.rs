//! How another provider is asked, by what it speaks.

use std::path::Path;
use std::time::Duration;

use http::HeaderValue;

use super::aggregated::Aggregated;
use super::exchange::ExchangeError;
use super::file::{Kind, UpstreamSpec};
use super::keda::Keda;
use crate::answer::ExternalValue;
use crate::ask::ExternalAsk;

/// For a connection, so that there is time for a second one.
pub(super) const CONNECT_TIMEOUT: Duration = Duration::from_millis(600);

/// How another provider is asked. Clones share everything.
#[derive(Clone)]
pub(super) enum Link {
    /// By the API that it answers.
    Aggregated(Aggregated),
    /// As KEDA asks its own operator.
    Keda(Keda),
}

impl Link {
    /// `token`: the file with who we are. Nobody is connected to before the first question.
    pub(super) async fn open(spec: &UpstreamSpec, token: &Path) -> Result<Self, String> {
        match spec.kind {
            Kind::Aggregated => Aggregated::open(spec, token).await.map(Self::Aggregated),
            Kind::KedaGrpc => Keda::open(spec).await.map(Self::Keda),
        }
    }

    /// Whether it goes on as it is, with what its files hold now.
    pub(super) async fn is_current(&self, spec: &UpstreamSpec) -> bool {
        match self {
            Self::Aggregated(aggregated) => aggregated.is_current(spec).await,
            Self::Keda(keda) => {
                keda.follow_files().await;
                true
            }
        }
    }

    /// Whether such a question can be asked.
    pub(super) fn takes(&self, ask: &ExternalAsk) -> Result<(), ExchangeError> {
        match self {
            Self::Aggregated(_) => Ok(()),
            Self::Keda(_) => super::keda::scaled_object(ask).map(drop),
        }
    }

    /// Asks; the answer takes `time` at most.
    pub(super) async fn exchange(
        &self,
        ask: &ExternalAsk,
        hops: &HeaderValue,
        time: Duration,
    ) -> Result<Vec<ExternalValue>, ExchangeError> {
        let exchange = async {
            match self {
                Self::Aggregated(aggregated) => aggregated.exchange(ask, hops).await,
                Self::Keda(keda) => keda.exchange(ask).await,
            }
        };
        let answer = tokio::time::timeout(time, exchange)
            .await
            .unwrap_or(Err(ExchangeError::Timeout(time)));
        if let (Self::Keda(keda), Err(ExchangeError::Timeout(_) | ExchangeError::Lost { .. })) =
            (self, &answer)
        {
            keda.connect_anew();
        }
        answer
    }
}
