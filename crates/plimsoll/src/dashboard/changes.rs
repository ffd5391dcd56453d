//! Changes of the objects of a page as server-sent events: an event without contents, on which the page is
//! read again.

use std::convert::Infallible;
use std::future::ready;
use std::sync::Arc;
use std::time::Duration;

use api::ehpa::EffectiveHorizontalPodAutoscaler as Ehpa;
use api::vpa::VerticalPodAutoscaler as Vpa;
use axum::response::sse::{Event, KeepAlive, Sse};
use futures::stream::{BoxStream, once, select};
use futures::{Stream, StreamExt as _};
use kube::api::{ListParams, WatchParams};
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::sleep;

use crate::cluster::{Cluster, Kind};

/// Least time between two events of a page.
const PACE: Duration = Duration::from_secs(3);
/// Time after which the API server ends a watch; the browser then opens the next one.
const WATCHED_FOR: u32 = 50;

/// Changes of one kind; none without the right to watch it.
async fn of<K: Kind>(cluster: &Cluster, namespace: Option<&str>) -> BoxStream<'static, ()> {
    let api = cluster.untyped::<K>(namespace);
    let watch = async {
        let list = api.list_metadata(&ListParams::default().limit(1)).await?;
        let version = list.metadata.resource_version.unwrap_or_default();
        let params = WatchParams::default()
            .timeout(WATCHED_FOR)
            .disable_bookmarks();
        api.watch_metadata(&params, &version).await
    };
    match watch.await {
        Ok(changes) => changes.map(|_| ()).boxed(),
        Err(_) => futures::stream::empty().boxed(),
    }
}

/// The events of a page about a namespace, or about all. The permit is kept until they end.
pub(super) async fn events(
    cluster: &Cluster,
    namespace: Option<&str>,
    permit: OwnedSemaphorePermit,
) -> Sse<impl Stream<Item = Result<Event, Infallible>> + use<>> {
    let (vpas, ehpas) = tokio::join!(
        of::<Vpa>(cluster, namespace),
        of::<Ehpa>(cluster, namespace)
    );
    let permit = Arc::new(permit);
    // Changes during the pause are those of the next event.
    let changes = select(vpas, ehpas).ready_chunks(1000).then(move |_| {
        let permit = Arc::clone(&permit);
        async move {
            sleep(PACE).await;
            drop(permit);
            Ok(Event::default().data("changed"))
        }
    });
    // The browser has the headers with the first bytes.
    let begin = once(ready(Ok(Event::default().comment("open"))));
    Sse::new(begin.chain(changes)).keep_alive(KeepAlive::default())
}
