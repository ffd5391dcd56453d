//! Settings of `--config`, in addition to the rule file.

use std::path::PathBuf;

use runtime::GoDuration;
use runtime::config_file::from_text;
use serde::Deserialize;
use serving::FeedReader;

pub const DEFAULTS: &str = include_str!("defaults.yaml");

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Config {
    /// The recommender's feed, which has predictions before they are written.
    pub feed: FeedReader,
    /// Time for which the last good result of a query is served if Prometheus fails.
    #[serde(deserialize_with = "from_text")]
    pub metrics_last_good_for: GoDuration,
    /// File with the service account token that is sent to other providers. Read every minute.
    pub routes_token_file: PathBuf,
    /// CA bundle (PEM) to write to the `APIService` objects. Default: that of the managed
    /// certificates; without these another tool, such as cert-manager, writes it.
    pub serving_ca_file: Option<PathBuf>,
}
