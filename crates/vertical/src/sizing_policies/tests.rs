//! Fixture: policies, workloads and VPA objects.

mod custom_kinds;
mod idempotent;
mod patch;
mod planned;
mod status;
mod waves;

use std::sync::Arc;

use api::WellKnown;
use api::sizing_policy::{
    LabelSelector, PolicyCounts, ShardReport, Sizing, SizingMethod, SizingPolicySpec,
    SizingPolicyStatus,
};
use jiff::Timestamp;
use model::{Labels, Selector};
use serde_json::{Value, json};
use view::{Controller, Namespace, ObjectKey, Owner, Policy, PolicyScope, Table, View, Vpa};

use super::desired;
use super::plan::{Action, Plan, PlanInput, plan};
use super::select;
use super::status::{StatusUpdate, status_update};

type Pairs<'a> = &'a [(&'a str, &'a str)];

/// The labels of a workload that the policy `web` selects.
const IN_WEB: Pairs = &[("tier", "web")];

/// A cluster with two namespaces, `shop` and `bank`, of which the first has the label `team=a`.
#[derive(Default)]
struct Fixture {
    view: View,
    namespaces: Table<Namespace>,
    policies: Vec<Arc<Policy>>,
    now: Timestamp,
    /// Names of objects that cannot be written.
    failing: Vec<String>,
}

fn map(pairs: Pairs) -> std::collections::BTreeMap<String, String> {
    let owned = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
    pairs.iter().map(owned).collect()
}

fn labels(pairs: Pairs) -> LabelSelector {
    LabelSelector {
        match_labels: map(pairs),
        ..LabelSelector::default()
    }
}

/// A policy of `shop` for workloads with the label `tier=NAME`. Its uid is its name, and it was
/// made at second 0.
fn policy(name: &str) -> Policy {
    Policy {
        key: ObjectKey::new("shop", name),
        uid: name.to_owned(),
        created: Some(Timestamp::UNIX_EPOCH),
        generation: 1,
        is_terminating: false,
        scope: PolicyScope::Namespace,
        spec: SizingPolicySpec {
            selector: Some(labels(&[("tier", name)])),
            ..SizingPolicySpec::default()
        },
        status: None,
    }
}

/// A policy of the cluster for all workloads of the namespaces with these labels.
fn cluster_policy(name: &str, namespaces: Pairs) -> Policy {
    Policy {
        key: ObjectKey::new("", name),
        scope: PolicyScope::Cluster(Some(labels(namespaces))),
        spec: SizingPolicySpec::default(),
        ..policy(name)
    }
}

impl Fixture {
    fn new() -> Self {
        let mut fixture = Self::default();
        for (name, label) in [
            ("shop", ("team", "a")),
            ("bank", ("team", "b")),
            ("kube-system", ("team", "a")),
            ("plimsoll-system", ("app.kubernetes.io/part-of", "plimsoll")),
        ] {
            fixture.namespaces.apply(Arc::new(Namespace {
                name: name.to_owned(),
                labels: Labels::from_iter([label, ("kubernetes.io/metadata.name", name)]),
                annotations: map(&[]),
            }));
        }
        fixture
    }

    fn has(mut self, policy: Policy) -> Self {
        self.policies.push(Arc::new(policy));
        self
    }

    fn workload(self, namespace: &str, name: &str, labels: Pairs) -> Self {
        self.controller(WellKnown::Deployment, namespace, name, labels, None)
    }

    fn controller(
        mut self,
        kind: WellKnown,
        namespace: &str,
        name: &str,
        labels: Pairs,
        owner: Option<(&str, &str)>,
    ) -> Self {
        let owner = owner.map(|(api_version, kind)| Owner {
            api_version: api_version.to_owned(),
            kind: kind.to_owned(),
            name: "owner".to_owned(),
            uid: "owner".to_owned(),
        });
        let controller = Controller {
            key: ObjectKey::new(namespace, name),
            labels: labels.iter().copied().collect(),
            selector: Ok(Selector::nothing()),
            owner,
            replicas: None,
            min_ready: std::time::Duration::ZERO,
            template: view::PodTemplate::default(),
        };
        self.view.controllers_mut(kind).apply(Arc::new(controller));
        self
    }

    /// The object that the policy makes for a Deployment, after a change by another client.
    fn made(self, policy: &Policy, workload: &str, change: impl FnOnce(&mut Value)) -> Self {
        let workload = ObjectKey::new("shop", workload);
        let object = desired::object(policy, select::workload(WellKnown::Deployment, &workload));
        let mut object = serde_json::to_value(object).expect("JSON");
        object["metadata"]["uid"] = "made".into();
        change(&mut object);
        self.object(object)
    }

    /// A VPA of `shop` without a policy.
    fn by_hand(self, name: &str, target: &str) -> Self {
        self.object(json!({
            "apiVersion": "autoscaling.k8s.io/v1", "kind": "VerticalPodAutoscaler",
            "metadata": {"namespace": "shop", "name": name},
            "spec": {"targetRef": {"apiVersion": "v1", "kind": "Deployment", "name": target}},
        }))
    }

    fn object(mut self, object: Value) -> Self {
        self.view.vpas.apply(Arc::new(seen(object)));
        self
    }

    fn plan(&self) -> Plan {
        let Self {
            view,
            namespaces,
            policies,
            ..
        } = self;
        plan(&PlanInput {
            policies,
            namespaces,
            view,
            recommender: "default",
            now: self.now,
            is_failing: &|key| self.failing.contains(&key.name),
        })
        .expect("everything is JSON")
    }
}

/// A policy of `shop` for all workloads.
fn for_all(name: &str) -> Policy {
    let spec = SizingPolicySpec::default();
    Policy {
        spec,
        ..policy(name)
    }
}

fn web() -> Fixture {
    let fixture = Fixture::new().workload("shop", "a", IN_WEB);
    fixture.has(policy("web"))
}

/// The status from a recommender without shards, for the first policy.
fn status(plan: &Plan, failed: &[&str]) -> SizingPolicyStatus {
    let alone = view::Shard::default();
    match status_update(alone, &plan.summaries[0], failed, Timestamp::UNIX_EPOCH) {
        StatusUpdate::Status(status) => *status,
        StatusUpdate::Report(..) => panic!("no other shard would put reports together"),
    }
}

fn seen(object: Value) -> Vpa {
    let object = api::vpa::parse(object).expect("an autoscaler");
    let text = |field: &Option<String>| field.clone().unwrap_or_default();
    Vpa {
        key: ObjectKey::new(
            text(&object.metadata.namespace),
            text(&object.metadata.name),
        ),
        object,
    }
}

/// The writes, then a line per policy: selected, managed, conflicts, overridden.
fn check(fixture: &Fixture, expected: &[&str]) {
    let Plan {
        writes, summaries, ..
    } = fixture.plan();
    let writes = writes.iter().map(|write| {
        let policy = &summaries[write.summary].policy.key.name;
        format!("{} {} for {policy}", write.action.name(), write.key)
    });
    let summaries = summaries.iter().map(|summary| {
        let counts = &summary.counts;
        format!(
            "{}: {} {} {} {}",
            summary.policy.key.name,
            counts.selected,
            counts.managed,
            counts.conflicts,
            counts.overridden
        )
    });
    assert_eq!(writes.chain(summaries).collect::<Vec<_>>(), expected);
}
