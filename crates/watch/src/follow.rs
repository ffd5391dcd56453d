//! Lists a kind of object, watches it from there, and starts again whenever the watch breaks. It
//! never gives up.
//!
//! Unlike `kube::runtime::watcher` it detects that a broken watch is up again even without changes,
//! which defines staleness. It also reads objects one by one as their bytes arrive, so that memory
//! does not depend on the number or the size of the objects in a page.

#[cfg(test)]
mod hostile;
#[cfg(test)]
mod tests;

use std::pin::pin;
use std::time::Duration;

use futures::AsyncBufReadExt as _;
use kube::api::{ListParams, WatchParams};
use kube::core::{Request, Status};
use kube::{Client, Resource};
use serde::Deserialize;
use tokio::time::{Instant, sleep, timeout, timeout_at};
use view::Entry;

use crate::allowance::{Allowance, Limits};
use crate::failure::Failure;
use crate::retry::Retry;
use crate::splitter::{ExcludedField, Framing, Item, Piece, Splitter};
use crate::table_writer::{Reading, TableWriter};

/// Objects per page of a list, unless they are large.
const PAGE: u32 = 500;
/// Byte limit of a page with more than one object. The API server buffers a whole page, and the
/// client accepts at most 128 MiB.
const PAGE_BYTES: usize = 32 << 20;
/// Timeout of one request, and of one page.
const CALL_TIMEOUT: Duration = Duration::from_mins(1);
/// Duration of one watch, requested from the server.
const WATCH_SECONDS: u32 = 290;
/// Silence after which a watch with bookmarks is dead. The server sends bookmarks about once a
/// minute.
const SILENCE: Duration = Duration::from_secs(150);
/// Silence after which a watch without bookmarks is dead. The server sends none for kinds without a
/// watch cache, such as events, but ends each watch after [`WATCH_SECONDS`].
const SILENCE_WITHOUT_BOOKMARKS: Duration = Duration::from_mins(5);
/// Time after which a resumed watch counts as current: the server sends missed events at once.
const CATCH_UP: Duration = Duration::from_secs(5);
/// A watch that ends sooner than this backs off like a failed one, to spare a server that closes at
/// once.
const SHORT: Duration = Duration::from_secs(1);
/// Minimum time between a list and a further one for objects that had no room. Below the duration
/// of a watch.
const LIST_AGAIN: Duration = Duration::from_mins(4);

/// The objects to read: URL, field selector, excluded fields and limits.
pub(crate) struct Source {
    client: Client,
    path: String,
    fields: Option<String>,
    excluded: &'static [ExcludedField],
    limits: Limits,
}

impl Source {
    /// Reads all objects of a kind, or those of one namespace, without the `excluded` fields.
    pub(crate) fn new<K: Resource<DynamicType = ()>>(
        client: Client,
        namespace: Option<&str>,
        excluded: &'static [ExcludedField],
    ) -> Self {
        Self {
            client,
            path: K::url_path(&(), namespace),
            fields: None,
            excluded,
            limits: Limits::OTHERS,
        }
    }

    /// Sets a field selector.
    pub(crate) fn with_fields(self, fields: impl Into<String>) -> Self {
        Self {
            fields: Some(fields.into()),
            ..self
        }
    }

    /// Sets the limits of the objects.
    pub(crate) fn with_limits(self, limits: Limits) -> Self {
        Self { limits, ..self }
    }

    fn splitter(&self, framing: Framing) -> Splitter {
        Splitter::new(framing, self.excluded, self.limits.object)
    }
}

/// State of the list-and-watch protocol.
enum State {
    /// Everything has to be listed.
    List,
    /// Everything up to this `resourceVersion` is known.
    Watch { version: String },
}

/// Runs until it is dropped.
pub(crate) async fn follow<T>(
    source: Source,
    read: impl Fn(&Item<'_>) -> Reading<T> + Send + Sync,
    writer: TableWriter<T>,
) where
    T: Entry + Send + Sync,
    T::Key: Send,
{
    let mut state = State::List;
    let mut retry = Retry::default();
    let mut page = PAGE;
    let mut allowance = Allowance::new(source.limits);
    let mut has_bookmarks = false;
    let mut listed_at = Instant::now();
    loop {
        let started = Instant::now();
        let result = match &mut state {
            State::List => match list(&source, &read, &allowance, &mut page).await {
                Ok(listed) => {
                    writer.reset(listed.readings);
                    allowance = listed.allowance;
                    listed_at = started;
                    state = State::Watch {
                        version: listed.version,
                    };
                    continue;
                }
                Err(failure) => Err(failure),
            },
            State::Watch { version } => {
                watch(
                    &source,
                    &read,
                    &writer,
                    &mut allowance,
                    &mut has_bookmarks,
                    version,
                )
                .await
            }
        };
        if allowance.may_admit_refused() && listed_at.elapsed() >= LIST_AGAIN {
            state = State::List;
        }
        let lasted = started.elapsed() >= SHORT;
        if let Err(failure) = &result {
            writer.failed(failure);
            if failure.needs_list() {
                state = State::List;
            }
        }
        if result.is_ok() && lasted {
            retry.reset();
        } else {
            sleep(retry.next(rand::random())).await;
        }
    }
}

/// A complete list.
struct Listed<T: Entry> {
    /// The `resourceVersion` to watch from.
    version: String,
    readings: Vec<Reading<T>>,
    /// Weights of the kept objects.
    allowance: Allowance,
}

/// Reads all pages. `size` is the number of objects of the next page; the next list starts with it.
async fn list<T>(
    source: &Source,
    read: &(impl Fn(&Item<'_>) -> Reading<T> + Sync),
    before: &Allowance,
    size: &mut u32,
) -> Result<Listed<T>, Failure>
where
    T: Entry + Send,
    T::Key: Send,
{
    let mut readings = Vec::new();
    let mut allowance = Allowance::new(source.limits);
    let mut token = None;
    loop {
        let mut params = ListParams {
            field_selector: source.fields.clone(),
            ..ListParams::default()
        }
        .limit(*size);
        params.continue_token = token.clone();
        let length = readings.len();
        let found = |item: &Item<'_>| match admitted(
            read(item),
            item.namespace,
            item.name,
            [item.weight, before.weight(item.namespace, item.name)],
            &mut allowance,
        ) {
            Reading::Outside(_) => {}
            reading => readings.push(reading),
        };
        let page = match timeout(CALL_TIMEOUT, page(source, &params, found)).await {
            Ok(page) => page?,
            Err(elapsed) => {
                *size = (*size / 2).max(1);
                return Err(elapsed.into());
            }
        };
        let Page { metadata, bytes } = match page {
            Ok(page) => page,
            Err(TooLarge { objects }) => {
                // The objects are requested again in smaller pages.
                readings.truncate(length);
                *size = (objects / 2).clamp(1, (*size / 2).max(1));
                continue;
            }
        };
        if bytes < PAGE_BYTES / 4 {
            *size = size.saturating_mul(2).min(PAGE);
        }
        token = metadata.continue_token.filter(|token| !token.is_empty());
        if token.is_none() {
            let version = metadata.resource_version.ok_or(Failure::NoVersion)?;
            return Ok(Listed {
                version,
                readings,
                allowance,
            });
        }
    }
}

/// Admits an object to the allowance with its weight, or with that of its last good state where
/// this one stays.
fn admitted<T: Entry>(
    reading: Reading<T>,
    namespace: &str,
    name: &str,
    [weight, last_good]: [usize; 2],
    allowance: &mut Allowance,
) -> Reading<T> {
    let (key, weight) = match &reading {
        Reading::Keep(object) => (object.key().clone(), weight),
        Reading::Broken(key, _) => (key.clone(), last_good),
        Reading::Outside(_) | Reading::TooLarge(..) => {
            allowance.release(namespace, name);
            return reading;
        }
    };
    match allowance.admit(namespace, name, weight) {
        Ok(()) => reading,
        Err(why) => Reading::TooLarge(key, format!("{namespace}/{name}: {why}")),
    }
}

/// A page of a list, without its objects.
struct Page {
    metadata: ListMetadata,
    bytes: usize,
}

/// The page exceeds [`PAGE_BYTES`] after this number of objects.
struct TooLarge {
    objects: u32,
}

#[derive(Deserialize)]
struct ListEnvelope {
    #[serde(default)]
    metadata: ListMetadata,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ListMetadata {
    resource_version: Option<String>,
    #[serde(rename = "continue")]
    continue_token: Option<String>,
}

/// Reads a page and passes each object to `found`.
async fn page(
    source: &Source,
    params: &ListParams,
    mut found: impl FnMut(&Item<'_>) + Send,
) -> Result<Result<Page, TooLarge>, Failure> {
    let request = Request::new(&source.path)
        .list(params)
        .map_err(kube::Error::BuildRequest)?;
    let mut body = pin!(source.client.request_stream(request).await?);
    let mut splitter = source.splitter(Framing::List);
    let (mut bytes, mut objects, mut envelope) = (0, 0, None);
    loop {
        let chunk = body.fill_buf().await?;
        if chunk.is_empty() {
            splitter.end().map_err(|_| Failure::CutShort)?;
            let text: Vec<u8> = envelope.ok_or(Failure::Unreadable)?;
            let ListEnvelope { metadata } =
                serde_json::from_slice(&text).map_err(|_| Failure::Unreadable)?;
            return Ok(Ok(Page { metadata, bytes }));
        }
        let length = chunk.len();
        let mut is_readable = true;
        let pushed = splitter.push(chunk, |piece| match piece {
            Piece::Item(item) if item.name.is_empty() => is_readable = false,
            Piece::Item(item) => {
                objects += 1;
                found(&item);
            }
            Piece::Document(text) => envelope = Some(text.to_vec()),
        });
        if pushed.is_err() || !is_readable {
            return Err(Failure::Unreadable);
        }
        body.consume_unpin(length);
        bytes += length;
        if bytes > PAGE_BYTES && params.limit > Some(1) {
            return Ok(Err(TooLarge { objects }));
        }
    }
}

/// Watches until the server ends the watch. Advances `version` with each event.
///
/// Events that were missed while the watch was down come first. The view is current at the first
/// bookmark, which follows them, or [`CATCH_UP`] after the watch was opened. `has_bookmarks`
/// becomes true at the first bookmark of any watch.
async fn watch<T>(
    source: &Source,
    read: &(impl Fn(&Item<'_>) -> Reading<T> + Sync),
    writer: &TableWriter<T>,
    allowance: &mut Allowance,
    has_bookmarks: &mut bool,
    version: &mut String,
) -> Result<(), Failure>
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
            return splitter.end().map_err(|_| Failure::CutShort);
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
        pushed.map_err(|_| Failure::Unreadable)?;
        body.consume_unpin(length);
        *has_bookmarks |= had_bookmark;
        if !is_current && (had_bookmark || Instant::now() >= caught_up_at) {
            is_current = true;
            writer.resumed();
        }
    }
}

/// The object of an event.
struct Subject<T: Entry> {
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
    fn of(item: &Item<'_>, read: &impl Fn(&Item<'_>) -> Reading<T>) -> Self {
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
enum Event {
    /// An object was added, modified or deleted.
    Change,
    /// All changes up to a `resourceVersion` were sent.
    Bookmark,
}

/// Applies one event.
fn apply_event<T: Entry>(
    envelope: &[u8],
    subject: Option<Subject<T>>,
    writer: &TableWriter<T>,
    allowance: &mut Allowance,
    version: &mut String,
) -> Result<Event, Failure> {
    let Ok(EventEnvelope { kind }) = serde_json::from_slice(envelope) else {
        return Err(
            serde_json::from_slice::<Status>(envelope).map_or(Failure::Unreadable, Failure::ended)
        );
    };
    let Subject {
        namespace,
        name,
        version: seen,
        weight,
        reading,
        text,
    } = subject.ok_or(Failure::Unreadable)?;
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
            return Err(
                serde_json::from_slice::<Status>(&text).map_or(Failure::Unreadable, Failure::ended)
            );
        }
        _ => return Err(Failure::Unreadable),
    };
    if !seen.is_empty() {
        *version = seen;
    }
    Ok(event)
}
