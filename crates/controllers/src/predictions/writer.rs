//! Writes of the status of `TimeSeriesPrediction` objects, and events about them.

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

    /// The writer for one term of leadership.
    pub(crate) fn during(&self, leading: &Leading) -> Self {
        Self(self.0.during(leading))
    }

    /// Writes the status. An object that is gone, or another one of its name, is ignored.
    pub(crate) async fn update_status(
        &self,
        key: &ObjectKey,
        uid: &str,
        status: &TimeSeriesPredictionStatus,
    ) -> Result<(), Error> {
        let patch = guarded(uid, put_status(status).map_err(Error::SerdeError)?);
        let (patch, params) = (Body::Json::<()>(patch), self.0.patching());
        let api = self.0.untyped::<TimeSeriesPrediction>(&key.namespace);
        match api.patch_status(&key.name, &params, &patch).await {
            // The object is gone.
            Err(Error::Api(answer)) if answer.code == 404 => Ok(()),
            written => written.map(drop),
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
    use runtime::NotLeading;

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
        let objects = ObjectWriter::new(Client::new(service, "default"), "test");
        let leading = Leading::alone(jiff::Timestamp::UNIX_EPOCH);
        let writer = Writer::new(objects).during(&leading);
        let (key, status) = (
            ObjectKey::new("shop", "web"),
            TimeSeriesPredictionStatus::default(),
        );
        for is_refused in [false, true] {
            let written = writer.update_status(&key, "u1", &status).await;
            assert_eq!(
                written.map_err(|error| NotLeading::is(&error)),
                if is_refused { Err(true) } else { Ok(()) }
            );
            assert_eq!(requests.load(Ordering::Relaxed), 1);
            leading.lost().cancel();
        }
    }
}
