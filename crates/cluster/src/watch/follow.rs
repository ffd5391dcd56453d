//! Lists a kind of object, watches it from there, and begins again whenever that breaks. It never gives up.
//!
//! Unlike `kube::runtime::watcher` it knows when a broken watch is up again, even if nothing changes afterwards; that is
//! what staleness is measured by.

#[cfg(test)]
mod tests;

use std::fmt::Debug;
use std::pin::pin;
use std::time::Duration;

use futures::StreamExt;
use kube::Resource;
use kube::api::{Api, ListParams, WatchEvent, WatchParams};
use serde::de::DeserializeOwned;
use tokio::time::{Instant, sleep, timeout};

use super::failure::Failure;
use super::feed::{Feed, Reading};
use super::retry::Retry;
use crate::table::Entry;

/// Objects per page of a list.
const PAGE: u32 = 500;
/// How long one request may take to be answered.
const CALL_TIMEOUT: Duration = Duration::from_mins(1);
/// How long the server keeps one watch open.
const WATCH_SECONDS: u32 = 290;
/// The longest silence on a watch: the server sends bookmarks about once a minute.
const SILENCE: Duration = Duration::from_mins(5);
/// A watch that ends sooner than this is taken for a failing one, so that a server that closes at once is not pestered.
const SHORT: Duration = Duration::from_secs(1);

/// Where the protocol stands.
enum State {
    /// Everything has to be read.
    List,
    /// Everything up to this version is known.
    Watch { version: String },
}

/// Runs until it is dropped.
pub(super) async fn follow<K, T>(
    api: Api<K>,
    fields: Option<String>,
    read: impl Fn(K) -> Reading<T> + Send + Sync,
    feed: Feed<T>,
) where
    K: Resource + DeserializeOwned + Clone + Debug + Send + 'static,
    T: Entry + Send + Sync,
    T::Key: Send,
{
    let fields = fields.as_deref();
    let mut state = State::List;
    let mut retry = Retry::default();
    loop {
        let started = Instant::now();
        let result = match &mut state {
            State::List => match list(&api, fields, &read).await {
                Ok((version, readings)) => {
                    feed.reset(readings);
                    state = State::Watch { version };
                    continue;
                }
                Err(failure) => Err(failure),
            },
            State::Watch { version } => watch(&api, fields, &read, &feed, version).await,
        };
        let lasted = started.elapsed() >= SHORT;
        if let Err(failure) = &result {
            feed.failed(failure);
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

/// Reads all pages, and keeps of them what counts. The version is the one to watch from.
async fn list<K, T>(
    api: &Api<K>,
    fields: Option<&str>,
    read: &(impl Fn(K) -> Reading<T> + Sync),
) -> Result<(String, Vec<Reading<T>>), Failure>
where
    K: Resource + DeserializeOwned + Clone + Debug,
    T: Entry,
{
    let mut readings = Vec::new();
    let mut params = ListParams { field_selector: fields.map(str::to_owned), ..ListParams::default() }.limit(PAGE);
    loop {
        let page = timeout(CALL_TIMEOUT, api.list(&params)).await??;
        let counts = |reading: &Reading<T>| !matches!(reading, Reading::Outside(_));
        readings.extend(page.items.into_iter().map(read).filter(counts));
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => params = params.continue_token(&token),
            None => return Ok((page.metadata.resource_version.ok_or(Failure::NoVersion)?, readings)),
        }
    }
}

/// Watches until the server ends it, which it does now and then. `version` moves along.
async fn watch<K, T>(
    api: &Api<K>,
    fields: Option<&str>,
    read: &(impl Fn(K) -> Reading<T> + Sync),
    feed: &Feed<T>,
    version: &mut String,
) -> Result<(), Failure>
where
    K: Resource + DeserializeOwned + Clone + Debug,
    T: Entry,
{
    let params = WatchParams { field_selector: fields.map(str::to_owned), ..WatchParams::default() };
    let events = timeout(CALL_TIMEOUT, api.watch(&params.timeout(WATCH_SECONDS), version)).await??;
    feed.resumed();
    let mut events = pin!(events);
    while let Some(event) = timeout(SILENCE, events.next()).await? {
        match event? {
            WatchEvent::Added(object) | WatchEvent::Modified(object) => {
                advance(version, object.meta().resource_version.as_ref());
                feed.apply(read(object));
            }
            WatchEvent::Deleted(object) => {
                advance(version, object.meta().resource_version.as_ref());
                feed.delete(read(object));
            }
            WatchEvent::Bookmark(bookmark) => advance(version, Some(&bookmark.metadata.resource_version)),
            WatchEvent::Error(status) => return Err(Failure::Watch(status)),
        }
    }
    Ok(())
}

fn advance(version: &mut String, seen: Option<&String>) {
    if let Some(seen) = seen {
        version.clone_from(seen);
    }
}
