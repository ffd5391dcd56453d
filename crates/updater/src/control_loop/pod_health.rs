//! Reads the health of pods from Prometheus while waves wait for it.
//!
//! A query of a VPA object reads no series of another namespace. A few run at a time, one of each namespace.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use api::rollback::MAX_WAVE_QUERY;
use model::FairSlots;
use rollout::{HealthMetric, HealthQuery, HealthReading, HealthReadings, add_reading};
use sources::error_chain::with_causes;
use sources::prometheus::{Connection, InstantSample, Prometheus, confine, matcher};
use tokio::task::JoinSet;
use tokio::time::Instant;

/// Time between two readings of a query.
const INTERVAL: Duration = Duration::from_secs(10);
/// Queries at a time, in all and of one namespace.
const SLOTS: (usize, usize) = (4, 1);

/// Maximum number of pods in an answer.
const MAX_PODS: usize = 10_000;

/// The source of the health of pods.
#[derive(Debug, Clone)]
pub(crate) struct HealthSource {
    pub(crate) connection: Connection,
    /// The range of the query for throttling.
    pub(crate) range: Duration,
}

pub(super) struct PodHealth {
    /// `None` without Prometheus.
    source: Option<Arc<HealthSource>>,
    pub(super) readings: HealthReadings,
    /// The time of the next reading of each query that waves wait for.
    due: BTreeMap<HealthQuery, Instant>,
    slots: FairSlots<String>,
    /// The last reading of each namespace.
    began: BTreeMap<String, Instant>,
    pub(super) reading: JoinSet<Read>,
}

/// A reading that ended.
pub(super) struct Read {
    query: HealthQuery,
    began: Duration,
    values: Result<HashMap<String, f64>, String>,
}

impl PodHealth {
    pub(super) fn new(source: Option<HealthSource>) -> Self {
        Self {
            source: source.map(Arc::new),
            readings: HealthReadings::new(),
            due: BTreeMap::new(),
            slots: FairSlots::new(SLOTS.0, SLOTS.1),
            began: BTreeMap::new(),
            reading: JoinSet::new(),
        }
    }

    /// Replaces the queries that waves wait for.
    pub(super) fn follow(&mut self, queries: Vec<HealthQuery>, now: Instant) {
        let queries: BTreeSet<HealthQuery> = queries.into_iter().collect();
        self.readings.retain(|query, _| queries.contains(query));
        self.due.retain(|query, _| queries.contains(query));
        for query in queries {
            self.due.entry(query).or_insert(now);
        }
        let namespaces: BTreeSet<_> = self.due.keys().map(|query| &query.namespace).collect();
        self.began
            .retain(|namespace, _| namespaces.contains(namespace));
    }

    /// The time at which a query is due for which there is a slot.
    pub(super) fn due_at(&self) -> Option<Instant> {
        let due = self.due.iter();
        let due = due.filter(|(query, _)| self.slots.has_room(&query.namespace));
        due.map(|(_, at)| *at).min()
    }

    /// Begins the readings that are due, first of the namespace that has waited for longest. `began` is the time by the
    /// clock of decisions.
    pub(super) fn start(&mut self, now: Instant, began: Duration) {
        let Some(source) = &self.source else { return };
        let due = self.due.iter().filter(|(_, at)| **at <= now);
        let mut due: Vec<_> = due
            .map(|(query, at)| (self.began.get(&query.namespace), *at, query))
            .collect();
        due.sort_unstable();
        let due: Vec<_> = due.into_iter().map(|(_, _, query)| query.clone()).collect();
        for query in due {
            if !self.slots.try_acquire(query.namespace.clone()) {
                continue;
            }
            self.due.insert(query.clone(), now + INTERVAL);
            self.began.insert(query.namespace.clone(), now);
            let source = Arc::clone(source);
            self.reading.spawn(async move {
                // On the heap: the future of a request is large.
                let values = Box::pin(source.values(&query)).await;
                Read {
                    query,
                    began,
                    values,
                }
            });
        }
    }

    /// Takes in a reading, unless no wave waits for it any more. The first of several errors is logged.
    pub(super) fn end(&mut self, read: Read) {
        let Read {
            query,
            began,
            values,
        } = read;
        self.slots.release(&query.namespace);
        if !self.due.contains_key(&query) {
            return;
        }
        let known = self.readings.get(&query).and_then(|it| it.first());
        if let Err(error) = &values
            && known.is_none_or(|known| known.values.is_some())
        {
            let (namespace, metric) = (&query.namespace, &query.metric);
            tracing::warn!(namespace, ?metric, error, "cannot read the health of pods");
        }
        let values = values.ok();
        let reading = HealthReading { began, values };
        add_reading(&mut self.readings, query, reading);
    }
}

impl HealthSource {
    async fn values(&self, query: &HealthQuery) -> Result<HashMap<String, f64>, String> {
        let text = self.text(query)?;
        let store = Prometheus::connect(&self.connection, Arc::new(|_| ())).await;
        let samples = match store {
            Ok(store) => store.query(&text, self.connection.query_timeout).await,
            Err(error) => Err(error),
        };
        by_pod(samples.map_err(|error| with_causes(&error))?)
    }

    fn text(&self, query: &HealthQuery) -> Result<String, String> {
        let namespace = &query.namespace;
        match &query.metric {
            HealthMetric::Throttling => {
                let labels = format!("{},container!=\"\"", matcher("namespace", "=", namespace));
                let range = self.range.as_millis();
                let sum = |series: &str| {
                    format!(
                        "sum by (pod, container) (increase(container_cpu_cfs_{series}_total{{{labels}}}[{range}ms]))"
                    )
                };
                let (throttled, all) = (sum("throttled_periods"), sum("periods"));
                Ok(format!("max by (pod) ({throttled} / {all})"))
            }
            HealthMetric::Expression(text) if text.chars().count() > MAX_WAVE_QUERY => Err(
                format!("the query is longer than {MAX_WAVE_QUERY} characters"),
            ),
            HealthMetric::Expression(text) => {
                confine(text, "namespace", namespace).map_err(|error| error.to_string())
            }
        }
    }
}

/// The largest value of each pod. A quotient without events is NaN, and counts as zero.
fn by_pod(samples: Vec<InstantSample>) -> Result<HashMap<String, f64>, String> {
    let has_samples = !samples.is_empty();
    let mut values: HashMap<String, f64> = HashMap::new();
    for InstantSample {
        mut labels, value, ..
    } in samples
    {
        if let Some(pod) = labels.remove("pod") {
            let known = values.entry(pod).or_insert(f64::NEG_INFINITY);
            *known = known.max(if value.is_nan() { 0.0 } else { value });
        }
    }
    if has_samples && values.is_empty() {
        return Err("no value has the label pod".to_owned());
    }
    if values.len() > MAX_PODS {
        return Err(format!("values of more than {MAX_PODS} pods"));
    }
    Ok(values)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source() -> HealthSource {
        HealthSource {
            connection: Connection::default(),
            range: Duration::from_mins(1),
        }
    }

    fn query(namespace: &str, metric: HealthMetric) -> HealthQuery {
        HealthQuery {
            namespace: namespace.to_owned(),
            metric,
        }
    }

    fn expression(namespace: &str, text: &str) -> HealthQuery {
        query(namespace, HealthMetric::Expression(text.to_owned()))
    }

    #[test]
    fn queries_read_series_of_their_namespace() {
        let check = |query: HealthQuery, expected: Result<&str, &str>| {
            let text = source().text(&query);
            assert_eq!(text.as_deref().map_err(|it| &**it), expected);
        };
        check(
            query("shop", HealthMetric::Throttling),
            Ok(
                "max by (pod) (sum by (pod, container) (increase(container_cpu_cfs_throttled_periods_total{namespace=\"shop\",\
                 container!=\"\"}[60000ms])) / sum by (pod, container) (increase(container_cpu_cfs_periods_total\
                 {namespace=\"shop\",container!=\"\"}[60000ms])))",
            ),
        );
        check(
            expression("shop", "max by (pod) (latency_seconds)"),
            Ok("max by (pod)(latency_seconds{namespace=\"shop\"})"),
        );
        check(
            expression("shop", "latency_seconds{"),
            Err("character 17: expected the name of a label, found the end"),
        );
        let long = "a".repeat(MAX_WAVE_QUERY + 1);
        let too_long = format!("the query is longer than {MAX_WAVE_QUERY} characters");
        check(expression("shop", &long), Err(&too_long));
    }

    #[test]
    fn the_largest_value_of_a_pod_counts_and_no_events_are_zero() {
        let sample = |pod: Option<&str>, value: f64| InstantSample {
            labels: pod
                .map(|pod| ("pod".to_owned(), pod.to_owned()))
                .into_iter()
                .collect(),
            at: jiff::Timestamp::UNIX_EPOCH,
            value,
        };
        let samples = [
            sample(Some("web-0"), 1.0),
            sample(Some("web-0"), 3.0),
            sample(Some("web-1"), f64::NAN),
            sample(None, 9.0),
        ];
        let expected = [("web-0".to_owned(), 3.0), ("web-1".to_owned(), 0.0)];
        assert_eq!(by_pod(samples.to_vec()), Ok(expected.into()));
        assert_eq!(by_pod(Vec::new()), Ok(HashMap::new()));
        let error = by_pod(vec![sample(None, 9.0)]).expect_err("no pod");
        assert_eq!(error, "no value has the label pod");
        let many = (0..=MAX_PODS).map(|index| sample(Some(&format!("web-{index}")), 0.0));
        let error = by_pod(many.collect()).expect_err("too many");
        assert_eq!(error, "values of more than 10000 pods");
    }

    #[tokio::test(start_paused = true)]
    async fn a_namespace_with_many_queries_leaves_slots_to_others() {
        let mut health = PodHealth::new(Some(source()));
        let now = Instant::now();
        let crowds = ["a", "b", "c", "d"];
        let many = crowds.iter().flat_map(|tenant| {
            (0..100).map(move |index| expression(tenant, &format!("metric_{index}")))
        });
        let queries: Vec<_> = many
            .chain([query("shop", HealthMetric::Throttling)])
            .collect();
        health.follow(queries, now);
        assert_eq!(health.due_at(), Some(now));
        health.start(now, Duration::ZERO);
        assert_eq!(health.reading.len(), 4);
        assert_eq!(health.due_at(), None, "all slots are taken");
        let read = health.reading.join_next().await.expect("one of four");
        let read = read.expect("no panic");
        assert!(read.values.is_err(), "{:?}", read.values);
        health.end(read);
        health.start(Instant::now(), Duration::ZERO);
        let waits = health.slots.has_room("shop");
        assert!(!waits, "the shop comes before older queries of others");
        while let Some(read) = health.reading.join_next().await {
            health.end(read.expect("no panic"));
        }
        assert_eq!(health.readings.len(), 5);
        health.follow(Vec::new(), now);
        assert_eq!((health.readings.len(), health.due_at()), (0, None));
    }
}
