//! KEDA's operator: gRPC over mutual TLS. It returns configured results, hangs, dies and comes
//! back.

#[allow(unreachable_pub, clippy::pedantic)]
mod proto {
    tonic::include_proto!("api");
}

use std::sync::{Arc, Mutex};

use tempfile::TempDir;
use tokio::sync::watch;
use tonic::service::Routes;
use tonic::{Code, Request, Response, Status};

use crate::ca::Ca;
use crate::fixture::tls;
use crate::provider::Door;
use proto::metrics_service_server::{MetricsService, MetricsServiceServer};
use proto::{ExternalMetricValue, ExternalMetricValueList, Quantity, ScaledObjectRef, Time};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Replies {
    /// Returns this quantity.
    With(&'static str),
    WithMany(usize),
    Refuses(Code, &'static str),
    Hangs,
}

/// The `ScaledObject`, its namespace, and the metric.
pub(crate) type Question = (String, String, String);

struct Known {
    replies: watch::Sender<Replies>,
    asked: Mutex<Vec<Question>>,
}

/// A running operator. It ends when dropped.
pub(crate) struct Operator {
    pub(crate) door: Door,
    /// The CA of its own certificate and of its clients'.
    pub(crate) authority: Ca,
    known: Arc<Known>,
    _folder: TempDir,
}

impl Operator {
    pub(crate) async fn start(replies: Replies) -> Self {
        let known = Arc::new(Known {
            replies: watch::Sender::new(replies),
            asked: Mutex::default(),
        });
        let authority = Ca::new("keda");
        let folder = tempfile::tempdir().unwrap();
        let identity = authority.server("keda-operator");
        let tls = tls(&folder, &identity, Some(&authority)).await;
        let service = MetricsServiceServer::from_arc(Arc::clone(&known));
        let router = Routes::new(service).into_axum_router();
        let door = Door::before(router, &tls, true).await;
        Self {
            door,
            authority,
            known,
            _folder: folder,
        }
    }

    pub(crate) fn set_behaviour(&self, replies: Replies) {
        self.known.replies.send_replace(replies);
    }

    /// Takes the requests since the last call.
    pub(crate) fn take_requests(&self) -> Vec<Question> {
        std::mem::take(&mut self.known.asked.lock().unwrap())
    }
}

#[tonic::async_trait]
impl MetricsService for Known {
    async fn get_metrics(
        &self,
        request: Request<ScaledObjectRef>,
    ) -> Result<Response<ExternalMetricValueList>, Status> {
        let of = request.into_inner();
        let question = (of.name, of.namespace, of.metric_name);
        self.asked.lock().unwrap().push(question);
        let replies = *self
            .replies
            .subscribe()
            .wait_for(|replies| *replies != Replies::Hangs)
            .await
            .unwrap();
        let (text, count) = match replies {
            Replies::With(text) => (text, 1),
            Replies::WithMany(count) => ("1", count),
            Replies::Refuses(code, message) => return Err(Status::new(code, message)),
            Replies::Hangs => return Err(Status::internal("it hangs no more")),
        };
        let value = ExternalMetricValue {
            metric_name: "s0-cron".to_owned(),
            metric_labels: [("of".to_owned(), "keda".to_owned())].into(),
            timestamp: Some(Time {
                seconds: 1_767_225_600,
                nanos: 0,
            }),
            window: None,
            value: Some(Quantity {
                text: text.to_owned(),
            }),
        };
        Ok(Response::new(ExternalMetricValueList {
            items: vec![value; count],
        }))
    }
}
