//! Writes of the status of `TimeSeriesPrediction` objects, and events about them.

use std::time::Instant;

use api::patch::{guarded, put_status};
use api::prediction::{TimeSeriesPrediction, TimeSeriesPredictionStatus};
use kube::Error;
use kube::api::Patch as Body;
use kube::runtime::events::EventType;
use runtime::object_writer::reference;
use runtime::{Leading, ObjectWriter};
use view::ObjectKey;

/// Writer of predictions. Clones share the client.
#[derive(Clone)]
pub(crate) struct Writer(ObjectWriter);

impl Writer {
    pub(crate) fn new(objects: ObjectWriter) -> Self {
        Self(objects)
    }

    /// Writes the status, if this process still leads. Returns whether the request was sent. An
    /// object that is gone, or another one of its name, is ignored.
    pub(crate) async fn update_status(
        &self,
        key: &ObjectKey,
        uid: &str,
        status: &TimeSeriesPredictionStatus,
        leading: &Leading,
    ) -> Result<bool, Error> {
        if !leading.holds(Instant::now()) {
            return Ok(false);
        }
        let patch = guarded(uid, put_status(status).map_err(Error::SerdeError)?);
        let api = self.0.untyped::<TimeSeriesPrediction>(&key.namespace);
        match api
            .patch_status(&key.name, &self.0.patching(), &Body::Json::<()>(patch))
            .await
        {
            // The object is gone.
            Err(Error::Api(answer)) if answer.code == 404 => Ok(true),
            written => written.map(|_| true),
        }
    }

    /// Records an event. Events are best effort: a failure is ignored.
    pub(crate) async fn record_event(
        &self,
        key: &ObjectKey,
        uid: &str,
        reason: &str,
        note: &str,
        is_bad: bool,
    ) {
        let kind = if is_bad {
            EventType::Warning
        } else {
            EventType::Normal
        };
        let object = reference::<TimeSeriesPrediction>(&key.namespace, &key.name, uid);
        self.0
            .record_event(&object, kind, reason, "Predict", note)
            .await;
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use http::{Request, Response};
    use kube::Client;

    use super::*;

    #[tokio::test]
    async fn a_status_is_written_only_during_the_term() {
        let requests = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&requests);
        let service = tower::service_fn(move |_: Request<kube::client::Body>| {
            counted.fetch_add(1, Ordering::Relaxed);
            let object = r#"{"apiVersion": "v1", "kind": "Any", "metadata": {"name": "web"}}"#;
            async move {
                Ok::<_, Infallible>(Response::new(kube::client::Body::from(
                    object.as_bytes().to_vec(),
                )))
            }
        });
        let writer = Writer::new(ObjectWriter::new(Client::new(service, "default"), "test"));
        let (key, leading) = (
            ObjectKey::new("shop", "web"),
            Leading::alone(jiff::Timestamp::UNIX_EPOCH),
        );
        for (is_sent, count) in [(true, 1), (false, 1)] {
            let sent = writer
                .update_status(&key, "u1", &TimeSeriesPredictionStatus::default(), &leading)
                .await;
            assert_eq!(
                (sent.expect("answered"), requests.load(Ordering::Relaxed)),
                (is_sent, count)
            );
            leading.lost().cancel();
        }
    }
}
