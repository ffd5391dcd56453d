//! Watches of a kind of object, event by event.

use std::pin::pin;

use futures::AsyncBufReadExt as _;
use kube::api::WatchParams;
use kube::core::{Request, Status};
use serde::Deserialize;
use tokio::time::{Instant, timeout, timeout_at};
use view::Entry;

use super::{
    CALL_TIMEOUT, CATCH_UP, SILENCE, SILENCE_WITHOUT_BOOKMARKS, Source, WATCH_SECONDS, admitted,
};
use crate::memory_limits::MemoryLimits;
use crate::splitter::{Framing, Item, Piece};
use crate::table_writer::{Reading, TableWriter};
use crate::watch_error::WatchError;

/// Watches until the server ends the watch. Advances `version` with each event.
///
/// Events that were missed while the watch was down come first. The view is current at the first
/// bookmark, which follows them, or [`CATCH_UP`] after the watch was opened. `has_bookmarks`
/// becomes true at the first bookmark of any watch.
pub(super) async fn watch<T>(
    source: &Source,
    read: &(impl Fn(&Item<'_>) -> Reading<T> + Sync),
    writer: &TableWriter<T>,
    allowance: &mut MemoryLimits,
    has_bookmarks: &mut bool,
    version: &mut String,
) -> Result<(), WatchError>
where
    T: Entry + Send,
    T::Key: Send,
{
    let params = WatchParams {
        field_selector: source.fields.clone(),
        ..WatchParams::default()
    }
    .timeout(WATCH_SECONDS);
    let request = Request::new(&source.path)
        .watch(&params, version)
        .map_err(kube::Error::BuildRequest)?;
    let mut body = pin!(timeout(CALL_TIMEOUT, source.client.request_stream(request)).await??);
    let mut splitter = source.splitter(Framing::Events);
    let mut subject = None;
    let caught_up_at = Instant::now() + CATCH_UP;
    let mut is_current = false;
    loop {
        let silence = if *has_bookmarks {
            SILENCE
        } else {
            SILENCE_WITHOUT_BOOKMARKS
        };
        let deadline = if is_current {
            Instant::now() + silence
        } else {
            caught_up_at
        };
        let chunk = match timeout_at(deadline, body.fill_buf()).await {
            Ok(chunk) => chunk?,
            Err(_) if !is_current => {
                is_current = true;
                writer.resumed();
                continue;
            }
            Err(elapsed) => return Err(elapsed.into()),
        };
        if chunk.is_empty() {
            return splitter.end().map_err(|_| WatchError::CutShort);
        }
        let length = chunk.len();
        let (mut had_bookmark, mut failure) = (false, None);
        let pushed = splitter.push(chunk, |piece| match piece {
            _ if failure.is_some() => {}
            Piece::Item(item) => subject = Some(Subject::of(&item, read)),
            Piece::Document(text) => {
                match apply_event(text, subject.take(), writer, allowance, version) {
                    Ok(Event::Bookmark) => had_bookmark = true,
                    Ok(Event::Change) => {}
                    Err(error) => failure = Some(error),
                }
            }
        });
        if let Some(failure) = failure {
            return Err(failure);
        }
        pushed.map_err(|_| WatchError::Unreadable)?;
        body.consume_unpin(length);
        *has_bookmarks |= had_bookmark;
        if !is_current && (had_bookmark || Instant::now() >= caught_up_at) {
            is_current = true;
            writer.resumed();
        }
    }
}

pub(super) struct Subject<T: Entry> {
    namespace: String,
    name: String,
    version: String,
    weight: usize,
    /// `None` for an object without a name, such as that of a bookmark or an error.
    reading: Option<Reading<T>>,
    /// Text of an object without a name.
    text: Vec<u8>,
}

impl<T: Entry> Subject<T> {
    pub(super) fn of(item: &Item<'_>, read: &impl Fn(&Item<'_>) -> Reading<T>) -> Self {
        let is_named = !item.name.is_empty();
        Self {
            namespace: item.namespace.to_owned(),
            name: item.name.to_owned(),
            version: item.version.to_owned(),
            weight: item.weight,
            reading: is_named.then(|| read(item)),
            text: item.text.filter(|_| !is_named).unwrap_or_default().to_vec(),
        }
    }
}

#[derive(Deserialize)]
struct EventEnvelope {
    #[serde(rename = "type")]
    kind: String,
}

/// The types of events other than errors.
pub(super) enum Event {
    Change,
    /// All changes up to a `resourceVersion` were sent.
    Bookmark,
}

pub(super) fn apply_event<T: Entry>(
    envelope: &[u8],
    subject: Option<Subject<T>>,
    writer: &TableWriter<T>,
    allowance: &mut MemoryLimits,
    version: &mut String,
) -> Result<Event, WatchError> {
    let Ok(EventEnvelope { kind }) = serde_json::from_slice(envelope) else {
        return Err(serde_json::from_slice::<Status>(envelope)
            .map_or(WatchError::Unreadable, WatchError::ended));
    };
    let Subject {
        namespace,
        name,
        version: seen,
        weight,
        reading,
        text,
    } = subject.ok_or(WatchError::Unreadable)?;
    let event = match (kind.as_str(), reading) {
        ("ADDED" | "MODIFIED", Some(reading)) => {
            let kept = allowance.weight(&namespace, &name);
            writer.apply(admitted(
                reading,
                &namespace,
                &name,
                [weight, kept],
                allowance,
            ));
            Event::Change
        }
        ("DELETED", Some(reading)) => {
            allowance.release(&namespace, &name);
            writer.delete(reading);
            Event::Change
        }
        ("BOOKMARK", None) => Event::Bookmark,
        ("ERROR", None) => {
            return Err(serde_json::from_slice::<Status>(&text)
                .map_or(WatchError::Unreadable, WatchError::ended));
        }
        _ => return Err(WatchError::Unreadable),
    };
    if !seen.is_empty() {
        *version = seen;
    }
    Ok(event)
}
