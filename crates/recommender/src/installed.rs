//! Waits until kinds of objects are installed. A recommender that is put into a cluster of upstream's does not find all of them, and runs
//! without.

use std::time::Duration;

use kube::{Client, Error};
use tokio::time::sleep;

/// How often it is asked whether the kinds are installed.
const RETRY: Duration = Duration::from_secs(15);

/// Returns once the API server knows this version of a group.
pub(crate) async fn installed(client: &Client, version: &str) {
    let mut said = false;
    loop {
        match client.list_api_group_resources(version).await {
            Ok(_) => return,
            Err(Error::Api(status)) if status.code == 404 => {
                if !said {
                    tracing::info!(version, "there are no objects of this version: its kinds are not installed");
                }
                said = true;
            }
            Err(error) => tracing::debug!(version, %error, "cannot see whether kinds are installed"),
        }
        sleep(RETRY).await;
    }
}
