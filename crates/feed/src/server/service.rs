//! The feed's gRPC methods.

use std::pin::Pin;
use std::sync::Arc;

use futures::Stream;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tonic::{Request, Response, Status};

use super::Server;
use super::connection::Peer;
use super::watch::{ReaderGuard, Watch, not_leading};
use crate::application::check;
use crate::metrics::Refusal;
use crate::proto::feed_server::Feed;
use crate::proto::{
    ForecastsUpdate, RecommendationsUpdate, ReportApplicationsRequest, ReportApplicationsResponse,
    WatchForecastsRequest, WatchRecommendationsRequest,
};
use crate::publisher::Publisher;
use crate::topic::Topic;

pub(super) struct Service {
    pub(super) server: Arc<Server>,
    pub(super) shutdown: CancellationToken,
    pub(super) readers: Arc<Semaphore>,
}

type Messages<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

impl Service {
    fn watch<V: Topic>(&self, publisher: &Publisher<V>) -> Result<Watch<V>, Status> {
        let state = publisher.published();
        let term = self.term(publisher)?;
        let permit = self.permit()?;
        let metrics = self.server.metrics.clone();
        Ok(Watch {
            publisher: publisher.clone(),
            term,
            state,
            shutdown: self.shutdown.clone(),
            ends_at: Instant::now() + self.server.limits.stream_age,
            _guard: ReaderGuard::new(metrics.readers.clone(), permit),
            metrics,
        })
    }

    fn term<V: Topic>(&self, publisher: &Publisher<V>) -> Result<u64, Status> {
        let term = publisher.published().borrow().term;
        term.ok_or_else(|| {
            self.server.metrics.refused(Refusal::NotLeading);
            not_leading()
        })
    }

    fn permit(&self) -> Result<OwnedSemaphorePermit, Status> {
        Arc::clone(&self.readers).try_acquire_owned().map_err(|_| {
            self.server.metrics.refused(Refusal::TooManyReaders);
            Status::resource_exhausted("too many calls at the same time")
        })
    }
}

#[tonic::async_trait]
impl Feed for Service {
    type WatchRecommendationsStream = Messages<RecommendationsUpdate>;
    type WatchForecastsStream = Messages<ForecastsUpdate>;

    async fn watch_recommendations(
        &self,
        _request: Request<WatchRecommendationsRequest>,
    ) -> Result<Response<Self::WatchRecommendationsStream>, Status> {
        let messages = self.watch(&self.server.publisher)?.messages();
        Ok(Response::new(Box::pin(messages)))
    }

    async fn watch_forecasts(
        &self,
        _request: Request<WatchForecastsRequest>,
    ) -> Result<Response<Self::WatchForecastsStream>, Status> {
        let messages = self.watch(&self.server.forecasts)?.messages();
        Ok(Response::new(Box::pin(messages)))
    }

    async fn report_applications(
        &self,
        request: Request<ReportApplicationsRequest>,
    ) -> Result<Response<ReportApplicationsResponse>, Status> {
        let peer = request.extensions().get::<Peer>();
        if !peer.is_some_and(|peer| peer.may_report) {
            self.server.metrics.refused(Refusal::Name);
            return Err(Status::permission_denied(
                "the client certificate names no client that may report",
            ));
        }
        let term = self.term(&self.server.publisher)?;
        let ReportApplicationsRequest { reports } = request.into_inner();
        check(&reports).map_err(|error| Status::invalid_argument(error.to_string()))?;
        (self.server.reports)(reports);
        Ok(Response::new(ReportApplicationsResponse { term }))
    }
}
