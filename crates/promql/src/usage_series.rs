//! Possible series of usage and pod labels: as configured, and as written by the usual collectors.
//!
//! Upstream's defaults fit an early scrape configuration. Unless changed, the others are tried too:
//! kubelet's cAdvisor and resource endpoints, the kubelet before Kubernetes 1.16,
//! kube-state-metrics, and OpenTelemetry's kubelet receiver as it arrives in Prometheus.

/// Series of usage by upstream's flags.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UsageSettings {
    pub job: String,
    /// `--history-cpu-metric`, a counter of seconds.
    pub cpu_metric: String,
    /// `--history-memory-metric`, in bytes.
    pub memory_metric: String,
    pub namespace_label: String,
    pub pod_label: String,
    pub container_label: String,
}

impl Default for UsageSettings {
    fn default() -> Self {
        Self {
            job: "kubernetes-cadvisor".to_owned(),
            cpu_metric: CPU.to_owned(),
            memory_metric: MEMORY.to_owned(),
            namespace_label: "namespace".to_owned(),
            pod_label: "pod_name".to_owned(),
            container_label: "name".to_owned(),
        }
    }
}

/// Series of pod labels by upstream's flags.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodLabelSettings {
    /// `--metric-for-pod-labels`: a query for series with pod labels. Its range is ignored.
    pub query: String,
    /// `--pod-label-prefix`: prefix of these labels' names.
    pub prefix: String,
    pub namespace_label: String,
    pub pod_label: String,
}

impl Default for PodLabelSettings {
    fn default() -> Self {
        Self {
            query: r#"up{job="kubernetes-pods"}"#.to_owned(),
            prefix: "pod_label_".to_owned(),
            namespace_label: "kubernetes_namespace".to_owned(),
            pod_label: "kubernetes_pod_name".to_owned(),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UsageSeries {
    pub metric: String,
    /// Whether they count CPU seconds, so that usage is their rate.
    pub is_counter: bool,
    /// The scrape job; empty for any.
    pub job: String,
    pub namespace_label: String,
    pub pod_label: String,
    pub container_label: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodLabelSeries {
    pub query: String,
    /// Possible prefixes of the pod labels' names.
    pub prefixes: Vec<String>,
    pub namespace_label: String,
    pub pod_label: String,
}

/// Detected series. CPU or memory is present.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layout {
    pub cpu: Option<UsageSeries>,
    pub memory: Option<UsageSeries>,
    pub pod_labels: Option<PodLabelSeries>,
}

const CPU: &str = "container_cpu_usage_seconds_total";
const MEMORY: &str = "container_memory_working_set_bytes";

const KUBELET: [&str; 3] = ["namespace", "pod", "container"];
const OLD_KUBELET: [&str; 3] = ["namespace", "pod_name", "container_name"];
const UPSTREAM: [&str; 3] = ["namespace", "pod_name", "name"];
const OPEN_TELEMETRY: [&str; 3] = ["k8s_namespace_name", "k8s_pod_name", "k8s_container_name"];

/// Metric, whether it is a counter, labels.
type Usual = (&'static str, bool, [&'static str; 3]);

const USUAL_CPU: [Usual; 8] = [
    (CPU, true, KUBELET),
    (CPU, true, OLD_KUBELET),
    (CPU, true, UPSTREAM),
    (CPU, true, OPEN_TELEMETRY),
    ("container_cpu_time_seconds_total", true, OPEN_TELEMETRY),
    ("container_cpu_time", true, OPEN_TELEMETRY),
    ("container_cpu_usage", false, OPEN_TELEMETRY),
    // Cores despite its name, in receivers without container.cpu.usage.
    ("container_cpu_utilization", false, OPEN_TELEMETRY),
];

const USUAL_MEMORY: [Usual; 6] = [
    (MEMORY, false, KUBELET),
    (MEMORY, false, OLD_KUBELET),
    (MEMORY, false, UPSTREAM),
    (MEMORY, false, OPEN_TELEMETRY),
    ("container_memory_working_set", false, OPEN_TELEMETRY),
    ("container_memory_usage_bytes", false, OPEN_TELEMETRY),
];

/// Query, prefixes, labels for namespace and pod.
type UsualLabels = (&'static str, &'static [&'static str], [&'static str; 2]);

/// If `pod` names kube-state-metrics' own pod, `exported_pod` names the described one.
const USUAL_POD_LABELS: [UsualLabels; 3] = [
    (
        r#"kube_pod_labels{exported_pod!=""}"#,
        &["label_"],
        ["exported_namespace", "exported_pod"],
    ),
    (
        r#"kube_pod_labels{pod!=""}"#,
        &["label_"],
        ["namespace", "pod"],
    ),
    (
        r#"target_info{k8s_pod_name!=""}"#,
        &["k8s_pod_labels_", "k8s_pod_label_"],
        ["k8s_namespace_name", "k8s_pod_name"],
    ),
];

impl UsageSettings {
    /// Candidate series of CPU usage, best first.
    pub fn cpu_candidates(&self) -> Vec<UsageSeries> {
        self.candidates(&self.cpu_metric, true, &USUAL_CPU)
    }

    pub fn memory_candidates(&self) -> Vec<UsageSeries> {
        self.candidates(&self.memory_metric, false, &USUAL_MEMORY)
    }

    fn candidates(&self, metric: &str, is_counter: bool, usual: &[Usual]) -> Vec<UsageSeries> {
        let set = UsageSeries {
            metric: metric.to_owned(),
            is_counter,
            job: self.job.clone(),
            namespace_label: self.namespace_label.clone(),
            pod_label: self.pod_label.clone(),
            container_label: self.container_label.clone(),
        };
        let is_default = *self == Self::default();
        let usual = usual.iter().filter(|_| is_default);
        let usual = usual.map(
            |(metric, is_counter, [namespace, pod, container])| UsageSeries {
                metric: (*metric).to_owned(),
                is_counter: *is_counter,
                job: String::new(),
                namespace_label: (*namespace).to_owned(),
                pod_label: (*pod).to_owned(),
                container_label: (*container).to_owned(),
            },
        );
        std::iter::once(set).chain(usual).collect()
    }
}

impl PodLabelSettings {
    /// Candidate series of pod labels, best first.
    pub fn candidates(&self) -> Vec<PodLabelSeries> {
        let set = PodLabelSeries {
            query: self.query.clone(),
            prefixes: vec![self.prefix.clone()],
            namespace_label: self.namespace_label.clone(),
            pod_label: self.pod_label.clone(),
        };
        let is_default = *self == Self::default();
        let usual = USUAL_POD_LABELS.iter().filter(|_| is_default);
        let usual = usual.map(|(query, prefixes, [namespace, pod])| PodLabelSeries {
            query: (*query).to_owned(),
            prefixes: prefixes.iter().map(ToString::to_string).collect(),
            namespace_label: (*namespace).to_owned(),
            pod_label: (*pod).to_owned(),
        });
        std::iter::once(set).chain(usual).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_were_set_are_the_only_ones() {
        let usage = UsageSettings {
            pod_label: "pod".to_owned(),
            ..UsageSettings::default()
        };
        assert_eq!(usage.cpu_candidates().len(), 1);
        assert_eq!(usage.memory_candidates().len(), 1);
        let labels = PodLabelSettings {
            prefix: "label_".to_owned(),
            ..PodLabelSettings::default()
        };
        assert_eq!(labels.candidates().len(), 1);
    }

    #[test]
    fn defaults_come_first_and_leave_room_for_others() {
        let usage = UsageSettings::default();
        let candidates = usage.cpu_candidates();
        let expected = [("kubernetes-cadvisor", "pod_name"), ("", "pod")];
        for (found, (job, pod_label)) in candidates.iter().zip(expected) {
            assert_eq!([&found.job, &found.pod_label], [job, pod_label]);
        }
        assert_eq!(candidates.len(), 9);
        assert_eq!(usage.memory_candidates().len(), 7);
        assert_eq!(PodLabelSettings::default().candidates().len(), 4);
    }
}
