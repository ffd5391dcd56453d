//! Watches policies as soon as their kinds are there. A recommender that is put into a cluster of upstream's finds none, and runs
//! without.

use std::time::Duration;

use api::sizing_policy::API_VERSION;
use cluster::Watches;
use kube::{Client, Error};
use tokio::time::sleep;

/// How often it is asked whether the kinds are installed.
const RETRY: Duration = Duration::from_secs(15);

/// Runs until a watch ends, which none does by itself.
pub(crate) async fn watch(client: Client, watches: Watches) {
    installed(&client).await;
    watches.policies().ended().await;
}

async fn installed(client: &Client) {
    let mut said = false;
    loop {
        match client.list_api_group_resources(API_VERSION).await {
            Ok(_) => return,
            Err(Error::Api(status)) if status.code == 404 => {
                if !said {
                    tracing::info!(version = API_VERSION, "no sizing policies: their kinds are not installed");
                }
                said = true;
            }
            Err(error) => tracing::debug!(%error, "cannot see whether the kinds of sizing policies are installed"),
        }
        sleep(RETRY).await;
    }
}
