//! Metrics from rule files of prometheus-adapter: rules map series of a `PromQL` store to metrics
//! of objects, and define the queries of their values.
//!
//! | part | file |
//! |---|---|
//! | the rule file and its queries | [`sources::rules`] |
//! | the catalog of metrics | `rules/catalog.rs`, `rules/catalog_refresh.rs`, `rules/rule_file.rs` |
//! | the objects that a selector matches | `rules/object_names.rs` |
//! | queries and their cached results | `rules/store_client.rs`, `rules/query_cache.rs` |
//!
//! Source: prometheus-adapter 0.12, `docs/` and `pkg/`. `docs/rules.md` lists the differences.

pub mod args;
mod catalog;
mod catalog_refresh;
mod object_names;
mod query_cache;
mod query_time;
mod rule_file;
mod store_client;
mod values;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arc_swap::{ArcSwap, ArcSwapOption};
use jiff::Timestamp;
use prometheus::{Histogram, IntCounterVec, IntGauge};
use runtime::Manager;
use sources::prometheus::Connection;
use sources::rules::{ApiResource, Objects as QueryObjects};
use tokio::sync::{Notify, watch};
use view::View;

use super::request::{CustomMetricRequest, ExternalMetricRequest, ObjectSelector, StatusError};
use crate::flow_limiter::Flow;
use crate::value::{ExternalValue, MetricNames, MetricValue};
use catalog::{Catalog, MetricSource};
use catalog_refresh::CatalogRefresher;
use object_names::Objects;
use query_cache::{QueryCache, Samples, Source};
use store_client::Store;

pub use sources::rules::RuleError;

const SWEEP: Duration = Duration::from_secs(5);

#[derive(Debug, Clone)]
pub struct RulesConfig {
    pub file: PathBuf,
    pub connection: Connection,
    pub relist_interval: Duration,
    /// The largest age of the last sample of a listed series.
    pub max_age: Duration,
    /// The time for which the last good result replaces a missing one.
    pub last_good_for: Duration,
}

#[derive(Clone)]
pub struct Rules(Arc<Shared>);

struct Shared {
    catalog: ArcSwapOption<Catalog>,
    /// The error of the last listing, if it failed.
    listing_error: ArcSwapOption<String>,
    names: ArcSwap<MetricNames>,
    store: Arc<Store>,
    cache: QueryCache,
    objects: Objects,
    /// Notified by a request for a metric that is not in the catalog.
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
    /// Loads the rule file, which must be valid, and starts the background tasks. `view` has the
    /// labels of pods.
    pub fn start(
        config: RulesConfig,
        view: watch::Receiver<View>,
        manager: &Manager,
    ) -> anyhow::Result<Self> {
        let client = &manager.client;
        let metrics = Metrics::register(&manager.registry)?;
        let shared = Arc::new(Shared {
            catalog: ArcSwapOption::empty(),
            listing_error: ArcSwapOption::empty(),
            names: ArcSwap::default(),
            store: Arc::new(Store::new(config.connection.clone(), metrics.clone())),
            cache: QueryCache::new(config.last_good_for),
            objects: Objects::new(client.clone(), view),
            relist_requested: Notify::new(),
            metrics,
        });
        let (state, clock) = (Arc::clone(&shared), manager.clock());
        let listing = CatalogRefresher::new(state, client.clone(), clock, config)?;
        manager.tasks.spawn_until_shutdown("rules", listing.run());
        let rules = Self(shared);
        manager
            .tasks
            .spawn_until_shutdown("forgotten answers", rules.clone().forget(Timestamp::now));
        Ok(rules)
    }

    /// Removes unused cache entries. Never returns.
    async fn forget(self, now: impl Fn() -> Timestamp) {
        loop {
            tokio::time::sleep(SWEEP).await;
            self.0.cache.sweep(now());
            self.0.objects.sweep(Instant::now());
        }
    }

    /// Whether a request within a namespace is for cluster-scoped objects, such as nodes. Rights in
    /// a namespace allow to read the namespace itself only.
    pub fn needs_cluster_scope(&self, request: &CustomMetricRequest) -> bool {
        let catalog = self.0.catalog.load();
        let resources = catalog.as_ref().map(|catalog| &catalog.resources);
        let resource = resources.and_then(|resources| {
            resources.find(&request.resource.group, &request.resource.resource)
        });
        request.namespace.is_some()
            && resource.is_some_and(|resource| !resource.is_namespaced && !resource.is_namespaces())
    }

    /// The reason for which no metric of the rules is known yet.
    pub fn unlisted(&self) -> Option<String> {
        if self.0.catalog.load().is_some() {
            return None;
        }
        let why = "the series of Prometheus have not been listed";
        let error = self.0.listing_error.load_full();
        Some(error.map_or(why.to_owned(), |error| format!("{why}: {error}")))
    }

    /// Returns the values of a metric of objects; `None` if no rule defines it.
    pub async fn custom(
        &self,
        request: &CustomMetricRequest,
        flow: &Flow,
        now: Timestamp,
    ) -> Result<Option<Vec<MetricValue>>, StatusError> {
        let Some(catalog) = self.0.catalog.load_full() else {
            let (metric, why) = (&request.metric, self.unlisted().unwrap_or_default());
            return Err(StatusError::NotFound(format!(
                "the metric {metric} is not known yet: {why}"
            )));
        };
        let resource = catalog
            .resources
            .find(&request.resource.group, &request.resource.resource);
        let Some(source) = resource.and_then(|resource| catalog.custom(&request.metric, resource))
        else {
            self.0.relist_requested.notify_one();
            return Ok(None);
        };
        let namespace = namespace(source, request)?;
        let names: Arc<[String]> = match &request.objects {
            ObjectSelector::Name(name) => [name.clone()].into(),
            ObjectSelector::Labels(selector) => {
                let namespace = namespace.map(|(_, namespace)| namespace);
                let objects = &self.0.objects;
                objects
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

    /// Returns the values of an external metric; `None` if no rule defines it.
    pub async fn external(
        &self,
        request: &ExternalMetricRequest,
        flow: &Flow,
        now: Timestamp,
    ) -> Result<Option<Vec<ExternalValue>>, StatusError> {
        let Some(catalog) = self.0.catalog.load_full() else {
            return Ok(None);
        };
        let Some(source) = catalog.external(&request.metric) else {
            self.0.relist_requested.notify_one();
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

    pub fn names(&self) -> Arc<MetricNames> {
        self.0.names.load_full()
    }

    /// Returns the samples of a query, each with `label` as its only label if it is given. The same
    /// query with another label has another result.
    async fn answer(
        &self,
        query: &str,
        label: Option<&str>,
        flow: &Flow,
        now: Timestamp,
    ) -> Result<Samples, StatusError> {
        let request = self
            .0
            .store
            .query(query.to_owned(), label.map(str::to_owned), flow.clone());
        let Shared { cache, metrics, .. } = &*self.0;
        let key = answer_key(query, label);
        let answer = cache.get(&key, flow, now, request).await;
        metrics.answered(answer.as_ref().ok().map(|(_, from)| *from));
        answer.map(|(samples, _)| samples)
    }
}

/// Returns the key of a result. Results of custom metrics keep one label of each sample, those of
/// external metrics keep all.
fn answer_key(query: &str, label: Option<&str>) -> String {
    format!("{}\n{query}", label.unwrap_or_default())
}

/// Returns the namespace of a request with its label. Cluster-scoped objects have none, even if the
/// path has a namespace, as in the HPA controller's requests.
fn namespace<'a>(
    source: &'a MetricSource,
    request: &'a CustomMetricRequest,
) -> Result<Option<(&'a str, &'a str)>, StatusError> {
    let resource = &source.object_labels.resource;
    if is_of_another_namespace(resource, request) {
        return Err(StatusError::NotFound(
            "a request in a namespace may not read metrics of another namespace".to_owned(),
        ));
    }
    if !resource.is_namespaced {
        return Ok(None);
    }
    let plural = &resource.resource;
    let Some(namespace) = &request.namespace else {
        return Err(StatusError::NotFound(format!(
            "{plural} are namespaced: the request needs a namespace"
        )));
    };
    let Some(label) = &source.object_labels.namespace_label else {
        let why = format!(
            "{} has no label for the namespace of {plural}",
            source.rule.at
        );
        return Err(StatusError::NotFound(why));
    };
    Ok(Some((label, namespace)))
}

/// Whether the request is for another namespace than the one that it is authorized for. Namespaces
/// are cluster-scoped objects.
fn is_of_another_namespace(resource: &ApiResource, request: &CustomMetricRequest) -> bool {
    let is_own =
        |own: &String| matches!(&request.objects, ObjectSelector::Name(name) if name == own);
    resource.is_namespaces() && request.namespace.as_ref().is_some_and(|own| !is_own(own))
}

const BUCKETS: [f64; 10] = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.0, 10.0];

runtime::metrics! {
    struct Metrics {
        queries: IntCounterVec { code } = "plimsoll_adapter_rules_queries_total",
            "Requests to Prometheus by HTTP status code.";
        query_seconds: Histogram [BUCKETS] = "plimsoll_adapter_rules_query_duration_seconds",
            "Latency of requests to Prometheus in seconds.";
        answers: IntCounterVec { source } = "plimsoll_adapter_rules_responses_total",
            "Responses to metric requests by source of the values: store, last_good or none.";
        config_valid: IntGauge = "plimsoll_adapter_rules_config_last_reload_successful",
            "1 if the last reload of the rule file succeeded; if 0, the previous rules are still in use.";
    }
}

impl Metrics {
    fn exchanged(&self, code: Option<u16>, duration: Duration) {
        let code = code.map_or_else(|| "none".to_owned(), |code| code.to_string());
        self.queries.with_label_values(&[code.as_str()]).inc();
        self.query_seconds.observe(duration.as_secs_f64());
    }

    fn answered(&self, source: Option<Source>) {
        let source = match source {
            Some(Source::Store) => "store",
            Some(Source::LastGood) => "last_good",
            None => "none",
        };
        self.answers.with_label_values(&[source]).inc();
    }
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

    /// Rules without a catalog.
    fn unlisted() -> Rules {
        let metrics = Metrics::register(&prometheus::Registry::new()).expect("metrics");
        let client = testing::no_api_server();
        let shared = Shared {
            catalog: ArcSwapOption::empty(),
            listing_error: ArcSwapOption::empty(),
            names: ArcSwap::default(),
            store: Arc::new(Store::new(Connection::default(), metrics.clone())),
            cache: QueryCache::new(Duration::from_mins(1)),
            objects: Objects::new(client, watch::channel(View::default()).1),
            relist_requested: Notify::new(),
            metrics,
        };
        Rules(Arc::new(shared))
    }

    #[tokio::test]
    async fn custom_and_external_metrics_with_one_query_have_separate_results() {
        let (rules, now, flow) = (unlisted(), Timestamp::UNIX_EPOCH, Flow::default());
        for (label, count) in [(None, 2), (Some("pod"), 1), (None, 2)] {
            let labels = [("pod", "web-1"), ("queue", "orders")]
                .into_iter()
                .filter(|(name, _)| label.is_none_or(|it| it == *name))
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .collect();
            let sample = sources::prometheus::InstantSample {
                labels,
                at: now,
                value: 1.0,
            };
            let request = async { Ok(vec![sample]) };
            let (cache, key) = (&rules.0.cache, answer_key("up", label));
            let (samples, _) = cache.get(&key, &flow, now, request).await.expect("samples");
            assert_eq!(samples[0].labels.len(), count, "{label:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn unused_results_are_removed_while_a_listing_hangs() {
        let (rules, began) = (unlisted(), tokio::time::Instant::now());
        let now = move || {
            Timestamp::UNIX_EPOCH
                .saturating_add(began.elapsed())
                .expect("in range")
        };
        let (cache, flow) = (&rules.0.cache, Flow::default());
        let answer = cache.get("up", &flow, now(), async { Ok(Vec::new()) });
        assert!(answer.await.is_ok());
        let forgetting = tokio::spawn(rules.clone().forget(now));
        tokio::time::sleep(Duration::from_secs(100)).await;
        assert_eq!(cache.len(), 1);
        tokio::time::sleep(Duration::from_secs(30)).await;
        assert_eq!(cache.len(), 0);
        forgetting.abort();
    }

    #[test]
    fn a_namespace_is_not_readable_from_another() {
        let named = |name: &str| ObjectSelector::Name(name.to_owned());
        check(Some("shop"), "namespaces", named("bank"), true);
        check(Some("shop"), "namespace", named("bank"), true);
        let all = ObjectSelector::Labels(Selector::everything());
        check(Some("shop"), "namespaces", all, true);
        check(Some("shop"), "namespaces", named("shop"), false);
        check(None, "namespaces", named("bank"), false);
        check(Some("shop"), "nodes", named("n-1"), false);
        check(Some("shop"), "pods", named("bank"), false);
    }
}
