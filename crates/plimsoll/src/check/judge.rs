//! Findings from facts. Pure: the same facts give the same findings.

mod api_server;
mod definitions;
mod metrics;
mod others;
mod rights;
mod suite;
#[cfg(test)]
mod tests;
mod webhook;

use super::facts::Facts;
use super::finding::{Finding, Findings};

pub(crate) use rights::{INSTALL, USE};

/// Name of the webhook's registration.
pub(crate) const CONFIGURATION: &str = "vpa-webhook-config";
/// Series that the recommender's history needs.
pub(crate) const SERIES: [&str; 3] = [
    "container_cpu_usage_seconds_total",
    "container_memory_working_set_bytes",
    "kube_pod_labels",
];
pub(crate) const OTHER_IMAGES: [(&str, Other); 7] = [
    ("vpa-recommender", Other::Vpa),
    ("vpa-updater", Other::Vpa),
    ("vpa-admission-controller", Other::Vpa),
    ("craned", Other::Crane),
    ("keda", Other::Keda),
    ("keda-metrics-apiserver", Other::Keda),
    ("goldilocks", Other::Goldilocks),
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Other {
    Vpa,
    Crane,
    Keda,
    Goldilocks,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Extent {
    Before,
    Installed,
}

/// All findings, in the order of output.
pub(crate) fn judge(facts: &Facts, extent: Extent) -> Vec<Finding> {
    let mut findings = Findings::default();
    api_server::judge(facts, &mut findings);
    metrics::judge(facts, extent, &mut findings);
    others::judge(facts, extent, &mut findings);
    definitions::judge(facts, extent, &mut findings);
    super::objects::judge(facts, &mut findings);
    if extent == Extent::Installed {
        suite::judge(facts, &mut findings);
        webhook::judge(facts, &mut findings);
    }
    rights::judge(facts, extent, &mut findings);
    findings.list
}
