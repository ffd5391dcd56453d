//! Usage of containers from `external.metrics.k8s.io/v1beta1`: one metric for CPU, one for memory.
//!
//! As upstream, one request per pod and metric, with the selector of the pod's autoscaler and
//! `pod=NAME`; a label of each value names the container. Unlike there, a failed request affects
//! its pod only, a value keeps its own time, and a missing value is no zero. A pass ends at its
//! deadline, or after consecutive failures in several namespaces. Failing pods do not delay those
//! of other namespaces (`queue`). Source: upstream `recommender/input/metrics/metrics_source.go`.

mod queue;

use parking_lot::{Mutex, MutexGuard};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use anyhow::ensure;
use api::external_metrics::{API_VERSION, ExternalMetricValue, ExternalMetricValueList};
use form_urlencoded::byte_serialize;
use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use jiff::Timestamp;
use kube::Client;
use model::{ContainerRef, Cpu, Memory, Requirement, Sample, Selector};
use tokio::time::{Instant, timeout, timeout_at};

use crate::ContainerUsage;
use crate::metrics_api::MetricsApiError;
use queue::{LastQuery, NAMESPACE_CONCURRENCY, Queue};

/// Maximum time of one request, or half of a pass if less, so that a hanging one is a failure.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);
const CONCURRENCY: usize = 10;
/// Consecutive failures that end a pass, and failures after which a namespace waits for the next
/// pass. Only the first [`NAMESPACE_CONCURRENCY`] failures of a namespace count as consecutive.
const MAX_FAILURES: usize = 20;
/// Maximum number of series in the response for one pod, far above its number of containers.
const MAX_SERIES: usize = 10_000;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExternalMetricNames {
    metrics: Vec<(Resource, String)>,
    container_label: String,
}

impl ExternalMetricNames {
    /// The metrics of CPU in cores and of memory in bytes, and the label with the container's name.
    pub fn new(
        cpu: Option<String>,
        memory: Option<String>,
        container_label: String,
    ) -> anyhow::Result<Self> {
        let metrics = [(Resource::Cpu, cpu), (Resource::Memory, memory)].into_iter();
        let metrics: Vec<_> = metrics
            .filter_map(|(resource, name)| Some((resource, name?)))
            .collect();
        for (_, name) in &metrics {
            // Rejected by client-go in a path, and by all adapters.
            let is_invalid = matches!(name.as_str(), "" | "." | "..")
                || name.contains(['/', '%'])
                || name.contains(char::is_whitespace);
            ensure!(!is_invalid, "{name:?} is not the name of a metric");
        }
        Ok(Self {
            metrics,
            container_label,
        })
    }
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PodQuery {
    pub namespace: String,
    pub pod: String,
    /// Selector of its autoscaler, in canonical form.
    pub selector: String,
}

impl PodQuery {
    /// Query for one of the pods that a selector matches.
    pub fn new(namespace: &str, pod: &str, selector: &Selector) -> Self {
        let own = Requirement::In("pod".to_owned(), [pod.to_owned()].into());
        let selector =
            Selector::new(selector.requirements().iter().cloned().chain([own])).to_string();
        Self {
            namespace: namespace.to_owned(),
            pod: pod.to_owned(),
            selector,
        }
    }
}

/// Result of one pass.
#[derive(Debug, Default)]
pub struct UsageRead {
    pub usage: Vec<ContainerUsage>,
    pub failed: usize,
    /// Number of requests skipped due to the deadline or failures.
    pub skipped: usize,
    pub problem: Option<MetricsApiError>,
}

/// External metrics API of a cluster. Clones share the results of earlier passes.
#[derive(Clone)]
pub struct ExternalMetrics {
    client: Client,
    names: ExternalMetricNames,
    history: Arc<Mutex<History>>,
}

#[derive(Default)]
struct History {
    passes: u64,
    /// Results for the pods of the last pass.
    asked: HashMap<PodQuery, LastQuery>,
}

/// Responses for one pod.
#[derive(Clone, Default)]
struct PodResults {
    count: usize,
    failed: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Resource {
    Cpu,
    Memory,
}

impl ExternalMetrics {
    /// Uses `client`, which limits the size of responses and the rate of requests.
    pub fn new(client: Client, names: ExternalMetricNames) -> Self {
        Self {
            client,
            names,
            history: Arc::default(),
        }
    }

    /// Reads the current usage of these pods, as far as possible within `time`.
    pub async fn read(&self, mut pods: Vec<PodQuery>, time: Duration) -> UsageRead {
        let until = Instant::now() + time;
        pods.sort_unstable();
        let before = std::mem::take(&mut self.history().asked);
        let patience = ANSWER_TIMEOUT.min(time / 2);
        let (pass, answers) = self.pass(&pods, &before, until, patience).await;
        let questions = self.names.metrics.len();
        let mut history = self.history();
        history.passes += 1;
        let number = history.passes;
        // Pods that were not reached keep their position.
        let asked = pods.into_iter().zip(answers).filter_map(|(pod, answers)| {
            let is_whole = answers.failed || answers.count >= questions;
            let last = LastQuery {
                failed: answers.failed,
                pass: number,
            };
            let last = if is_whole { last } else { *before.get(&pod)? };
            Some((pod, last))
        });
        history.asked = asked.collect();
        pass
    }

    fn history(&self) -> MutexGuard<'_, History> {
        self.history.lock()
    }

    async fn pass(
        &self,
        pods: &[PodQuery],
        before: &HashMap<PodQuery, LastQuery>,
        until: Instant,
        patience: Duration,
    ) -> (UsageRead, Vec<PodResults>) {
        let metrics = &self.names.metrics;
        let mut queue = Queue::new(pods, before, MAX_FAILURES);
        let mut running = FuturesUnordered::new();
        let (mut pass, mut samples, mut in_a_row) = (UsageRead::default(), Samples::default(), 0);
        let mut answers = vec![PodResults::default(); pods.len()];
        while in_a_row < MAX_FAILURES {
            while running.len() < CONCURRENCY
                && let Some((pod, metric)) = queue.next(metrics.len())
            {
                running.push(async move {
                    let answer = self.ask(&pods[pod], &metrics[metric].1, patience).await;
                    (pod, metric, answer)
                });
            }
            let Ok(Some((place, metric, answer))) = timeout_at(until, running.next()).await else {
                break;
            };
            let (pod, answers) = (&pods[place], &mut answers[place]);
            let failures = queue.answered(&pod.namespace, answer.is_err());
            answers.count += 1;
            match answer {
                Ok(values) => {
                    in_a_row = 0;
                    samples.add(pod, metrics[metric].0, values, &self.names.container_label);
                }
                Err(error) => {
                    in_a_row += usize::from(failures <= NAMESPACE_CONCURRENCY);
                    pass.failed += 1;
                    answers.failed = true;
                    pass.problem.get_or_insert(error);
                }
            }
        }
        let asked: usize = answers.iter().map(|answers| answers.count).sum();
        pass.skipped = pods.len() * metrics.len() - asked;
        pass.usage = samples.into_usage();
        (pass, answers)
    }

    async fn ask(
        &self,
        pod: &PodQuery,
        metric: &str,
        patience: Duration,
    ) -> Result<Vec<ExternalMetricValue>, MetricsApiError> {
        let request = http::Request::get(path(pod, metric)).body(Vec::new());
        let request =
            request.map_err(|error| MetricsApiError::Request(kube::Error::HttpError(error)))?;
        let list = self.client.request::<ExternalMetricValueList>(request);
        let list = timeout(patience, list).await;
        let items = list.map_err(|_| MetricsApiError::Timeout(patience))??.items;
        if items.len() > MAX_SERIES {
            return Err(MetricsApiError::TooMany {
                items: items.len(),
                most: MAX_SERIES,
            });
        }
        Ok(items)
    }
}

/// Neither part contains white space, in which the encodings of paths and forms differ.
fn path(pod: &PodQuery, metric: &str) -> String {
    let encoded = |text: &str| byte_serialize(text.as_bytes()).collect::<String>();
    let selector = encoded(&pod.selector).replace('+', "%20");
    let (namespace, metric) = (encoded(&pod.namespace), encoded(metric));
    format!("/apis/{API_VERSION}/namespaces/{namespace}/{metric}?labelSelector={selector}")
}

/// CPU and memory of one container at one time form one sample.
#[derive(Default)]
struct Samples(BTreeMap<(ContainerRef, Timestamp), Sample>);

impl Samples {
    fn add(
        &mut self,
        pod: &PodQuery,
        resource: Resource,
        values: Vec<ExternalMetricValue>,
        label: &str,
    ) {
        for mut value in values {
            let (container, at) = (value.metric_labels.remove(label), value.timestamp.0);
            let (Some(container), Some(value)) = (container, value.value) else {
                continue;
            };
            let container = ContainerRef {
                namespace: pod.namespace.clone(),
                pod: pod.pod.clone(),
                container,
            };
            let sample = self.0.entry((container, at)).or_insert(Sample {
                at,
                cpu: None,
                memory: None,
            });
            match resource {
                Resource::Cpu => sample.cpu = Some(Cpu::from(&value)),
                Resource::Memory => sample.memory = Some(Memory::from(&value)),
            }
        }
    }

    fn into_usage(self) -> Vec<ContainerUsage> {
        let samples = self.0.into_iter();
        let usage = samples.map(|((container, _), sample)| ContainerUsage { container, sample });
        usage.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_path(selector: &str, metric: &str, expected: &str) {
        let selector = selector.parse().expect(selector);
        let path = path(&PodQuery::new("shop", "web-1", &selector), metric);
        let of_namespace = "/apis/external.metrics.k8s.io/v1beta1/namespaces/shop";
        assert_eq!(path, format!("{of_namespace}/{expected}"));
    }

    #[test]
    fn the_selector_is_the_autoscalers_and_the_pods_name() {
        let one = "container_cpu?labelSelector=app%3Dweb%2Cpod%3Dweb-1";
        check_path("app=web", "container_cpu", one);
        check_path("", "cpu|cores", "cpu%7Ccores?labelSelector=pod%3Dweb-1");
        let either = "m?labelSelector=app%20in%20%28a%2Cb%29%2Cpod%3Dweb-1";
        check_path("app in (a, b)", "m", either);
    }

    #[test]
    fn a_name_that_would_be_another_path_is_refused() {
        for name in ["cpu", "a:b.c|d", "", "..", "a/b", "%2f", "a b"] {
            let names = ExternalMetricNames::new(None, Some(name.to_owned()), "name".to_owned());
            let is_name = matches!(name, "cpu" | "a:b.c|d");
            assert_eq!(names.is_ok(), is_name, "{name:?}");
        }
    }
}
