//! Series that the queries of a prediction may read: those of its namespace, or all where an
//! administrator allows it.
//!
//! One credential reads for all predictions, so nothing else separates the series of namespaces. An
//! administrator allows more by a flag, by a label of the namespace, or by a rule that gives
//! exactly the query.

use std::str::FromStr;
use std::sync::Arc;

use api::ehpa::EffectiveHorizontalPodAutoscaler;
use api::prediction::TimeSeriesPrediction;
use kube::ResourceExt as _;
use promql::{confine, matcher};
use view::{Stripped, View};

use super::annotations::{Annotations, owner};
use crate::ehpa::{Rules, is_by_rule};

/// Label that users set on a namespace: whether queries may read series of other namespaces; see
/// docs/security.md#series-of-prometheus.
///
/// It is a [`QueryScope`] and overrides the flag.
pub(super) const SCOPE_LABEL: &str = "plimsoll.dev/prediction-query-scope";

/// Series that queries may read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum QueryScope {
    /// Series of the namespace of the prediction.
    #[default]
    Namespace,
    Cluster,
}

impl FromStr for QueryScope {
    type Err = &'static str;

    fn from_str(name: &str) -> Result<Self, &'static str> {
        match name {
            "namespace" => Ok(Self::Namespace),
            "cluster" => Ok(Self::Cluster),
            _ => Err("expected namespace or cluster"),
        }
    }
}

#[derive(Clone, Debug)]
pub struct QueryAccess {
    /// Scope of namespaces without the label.
    pub scope: QueryScope,
    pub namespace_label: String,
    /// Rules: their queries may read all series.
    pub rules: KnownRules,
}

/// Rules for the history of metrics, as far as they were read.
#[derive(Clone, Debug, Default)]
pub enum KnownRules {
    #[default]
    Absent,
    /// They were not read yet.
    Pending,
    Read(Arc<Rules>),
}

impl KnownRules {
    fn get(&self) -> Option<&Arc<Rules>> {
        match self {
            Self::Read(rules) => Some(rules),
            Self::Absent | Self::Pending => None,
        }
    }
}

impl QueryAccess {
    /// Whether the rules were read, if there are any.
    pub(super) fn is_known(&self) -> bool {
        !matches!(self.rules, KnownRules::Pending)
    }

    /// Replaces the rules. Returns whether they differ from the previous ones.
    pub(super) fn set_rules(&mut self, rules: Arc<Rules>) -> bool {
        let known = self.rules.get();
        let is_new = known.is_none_or(|known| !Arc::ptr_eq(known, &rules));
        self.rules = KnownRules::Read(rules);
        is_new
    }

    pub(super) fn inputs(
        &self,
        view: &View,
        object: &Arc<Stripped<TimeSeriesPrediction>>,
    ) -> Inputs {
        let namespace = view.namespaces.get(object.key.namespace.as_str());
        let label = namespace.and_then(|namespace| namespace.labels.get(SCOPE_LABEL));
        let access = ObjectAccess {
            // An unknown value allows nothing more.
            scope: label.map_or(self.scope, |label| label.parse().unwrap_or_default()),
            namespace_label: self.namespace_label.clone(),
            namespace: object.key.namespace.clone(),
            owner: owner(view, object).cloned(),
            rules: self.rules.get().cloned(),
        };
        Inputs {
            prediction: Arc::clone(object),
            access,
        }
    }
}

/// Inputs of the metrics of one prediction. Shares the objects of the view.
#[derive(Clone, Debug)]
pub(super) struct Inputs {
    pub(super) prediction: Arc<Stripped<TimeSeriesPrediction>>,
    pub(super) access: ObjectAccess,
}

impl Inputs {
    /// Whether nothing changed. A table keeps the pointer of an object that is equal to the new
    /// one.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        let (old, new) = (&self.access, &other.access);
        Arc::ptr_eq(&self.prediction, &other.prediction)
            && old.owner.as_ref().map(Arc::as_ptr) == new.owner.as_ref().map(Arc::as_ptr)
            && old.scope == new.scope
            && old.rules.as_ref().map(Arc::as_ptr) == new.rules.as_ref().map(Arc::as_ptr)
    }

    pub(super) fn annotations(&self) -> Annotations<'_> {
        let owner = self.access.owner.as_ref();
        Annotations {
            own: self.prediction.object.annotations(),
            owner: owner.map(|owner| owner.object.annotations()),
        }
    }
}

/// Expression over the series that the prediction may read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expression {
    pub text: String,
    /// Matcher added to every selector; `None` if all series may be read.
    pub confined_by: Option<String>,
}

#[derive(Clone, Debug)]
pub(super) struct ObjectAccess {
    pub(super) scope: QueryScope,
    namespace_label: String,
    namespace: String,
    /// EHPA that owns the prediction.
    pub(super) owner: Option<Arc<Stripped<EffectiveHorizontalPodAutoscaler>>>,
    rules: Option<Arc<Rules>>,
}

impl ObjectAccess {
    /// Confines an expression to the series that the prediction may read.
    pub(super) fn expression(
        &self,
        identifier: &str,
        expression: String,
    ) -> Result<Expression, String> {
        if self.scope == QueryScope::Cluster || self.is_by_rule(identifier, &expression) {
            return Ok(Expression {
                text: expression,
                confined_by: None,
            });
        }
        let confined = confine(&expression, &self.namespace_label, &self.namespace);
        let text = confined.map_err(|error| {
            format!("the expression cannot be confined to the namespace: {error}")
        })?;
        Ok(Expression {
            text,
            confined_by: Some(matcher(&self.namespace_label, "=", &self.namespace)),
        })
    }

    /// An error for metrics of nodes, unless all series may be read.
    pub(super) fn nodes(&self) -> Result<(), String> {
        match self.scope {
            QueryScope::Cluster => Ok(()),
            QueryScope::Namespace => Err(format!(
                "targetRef: nodes are predicted only in namespaces that have the label {SCOPE_LABEL}=cluster"
            )),
        }
    }

    /// Whether a rule gives this query for the metric. Administrators write rules, so the author of
    /// the prediction does not matter.
    fn is_by_rule(&self, identifier: &str, expression: &str) -> bool {
        let mut owned = self.owner.iter().zip(&self.rules);
        owned.any(|(owner, rules)| is_by_rule(&owner.object, rules, identifier, expression))
    }
}

#[cfg(test)]
impl ObjectAccess {
    pub(super) fn to_namespace(namespace: &str) -> Self {
        Self {
            scope: QueryScope::Namespace,
            namespace_label: "namespace".to_owned(),
            namespace: namespace.to_owned(),
            owner: None,
            rules: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::json;
    use view::{Namespace, ObjectKey};

    use super::*;

    /// A rule file whose metric `queue` covers the whole cluster, and whose metric `jobs` has
    /// another namespace label.
    const RULES: &str = "externalRules: [\
        {seriesQuery: 'queue{}', resources: {namespaced: false}, metricsQuery: 'max(<<.Series>>{<<.LabelMatchers>>})'},\
        {seriesQuery: 'jobs{}', resources: {overrides: {ns: {resource: namespace}}}, metricsQuery: 'sum(<<.Series>>{<<.LabelMatchers>>})'}]";

    /// A view with a namespace `shop` that has this label, an EHPA and its prediction.
    fn view(label: Option<&str>, owner_uid: &str) -> (View, Stripped<TimeSeriesPrediction>) {
        let target = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"});
        let external = |name: &str| {
            let metric = json!({"name": name, "selector": {"matchLabels": {"topic": "a"}}});
            json!({"type": "External", "external": {"metric": metric, "target": {"type": "AverageValue", "averageValue": "1"}}})
        };
        let owner = api::ehpa::parse(json!({
            "metadata": {"name": "web", "namespace": "shop", "uid": "u-1"},
            "spec": {"scaleTargetRef": target, "minReplicas": 1, "maxReplicas": 3, "metrics": [external("queue"), external("jobs")]},
        }));
        let reference = json!({"apiVersion": "a/v1", "kind": "K", "name": "web", "uid": owner_uid, "controller": true});
        let prediction = serde_json::from_value(json!({
            "metadata": {"name": "ehpa-web", "namespace": "shop", "uid": "u-2", "ownerReferences": [reference]},
            "spec": {"predictionMetrics": [], "targetRef": target, "predictionWindowSeconds": 3600},
        }));
        let mut view = View::default();
        let labels = label.map(|label| (SCOPE_LABEL.to_owned(), label.to_owned()));
        let labels: BTreeMap<_, _> = labels.into_iter().collect();
        let namespace = Namespace {
            name: "shop".to_owned(),
            labels: labels.into(),
            annotations: BTreeMap::new(),
        };
        view.namespaces.apply(Arc::new(namespace));
        let owner = Stripped {
            key: ObjectKey::new("shop", "web"),
            object: owner.expect("an EHPA"),
        };
        view.ehpas.apply(Arc::new(owner));
        (
            view,
            Stripped {
                key: ObjectKey::new("shop", "ehpa-web"),
                object: prediction.expect("a prediction"),
            },
        )
    }

    fn access(scope: QueryScope) -> QueryAccess {
        QueryAccess {
            scope,
            namespace_label: "namespace".to_owned(),
            rules: KnownRules::Absent,
        }
    }

    #[test]
    fn the_label_of_the_namespace_goes_before_the_flag() {
        use QueryScope::{Cluster, Namespace};
        for (flag, label, expected) in [
            (Namespace, None, Namespace),
            (Cluster, None, Cluster),
            (Namespace, Some("cluster"), Cluster),
            (Cluster, Some("namespace"), Namespace),
            (Cluster, Some("Cluster"), Namespace),
            (Cluster, Some(""), Namespace),
        ] {
            let (view, prediction) = view(label, "u-1");
            let access = access(flag);
            let access = access.inputs(&view, &Arc::new(prediction)).access;
            assert_eq!(access.scope, expected, "{flag:?} {label:?}");
            let (text, confined_by) = match expected {
                Cluster => ("sum(up)", None),
                Namespace => (r#"sum(up{namespace="shop"})"#, Some(r#"namespace="shop""#)),
            };
            let found = access
                .expression("a", "sum(up)".to_owned())
                .expect("a query");
            assert_eq!(
                (found.text.as_str(), found.confined_by.as_deref()),
                (text, confined_by)
            );
            assert_eq!(access.nodes().is_ok(), expected == Cluster);
        }
        let (_, prediction) = view(None, "");
        let elsewhere = access(Namespace).inputs(&View::default(), &Arc::new(prediction));
        assert_eq!(elsewhere.access.scope, Namespace);
    }

    #[test]
    fn an_expression_that_a_rule_gives_may_read_all_series() {
        let queue = r#"sum(max(queue{topic="a"}))"#;
        let jobs = r#"sum(jobs{topic="a",ns="shop"})"#;
        let other_topic = r#"sum(max(queue{topic="b"}))"#;
        for (owner, identifier, expression, is_by_rule) in [
            ("u-1", "external.queue", queue, true),
            ("u-1", "external.jobs", jobs, true),
            ("u-1", "external.jobs", queue, false),
            ("u-1", "external.queue", other_topic, false),
            ("u-1", "external.queue", "sum(max(queue))", false),
            ("u-9", "external.queue", queue, false),
        ] {
            let (view, prediction) = view(None, owner);
            let mut access = access(QueryScope::Namespace);
            access.rules = KnownRules::Read(Arc::new(Rules::of(RULES, &[])));
            let access = access.inputs(&view, &Arc::new(prediction)).access;
            let found = access.expression(identifier, expression.to_owned());
            let found = found.expect("a query").text;
            let case = format!("{owner} {identifier} {expression}: {found}");
            assert_eq!(found == expression, is_by_rule, "{case}");
            assert!(
                is_by_rule || found.contains(r#"namespace="shop""#),
                "{case}"
            );
        }
    }

    #[test]
    fn rules_that_are_not_read_yet_are_awaited() {
        let mut access = access(QueryScope::Namespace);
        access.rules = KnownRules::Pending;
        assert!(!access.is_known());
        let rules = Arc::new(Rules::default());
        assert!(access.set_rules(Arc::clone(&rules)) && access.is_known());
        assert!(!access.set_rules(rules));
        assert!(access.set_rules(Arc::default()) && access.is_known());
    }
}
