//! Flags of predictions and cron schedules.

use std::time::Duration;

use feed::Reader;
use runtime::Manager;
use serving::{FeedReaderArgs, FeedSource};

use crate::predictions::Predictions;

/// Time for which a prediction that does not cover its window any more, or the last state of a broken
/// watch, is still used: as long as the recommender may be away for an update. After it, metrics have
/// no value and workloads keep their replicas.
const LAST_GOOD_VALUE_FOR: Duration = Duration::from_mins(5);

/// Flags of predictions and cron schedules.
#[derive(Debug, Clone, clap::Args)]
pub struct PredictionArgs {
    /// Flags of the recommender's feed, which has predictions before they are written.
    #[command(flatten)]
    pub feed: FeedReaderArgs,
}

impl PredictionArgs {
    /// Starts the watches of the cluster and the subscription to the feed.
    pub fn start(self, manager: &Manager) -> anyhow::Result<Predictions> {
        let subscription = self.feed.source(manager)?.map(
            |FeedSource {
                 leaders,
                 tls,
                 server_name,
             }| {
                let (subscription, reader) = Reader {
                    leaders,
                    tls,
                    server_name,
                }
                .subscribe();
                manager.tasks.spawn_until_shutdown("feed", reader);
                subscription
            },
        );
        let (predictions, mut watches) =
            Predictions::watch(manager.client.clone(), LAST_GOOD_VALUE_FOR);
        manager
            .tasks
            .spawn_until_shutdown("watches", async move { watches.ended().await });
        Ok(predictions
            .with_clock(manager.clock())
            .with_feed(subscription))
    }
}
