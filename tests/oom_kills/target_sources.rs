//! Sources of a new target: the status of the VPA object, seen by a watch, and the feed.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context as _, Result};
use api::vpa::VerticalPodAutoscaler;
use e2e::{FEED_SERVER, Follow, PATIENCE, follow};
use feed::{Reader, Subscription};
use k8s_openapi::api::coordination::v1::Lease;
use kube::api::ListParams;
use kube::runtime::watcher::Event;
use kube::{Api, ResourceExt as _};
use runtime::follow_leader;
use rustls_pki_types::ServerName;
use tokio::sync::watch;
use tokio::time::timeout;

use crate::fixture::{Fixture, memory_target};

/// The latest memory target of each object, in bytes.
type Targets = BTreeMap<String, i64>;

/// Targets in statuses and on the feed.
pub(crate) struct Listening {
    statuses: watch::Receiver<Targets>,
    _watch: Follow,
    following: watch::Receiver<Subscription>,
    /// By name.
    uids: BTreeMap<String, String>,
}

impl Listening {
    /// Subscribes to both, and waits for their current state.
    pub(crate) async fn to(fixture: &Fixture, names: &[String]) -> Result<Self> {
        let (seen, mut statuses) = watch::channel(Targets::new());
        let objects = fixture.typed::<VerticalPodAutoscaler>();
        let watch = follow(objects.clone(), move |event| note_target(&seen, event));

        let (found, leader) = watch::channel(None);
        let leases: Api<Lease> = Api::namespaced(fixture.client.clone(), "plimsoll-system");
        tokio::spawn(follow_leader(leases, "vpa-recommender-lease", found));
        let config = Arc::clone(&fixture.tls);
        let reader = Reader {
            leaders: vec![leader],
            tls: Arc::new(move || Arc::clone(&config)),
            server_name: ServerName::try_from(FEED_SERVER)?,
        };
        let (mut following, reading) = reader.subscribe();
        tokio::spawn(reading);

        let mut uids = BTreeMap::new();
        for object in objects.list(&ListParams::default()).await? {
            uids.insert(object.name_any(), object.uid().context("a uid")?);
        }
        let all_seen = |targets: &Targets| names.iter().all(|name| targets.contains_key(name));
        timeout(PATIENCE, statuses.wait_for(all_seen)).await??;
        let all_heard = |now: &Subscription| {
            now.stale_since().is_none()
                && uids.values().all(|uid| received_target(now, uid).is_some())
        };
        timeout(PATIENCE, following.wait_for(all_heard))
            .await
            .context("the feed tells of each object")??;
        Ok(Self {
            statuses,
            _watch: watch,
            following,
            uids,
        })
    }

    pub(crate) fn status(&self, name: &str) -> Option<i64> {
        self.statuses.borrow().get(name).copied()
    }

    /// Time at which the status shows more than `before`.
    pub(crate) async fn status_above(&self, name: &str, before: i64) -> Result<Instant> {
        let mut statuses = self.statuses.clone();
        let is_above = |targets: &Targets| targets.get(name).is_some_and(|target| *target > before);
        timeout(PATIENCE, statuses.wait_for(is_above))
            .await
            .with_context(|| format!("the status of {name}"))??;
        Ok(Instant::now())
    }

    /// Time at which the feed sends more than `before`.
    pub(crate) async fn feed_above(&self, name: &str, before: i64) -> Result<Instant> {
        let mut following = self.following.clone();
        let uid = self.uids.get(name).context("it was listed")?;
        let is_above =
            |now: &Subscription| received_target(now, uid).is_some_and(|target| target > before);
        timeout(PATIENCE, following.wait_for(is_above))
            .await
            .with_context(|| format!("the feed about {name}"))??;
        Ok(Instant::now())
    }
}

fn note_target(seen: &watch::Sender<Targets>, event: Event<VerticalPodAutoscaler>) {
    let (Event::Apply(object) | Event::InitApply(object)) = event else {
        return;
    };
    if let Some(target) = memory_target(&object) {
        seen.send_modify(|targets| {
            targets.insert(object.name_any(), target);
        });
    }
}

fn received_target(following: &Subscription, uid: &str) -> Option<i64> {
    let recommendation = &following.get(uid)?.value.recommendation;
    Some(recommendation.containers.first()?.target.memory()?.bytes())
}
