//! A watch that outlives interruptions.

use std::fmt::Debug;
use std::pin::pin;

use futures::StreamExt as _;
use kube::runtime::WatchStreamExt as _;
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, Resource};
use serde::de::DeserializeOwned;
use tokio::task::JoinHandle;

/// A watch that is under way; it ends when this is dropped.
#[derive(Debug)]
pub struct Follow(JoinHandle<()>);

/// Notes every event of a watch from now on. A watch that is cut off, as while the API server is
/// away, says so and begins again with a list: `Event::Init`.
pub fn follow<K>(api: Api<K>, mut note: impl FnMut(Event<K>) + Send + 'static) -> Follow
where
    K: Resource + Clone + DeserializeOwned + Debug + Send + 'static,
{
    Follow(tokio::spawn(async move {
        let mut events = pin!(watcher(api, watcher::Config::default()).default_backoff());
        while let Some(event) = events.next().await {
            match event {
                Ok(event) => note(event),
                Err(error) => println!("a watch was interrupted: {error}"),
            }
        }
    }))
}

impl Drop for Follow {
    fn drop(&mut self) {
        self.0.abort();
    }
}
