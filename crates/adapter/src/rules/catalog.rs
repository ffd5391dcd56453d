//! The catalog of metrics: the objects of each metric, and the series that it is computed from.
//!
//! If rules overlap, the last one in the file counts, and within a rule the last series, as in
//! prometheus-adapter `pkg/custom-provider/series_registry.go`.

use std::collections::HashMap;
use std::sync::Arc;

use sources::prometheus::{SeriesShape, is_metric_name};
use sources::rules::{ApiResource, ApiResources, ObjectLabels, Rule, RuleError, RuleSet};

use crate::value::MetricNames;

/// The largest number of metrics of an API in discovery. All metrics can be requested.
const MAX_NAMES: usize = 10_000;

pub(super) type Listed = HashMap<String, Arc<Vec<SeriesShape>>>;

#[derive(Debug, Default)]
pub(super) struct Catalog {
    pub(super) resources: ApiResources,
    custom: HashMap<String, Vec<MetricSource>>,
    external: HashMap<String, ExternalMetricSource>,
}

#[derive(Debug)]
pub(super) struct MetricSource {
    pub(super) object_labels: ObjectLabels,
    pub(super) series: String,
    pub(super) rule: Arc<Rule>,
}

#[derive(Debug)]
pub(super) struct ExternalMetricSource {
    pub(super) namespace_label: Option<String>,
    pub(super) series: String,
    pub(super) rule: Arc<Rule>,
}

impl Catalog {
    /// Creates the catalog; also returns an error for each resource that does not exist.
    pub(super) fn of(
        rules: &RuleSet,
        listed: &Listed,
        resources: ApiResources,
    ) -> (Self, Vec<RuleError>) {
        let mut catalog = Self {
            resources,
            ..Self::default()
        };
        let mut warnings = Vec::new();
        for rule in &rules.custom {
            let (labels, missing) = rule.association.labels(&catalog.resources);
            warnings.extend(missing);
            for (metric, shape) in named(rule, listed) {
                for object_labels in labels.objects(&shape.labels) {
                    let source = MetricSource {
                        object_labels,
                        series: shape.name.clone(),
                        rule: Arc::clone(rule),
                    };
                    catalog.add(&metric, source);
                }
            }
        }
        for rule in &rules.external {
            let (labels, missing) = rule.association.labels(&catalog.resources);
            warnings.extend(missing);
            for (metric, shape) in named(rule, listed) {
                let namespace_label = labels.namespace_label(&shape.labels);
                let source = ExternalMetricSource {
                    namespace_label,
                    series: shape.name.clone(),
                    rule: Arc::clone(rule),
                };
                catalog.external.insert(metric, source);
            }
        }
        (catalog, warnings)
    }

    fn add(&mut self, metric: &str, source: MetricSource) {
        let sources_of_metric = self.custom.entry(metric.to_owned()).or_default();
        match sources_of_metric
            .iter_mut()
            .find(|other| other.object_labels.resource == source.object_labels.resource)
        {
            // Series of one name may differ in their labels.
            Some(other)
                if other.series == source.series && Arc::ptr_eq(&other.rule, &source.rule) => {}
            Some(other) => *other = source,
            None => sources_of_metric.push(source),
        }
    }

    pub(super) fn custom(&self, metric: &str, resource: &ApiResource) -> Option<&MetricSource> {
        self.custom
            .get(metric)?
            .iter()
            .find(|source| *source.object_labels.resource == *resource)
    }

    pub(super) fn external(&self, metric: &str) -> Option<&ExternalMetricSource> {
        self.external.get(metric)
    }

    pub(super) fn names(&self) -> MetricNames {
        let of_objects = self.custom.iter().flat_map(|(metric, sources)| {
            sources.iter().map(move |source| {
                let resource = &source.object_labels.resource;
                let name = format!("{}/{metric}", resource.resource);
                (name, resource.is_namespaced)
            })
        });
        let mut names = MetricNames {
            of_objects: of_objects.collect(),
            external: self.external.keys().cloned().collect(),
        };
        names.of_objects.sort_unstable();
        names.of_objects.truncate(MAX_NAMES);
        names.external.sort_unstable();
        names.external.truncate(MAX_NAMES);
        names
    }

    /// Returns the numbers of custom metrics, counted per resource, and of external metrics.
    pub(super) fn len(&self) -> (usize, usize) {
        (
            self.custom.values().map(Vec::len).sum(),
            self.external.len(),
        )
    }
}

fn named<'a>(
    rule: &'a Rule,
    listed: &'a Listed,
) -> impl Iterator<Item = (String, &'a SeriesShape)> {
    let shapes = listed
        .get(&rule.series_query)
        .into_iter()
        .flat_map(|shapes| shapes.iter());
    // Other names need quotes, which templates do not support.
    let shapes = shapes.filter(|shape| is_metric_name(&shape.name));
    shapes.filter_map(|shape| Some((rule.naming.name(&shape.name)?, shape)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULES: &str = r#"
rules:
- seriesQuery: a
  resources: {template: "<<.Resource>>"}
  name: {matches: "^(.*)_total$"}
  metricsQuery: first
- seriesQuery: b
  resources: {overrides: {ns: {resource: namespace}, pod: {resource: pod}}}
  name: {matches: "^(.*)_total$"}
  metricsQuery: second
externalRules:
- {seriesQuery: a, metricsQuery: x}
- {seriesQuery: b, metricsQuery: y, resources: {overrides: {ns: {resource: namespace}}}}
"#;

    fn shape(name: &str, labels: &[&str]) -> SeriesShape {
        SeriesShape {
            name: name.to_owned(),
            labels: labels.iter().map(|label| (*label).to_owned()).collect(),
        }
    }

    fn catalog(a: Vec<SeriesShape>, b: Vec<SeriesShape>) -> Catalog {
        let listed = Listed::from([("a".to_owned(), Arc::new(a)), ("b".to_owned(), Arc::new(b))]);
        let (catalog, warnings) = Catalog::of(
            &RuleSet::parse(RULES).expect("rules"),
            &listed,
            ApiResources::built_in(),
        );
        assert!(warnings.is_empty(), "{warnings:?}");
        catalog
    }

    /// `expected`: rule, series, label, label of the namespace.
    fn check(
        catalog: &Catalog,
        metric: &str,
        resource: &str,
        expected: Option<(&str, &str, &str, Option<&str>)>,
    ) {
        let resource = catalog.resources.find("", resource).expect(resource);
        let found = catalog.custom(metric, resource).map(|source| {
            let labels = &source.object_labels;
            let namespace_label = labels.namespace_label.as_deref();
            let (rule, series) = (source.rule.at.as_str(), source.series.as_str());
            (rule, series, labels.label.as_str(), namespace_label)
        });
        assert_eq!(found, expected, "{metric} of {resource:?}");
    }

    #[test]
    fn a_metric_belongs_to_every_resource_that_a_label_names() {
        let requests = shape("requests_total", &["namespace", "pod", "node", "verb"]);
        let catalog = catalog(vec![requests], vec![]);
        for (resource, label, namespace_label) in [
            ("pods", "pod", Some("namespace")),
            ("namespaces", "namespace", None),
            ("nodes", "node", None),
        ] {
            let expected = ("rules[0]", "requests_total", label, namespace_label);
            check(&catalog, "requests", resource, Some(expected));
        }
        check(&catalog, "requests", "services", None);
        check(&catalog, "requests_total", "pods", None);
        assert_eq!(catalog.len(), (3, 1));
        let name = |name: &str, is_namespaced| (name.to_owned(), is_namespaced);
        let of_objects = vec![
            name("namespaces/requests", false),
            name("nodes/requests", false),
            name("pods/requests", true),
        ];
        assert_eq!(
            catalog.names(),
            MetricNames {
                of_objects,
                external: vec!["requests_total".to_owned()]
            }
        );
    }

    #[test]
    fn the_last_rule_counts() {
        let both = catalog(
            vec![
                shape("x_total", &["namespace", "pod"]),
                shape("y_total", &["pod"]),
            ],
            vec![shape("x_total", &["ns", "pod"])],
        );
        let last = ("rules[1]", "x_total", "pod", Some("ns"));
        check(&both, "x", "pods", Some(last));
        let only = ("rules[0]", "y_total", "pod", Some("namespace"));
        check(&both, "y", "pods", Some(only));
        for (metric, rule, namespace_label) in [
            ("x_total", "externalRules[1]", Some("ns")),
            ("y_total", "externalRules[0]", None),
        ] {
            let found = both.external(metric).expect("a metric");
            assert_eq!(found.rule.at, rule);
            assert_eq!(found.namespace_label.as_deref(), namespace_label);
        }
    }

    #[test]
    fn names_that_need_quotes_are_left_out() {
        let shapes = ["x\"}_total", "a:b_total"].map(|name| shape(name, &["pod"]));
        let catalog = catalog(shapes.into(), vec![]);
        assert_eq!(catalog.len(), (1, 1));
    }
}
