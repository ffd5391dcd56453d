//! Keeps the rules current: the file, or the entry of a `ConfigMap`, is read at the start and
//! looked at every few seconds. What cannot be read or has an error leaves the rules that stand,
//! and is told.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use horizontal::ehpa::Rules;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Api, Client, Error};
use tokio::sync::watch;
use tokio::time::sleep;

use crate::metrics::ForecastMetrics;

/// How often the rules are looked at.
const INTERVAL: Duration = Duration::from_secs(5);

/// The text of conditions where there are no rules to read. Where they are and why they cannot be
/// read is for administrators, in the log.
const UNREADABLE: &str = "the rules cannot be read";

/// Where rules are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RuleLocation {
    File(PathBuf),
    ConfigMap {
        namespace: String,
        name: String,
        key: String,
    },
}

/// Where rules are, and which matchers every series must fit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RuleFileSettings {
    pub(crate) location: RuleLocation,
    pub(crate) matchers: Vec<String>,
}

/// The rules; none until it is known what there is.
pub(crate) type RulesReceiver = watch::Receiver<Option<Arc<Rules>>>;

/// The rules, and the work that keeps them current.
pub(crate) fn follow(
    settings: RuleFileSettings,
    client: Client,
    metrics: ForecastMetrics,
) -> (RulesReceiver, impl Future<Output = ()> + Send + use<>) {
    let (mut follower, receiver) = RuleFollower::new(settings, client, metrics);
    let work = async move {
        loop {
            follower.refresh().await;
            sleep(INTERVAL).await;
        }
    };
    (receiver, work)
}

struct RuleFollower {
    location: RuleLocation,
    client: Client,
    metrics: ForecastMetrics,
    rules: Rules,
    /// What was read last, and what is wrong with it.
    read: Option<(String, Option<String>)>,
    /// What was said last of why nobody says what there is.
    unanswered: Option<String>,
    sender: watch::Sender<Option<Arc<Rules>>>,
}

/// Why there is nothing to read.
enum Unreadable {
    /// It is not there, or not for us.
    Missing(String),
    /// Nobody says so.
    Unanswered(String),
}

impl RuleFollower {
    fn new(
        RuleFileSettings { location, matchers }: RuleFileSettings,
        client: Client,
        metrics: ForecastMetrics,
    ) -> (Self, RulesReceiver) {
        let (sender, receiver) = watch::channel(None);
        let rules = Rules::new(matchers);
        (
            Self {
                location,
                client,
                metrics,
                rules,
                read: None,
                unanswered: None,
                sender,
            },
            receiver,
        )
    }

    async fn refresh(&mut self) {
        let mut detail = None;
        match read(&self.location, &self.client).await {
            Ok(text) => self.rules.error = self.take(text),
            Err(Unreadable::Missing(why)) => {
                self.rules.error = Some(UNREADABLE.to_owned());
                detail = Some(why);
            }
            Err(Unreadable::Unanswered(why)) => {
                if self.unanswered.as_ref() != Some(&why) {
                    tracing::warn!(
                        why,
                        "nobody says what the rules for the history of metrics are; those before stand"
                    );
                    self.unanswered = Some(why);
                }
                return;
            }
        }
        self.unanswered = None;
        self.metrics.rules_are_broken(self.rules.error.is_some());
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
                    "the rules for the history of metrics cannot be used; those before them stand"
                );
            }
            None if is_new => tracing::info!("the rules for the history of metrics can be used"),
            _ => {}
        }
    }

    /// Takes the rules of a text, if they are others than those of the last one; gives what is
    /// wrong with it.
    fn take(&mut self, text: String) -> Option<String> {
        if let Some((_, wrong)) = self.read.as_ref().filter(|(before, _)| *before == text) {
            return wrong.clone();
        }
        let wrong = self
            .rules
            .read(text.clone())
            .err()
            .map(|error| error.to_string());
        self.read = Some((text, wrong.clone()));
        wrong
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
            text.ok_or_else(|| {
                Unreadable::Missing(format!("ConfigMap {namespace}/{name} has no key {key}"))
            })
        }
    }
}

#[cfg(test)]
mod tests;
