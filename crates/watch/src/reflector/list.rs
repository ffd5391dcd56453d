//! Lists of a kind of object, page by page.

use std::pin::pin;

use futures::AsyncBufReadExt as _;
use kube::api::ListParams;
use kube::core::Request;
use serde::Deserialize;
use tokio::time::timeout;
use view::Entry;

use super::{CALL_TIMEOUT, PAGE, PAGE_BYTES, Source, admitted};
use crate::memory_limits::MemoryLimits;
use crate::splitter::{Framing, Item, Piece};
use crate::table_writer::Reading;
use crate::watch_error::WatchError;

pub(super) struct Listed<T: Entry> {
    /// The `resourceVersion` to watch from.
    pub(super) version: String,
    pub(super) readings: Vec<Reading<T>>,
    /// Weights of the kept objects.
    pub(super) allowance: MemoryLimits,
}

/// Reads all pages. `size` is the number of objects of the next page; the next list starts with it.
pub(super) async fn list<T>(
    source: &Source,
    read: &(impl Fn(&Item<'_>) -> Reading<T> + Sync),
    before: &MemoryLimits,
    size: &mut u32,
) -> Result<Listed<T>, WatchError>
where
    T: Entry + Send,
    T::Key: Send,
{
    let mut readings = Vec::new();
    let mut allowance = MemoryLimits::new(source.limits);
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
            let version = metadata.resource_version.ok_or(WatchError::NoVersion)?;
            return Ok(Listed {
                version,
                readings,
                allowance,
            });
        }
    }
}

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
) -> Result<Result<Page, TooLarge>, WatchError> {
    let request = Request::new(&source.path)
        .list(params)
        .map_err(kube::Error::BuildRequest)?;
    let mut body = pin!(source.client.request_stream(request).await?);
    let mut splitter = source.splitter(Framing::List);
    let (mut bytes, mut objects, mut envelope) = (0, 0, None);
    loop {
        let chunk = body.fill_buf().await?;
        if chunk.is_empty() {
            splitter.end().map_err(|_| WatchError::CutShort)?;
            let text: Vec<u8> = envelope.ok_or(WatchError::Unreadable)?;
            let ListEnvelope { metadata } =
                serde_json::from_slice(&text).map_err(|_| WatchError::Unreadable)?;
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
            return Err(WatchError::Unreadable);
        }
        body.consume_unpin(length);
        bytes += length;
        if bytes > PAGE_BYTES && params.limit > Some(1) {
            return Ok(Err(TooLarge { objects }));
        }
    }
}
