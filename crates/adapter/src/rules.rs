//! Metrics from queries: a rule file as prometheus-adapter has it says which series of a store that
//! speaks `PromQL` are metrics of which objects, and how their values are asked for.
//!
//! | what | file |
//! |---|---|
//! | the file, what its rules mean, and their queries | [`sources::rules`] |
//! | which metrics there are, kept current | `rules/catalog.rs`, `rules/listing.rs`, `rules/followed.rs` |
//! | which objects a selector means | `rules/objects.rs`, `rules/lists.rs` |
//! | answers of the store, and the last good ones | `rules/store.rs`, `rules/answers.rs` |
//!
//! Source: prometheus-adapter 0.12, `docs/` and `pkg/`. Where this differs is in the table of the
//! crate's README.

pub mod args;
mod budget;
mod catalog;
mod listing;
mod metrics;
mod name_cache;
mod objects;
mod query_cache;
mod rule_file;
mod store;
mod values;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arc_swap::{ArcSwap, ArcSwapOption};
use jiff::Timestamp;
use runtime::Chassis;
use sources::prometheus::Connection;
use sources::rules::{ApiResource, Objects as QueryObjects};
use tokio::sync::{Notify, watch};
use view::View;

use crate::flow::Flow;
use crate::request::{CustomMetricRequest, ExternalMetricRequest, GroupResource, ObjectSelector};
use crate::status_error::StatusError;
use crate::value::{ExternalValue, MetricNames, MetricValue};
use catalog::{Catalog, MetricSource};
use listing::{RelistConfig, Relister};
use metrics::Metrics;
use objects::Objects;
use query_cache::{QueryCache, Samples};
use store::Store;

pub use sources::rules::RuleError;

/// How often answers that nobody asks for are looked for.
const SWEEP: Duration = Duration::from_secs(5);

/// Where rules are and how they are followed.
#[derive(Debug, Clone)]
pub struct RulesConfig {
    /// The rule file.
    pub file: PathBuf,
    /// The store.
    pub connection: Connection,
    /// How often metrics are listed.
    pub relist_interval: Duration,
    /// How old the last sample of a series may be for it to be listed.
    pub max_age: Duration,
    /// How long the last good answer stands in when the store fails.
    pub last_good_for: Duration,
}

/// Answers what rules say. Clones share everything.
#[derive(Clone)]
pub struct Rules {
    shared: Arc<Shared>,
    objects: Arc<Objects>,
}

/// What handlers and the background share.
struct Shared {
    catalog: ArcSwapOption<Catalog>,
    names: ArcSwap<MetricNames>,
    store: Arc<Store>,
    cache: QueryCache,
    /// Somebody asked for a metric that is not in the catalog.
    relist_requested: Notify,
    metrics: Metrics,
}

impl Shared {
    fn publish(&self, catalog: Catalog) {
        self.names.store(Arc::new(catalog.names()));
        self.catalog.store(Some(Arc::new(catalog)));
    }
}

impl Rules {
    /// Reads the rule file, which must be good, and keeps everything current from then on. `view`
    /// has the labels of pods.
    pub fn start(
        settings: RulesConfig,
        view: watch::Receiver<View>,
        chassis: &Chassis,
    ) -> anyhow::Result<Self> {
        let RulesConfig {
            file,
            connection,
            relist_interval,
            max_age,
            last_good_for,
        } = settings;
        let client = &chassis.client;
        let metrics = Metrics::register(&chassis.registry)?;
        let shared = Arc::new(Shared {
            catalog: ArcSwapOption::empty(),
            names: ArcSwap::default(),
            store: Arc::new(Store::new(connection, metrics.clone())),
            cache: QueryCache::new(last_good_for),
            relist_requested: Notify::new(),
            metrics,
        });
        let relist = RelistConfig {
            interval: relist_interval,
            max_age,
        };
        let listing = Relister::new(
            Arc::clone(&shared),
            client.clone(),
            chassis.clock(),
            relist,
            file,
        )?;
        chassis.tasks.spawn_until_shutdown("rules", listing.run());
        let objects = Arc::new(Objects::new(client.clone(), view));
        let rules = Self { shared, objects };
        chassis
            .tasks
            .spawn_until_shutdown("forgotten answers", rules.clone().forget(Timestamp::now));
        Ok(rules)
    }

    /// Forgets what nobody asks for any more; for ever, and whatever else goes on.
    async fn forget(self, now: impl Fn() -> Timestamp) {
        loop {
            tokio::time::sleep(SWEEP).await;
            self.shared.cache.sweep(now());
            self.objects.sweep(Instant::now());
        }
    }

    /// Whether a question within a namespace is about objects of the whole cluster, such as nodes.
    /// Only the own namespace may be read by rights in it alone.
    pub fn needs_cluster_scope(&self, request: &CustomMetricRequest) -> bool {
        let catalog = self.shared.catalog.load();
        let resources = catalog.as_ref().map(|catalog| &catalog.resources);
        let resource = resources.and_then(|resources| {
            resources.find(&request.resource.group, &request.resource.resource)
        });
        request.namespace.is_some()
            && resource.is_some_and(|resource| !resource.is_namespaced && !is_namespaces(resource))
    }

    /// The values of a metric of objects; none if no rule makes it.
    pub async fn custom(
        &self,
        request: &CustomMetricRequest,
        flow: &Flow,
        now: Timestamp,
    ) -> Result<Option<Vec<MetricValue>>, StatusError> {
        let Some(catalog) = self.shared.catalog.load_full() else {
            let why = format!(
                "the metric {} is not known: the metrics of Prometheus were not listed yet",
                request.metric
            );
            return Err(StatusError::NotFound(why));
        };
        let resource = catalog
            .resources
            .find(&request.resource.group, &request.resource.resource);
        let Some(source) = resource.and_then(|resource| catalog.custom(&request.metric, resource))
        else {
            self.shared.relist_requested.notify_one();
            return Ok(None);
        };
        let namespace = namespace(source, request)?;
        let names: Arc<[String]> = match &request.objects {
            ObjectSelector::Name(name) => [name.clone()].into(),
            ObjectSelector::Labels(selector) => {
                let namespace = namespace.map(|(_, namespace)| namespace);
                self.objects
                    .names(&source.object_labels.resource, namespace, selector)
                    .await?
            }
        };
        let objects = QueryObjects {
            label: &source.object_labels.label,
            names: &names,
            namespace,
        };
        let query = source
            .rule
            .query_objects(&source.series, objects, &request.metric_selector)?;
        let samples = self
            .answer(&query, Some(&source.object_labels.label), flow, now)
            .await?;
        values::of_objects(request, &source.object_labels, &names, &samples).map(Some)
    }

    /// The values of an external metric; none if no rule makes it.
    pub async fn external(
        &self,
        request: &ExternalMetricRequest,
        flow: &Flow,
        now: Timestamp,
    ) -> Result<Option<Vec<ExternalValue>>, StatusError> {
        let Some(catalog) = self.shared.catalog.load_full() else {
            return Ok(None);
        };
        let Some(source) = catalog.external(&request.metric) else {
            self.shared.relist_requested.notify_one();
            return Ok(None);
        };
        let namespace_label = source.namespace_label.as_deref();
        let query = source.rule.query_external(
            &source.series,
            namespace_label,
            &request.namespace,
            &request.selector,
        )?;
        let samples = self.answer(&query, None, flow, now).await?;
        values::external(&request.metric, &samples).map(Some)
    }

    /// What the metrics are called.
    pub fn names(&self) -> Arc<MetricNames> {
        self.shared.names.load_full()
    }

    /// The samples of a query, with `label` alone of their labels where one is named: the same
    /// query with another label is another answer.
    async fn answer(
        &self,
        query: &str,
        label: Option<&str>,
        flow: &Flow,
        now: Timestamp,
    ) -> Result<Samples, StatusError> {
        let request =
            self.shared
                .store
                .ask(query.to_owned(), label.map(str::to_owned), flow.clone());
        let answer = self
            .shared
            .cache
            .get(&answer_key(query, label), flow, now, request)
            .await;
        self.shared
            .metrics
            .answered(answer.as_ref().ok().map(|(_, from)| *from));
        answer.map(|(samples, _)| samples)
    }
}

impl std::fmt::Debug for Rules {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Rules").finish_non_exhaustive()
    }
}

/// The key of an answer. An answer to a custom metric keeps one label of each sample, one to an
/// external metric keeps all.
fn answer_key(query: &str, label: Option<&str>) -> String {
    format!("{}\n{query}", label.unwrap_or_default())
}

/// The label of the namespace with the namespace that is asked about. Objects of the whole cluster
/// have none, also when whoever asks puts its own namespace before them, as the autoscaler does.
fn namespace<'a>(
    source: &'a MetricSource,
    request: &'a CustomMetricRequest,
) -> Result<Option<(&'a str, &'a str)>, StatusError> {
    let resource = &source.object_labels.resource;
    if is_of_another_namespace(resource, request) {
        return Err(StatusError::NotFound(
            "within a namespace nothing is told of other namespaces".to_owned(),
        ));
    }
    if !resource.is_namespaced {
        return Ok(None);
    }
    let plural = &resource.resource;
    let Some(namespace) = &request.namespace else {
        return Err(StatusError::NotFound(format!(
            "{plural} are in namespaces, and none is named"
        )));
    };
    let Some(label) = &source.object_labels.namespace_label else {
        let why = format!(
            "{} does not say which label has the namespace of {plural}",
            source.rule.at
        );
        return Err(StatusError::NotFound(why));
    };
    Ok(Some((label, namespace)))
}

/// Whoever may ask in one namespace may not ask of another, although namespaces are objects of the
/// whole cluster.
fn is_of_another_namespace(resource: &ApiResource, request: &CustomMetricRequest) -> bool {
    let is_own =
        |own: &String| matches!(&request.objects, ObjectSelector::Name(name) if name == own);
    is_namespaces(resource) && request.namespace.as_ref().is_some_and(|own| !is_own(own))
}

fn is_namespaces(resource: &ApiResource) -> bool {
    let GroupResource { group, resource } = &resource.resource;
    group.is_empty() && resource == "namespaces"
}

#[cfg(test)]
mod tests {
    use model::Selector;
    use sources::rules::ApiResources;

    use super::*;

    fn check(namespace: Option<&str>, resource: &str, objects: ObjectSelector, expected: bool) {
        let resources = ApiResources::built_in();
        let resource = resources.find("", resource).expect(resource);
        let request = CustomMetricRequest {
            namespace: namespace.map(str::to_owned),
            resource: resource.resource.clone(),
            objects,
            metric: "rps".to_owned(),
            metric_selector: Selector::everything(),
        };
        assert_eq!(
            is_of_another_namespace(resource, &request),
            expected,
            "{request:?}"
        );
    }

    /// Rules that nobody lists.
    fn unlisted() -> Rules {
        let metrics = Metrics::register(&prometheus::Registry::new()).expect("metrics");
        let connection = Connection {
            address: "http://localhost".to_owned(),
            credentials: sources::prometheus::Credentials::None,
            ca_file: None,
            client_certificate: None,
            insecure: false,
            query_timeout: Duration::ZERO,
            headers: Vec::new(),
            always_post: false,
        };
        let shared = Shared {
            catalog: ArcSwapOption::empty(),
            names: ArcSwap::default(),
            store: Arc::new(Store::new(connection, metrics.clone())),
            cache: QueryCache::new(Duration::from_mins(1)),
            relist_requested: Notify::new(),
            metrics,
        };
        let nowhere = tower::service_fn(|_: http::Request<kube::client::Body>| async {
            Err::<http::Response<kube::client::Body>, _>(std::io::Error::other("nobody is there"))
        });
        let client = kube::Client::new(nowhere, "default");
        let objects = Arc::new(Objects::new(client, watch::channel(View::default()).1));
        Rules {
            shared: Arc::new(shared),
            objects,
        }
    }

    #[tokio::test]
    async fn custom_and_external_metrics_with_one_query_have_answers_of_their_own() {
        let (rules, now, flow) = (unlisted(), Timestamp::UNIX_EPOCH, Flow::default());
        for (label, count) in [(None, 2), (Some("pod"), 1), (None, 2)] {
            let labels = [("pod", "web-1"), ("queue", "orders")]
                .iter()
                .filter(|(name, _)| label.is_none_or(|it| it == *name));
            let labels = labels
                .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
                .collect();
            let sample = sources::prometheus::InstantSample {
                labels,
                at: now,
                value: 1.0,
            };
            let request = async { Ok(vec![sample]) };
            let answer = rules
                .shared
                .cache
                .get(&answer_key("up", label), &flow, now, request)
                .await;
            assert_eq!(
                answer.expect("an answer").0[0].labels.len(),
                count,
                "{label:?}"
            );
        }
    }

    #[tokio::test(start_paused = true)]
    async fn answers_that_nobody_asks_for_go_although_no_list_ever_ends() {
        let (rules, began) = (unlisted(), tokio::time::Instant::now());
        let now = move || {
            Timestamp::UNIX_EPOCH
                .saturating_add(began.elapsed())
                .expect("in range")
        };
        let answer = rules
            .shared
            .cache
            .get("up", &Flow::default(), now(), async { Ok(Vec::new()) })
            .await;
        assert!(answer.is_ok());
        let forgetting = tokio::spawn(rules.clone().forget(now));
        tokio::time::sleep(Duration::from_secs(100)).await;
        assert_eq!(rules.shared.cache.len(), 1);
        tokio::time::sleep(Duration::from_secs(30)).await;
        assert_eq!(rules.shared.cache.len(), 0);
        forgetting.abort();
    }

    #[test]
    fn nobody_asks_of_a_namespace_in_another() {
        let named = |name: &str| ObjectSelector::Name(name.to_owned());
        check(Some("shop"), "namespaces", named("bank"), true);
        check(Some("shop"), "namespace", named("bank"), true);
        check(
            Some("shop"),
            "namespaces",
            ObjectSelector::Labels(Selector::everything()),
            true,
        );
        check(Some("shop"), "namespaces", named("shop"), false);
        check(None, "namespaces", named("bank"), false);
        check(Some("shop"), "nodes", named("n-1"), false);
        check(Some("shop"), "pods", named("bank"), false);
    }
}
