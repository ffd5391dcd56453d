//! Changes of the objects of a page as server-sent events: an event without contents, on which the page is
//! read again.

use std::convert::Infallible;
use std::future::ready;
use std::sync::Arc;
use std::time::Duration;

use api::ehpa::EffectiveHorizontalPodAutoscaler as Ehpa;
use api::vpa::VerticalPodAutoscaler as Vpa;
use axum::response::sse::{Event, KeepAlive, Sse};
use futures::stream::{BoxStream, empty, once, select};
use futures::{Stream, StreamExt as _};
use kube::api::{ListParams, WatchParams};
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::sleep;

use crate::cluster::{Cluster, Kind};

/// Least time between two events of a page: of a namespace, and of all, where something changes all the time.
const PACES: [Duration; 2] = [Duration::from_secs(3), Duration::from_secs(15)];
/// Time after which the API server ends a watch; the browser then opens the next one.
const WATCHED_FOR: u32 = 50;

/// Changes of one kind; `None` without the right to watch it.
async fn of<K: Kind>(cluster: &Cluster, namespace: Option<&str>) -> Option<BoxStream<'static, ()>> {
    let api = cluster.untyped::<K>(namespace);
    let watch = async {
        let list = api.list_metadata(&ListParams::default().limit(1)).await?;
        let version = list.metadata.resource_version.unwrap_or_default();
        let params = WatchParams::default()
            .timeout(WATCHED_FOR)
            .disable_bookmarks();
        api.watch_metadata(&params, &version).await
    };
    Some(watch.await.ok()?.map(|_| ()).boxed())
}

/// The events of a page about a namespace, or about all; `None` if nothing can be watched. The permit is kept
/// until they end.
pub(super) async fn events(
    cluster: &Cluster,
    namespace: Option<&str>,
    permit: OwnedSemaphorePermit,
) -> Option<Sse<impl Stream<Item = Result<Event, Infallible>> + use<>>> {
    let (vpas, ehpas) = tokio::join!(
        of::<Vpa>(cluster, namespace),
        of::<Ehpa>(cluster, namespace)
    );
    if vpas.is_none() && ehpas.is_none() {
        return None;
    }
    let [vpas, ehpas] = [vpas, ehpas].map(|it| it.unwrap_or_else(|| empty().boxed()));
    let (permit, pace) = (Arc::new(permit), PACES[usize::from(namespace.is_none())]);
    // Changes during the pause are those of the next event.
    let changes = select(vpas, ehpas).ready_chunks(1000).then(move |_| {
        let permit = Arc::clone(&permit);
        async move {
            sleep(pace).await;
            drop(permit);
            Ok(Event::default().data("changed"))
        }
    });
    // The browser has the headers with the first bytes.
    let begin = once(ready(Ok(Event::default().comment("open"))));
    Some(Sse::new(begin.chain(changes)).keep_alive(KeepAlive::default()))
}
