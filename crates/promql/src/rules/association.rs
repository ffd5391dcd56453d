//! Mapping from labels of a series to objects of the cluster.
//!
//! A label belongs to a resource if the rule says so (`overrides`), or if `template` makes its name
//! from the resource's group and singular name. Unlike upstream, which turns the template into a
//! regular expression over labels, the template is evaluated for each resource of the cluster:
//! labels and resources then always match each other, and groups with dots work too.
//!
//! Source: prometheus-adapter `pkg/naming/resource_converter.go`.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use super::api_resources::{ApiResource, ApiResources};
use super::file::{ResourceText, ResourcesText, RuleError};
use super::template::{Fields, Template, Value};
use crate::is_label_name;

/// Fields available in label templates.
const FIELDS: &[&str] = &["Group", "Resource"];

#[derive(Debug)]
pub struct Association {
    at: String,
    template: Option<Template>,
    overrides: BTreeMap<String, ResourceText>,
}

/// Labels of a cluster's resources.
#[derive(Debug, Default)]
pub struct Labels {
    resources: HashMap<String, Arc<ApiResource>>,
    namespaces: BTreeSet<String>,
}

/// Object that a series may be about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObjectLabels {
    pub resource: Arc<ApiResource>,
    pub label: String,
    pub namespace_label: Option<String>,
}

impl Association {
    /// Parses the field `resources` of the rule `at`.
    pub(super) fn read(at: &str, text: &ResourcesText) -> Result<Self, RuleError> {
        let at = format!("{at}.resources");
        let template = match text.template.as_str() {
            "" => None,
            template => Some(read_template(&format!("{at}.template"), template)?),
        };
        let overrides = text.overrides.clone().unwrap_or_default();
        for (label, resource) in &overrides {
            let at = format!("{at}.overrides.{label}");
            if !is_label_name(label) {
                return Err(RuleError::new(at, "is not the name of a label"));
            }
            if resource.resource.is_empty() {
                return Err(RuleError::new(format!("{at}.resource"), "must be set"));
            }
        }
        Ok(Self {
            at,
            template,
            overrides,
        })
    }

    pub(super) fn is_empty(&self) -> bool {
        self.template.is_none() && self.overrides.is_empty()
    }

    /// The labels of this cluster's resources, and errors for unknown ones.
    pub fn labels(&self, cluster: &ApiResources) -> (Labels, Vec<RuleError>) {
        let mut labels = Labels::default();
        let mut complaints = Vec::new();
        for (label, ResourceText { group, resource }) in &self.overrides {
            if let Some(found) = cluster.find(group, resource) {
                labels.add(label, found);
            } else {
                let at = format!("{}.overrides.{label}", self.at);
                complaints.push(RuleError::new(
                    at,
                    format!("the cluster has no resource {resource:?} in {group:?}"),
                ));
            }
        }
        if let Some(template) = &self.template {
            let has_namespace = !labels.namespaces.is_empty();
            for resource in cluster.iter() {
                match label(template, resource) {
                    Some(_) if resource.is_namespaces() && has_namespace => {}
                    Some(name) => labels.add(&name, resource),
                    None => {}
                }
            }
        }
        (labels, complaints)
    }

    /// The label for objects of this built-in resource, independent of a series. If the rule has no
    /// resources, it is the resource's name, as in Crane.
    pub(super) fn label_for(&self, resource: &str) -> Option<String> {
        let known = ApiResources::built_in();
        let wanted = known.find("", resource)?;
        if self.is_empty() {
            return Some(wanted.singular.clone());
        }
        let is_meant =
            |text: &ResourceText| known.find(&text.group, &text.resource) == Some(wanted);
        let own = self
            .overrides
            .iter()
            .find(|(_, text)| is_meant(text))
            .map(|(label, _)| label.clone());
        own.or_else(|| label(self.template.as_ref()?, wanted))
    }
}

impl Labels {
    /// The first resource of a label takes precedence.
    fn add(&mut self, label: &str, resource: &Arc<ApiResource>) {
        if self.resources.contains_key(label) {
            return;
        }
        if resource.is_namespaces() {
            self.namespaces.insert(label.to_owned());
        }
        self.resources
            .insert(label.to_owned(), Arc::clone(resource));
    }

    /// The objects of a series with these labels. Of several labels of one resource the first one
    /// is used.
    pub fn objects(&self, labels: &BTreeSet<String>) -> Vec<ObjectLabels> {
        let namespace_label = self.namespace_label(labels);
        let mut objects: Vec<ObjectLabels> = Vec::new();
        for label in labels {
            let Some(resource) = self.resources.get(label) else {
                continue;
            };
            if objects.iter().all(|place| place.resource != *resource) {
                let namespace_label = namespace_label.clone().filter(|_| resource.is_namespaced);
                objects.push(ObjectLabels {
                    resource: Arc::clone(resource),
                    label: label.clone(),
                    namespace_label,
                });
            }
        }
        objects
    }

    /// The label with the namespace of a series with these labels, existing or not.
    pub fn namespace_label(&self, labels: &BTreeSet<String>) -> Option<String> {
        let own = self.namespaces.iter().find(|label| labels.contains(*label));
        own.or_else(|| self.namespaces.first()).cloned()
    }
}

fn read_template(at: &str, text: &str) -> Result<Template, RuleError> {
    let template = Template::parse(text, FIELDS).map_err(|error| RuleError::new(at, error))?;
    let of = |resource: &str| {
        fill(&template, "group", resource).map_err(|error| RuleError::new(at, error))
    };
    let (one, other) = (of("one")?, of("other")?);
    if one == other {
        return Err(RuleError::new(at, "must use <<.Resource>>"));
    }
    if !is_label_name(&one) {
        return Err(RuleError::new(
            at,
            format!("makes {one:?}, which is not the name of a label"),
        ));
    }
    Ok(template)
}

fn fill(template: &Template, group: &str, resource: &str) -> Result<String, String> {
    let text = |text: &str| Value::Text(text.replace(['.', '-'], "_"));
    template.fill(&Fields::from([
        ("Group", text(group)),
        ("Resource", text(resource)),
    ]))
}

fn label(template: &Template, resource: &ApiResource) -> Option<String> {
    fill(template, &resource.resource.group, &resource.singular)
        .ok()
        .filter(|label| is_label_name(label))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(template: &str, overrides: &[(&str, &str, &str)]) -> Result<Association, RuleError> {
        let overrides = overrides.iter().map(|(label, group, resource)| {
            let resource = ResourceText {
                group: (*group).to_owned(),
                resource: (*resource).to_owned(),
            };
            ((*label).to_owned(), resource)
        });
        let text = ResourcesText {
            template: template.to_owned(),
            overrides: Some(overrides.collect()),
            namespaced: None,
        };
        Association::read("rules[0]", &text)
    }

    /// `expected`: resource, label, label of the namespace.
    fn check(
        template: &str,
        overrides: &[(&str, &str, &str)],
        labels: &[&str],
        expected: &[(&str, &str, &str)],
    ) {
        let association = read(template, overrides).expect(template);
        let (known, _) = association.labels(&ApiResources::built_in());
        let objects = known.objects(&labels.iter().map(|label| (*label).to_owned()).collect());
        let resources: Vec<_> = objects
            .iter()
            .map(|it| it.resource.resource.to_string())
            .collect();
        let objects: Vec<_> = std::iter::zip(&resources, &objects)
            .map(|(resource, it)| {
                let namespace = it.namespace_label.as_deref().unwrap_or_default();
                (resource.as_str(), it.label.as_str(), namespace)
            })
            .collect();
        assert_eq!(objects, expected, "{template} {overrides:?} {labels:?}");
    }

    #[test]
    fn overrides_name_labels() {
        let (namespace, pod) = ("kubernetes_namespace", "kubernetes_pod_name");
        let walkthrough = &[(namespace, "", "namespace"), (pod, "", "pod")][..];
        let microservice = &[("microservice", "apps", "deployment")][..];
        let twice = &[("a", "", "pod"), ("b", "", "pods")][..];
        let (of_namespace, of_pod) = (("namespaces", namespace, ""), ("pods", pod, namespace));
        let of_deployment = ("deployments.apps", "microservice", "");
        for (overrides, labels, expected) in [
            (
                walkthrough,
                &[namespace, pod, "method"][..],
                &[of_namespace, of_pod][..],
            ),
            (walkthrough, &[pod], &[of_pod]),
            (microservice, &["microservice"], &[of_deployment]),
            (twice, &["a", "b"], &[("pods", "a", "")]),
            (twice, &["b"], &[("pods", "b", "")]),
        ] {
            check("", overrides, labels, expected);
        }
    }

    #[test]
    fn templates_name_the_labels_of_all_resources() {
        let all = &["namespace", "pod", "service", "ingress", "verb", "node"];
        check(
            "<<.Resource>>",
            &[],
            all,
            &[
                ("ingresses.networking.k8s.io", "ingress", "namespace"),
                ("namespaces", "namespace", ""),
                ("nodes", "node", ""),
                ("pods", "pod", "namespace"),
                ("services", "service", "namespace"),
            ],
        );
        let (deployment, ingress) = ("kube_apps_deployment", "kube_networking_k8s_io_ingress");
        let namespace = "kube__namespace";
        check(
            "kube_<<.Group>>_<<.Resource>>",
            &[],
            &[deployment, ingress, "kube_nonsense"],
            &[
                ("deployments.apps", deployment, namespace),
                ("ingresses.networking.k8s.io", ingress, namespace),
            ],
        );
        let event = &[("events", "event", "namespace")];
        check("<<.Resource>>", &[], &["event"], event);
    }

    #[test]
    fn overrides_go_before_the_template() {
        check(
            "<<.Resource>>",
            &[("team", "", "namespace"), ("pod", "", "service")],
            &["namespace", "team", "pod"],
            &[("services", "pod", "team"), ("namespaces", "team", "")],
        );
    }

    fn check_label(template: &str, overrides: &[(&str, &str, &str)], expected: [Option<&str>; 2]) {
        let association = read(template, overrides).expect(template);
        let found = ["pods", "namespaces"].map(|resource| association.label_for(resource));
        let found = found.each_ref().map(Option::as_deref);
        assert_eq!(found, expected, "{template} {overrides:?}");
    }

    #[test]
    fn labels_are_told_without_a_series() {
        let renamed = &[("zone_pod", "", "pods")][..];
        let others = &[("ns", "", "namespace"), ("svc", "", "service")][..];
        for (template, overrides, expected) in [
            ("", &[][..], [Some("pod"), Some("namespace")]),
            (
                "kube_<<.Resource>>",
                &[],
                [Some("kube_pod"), Some("kube_namespace")],
            ),
            (
                "<<.Resource>>",
                renamed,
                [Some("zone_pod"), Some("namespace")],
            ),
            ("", others, [None, Some("ns")]),
        ] {
            check_label(template, overrides, expected);
        }
    }

    #[test]
    fn resources_unknown_to_the_cluster_are_reported() {
        let association = read("", &[("brand", "cheese.io", "brand"), ("pod", "", "pod")])
            .expect("an association");
        let (labels, complaints) = association.labels(&ApiResources::built_in());
        assert_eq!(complaints.len(), 1);
        let expected = "rules[0].resources.overrides.brand: the cluster has no resource \"brand\" in \"cheese.io\"";
        assert_eq!(complaints[0].to_string(), expected);
        assert_eq!(labels.objects(&["pod".to_owned()].into()).len(), 1);
    }

    #[test]
    fn what_cannot_be_meant_is_refused() {
        for (template, overrides, expected) in [
            (
                "<<.Nothing>>",
                &[][..],
                "template: there is no field .Nothing",
            ),
            ("pod", &[], "template: must use <<.Resource>>"),
            (
                "<<.Resource>>-x",
                &[],
                "template: makes \"one-x\", which is not the name of a label",
            ),
            (
                "",
                &[("a-b", "", "pod")],
                "overrides.a-b: is not the name of a label",
            ),
            ("", &[("a", "", "")], "overrides.a.resource: must be set"),
        ] {
            let error = read(template, overrides).expect_err(template).to_string();
            let expected = format!("rules[0].resources.{expected}");
            assert!(error.starts_with(&expected), "{error}");
        }
    }
}
