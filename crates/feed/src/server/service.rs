//! The calls of the feed.

use std::pin::Pin;
use std::sync::Arc;

use futures::Stream;
use futures::stream::unfold;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tonic::{Request, Response, Status};

use super::watch::{Counted, Watch, Woken, not_leading};
use super::{Answer, ServerLimits};
use crate::explanation::Question;
use crate::metrics::{Metrics, Refusal};
use crate::proto::feed_server::Feed;
use crate::proto::{
    ExplainRequest, ExplainResponse, ForecastsReset, ForecastsUpdate, RecommendationsUpdate, WatchForecastsRequest,
    WatchRecommendationsRequest, forecasts_update,
};
use crate::publisher::Publisher;

pub(super) struct Service {
    publisher: Publisher,
    answer: Answer,
    limits: ServerLimits,
    metrics: Metrics,
    shutdown: CancellationToken,
    readers: Arc<Semaphore>,
    explanations: Arc<Semaphore>,
}

type Messages<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

impl Service {
    pub(super) fn new(
        publisher: Publisher,
        answer: Answer,
        limits: ServerLimits,
        metrics: Metrics,
        shutdown: CancellationToken,
    ) -> Self {
        let readers = Arc::new(Semaphore::new(limits.readers));
        let explanations = Arc::new(Semaphore::new(limits.explanations));
        Self { publisher, answer, limits, metrics, shutdown, readers, explanations }
    }

    fn watch(&self) -> Result<Watch, Status> {
        let told = self.publisher.told();
        let term = self.term()?;
        let permit = self.permit(&self.readers)?;
        Ok(Watch {
            publisher: self.publisher.clone(),
            term,
            told,
            metrics: self.metrics.clone(),
            shutdown: self.shutdown.clone(),
            ends_at: Instant::now() + self.limits.stream_age,
            _counted: Counted::new(self.metrics.readers.clone(), permit),
        })
    }

    fn term(&self) -> Result<u64, Status> {
        let term = self.publisher.told().borrow().term;
        term.ok_or_else(|| {
            self.metrics.refused(Refusal::NotLeading);
            not_leading()
        })
    }

    fn permit(&self, places: &Arc<Semaphore>) -> Result<OwnedSemaphorePermit, Status> {
        Arc::clone(places).try_acquire_owned().map_err(|_| {
            self.metrics.refused(Refusal::Crowded);
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
        Ok(Response::new(Box::pin(self.watch()?.recommendations())))
    }

    async fn watch_forecasts(
        &self,
        _request: Request<WatchForecastsRequest>,
    ) -> Result<Response<Self::WatchForecastsStream>, Status> {
        Ok(Response::new(Box::pin(forecasts(self.watch()?))))
    }

    async fn explain(&self, request: Request<ExplainRequest>) -> Result<Response<ExplainResponse>, Status> {
        self.term()?;
        let permit = self.permit(&self.explanations)?;
        let question = Question::from(request.into_inner());
        let answer = Arc::clone(&self.answer);
        let answered = tokio::task::spawn_blocking(move || {
            let answered = answer(&question);
            drop(permit);
            answered.ok_or(question)
        });
        match answered.await {
            Ok(Ok(explained)) => Ok(Response::new(explained.into())),
            Ok(Err(Question { namespace, name, container })) => {
                let message = format!("no recommendation for container {container} of {namespace}/{name}");
                Err(Status::not_found(message))
            }
            Err(_) => Err(Status::internal("the explanation failed")),
        }
    }
}

/// Nothing, for as long as the term and the stream last.
fn forecasts(watch: Watch) -> impl Stream<Item = Result<ForecastsUpdate, Status>> {
    let term = watch.term;
    let nothing = forecasts_update::Change::Reset(ForecastsReset { first: true, complete: true });
    let first = ForecastsUpdate { term, change: Some(nothing) };
    unfold((Some(watch), Some(first)), async |(watch, first)| {
        let mut watch = watch?;
        if let Some(first) = first {
            return Some((Ok(first), (Some(watch), None)));
        }
        while watch.leads() {
            match watch.wait().await {
                Woken::News => {}
                Woken::Aged => return None,
                Woken::Ended => break,
            }
        }
        Some((Err(not_leading()), (None, None)))
    })
}
