//! Policies, workloads and autoscalers by hand; what is planned, as text.

use std::sync::Arc;

use api::sizing_policy::{LabelSelector, Sizing, SizingMethod, SizingPolicySpec, SizingPolicyStatus, WorkloadKind};
use cluster::{Autoscaler, Controller, Namespace, ObjectKey, Owner, Policy, Reach, Table, View, WellKnown};
use jiff::Timestamp;
use model::{Labels, Selector};
use serde_json::{Value, json};

use super::plan::{Action, Plan, Scene, plan};
use super::status::{Said, Speaker, say};
use super::wanted;

type Pairs<'a> = &'a [(&'a str, &'a str)];

/// A cluster with two namespaces, `shop` and `bank`, of which the first has the label `team=a`.
#[derive(Default)]
struct World {
    view: View,
    namespaces: Table<Namespace>,
    policies: Vec<Arc<Policy>>,
}

fn map(pairs: Pairs) -> std::collections::BTreeMap<String, String> {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

fn labels(pairs: Pairs) -> LabelSelector {
    LabelSelector { match_labels: map(pairs), ..LabelSelector::default() }
}

/// A policy of `shop` for workloads with the label `tier=NAME`. Its uid is its name, and it was made at second 0.
fn policy(name: &str) -> Policy {
    Policy {
        key: ObjectKey::new("shop", name),
        uid: name.to_owned(),
        created: Some(Timestamp::UNIX_EPOCH),
        generation: 1,
        is_terminating: false,
        reach: Reach::Namespace,
        spec: SizingPolicySpec { selector: Some(labels(&[("tier", name)])), ..SizingPolicySpec::default() },
        status: None,
    }
}

/// A policy of the cluster for all workloads of the namespaces with these labels.
fn cluster_policy(name: &str, namespaces: Pairs) -> Policy {
    Policy {
        key: ObjectKey::new("", name),
        reach: Reach::Cluster(Some(labels(namespaces))),
        spec: SizingPolicySpec::default(),
        ..policy(name)
    }
}

impl World {
    fn new() -> Self {
        let mut world = Self::default();
        let named = [("shop", ("team", "a")), ("bank", ("team", "b")), ("kube-system", ("team", "a"))];
        for (name, label) in named.into_iter().chain([("plimsoll-system", ("app.kubernetes.io/part-of", "plimsoll"))]) {
            let labels: Labels = [label, ("kubernetes.io/metadata.name", name)].into_iter().collect();
            world.namespaces.apply(Arc::new(Namespace { name: name.to_owned(), labels }));
        }
        world
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
        };
        self.view.controllers_mut(kind).apply(Arc::new(controller));
        self
    }

    /// The object that the policy makes for a Deployment, after somebody changed it.
    fn made(self, policy: &Policy, workload: &str, change: impl FnOnce(&mut Value)) -> Self {
        let workload = ObjectKey::new("shop", workload);
        let object = wanted::object(policy, WellKnown::Deployment, &workload);
        let mut object = serde_json::to_value(object).expect("JSON");
        change(&mut object);
        self.object(object)
    }

    /// An autoscaler of `shop` that somebody made by hand.
    fn by_hand(self, name: &str, target: &str) -> Self {
        self.object(json!({
            "apiVersion": "autoscaling.k8s.io/v1", "kind": "VerticalPodAutoscaler",
            "metadata": {"namespace": "shop", "name": name},
            "spec": {"targetRef": {"apiVersion": "v1", "kind": "Deployment", "name": target}},
        }))
    }

    fn object(mut self, object: Value) -> Self {
        self.view.autoscalers.apply(Arc::new(seen(object)));
        self
    }

    fn plan(&self) -> Plan {
        let Self { view, namespaces, policies } = self;
        plan(&Scene { policies, namespaces, view, recommender: "default" }).expect("everything is JSON")
    }
}

/// What a recommender without shards says of the first policy.
fn status(plan: &Plan, failed: &[&str]) -> SizingPolicyStatus {
    let alone = Speaker { shard: 0, shards: 1 };
    match say(alone, &plan.tallies[0], failed, Timestamp::UNIX_EPOCH) {
        Said::Status(status) => *status,
        Said::Report(..) => panic!("nobody else would put reports together"),
    }
}

fn seen(object: Value) -> Autoscaler {
    let object = api::vpa::parse(object).expect("an autoscaler");
    let text = |field: &Option<String>| field.clone().unwrap_or_default();
    Autoscaler { key: ObjectKey::new(text(&object.metadata.namespace), text(&object.metadata.name)), object }
}

/// The writes, then a line per policy: selected, managed, conflicts, overridden.
fn check(world: &World, expected: &[&str]) {
    let Plan { writes, tallies, .. } = world.plan();
    let writes = writes.iter().map(|write| {
        let policy = &tallies[write.tally].policy.key.name;
        format!("{} {} for {policy}", write.action.name(), write.key)
    });
    let tallies = tallies.iter().map(|tally| {
        let (conflicts, overridden) = (tally.conflicts.count, tally.overridden.count);
        format!("{}: {} {} {conflicts} {overridden}", tally.policy.key.name, tally.selected, tally.managed)
    });
    assert_eq!(writes.chain(tallies).collect::<Vec<_>>(), expected);
}

#[test]
fn each_selected_workload_of_the_right_kind_and_namespace_gets_its_object() {
    let world = World::new()
        .has(policy("web"))
        .workload("shop", "a", &[("tier", "web")])
        .workload("shop", "b", &[("tier", "back")])
        .workload("bank", "c", &[("tier", "web")])
        .controller(WellKnown::StatefulSet, "shop", "a", &[("tier", "web")], None)
        .controller(WellKnown::Job, "shop", "d", &[("tier", "web")], None);
    let created = ["create shop/plimsoll-deployment-a for web", "create shop/plimsoll-statefulset-a for web"];
    check(&world, &[&created[..], &["web: 2 0 0 0"]].concat());
}

#[test]
fn only_the_topmost_workload_is_sized() {
    let mut jobs = policy("web");
    jobs.spec.kinds = vec![WorkloadKind::Job, WorkloadKind::ReplicaSet];
    let web = &[("tier", "web")];
    let world = World::new()
        .has(jobs)
        .controller(WellKnown::Job, "shop", "alone", web, None)
        .controller(WellKnown::Job, "shop", "of-cron", web, Some(("batch/v1", "CronJob")))
        .controller(WellKnown::ReplicaSet, "shop", "of-web", web, Some(("apps/v1", "Deployment")));
    check(&world, &["create shop/plimsoll-job-alone for web", "web: 1 0 0 0"]);
}

#[test]
fn a_workload_under_an_owner_that_may_be_scaled_waits_for_the_answer_and_keeps_what_it_has() {
    let world = |policy: Policy| {
        let rollout = Some(("argoproj.io/v1alpha1", "Rollout"));
        let world = World::new().controller(WellKnown::Deployment, "shop", "a", &[("tier", "web")], rollout);
        world.made(&policy, "a", |_| ()).has(policy)
    };
    check(&world(policy("web")), &["web: 0 0 0 0"]);
    let questions = world(policy("web")).plan().questions;
    assert_eq!(questions.iter().map(ToString::to_string).collect::<Vec<_>>(), ["Deployment shop/a"]);
}

#[test]
fn what_is_as_it_should_be_is_left_alone() {
    let world = World::new().workload("shop", "a", &[("tier", "web")]).has(policy("web"));
    let extra = |object: &mut Value| {
        object["metadata"]["labels"]["team"] = "a".into();
        object["metadata"]["annotations"] = json!({"note": "kept"});
    };
    check(&world.made(&policy("web"), "a", extra), &["web: 1 1 0 0"]);
}

#[test]
fn what_somebody_changed_is_put_back() {
    let changes: [fn(&mut Value); 5] = [
        |object| object["spec"]["updatePolicy"]["updateMode"] = "Recreate".into(),
        |object| object["spec"]["targetRef"]["name"] = "other".into(),
        |object| object["metadata"]["labels"] = json!({}),
        |object| object["metadata"]["labels"]["plimsoll.dev/policy"] = "other".into(),
        |object| object["metadata"]["annotations"] = json!({"plimsoll.dev/sizing-policy": "crane"}),
    ];
    for change in changes {
        let world = World::new().workload("shop", "a", &[("tier", "web")]).has(policy("web"));
        let expected = ["patch shop/plimsoll-deployment-a for web", "web: 1 1 0 0"];
        check(&world.made(&policy("web"), "a", change), &expected);
    }
}

#[test]
fn an_object_whose_owner_was_taken_off_is_somebody_elses() {
    let world = World::new().workload("shop", "a", &[("tier", "web")]).has(policy("web"));
    let taken_off = |object: &mut Value| drop(object["metadata"]["ownerReferences"].take());
    check(&world.made(&policy("web"), "a", taken_off), &["web: 1 0 1 0"]);
}

#[test]
fn an_autoscaler_by_hand_stays_the_only_one() {
    let world = || World::new().workload("shop", "a", &[("tier", "web")]).has(policy("web")).by_hand("mine", "a");
    check(&world(), &["web: 1 0 1 0"]);
    let both = world().made(&policy("web"), "a", |_| ());
    check(&both, &["delete shop/plimsoll-deployment-a for web", "web: 1 0 1 0"]);
    let plan = world().plan();
    assert_eq!(plan.tallies[0].conflicts.listed[0].by, "VerticalPodAutoscaler/mine");
}

#[test]
fn a_name_that_is_taken_is_a_conflict() {
    let world = World::new().workload("shop", "a", &[("tier", "web")]).has(policy("web"));
    check(&world.by_hand("plimsoll-deployment-a", "other"), &["web: 1 0 1 0"]);
}

#[test]
fn what_is_no_longer_selected_or_there_is_removed() {
    let world = World::new().workload("shop", "a", &[("tier", "back")]).has(policy("web"));
    let world = world.made(&policy("web"), "a", |_| ()).made(&policy("web"), "gone", |_| ());
    let removed = ["delete shop/plimsoll-deployment-a for web", "delete shop/plimsoll-deployment-gone for web"];
    check(&world, &[&removed[..], &["web: 0 0 0 0"]].concat());
}

#[test]
fn what_a_policy_owned_that_is_gone_or_going_is_not_ours_to_remove() {
    let world = World::new().workload("shop", "a", &[("tier", "web")]).made(&policy("web"), "a", |_| ());
    check(&world, &[]);
    check(&world.has(Policy { is_terminating: true, ..policy("web") }), &[]);
}

#[test]
fn the_policy_of_the_namespace_goes_before_the_older_before_the_first_by_name() {
    let all = |name: &str, second| {
        let created = Some(Timestamp::from_second(second).expect("in range"));
        Policy { created, spec: SizingPolicySpec::default(), ..policy(name) }
    };
    let world = |policies: Vec<Policy>| {
        let world = World::new().workload("shop", "a", &[]);
        policies.into_iter().fold(world, World::has)
    };
    let create = |name: &str| format!("create shop/plimsoll-deployment-a for {name}");
    let cluster = cluster_policy("cluster", &[]);
    check(&world(vec![cluster, all("own", 9)]), &[&create("own"), "cluster: 1 0 0 1", "own: 1 0 0 0"]);
    check(&world(vec![all("new", 9), all("old", 8)]), &[&create("old"), "new: 1 0 0 1", "old: 1 0 0 0"]);
    check(&world(vec![all("b", 9), all("a", 9)]), &[&create("a"), "b: 1 0 0 1", "a: 1 0 0 0"]);
}

#[test]
fn an_object_changes_hands_with_its_uid_and_all_that_is_known_of_it() {
    let winner = Policy { spec: SizingPolicySpec::default(), ..policy("web") };
    let cluster = cluster_policy("cluster", &[]);
    let world = World::new().workload("shop", "a", &[]).made(&cluster, "a", |_| ()).has(winner);
    let patched = "patch shop/plimsoll-deployment-a for web";
    check(&world, &[patched, "web: 1 0 0 0"]);
    check(&world.has(cluster), &[patched, "web: 1 0 0 0", "cluster: 1 0 0 1"]);
}

#[test]
fn a_policy_of_the_cluster_reaches_the_namespaces_that_it_selects() {
    let world = |policy: Policy| {
        let namespaces = ["shop", "bank", "kube-system", "plimsoll-system", "unheard-of"];
        namespaces.iter().fold(World::new().has(policy), |world, namespace| world.workload(namespace, "a", &[]))
    };
    let created = |namespace: &str| format!("create {namespace}/plimsoll-deployment-a for all");
    let (shop, bank, system) = (created("shop"), created("bank"), created("kube-system"));
    check(&world(cluster_policy("all", &[])), &[&bank, &shop, "all: 2 0 0 0"]);
    check(&world(cluster_policy("all", &[("team", "a")])), &[&shop, "all: 1 0 0 0"]);
    let by_name = cluster_policy("all", &[("kubernetes.io/metadata.name", "kube-system")]);
    check(&world(by_name), &[&system, "all: 1 0 0 0"]);
}

#[test]
fn a_policy_is_its_recommenders_business() {
    let mut frugal = policy("web");
    frugal.spec.recommender = "frugal".to_owned();
    let world = World::new().workload("shop", "a", &[("tier", "web")]).workload("shop", "b", &[("tier", "web")]);
    let all = Policy { created: Some(Timestamp::MAX), spec: SizingPolicySpec::default(), ..policy("rest") };
    // What the other recommender's policy is to take over stays until it does.
    let world = world.made(&all, "a", |_| ()).has(frugal).has(all);
    check(&world, &["rest: 2 0 0 2"]);
}

#[test]
fn a_policy_that_cannot_be_used_changes_nothing() {
    let mut broken = policy("web");
    broken.spec.sizing = Some(Sizing { policy: SizingMethod::Crane, settings: map(&[("no-such-thing", "1")]) });
    let world = World::new().workload("shop", "a", &[("tier", "web")]).made(&broken, "a", |_| ());
    let other = Policy { spec: SizingPolicySpec::default(), ..policy("other") };
    let world = world.made(&broken, "gone", |_| ()).has(broken).has(other);
    check(&world, &["web: 0 0 0 0", "other: 1 0 0 1"]);
    let plan = world.plan();
    let unusable = status(&plan, &[]);
    assert_eq!(unusable.conditions[2].reason, "InvalidSizing");
    assert!(unusable.conditions[2].message.contains("no-such-thing"), "{unusable:?}");
}

#[test]
fn bounds_that_no_webhook_would_take_are_refused() {
    let mut broken = policy("web");
    broken.spec.resource_policy = serde_json::from_value(json!({"containerPolicies": [
        {"containerName": "*", "minAllowed": {"cpu": "2"}, "maxAllowed": {"cpu": "1"}},
    ]}))
    .expect("a resource policy");
    let plan = World::new().workload("shop", "a", &[("tier", "web")]).has(broken).plan();
    assert!(plan.writes.is_empty());
    let status = status(&plan, &[]);
    assert_eq!(
        status.conditions[2].message,
        "spec.resourcePolicy: container *: the maximum of cpu, 1, is below the minimum of 2; the policy's autoscalers stay \
         as they are"
    );
}

/// The object after the patch that makes it so.
fn patched(policy: &Policy, object: &Value) -> Option<Value> {
    let wanted = wanted::object(policy, WellKnown::Deployment, &ObjectKey::new("shop", "a"));
    let patch = wanted::changes(&seen(object.clone()), &wanted).expect("JSON")?;
    let mut object = object.clone();
    json_patch::patch(&mut object, &patch).expect("it is the object that was seen");
    Some(object)
}

#[test]
fn a_patch_leads_to_what_is_wanted_and_to_no_second_one() {
    let old = policy("old");
    let mut new = policy("new");
    new.spec.sizing =
        Some(Sizing { policy: SizingMethod::AutopilotWindow, settings: map(&[("cpu-statistic", "p95")]) });
    let object = wanted::object(&old, WellKnown::Deployment, &ObjectKey::new("shop", "a"));
    let mut object = serde_json::to_value(object).expect("JSON");
    object["metadata"]["uid"] = "u1".into();
    object["metadata"]["labels"]["team"] = "a".into();
    object["metadata"]["annotations"] = json!({"note": "kept", "plimsoll.dev/sizing-margin-fraction": "0.1"});
    let reference = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "c", "uid": "c"});
    object["metadata"]["ownerReferences"].as_array_mut().expect("owners").push(reference);

    let after = patched(&new, &object).expect("there is a difference");
    let metadata = &after["metadata"];
    let uids: Vec<&Value> =
        metadata["ownerReferences"].as_array().into_iter().flatten().map(|one| &one["uid"]).collect();
    assert_eq!(uids, ["c", "new"]);
    assert_eq!(
        metadata["labels"],
        json!({"team": "a", "app.kubernetes.io/managed-by": "plimsoll", "plimsoll.dev/policy": "new"})
    );
    let sizing = json!({
        "note": "kept", "plimsoll.dev/sizing-policy": "autopilot-window", "plimsoll.dev/sizing-cpu-statistic": "p95",
    });
    assert_eq!(metadata["annotations"], sizing);
    assert_eq!(patched(&new, &after), None);
}

#[test]
fn a_patch_misses_an_object_that_changed_hands_in_the_meantime() {
    let wanted = wanted::object(&policy("new"), WellKnown::Deployment, &ObjectKey::new("shop", "a"));
    let old = wanted::object(&policy("old"), WellKnown::Deployment, &ObjectKey::new("shop", "a"));
    let object = serde_json::to_value(old).expect("JSON");
    let patch = wanted::changes(&seen(object.clone()), &wanted).expect("JSON").expect("a difference");
    for taken in [json!(null), json!([])] {
        let mut object = object.clone();
        object["metadata"]["ownerReferences"] = taken;
        assert!(json_patch::patch(&mut object, &patch).is_err());
    }
}

#[test]
fn lists_are_short_and_counts_complete() {
    let world = World::new().has(Policy { spec: SizingPolicySpec::default(), ..policy("web") });
    let names: Vec<String> = (10..40).map(|number| format!("web-{number}")).collect();
    let world = names.iter().fold(world, |world, name| world.workload("shop", name, &[]).by_hand(name, name));
    let plan = world.plan();
    let status = status(&plan, &[]);
    assert_eq!((status.selected, status.conflicts, status.conflicting.len()), (30, 30, 10));
    assert_eq!(
        status.conditions[0].message,
        "30 workloads have an autoscaler that no policy owns; it stays, and is the only one: Deployment shop/web-10 \
         (VerticalPodAutoscaler/web-10), Deployment shop/web-11 (VerticalPodAutoscaler/web-11), Deployment shop/web-12 \
         (VerticalPodAutoscaler/web-12), ..."
    );
    let said = Said::Status(Box::new(status.clone()));
    assert_eq!(said.news(&policy("web")).len(), 1);
    let told = Policy { status: Some(status), ..policy("web") };
    assert!(said.is_known(&told) && said.news(&told).is_empty());
}

#[test]
fn a_policy_is_ready_once_everything_is_written() {
    let world = World::new().workload("shop", "a", &[("tier", "web")]).has(policy("web"));
    let mut plan = world.plan();
    let reason = |plan: &Plan, failed: &[&str]| {
        let status = status(plan, failed);
        (status.conditions[2].status.clone(), status.conditions[2].reason.clone(), status.managed)
    };
    let is = |status: &str, reason: &str, managed| (status.to_owned(), reason.to_owned(), managed);
    assert_eq!(reason(&plan, &[]), is("False", "Writing", 0));
    assert_eq!(reason(&plan, &["quota"]), is("False", "WriteFailed", 0));
    assert!(matches!(plan.writes[0].action, Action::Create(_)));
    plan.tallies[0].written(&plan.writes[0].action);
    assert_eq!(reason(&plan, &[]), is("True", "UpToDate", 1));
}

#[test]
fn the_first_shard_says_what_all_of_them_found() {
    let speak = |shard, policy: &Policy, workload: &str| {
        let plan =
            World::new().workload("shop", workload, &[]).made(policy, workload, |_| ()).has(policy.clone()).plan();
        say(Speaker { shard, shards: 2 }, &plan.tallies[0], &[], Timestamp::UNIX_EPOCH)
    };
    let ready = |said: &Said| match said {
        Said::Status(status) => (status.selected, status.managed, status.conditions[2].message.clone()),
        Said::Report(..) => panic!("the first shard says it all"),
    };
    let mut policy = cluster_policy("all", &[]);
    let alone = (1, 1, "shard 1 has not looked yet".to_owned());
    assert_eq!(ready(&speak(0, &policy, "a")), alone);

    let Said::Report(1, report) = speak(1, &policy, "b") else { panic!("the second shard reports to the first") };
    let shards = [("1".to_owned(), report.clone()), ("2".to_owned(), report)].into();
    policy.status = Some(SizingPolicyStatus { shards, ..SizingPolicyStatus::default() });
    assert!(speak(1, &policy, "b").is_known(&policy));
    let both = (2, 2, "2 workloads have the autoscaler that they should".to_owned());
    let said = speak(0, &policy, "a");
    assert_eq!(ready(&said), both);
    let Said::Status(status) = said else { panic!("the first shard says it all") };
    assert_eq!(status.shards.keys().collect::<Vec<_>>(), ["1"], "there is no third shard any more");

    let changed = Policy { generation: 2, ..policy };
    assert_eq!(ready(&speak(0, &changed, "a")).2, "shard 1 has not looked yet");
}
