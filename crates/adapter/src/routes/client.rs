//! The client of another provider, for the protocol of its kind.

use std::path::Path;
use std::time::Duration;

use http::HeaderValue;

use super::aggregated::Aggregated;
use super::keda::Keda;
use super::pem_reader::PemReader;
use super::response::UpstreamError;
use crate::request::ExternalMetricRequest;
use crate::value::ExternalValue;
use metric_routes::{Kind, UpstreamSpec};

/// The client of another provider. Clones share it.
#[derive(Clone)]
pub(super) enum UpstreamClient {
    /// The API `external.metrics.k8s.io`.
    Aggregated(Aggregated),
    /// The gRPC service of KEDA's operator.
    Keda(Keda),
}

impl UpstreamClient {
    /// `token`: the file with the adapter's service account token. The first request connects.
    pub(super) async fn open(
        spec: &UpstreamSpec,
        reader: &PemReader,
        token: &Path,
    ) -> Result<Self, String> {
        match spec.kind {
            Kind::Aggregated => {
                let aggregated = Aggregated::open(spec, reader, token).await;
                aggregated.map(Self::Aggregated)
            }
            Kind::KedaGrpc => Keda::open(spec, reader).await.map(Self::Keda),
        }
    }

    /// Whether the client can be kept. Reloads certificates that can change without a new client.
    pub(super) async fn is_up_to_date(&self, spec: &UpstreamSpec, reader: &PemReader) -> bool {
        match self {
            Self::Aggregated(aggregated) => aggregated.is_up_to_date(spec, reader).await,
            Self::Keda(keda) => {
                keda.follow_certificates(spec, reader).await;
                true
            }
        }
    }

    /// Rejects a request that the protocol cannot express.
    pub(super) fn validate(&self, request: &ExternalMetricRequest) -> Result<(), UpstreamError> {
        match self {
            Self::Aggregated(_) => Ok(()),
            Self::Keda(_) => super::keda::scaled_object(request).map(drop),
        }
    }

    /// Sends a request. The response may take `time`.
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
        let response = tokio::time::timeout(time, exchange)
            .await
            .unwrap_or(Err(UpstreamError::Timeout(time)));
        if let (
            Self::Keda(keda),
            Err(UpstreamError::Timeout(_) | UpstreamError::Connection { .. }),
        ) = (self, &response)
        {
            keda.reconnect();
        }
        response
    }
}
