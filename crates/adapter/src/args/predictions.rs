//! Flags of predictions and windows of time.

use feed::Reader;
use runtime::{Chassis, GoDuration};
use serving::{FeedReaderArgs, FeedSource};

use crate::predictions::Predictions;

/// Flags of predictions and windows of time.
#[derive(Debug, Clone, clap::Args)]
pub struct PredictionArgs {
    /// How long the last complete answer of a prediction stands after the prediction has ceased to
    /// cover its window, and how long what a watch saw last is relied on after it has broken. After
    /// that there is no answer, and workloads keep their replicas.
    #[arg(long, value_name = "DURATION", default_value = "5m")]
    pub last_good_value_for: GoDuration,
    /// Where the recommender tells its predictions sooner than it writes them.
    #[command(flatten)]
    pub feed: FeedReaderArgs,
}

impl PredictionArgs {
    /// Watches the cluster and hears the recommender, in tasks.
    pub fn start(self, chassis: &Chassis) -> anyhow::Result<Predictions> {
        let Self {
            last_good_value_for,
            feed,
        } = self;
        let heard = feed.source(chassis)?.map(
            |FeedSource {
                 leaders,
                 tls,
                 server_name,
             }| {
                let (heard, reading) = Reader {
                    leaders,
                    tls,
                    server_name,
                }
                .subscribe();
                chassis.tasks.spawn_until_shutdown("feed", reading);
                heard
            },
        );
        let (predictions, mut watches) =
            Predictions::watch(chassis.client.clone(), last_good_value_for.into());
        chassis
            .tasks
            .spawn_until_shutdown("watches", async move { watches.ended().await });
        Ok(predictions.with_clock(chassis.clock()).with_feed(heard))
    }
}
