//! File of prometheus-adapter rules, or key of a `ConfigMap`, read at the start and every few
//! seconds. After an error the previous rules stay in effect.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use horizontal::ehpa::Rules;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Api, Client, Error};
use prometheus::{IntGauge, Registry};
use runtime::LogOnce;
use tokio::sync::watch;
use tokio::time::sleep;

const INTERVAL: Duration = Duration::from_secs(5);

/// Text of conditions without readable rules. Their location and the cause are for administrators,
/// in the log.
const UNREADABLE: &str = "the rules cannot be read";

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RuleLocation {
    File(PathBuf),
    ConfigMap {
        namespace: String,
        name: String,
        key: String,
    },
}

/// Location of the rules, and matchers added to every query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RuleFileSettings {
    pub(crate) location: RuleLocation,
    pub(crate) matchers: Vec<String>,
}

/// Rules in effect; `None` before the first response.
pub type RulesReceiver = watch::Receiver<Option<Arc<Rules>>>;

runtime::metrics! {
    struct Row {
        config_valid: IntGauge = "plimsoll_forecast_rules_config_last_reload_successful",
            "1 if the last reload of the prometheus-adapter rules succeeded; if 0, the previous rules are still in use.";
    }
}

/// Whether the rules are valid, as a metric: 1 without rules and before they are read.
pub(crate) fn register(registry: &Registry) -> Result<IntGauge, prometheus::Error> {
    let config_valid = Row::register(registry)?.config_valid;
    config_valid.set(1);
    Ok(config_valid)
}

pub(crate) struct RuleFollower {
    location: RuleLocation,
    client: Client,
    config_valid: IntGauge,
    rules: Rules,
    unanswered: LogOnce<String>,
    sender: watch::Sender<Option<Arc<Rules>>>,
}

enum Unreadable {
    /// The rules are missing, or reading them is forbidden.
    Missing(String),
    /// No response, so the rules may exist.
    Unanswered(String),
}

impl RuleFollower {
    /// Returns the follower, and the rules that it updates.
    pub(crate) fn new(
        RuleFileSettings { location, matchers }: RuleFileSettings,
        client: Client,
        config_valid: IntGauge,
    ) -> (Self, RulesReceiver) {
        let (sender, receiver) = watch::channel(None);
        let follower = Self {
            location,
            client,
            config_valid,
            rules: Rules::new(matchers),
            unanswered: LogOnce::default(),
            sender,
        };
        (follower, receiver)
    }

    /// Never returns.
    pub(crate) async fn run(mut self) {
        loop {
            self.refresh().await;
            sleep(INTERVAL).await;
        }
    }

    async fn refresh(&mut self) {
        let mut detail = None;
        match read(&self.location, &self.client).await {
            Ok(text) => {
                let read = self.rules.read(text);
                self.rules.error = read.err().map(|error| error.to_string());
            }
            Err(Unreadable::Missing(why)) => {
                self.rules.error = Some(UNREADABLE.to_owned());
                detail = Some(why);
            }
            Err(Unreadable::Unanswered(why)) => {
                if let Some(why) = self.unanswered.update(Some(why)) {
                    tracing::warn!(
                        why,
                        "cannot read the rules for the history of metrics; keeping the previous ones"
                    );
                }
                return;
            }
        }
        self.unanswered.clear();
        self.config_valid.set(i64::from(self.rules.error.is_none()));
        let is_new = self.sender.send_if_modified(|receiver| {
            let is_new = receiver.as_deref() != Some(&self.rules);
            if is_new {
                *receiver = Some(Arc::new(self.rules.clone()));
            }
            is_new
        });
        match &self.rules.error {
            Some(why) if is_new => {
                tracing::error!(
                    why,
                    detail,
                    "invalid rules for the history of metrics; keeping the previous ones"
                );
            }
            None if is_new => tracing::info!("the rules for the history of metrics are in effect"),
            _ => {}
        }
    }
}

async fn read(location: &RuleLocation, client: &Client) -> Result<String, Unreadable> {
    match location {
        RuleLocation::File(file) => {
            let text = tokio::fs::read_to_string(file).await;
            text.map_err(|error| Unreadable::Missing(format!("{}: {error}", file.display())))
        }
        RuleLocation::ConfigMap {
            namespace,
            name,
            key,
        } => {
            let api: Api<ConfigMap> = Api::namespaced(client.clone(), namespace);
            let found = api.get(name).await.map_err(|error| match error {
                Error::Api(status) if matches!(status.code, 401 | 403 | 404) => {
                    Unreadable::Missing(status.message.clone())
                }
                error => Unreadable::Unanswered(error.to_string()),
            })?;
            let text = found.data.and_then(|mut data| data.remove(key));
            let missing = || format!("ConfigMap {namespace}/{name} has no key {key}");
            text.ok_or_else(|| Unreadable::Missing(missing()))
        }
    }
}

#[cfg(test)]
mod tests;
