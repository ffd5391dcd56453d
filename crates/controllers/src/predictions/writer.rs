//! Writes of the status of `TimeSeriesPrediction` objects, and events about them.

use api::prediction::{TimeSeriesPrediction, TimeSeriesPredictionStatus};
use kube::Error;
use kube::runtime::events::EventType;
use runtime::ObjectWriter;
use runtime::object_writer::reference;
use view::ObjectKey;

use crate::status_writer::put_status;

/// Writes the status. An object that is gone, or another one of its name, is ignored.
pub(crate) async fn update_status(
    objects: &ObjectWriter,
    key: &ObjectKey,
    uid: &str,
    status: &TimeSeriesPredictionStatus,
) -> Result<(), Error> {
    match put_status::<TimeSeriesPrediction>(objects, key, uid, status).await {
        Err(Error::Api(answer)) if answer.code == 404 => Ok(()),
        written => written,
    }
}

/// Records an event. Events are best effort: a failure is ignored.
pub(crate) async fn record_event(
    objects: &ObjectWriter,
    key: &ObjectKey,
    uid: &str,
    type_: EventType,
    reason: &str,
    note: &str,
) {
    let object = reference::<TimeSeriesPrediction>(&key.namespace, &key.name, uid);
    let recorded = objects.record_event(&object, type_, reason, "Predict", note);
    recorded.await;
}
