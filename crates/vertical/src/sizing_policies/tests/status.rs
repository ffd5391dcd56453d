//! Status of policies.

use super::*;

#[test]
fn bounds_that_no_webhook_would_take_are_refused() {
    let mut broken = policy("web");
    broken.spec.resource_policy = serde_json::from_value(json!({"containerPolicies": [
        {"containerName": "*", "minAllowed": {"cpu": "2"}, "maxAllowed": {"cpu": "1"}},
    ]}))
    .expect("a resource policy");
    let plan = Fixture::new()
        .workload("shop", "a", &[("tier", "web")])
        .has(broken)
        .plan();
    assert!(plan.writes.is_empty());
    let message = &status(&plan, &[]).conditions[2].message;
    assert_eq!(
        message,
        "spec.resourcePolicy: container *: the maximum of cpu, 1, is below the minimum of 2; the policy's VPA objects \
         stay as they are"
    );
}

#[test]
fn lists_are_short_and_counts_complete() {
    let fixture = Fixture::new().has(for_all("web"));
    let names: Vec<String> = (10..40).map(|number| format!("web-{number}")).collect();
    let fixture = names.iter().fold(fixture, |fixture, name| {
        fixture.workload("shop", name, &[]).by_hand(name, name)
    });
    let plan = fixture.plan();
    let status = status(&plan, &[]);
    let counts = &status.counts;
    assert_eq!((counts.selected, counts.conflicts), (30, 30));
    assert_eq!(counts.conflicting.len(), 10);
    assert_eq!(
        status.conditions[0].message,
        "30 workloads already have a VPA object that no policy owns; it is kept and no other is created: Deployment shop/web-10 \
         (VerticalPodAutoscaler/web-10), Deployment shop/web-11 (VerticalPodAutoscaler/web-11), Deployment shop/web-12 \
         (VerticalPodAutoscaler/web-12), ..."
    );
    let update = StatusUpdate::Status(Box::new(status.clone()));
    assert_eq!(update.events(&policy("web")).len(), 1);
    let mut told = policy("web");
    told.status = Some(status);
    assert!(update.is_known(&told) && update.events(&told).is_empty());
}

#[test]
fn a_policy_is_ready_once_everything_is_written() {
    let fixture = web();
    let mut plan = fixture.plan();
    let reason = |plan: &Plan, failed: &[&str]| {
        let status = status(plan, failed);
        let ready = &status.conditions[2];
        let managed = status.counts.managed;
        (ready.status.clone(), ready.reason.clone(), managed)
    };
    let is = |status: &str, reason: &str, managed| (status.to_owned(), reason.to_owned(), managed);
    assert_eq!(reason(&plan, &[]), is("False", "Writing", 0));
    assert_eq!(reason(&plan, &["quota"]), is("False", "WriteFailed", 0));
    assert!(matches!(plan.writes[0].action, Action::Create(_)));
    plan.summaries[0].written(&plan.writes[0].action);
    assert_eq!(reason(&plan, &[]), is("True", "UpToDate", 1));
}

#[test]
fn the_first_shard_says_what_all_of_them_found() {
    let speak = |shard: u16, policy: &Policy, workload: &str| {
        let plan = Fixture::new()
            .workload("shop", workload, &[])
            .made(policy, workload, |_| ())
            .has(policy.clone())
            .plan();
        let shard = format!("{shard}/2").parse().expect("a shard");
        status_update(shard, &plan.summaries[0], &[], Timestamp::UNIX_EPOCH)
    };
    let ready = |update: &StatusUpdate| match update {
        StatusUpdate::Status(status) => {
            let message = status.conditions[2].message.clone();
            (status.counts.selected, status.counts.managed, message)
        }
        StatusUpdate::Report(..) => panic!("the first shard says it all"),
    };
    let mut policy = cluster_policy("all", &[]);
    let alone = (1, 1, "shard 1 has not reported yet".to_owned());
    assert_eq!(ready(&speak(0, &policy, "a")), alone);

    let StatusUpdate::Report(1, report) = speak(1, &policy, "b") else {
        panic!("the second shard reports to the first")
    };
    let shards = [("1".to_owned(), report.clone()), ("2".to_owned(), report)].into();
    policy.status = Some(SizingPolicyStatus {
        shards,
        ..SizingPolicyStatus::default()
    });
    assert!(speak(1, &policy, "b").is_known(&policy));
    let both = "2 workloads have an up-to-date VPA object".to_owned();
    let update = speak(0, &policy, "a");
    assert_eq!(ready(&update), (2, 2, both));
    let StatusUpdate::Status(status) = update else {
        panic!("the first shard says it all")
    };
    // There is no third shard any more.
    assert_eq!(status.shards.keys().collect::<Vec<_>>(), ["1"]);

    policy.generation = 2;
    assert_eq!(
        ready(&speak(0, &policy, "a")).2,
        "shard 1 has not reported yet"
    );
}

#[test]
fn the_worst_reason_of_the_shards_is_that_of_the_policy() {
    let check = |failed: &[&str], of_other: &str, expected: &str| {
        let mut policy = cluster_policy("all", &[]);
        let report = ShardReport {
            counts: PolicyCounts {
                observed_generation: policy.generation,
                ..PolicyCounts::default()
            },
            reason: of_other.to_owned(),
            message: String::new(),
        };
        policy.status = Some(SizingPolicyStatus {
            shards: [("1".to_owned(), report)].into(),
            ..SizingPolicyStatus::default()
        });
        let plan = Fixture::new()
            .workload("shop", "a", &[])
            .made(&policy, "a", |_| ())
            .has(policy)
            .plan();
        let first = "0/2".parse().expect("a shard");
        let update = status_update(first, &plan.summaries[0], failed, Timestamp::UNIX_EPOCH);
        let StatusUpdate::Status(status) = update else {
            panic!("the first shard says it all")
        };
        let reason = &status.conditions[2].reason;
        assert_eq!(reason, expected, "{failed:?} {of_other}");
    };
    for of_other in ["UpToDate", "Wave", "Writing", "WaveStopped", "WriteFailed"] {
        check(&[], of_other, of_other);
        check(&["quota"], of_other, "WriteFailed");
    }
}

#[test]
fn a_limit_mode_that_is_none_is_refused() {
    let mut wrong = policy("web");
    wrong.spec.limit_mode = Some("cpu=request-plus:9e99".to_owned());
    let plan = Fixture::new()
        .workload("shop", "a", &[("tier", "web")])
        .has(wrong)
        .plan();
    assert!(plan.writes.is_empty());
    let ready = &status(&plan, &[]).conditions[2];
    assert_eq!(ready.reason, "InvalidLimitMode");
    assert!(
        ready.message.starts_with("spec.limitMode: "),
        "{}",
        ready.message
    );
}
