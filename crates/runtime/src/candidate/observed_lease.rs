//! The Lease as last read or written by a candidate, the time of its last change, and a watch.

use std::collections::BTreeMap;
use std::future::Future;
use std::time::{Duration, Instant};

use futures::stream::{BoxStream, StreamExt as _};
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use kube::Api;
use kube::api::{ObjectMeta, PostParams, WatchEvent, WatchParams};

use super::now;
use crate::client::RequestTimeout;
use crate::lease;

type Changes = BoxStream<'static, kube::Result<WatchEvent<Lease>>>;

pub(super) struct ObservedLease {
    api: Api<Lease>,
    name: String,
    /// Annotations that each write adds.
    pub(super) annotations: BTreeMap<String, String>,
    request_timeout: Duration,
    /// The Lease as last read or written, and the time since which its content is unchanged.
    seen: Option<Lease>,
    pub(super) unchanged_since: Instant,
    pub(super) changes: Option<Changes>,
}

impl ObservedLease {
    pub(super) fn new(api: Api<Lease>, name: String, request_timeout: Duration) -> Self {
        Self {
            api,
            name,
            annotations: BTreeMap::new(),
            request_timeout,
            seen: None,
            unchanged_since: now(),
            changes: None,
        }
    }

    /// The spec of the Lease; `None` if it does not exist.
    pub(super) fn spec(&self) -> Option<LeaseSpec> {
        self.seen
            .as_ref()
            .map(|lease| lease.spec.clone().unwrap_or_default())
    }

    /// The number of the leadership term that the Lease represents.
    pub(super) fn term(&self) -> u64 {
        let seen = self.seen.as_ref();
        let created = seen
            .and_then(|lease| lease.metadata.creation_timestamp.as_ref())
            .map(|time| time.0);
        let transitions = seen.and_then(|lease| lease.spec.as_ref()?.lease_transitions);
        lease::term(created.unwrap_or_default(), transitions.unwrap_or(0))
    }

    pub(super) async fn refresh(&mut self) -> kube::Result<()> {
        let lease = answer(self.request_timeout, self.api.get_opt(&self.name)).await?;
        self.observe(lease);
        Ok(())
    }

    /// Creates or replaces the Lease. Fails if it has changed since it was last observed.
    pub(super) async fn write(&mut self, spec: LeaseSpec) -> kube::Result<()> {
        let seen = self.seen.as_ref().map(|lease| lease.metadata.clone());
        let is_there = seen.is_some();
        let new = || ObjectMeta {
            name: Some(self.name.clone()),
            ..ObjectMeta::default()
        };
        let mut metadata = seen.unwrap_or_else(new);
        metadata
            .annotations
            .get_or_insert_default()
            .extend(self.annotations.clone());
        let lease = Lease {
            metadata,
            spec: Some(spec),
        };
        let params = PostParams::default();
        let writing = async {
            if is_there {
                self.api.replace(&self.name, &params, &lease).await
            } else {
                self.api.create(&params, &lease).await
            }
        };
        let written = answer(self.request_timeout, writing).await?;
        self.observe(Some(written));
        Ok(())
    }

    /// Waits for the next change of the Lease; for ever if it cannot be watched.
    pub(super) async fn change(&mut self) {
        let lease = self.next_change().await;
        self.observe(lease);
    }

    fn observe(&mut self, lease: Option<Lease>) {
        let spec = |lease: &Option<Lease>| lease.as_ref().and_then(|lease| lease.spec.clone());
        if spec(&lease) != spec(&self.seen) {
            self.unchanged_since = now();
        }
        self.seen = lease;
    }

    /// The Lease after its next change; `None` if it was deleted.
    async fn next_change(&mut self) -> Option<Lease> {
        loop {
            if self.changes.is_none() {
                self.changes = match &self.seen {
                    Some(seen) => watch(&self.api, &self.name, seen).await,
                    None => None,
                };
            }
            match self.changes.as_mut() {
                None => std::future::pending::<()>().await,
                Some(changes) => match changes.next().await {
                    Some(Ok(WatchEvent::Added(lease) | WatchEvent::Modified(lease))) => {
                        return Some(lease);
                    }
                    Some(Ok(WatchEvent::Deleted(_))) => return None,
                    Some(Ok(WatchEvent::Bookmark(_))) => {}
                    // The caller's next read reports the error; then a new watch starts.
                    Some(Ok(WatchEvent::Error(_)) | Err(_)) | None => {
                        self.changes = None;
                        std::future::pending::<()>().await;
                    }
                },
            }
        }
    }
}

async fn answer<T>(
    limit: Duration,
    request: impl Future<Output = kube::Result<T>>,
) -> kube::Result<T> {
    let answer = tokio::time::timeout(limit, request).await;
    answer.unwrap_or_else(|_| Err(kube::Error::Service(RequestTimeout(limit).into())))
}

async fn watch(api: &Api<Lease>, name: &str, seen: &Lease) -> Option<Changes> {
    let version = seen.metadata.resource_version.as_deref()?;
    let params = WatchParams::default().fields(&format!("metadata.name={name}"));
    match api.watch(&params, version).await {
        Ok(changes) => Some(changes.boxed()),
        Err(error) => {
            tracing::debug!(lease = name, %error, "cannot watch the lease; polling it instead");
            None
        }
    }
}
