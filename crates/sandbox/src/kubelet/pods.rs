//! The watch of pods, and one task per hosted pod.

use std::collections::{BTreeMap, BTreeSet};
use std::pin::pin;
use std::sync::Arc;

use futures::StreamExt;
use k8s_openapi::api::core::v1::Pod;
use kube::runtime::watcher::Event;
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, ResourceExt};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::image::is_hosted;
use super::{Hosting, pod};
use crate::node;

/// Hosts every pod of ours until cancelled, then waits for the end of all.
pub(super) async fn host_all(hosting: Arc<Hosting>, cancel: CancellationToken) {
    tokio::select! {
        () = hosting.objects.listed() => {}
        () = cancel.cancelled() => return,
    }
    let mut fields = "spec.nodeName!=".to_owned();
    if hosting.config.real_node.is_some() {
        fields = format!("{fields},spec.nodeName!={}", node::NAME);
    }
    let bound = watcher::Config::default().fields(&fields);
    let all = Api::<Pod>::all(hosting.client.clone());
    let mut events = pin!(watcher(all, bound).default_backoff());
    let mut pods = Pods {
        hosting,
        cancel: cancel.clone(),
        tasks: JoinSet::new(),
        latest: BTreeMap::new(),
        listed: BTreeSet::new(),
    };
    loop {
        tokio::select! {
            event = events.next() => match event {
                Some(Ok(event)) => pods.take(event),
                Some(Err(error)) => tracing::debug!(%error, "the watch of pods was interrupted"),
                None => break,
            },
            Some(_) = pods.tasks.join_next() => {}
            () = cancel.cancelled() => break,
        }
    }
    cancel.cancel();
    while pods.tasks.join_next().await.is_some() {}
}

struct Pods {
    hosting: Arc<Hosting>,
    cancel: CancellationToken,
    tasks: JoinSet<()>,
    /// Latest version by uid, while the object exists.
    latest: BTreeMap<String, watch::Sender<Option<Arc<Pod>>>>,
    /// Uids in the list that is being read.
    listed: BTreeSet<String>,
}

impl Pods {
    fn take(&mut self, event: Event<Pod>) {
        match event {
            Event::Init => self.listed.clear(),
            Event::InitApply(pod) => {
                self.listed.extend(pod.uid());
                self.apply(pod);
            }
            Event::InitDone => {
                let listed = std::mem::take(&mut self.listed);
                let gone = self.latest.extract_if(.., |uid, _| !listed.contains(uid));
                gone.for_each(|(_, latest)| _ = latest.send_replace(None));
            }
            Event::Apply(pod) => self.apply(pod),
            Event::Delete(pod) => self.delete(&pod.uid().unwrap_or_default()),
        }
    }

    fn apply(&mut self, pod: Pod) {
        let uid = pod.uid().unwrap_or_default();
        if let Some(latest) = self.latest.get(&uid) {
            latest.send_replace(Some(Arc::new(pod)));
        } else if is_hosted(&pod) && !is_finished(&pod) {
            let (sender, receiver) = watch::channel(Some(Arc::new(pod)));
            self.tasks.spawn(pod::host(
                Arc::clone(&self.hosting),
                receiver,
                self.cancel.clone(),
            ));
            self.latest.insert(uid, sender);
        }
    }

    fn delete(&mut self, uid: &str) {
        if let Some(latest) = self.latest.remove(uid) {
            latest.send_replace(None);
        }
    }
}

/// Whether a pod ended before this sandbox hosted it, and is not being deleted.
fn is_finished(pod: &Pod) -> bool {
    let phase = pod
        .status
        .as_ref()
        .and_then(|status| status.phase.as_deref());
    matches!(phase, Some("Succeeded" | "Failed")) && pod.metadata.deletion_timestamp.is_none()
}
