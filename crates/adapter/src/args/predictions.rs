//! Flags of predictions and cron schedules.

use feed::Reader;
use runtime::{GoDuration, Manager};
use serving::{FeedReaderArgs, FeedSource};

use crate::predictions::Predictions;

/// Flags of predictions and cron schedules.
#[derive(Debug, Clone, clap::Args)]
pub struct PredictionArgs {
    /// Time for which a prediction that does not cover its window any more, or the last state of a
    /// broken watch, is still used. After it, metrics have no value and workloads keep their
    /// replicas.
    #[arg(long, value_name = "DURATION", default_value = "5m")]
    pub last_good_value_for: GoDuration,
    /// Flags of the recommender's feed, which has predictions before they are written.
    #[command(flatten)]
    pub feed: FeedReaderArgs,
}

impl PredictionArgs {
    /// Starts the watches of the cluster and the subscription to the feed.
    pub fn start(self, manager: &Manager) -> anyhow::Result<Predictions> {
        let Self {
            last_good_value_for,
            feed,
        } = self;
        let subscription = feed.source(manager)?.map(
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
            Predictions::watch(manager.client.clone(), last_good_value_for.into());
        manager
            .tasks
            .spawn_until_shutdown("watches", async move { watches.ended().await });
        Ok(predictions
            .with_clock(manager.clock())
            .with_feed(subscription))
    }
}
