//! Lists a kind of object, watches it from there, and starts again whenever the watch breaks,
//! without limit. client-go calls this a reflector.
//!
//! Unlike `kube::runtime::watcher` it detects that a broken watch is up again even without changes,
//! which defines staleness. It also reads objects one by one as their bytes arrive, so that memory
//! does not depend on the number or the size of the objects in a page.

mod list;
#[cfg(test)]
mod tests;
mod watch;

use std::time::Duration;

use kube::api::ListParams;
use kube::core::{ObjectList, PartialObjectMeta, Request};
use kube::{Client, Resource};
use runtime::Backoff;
use tokio::time::{Instant, sleep};
use view::Entry;

use crate::memory_limits::{Limits, MemoryLimits};
use crate::splitter::{ExcludedField, Framing, Item, Splitter};
use crate::table_writer::{Reading, TableWriter};
use list::list;
use watch::watch;

/// Objects per page of a list, unless they are large.
const PAGE: u32 = 500;
/// Byte limit of a page with more than one object. The API server buffers a whole page, and the
/// client accepts at most 128 MiB.
const PAGE_BYTES: usize = 32 << 20;
const CALL_TIMEOUT: Duration = Duration::from_mins(1);
/// Duration of one watch, requested from the server.
const WATCH_SECONDS: u32 = 290;
/// Silence after which a watch with bookmarks is dead. The server sends one a minute.
const SILENCE: Duration = Duration::from_secs(150);
/// Silence after which a watch without bookmarks is dead. The server sends none for kinds without a
/// watch cache, such as events, but ends each watch after [`WATCH_SECONDS`].
const SILENCE_WITHOUT_BOOKMARKS: Duration = Duration::from_mins(5);
/// Time after which a resumed watch counts as current: the server sends missed events at once.
const CATCH_UP: Duration = Duration::from_secs(5);
/// A watch that ends sooner than this backs off like a failed one, to spare the server.
const SHORT: Duration = Duration::from_secs(1);
/// Minimum time between two lists for objects that had no room, below the duration of a watch.
const LIST_AGAIN: Duration = Duration::from_mins(4);

const BACKOFF: Backoff = Backoff {
    initial: Duration::from_millis(500),
    cap: Duration::from_secs(10),
    tries: u32::MAX,
};

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

    pub(crate) fn with_fields(self, fields: impl Into<String>) -> Self {
        Self {
            fields: Some(fields.into()),
            ..self
        }
    }

    pub(crate) fn with_limits(self, limits: Limits) -> Self {
        Self { limits, ..self }
    }

    pub(crate) fn path(&self) -> &str {
        &self.path
    }

    /// Lists one object, to see whether the objects can be listed.
    pub(crate) async fn probe(&self) -> kube::Result<()> {
        let params = ListParams {
            field_selector: self.fields.clone(),
            ..ListParams::default()
        };
        let request = Request::new(&self.path).list_metadata(&params.limit(1));
        let request = request.map_err(kube::Error::BuildRequest)?;
        let list = self
            .client
            .request::<ObjectList<PartialObjectMeta>>(request);
        list.await.map(drop)
    }

    fn splitter(&self, framing: Framing) -> Splitter {
        Splitter::new(framing, self.excluded, self.limits.object)
    }
}

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
    let mut backoff = BACKOFF.delays();
    let mut page = PAGE;
    let mut allowance = MemoryLimits::new(source.limits);
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
            backoff = BACKOFF.delays();
        } else {
            sleep(backoff.next().unwrap_or(BACKOFF.cap)).await;
        }
    }
}

/// Admits an object to the allowance with its weight, or that of its last good state if this stays.
fn admitted<T: Entry>(
    reading: Reading<T>,
    namespace: &str,
    name: &str,
    [weight, last_good]: [usize; 2],
    allowance: &mut MemoryLimits,
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
