//! Several clusters in one store, by the labels of their series of usage.
//!
//! Names of pods do not tell clusters apart, so queries without a matcher would add them up.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use super::matchers::Matchers;
use super::query::{matcher, usage_selector};
use super::usage_series::UsageSeries;

/// Labels with the name of the cluster, as agents and stores write them.
pub const CLUSTER_LABELS: [&str; 4] = ["cluster", "cluster_id", "cluster_name", "k8s_cluster_name"];

/// Labels that tell one container from another of the same name.
#[rustfmt::skip]
const IDENTITY: [&str; 7] = [
    "id", "instance", "node", "uid", "container_id", "k8s_node_name", "k8s_pod_uid",
];
/// Labels that differ within a cluster: those of the scrape, of containers, and of replicas of a
/// store.
#[rustfmt::skip]
const WITHIN_CLUSTER: [&str; 14] = [
    "__name__", "job", "service", "endpoint", "metrics_path", "name", "image", "cpu", "host_name", "host", "prometheus",
    "replica", "prometheus_replica", "__replica__",
];
/// Containers that are compared.
const COMPARED: usize = 20;
/// Series that are older are of containers that run. The others may be of a pod that has moved.
const STABLE_FOR: &str = "15m";
/// Values that are shown, and their length in characters.
const SHOWN: usize = 3;
const SHOWN_LENGTH: usize = 63;

/// A label that tells clusters apart, and its values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Clusters {
    pub label: String,
    /// Two or more.
    pub values: BTreeSet<String>,
}

impl fmt::Display for Clusters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = self.values.iter().take(SHOWN).map(|value| {
            let short: String = value.chars().take(SHOWN_LENGTH).collect();
            format!("{short:?}")
        });
        let shown: Vec<String> = shown.collect();
        write!(f, "{} is {}", self.label, shown.join(", "))?;
        match self.values.len().saturating_sub(SHOWN) {
            0 => Ok(()),
            more => write!(f, " and {more} more"),
        }
    }
}

impl Clusters {
    /// The clusters of these values, unless they are less than two. An absent label is no value.
    pub fn of(label: &str, values: impl IntoIterator<Item = String>) -> Option<Self> {
        let values = values.into_iter().filter(|value| !value.is_empty());
        let values: BTreeSet<String> = values.collect();
        (values.len() > 1).then(|| Self {
            label: label.to_owned(),
            values,
        })
    }

    pub fn values_query(series: &UsageSeries, label: &str) -> String {
        format!("count by ({label}) ({})", usage_selector(series, None))
    }

    /// Query for series of several containers that have one name. Only the first pods of
    /// `StatefulSets` are compared: their names are the same in each cluster.
    pub fn equal_names_query(series: &UsageSeries) -> String {
        let selector = usage_selector(series, None);
        let first = matcher(&series.pod_label, "=~", ".+-0");
        let selector = format!("{},{first}}}", selector.trim_end_matches('}'));
        let stable = format!("({selector} and {selector} offset {STABLE_FOR})");
        let name = name_labels(series).join(",");
        let identity = IDENTITY.join(",");
        format!(
            "{stable} and on ({name}) topk({COMPARED}, \
             count by ({name}) (group by ({name},{identity}) {stable}) > 1)"
        )
    }

    /// The clusters of such series: a label whose values differ where the containers do. `matchers`
    /// decide about the labels that they name.
    pub fn of_equal_names(
        series: &UsageSeries,
        matchers: &Matchers,
        found: &[BTreeMap<String, String>],
    ) -> Option<Self> {
        let name = name_labels(series);
        let is_known = |label: &&str| {
            IDENTITY.contains(label) || WITHIN_CLUSTER.contains(label) || name.contains(label)
        };
        let labels = found.iter().flat_map(BTreeMap::keys).map(String::as_str);
        let labels = labels.filter(|label| !is_known(label) && !matchers.names(label));
        let mut labels: Vec<&str> = labels.collect::<BTreeSet<_>>().into_iter().collect();
        // The name of a cluster is more telling than its region.
        labels.sort_by_key(|label| !CLUSTER_LABELS.contains(label));
        labels.into_iter().find_map(|label| {
            let mut by_name: BTreeMap<_, BTreeMap<_, BTreeSet<_>>> = BTreeMap::new();
            for one in found {
                let values = |labels: &[&str]| -> Vec<_> {
                    labels
                        .iter()
                        .map(|label| one.get(*label).cloned())
                        .collect()
                };
                let of_name = by_name.entry(values(&name)).or_default();
                let value = one.get(label).cloned().unwrap_or_default();
                of_name.entry(values(&IDENTITY)).or_default().insert(value);
            }
            // A container with several values has them from replicas of a store.
            let is_of_replicas =
                |values: &BTreeMap<_, BTreeSet<String>>| values.values().any(|it| it.len() > 1);
            let mut containers = by_name.into_values().filter(|it| !is_of_replicas(it));
            containers.find_map(|it| Self::of(label, it.into_values().flatten()))
        })
    }
}

fn name_labels(series: &UsageSeries) -> [&str; 4] {
    let UsageSeries {
        namespace_label,
        pod_label,
        container_label,
        ..
    } = series;
    [namespace_label, pod_label, container_label, "job"]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::usage_series::UsageSettings;

    fn series() -> UsageSeries {
        UsageSettings::default().cpu_candidates().remove(1)
    }

    /// Series of the container `db/db-0/db`, each as `LABEL=VALUE LABEL=VALUE`.
    fn found(texts: &[&str]) -> Vec<BTreeMap<String, String>> {
        let own = ["namespace=db", "pod=db-0", "container=db", "job=kubelet"];
        let labels = |text: &&str| {
            let pairs = own.into_iter().chain(text.split_whitespace());
            let pairs = pairs.map(|pair| pair.split_once('=').expect("LABEL=VALUE"));
            let owned = pairs.map(|(label, value)| (label.to_owned(), value.to_owned()));
            owned.collect()
        };
        texts.iter().map(labels).collect()
    }

    /// `expected`: label and values.
    fn check(texts: &[&str], matchers: &str, expected: Option<&str>) {
        let matchers = matchers.parse().expect("matchers");
        let clusters = Clusters::of_equal_names(&series(), &matchers, &found(texts));
        let shown = clusters.map(|clusters| clusters.to_string());
        assert_eq!(shown.as_deref(), expected, "{texts:?}");
    }

    #[test]
    fn a_label_that_differs_with_the_container_is_of_clusters() {
        let two = ["id=/a instance=1 cluster=eu", "id=/b instance=2 cluster=us"];
        let both = Some(r#"cluster is "eu", "us""#);
        check(&two, "", both);
        check(&two, r#"env="prod""#, both);
        check(&two, r#"cluster=~".+""#, None);
        let other = ["id=/a region=eu", "id=/b region=us"];
        check(&other, "", Some(r#"region is "eu", "us""#));
        let same_node = ["instance=1 id=/a tenant=x", "instance=1 id=/b tenant=y"];
        check(&same_node, "", Some(r#"tenant is "x", "y""#));
        let several = ["id=/a az=1 cluster_id=u", "id=/b az=2 cluster_id=v"];
        check(&several, "", Some(r#"cluster_id is "u", "v""#));
    }

    #[test]
    fn replicas_of_a_store_are_one_cluster() {
        for label in [
            "replica",
            "prometheus_replica",
            "__replica__",
            "prometheus",
            "monitor",
        ] {
            let [a, b] = [format!("id=/a {label}=0"), format!("id=/a {label}=1")];
            check(&[&a, &b], "", None);
        }
        let of_two_clusters = [
            "id=/a monitor=0 region=eu",
            "id=/a monitor=1 region=eu",
            "id=/b monitor=0 region=us",
            "id=/b monitor=1 region=us",
        ];
        check(&of_two_clusters, "", Some(r#"region is "eu", "us""#));
    }

    #[test]
    fn a_container_that_is_scraped_twice_is_one() {
        check(&[], "", None);
        check(&["id=/a cluster=eu", "id=/b"], "", None);
        check(
            &["id=/a instance=1 endpoint=x", "id=/a instance=2 endpoint=y"],
            "",
            None,
        );
        check(
            &["id=/a job=cadvisor agent=x", "id=/b job=kubelet agent=y"],
            "",
            None,
        );
        check(&["id=/a image=x name=1", "id=/b image=y name=2"], "", None);
    }

    #[test]
    fn few_values_are_shown() {
        let values = |count: usize| (0..count).map(|number| format!("c{number}"));
        assert_eq!(Clusters::of("cluster", values(1)), None);
        let absent = ["", "c"].map(str::to_owned);
        assert_eq!(Clusters::of("cluster", absent), None);
        let many = Clusters::of("cluster", values(9)).expect("several");
        let expected = r#"cluster is "c0", "c1", "c2" and 6 more"#;
        assert_eq!(many.to_string(), expected);
        let long = Clusters::of("cluster", [1, 2].map(|it| it.to_string().repeat(900)));
        assert!(long.expect("two").to_string().len() < 200);
    }

    #[test]
    fn the_queries_can_be_restricted() {
        let matchers: Matchers = r#"env="a""#.parse().expect("a matcher");
        for query in [
            Clusters::values_query(&series(), "cluster"),
            Clusters::equal_names_query(&series()),
        ] {
            let found = matchers.add_to(&query).expect("in the grammar");
            let selectors = query.matches('{').count();
            assert_eq!(found.matches(r#"env="a""#).count(), selectors, "{found}");
        }
    }
}
