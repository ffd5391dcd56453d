use std::time::Duration;

use rollout::ActionReason;
use serde_json::json;

use super::*;
use crate::fixture;

#[test]
fn an_oom_kill_is_recorded_with_its_numbers_on_the_pod_and_its_vpa_object() {
    let vpa = fixture::vpa(&json!({}));
    let kill = QuickOomKill {
        container: "app".to_owned(),
        ran_for: Duration::from_millis(29_500),
        ended_at: "2026-01-01T11:59:59Z".parse().expect("a time"),
        request: "100Mi".parse().ok(),
        limit: None,
        target: "300Mi".parse().ok(),
    };
    let action = fixture::eviction(ActionReason::QuickOom);
    let [pod, object] = EventRecord::oom_killed(&action, &kill, &vpa);
    let uids = [&pod, &object].map(|event| event.about.uid.as_deref());
    assert_eq!(uids, [Some("uid-0"), Some("of-web")]);
    assert_eq!((pod.reason, pod.action), ("OOMKilled", "Evict"));
    assert_eq!(pod.note, object.note);
    assert_eq!(
        pod.note,
        "Container app of Pod web-0 was OOM killed 29s after its start (memory request: 100Mi, limit: none). \
         VPA Updater will evict the Pod; new memory request: 300Mi."
    );
}

#[test]
fn a_refuted_act_is_recorded_with_the_limit_and_the_next_act() {
    let vpa = fixture::vpa(&json!({}));
    let [pod, object] = EventRecord::act_refuted(&fixture::refutation(), &vpa);
    assert_eq!(
        (pod.reason, pod.note.as_str()),
        ("ActRefuted", object.note.as_str())
    );
    assert_eq!(
        pod.note,
        "The last resize had no effect: container app of Pod web-0 was OOM killed again (memory limit: 512Mi). \
         Next act: a resize by 1Mi while the container runs."
    );
}

#[test]
fn a_move_is_recorded_with_the_load_the_threshold_and_the_expected_node() {
    let relocation = Relocation {
        from: "n1".to_owned(),
        to: "n2".to_owned(),
        load_percent: 91.4,
        threshold_percent: 80.0,
        gain: 42,
        load: placement::Amounts::default(),
        owner_uid: "uid-web".to_owned(),
    };
    for (reason, expected) in [
        (
            ActionReason::HotNode,
            "Node n1 is hot: its utilization is 91%, the threshold is 80%. Pod was evicted; node n2 has a \
             score that is better by 42, and the scheduler decides.",
        ),
        (
            ActionReason::FragmentedNode,
            "Node n1 is emptied: its utilization of 91% and its requests are below 80%. Pod was evicted; \
             node n2 has a score that is better by 42, and the scheduler decides.",
        ),
    ] {
        let event = EventRecord::moved(&fixture::eviction(reason), &relocation);
        assert_eq!(event.reason, "EvictedForRebalancing");
        assert_eq!(event.note, expected);
    }
}

#[test]
fn a_rolling_update_is_recorded_on_the_deployment_and_the_vpa_object() {
    let vpa = fixture::vpa(&json!({}));
    let update = RollingUpdate {
        deployment: ObjectKey::new("shop", "web"),
        uid: "uid-web".to_owned(),
    };
    let changes = "app cpu request 100m -> 320m: below lower bound 300m";
    let events = EventRecord::rolled(&update, changes, &vpa);
    let about = |event: &EventRecord| (event.about.kind.clone(), event.about.uid.clone());
    let text = |text: &str| Some(text.to_owned());
    assert_eq!(about(&events[0]), (text("Deployment"), text("uid-web")));
    assert_eq!(about(&events[1]).1, text("of-web"));
    let note = format!(
        "VPA Updater began a rolling update of Deployment web to apply resource recommendation: {changes}."
    );
    assert!(events.iter().all(|event| event.note == note));
    let [long, _] = EventRecord::rolled(&update, &"ä".repeat(2000), &vpa);
    assert!(long.note.len() <= 1024 && long.note.ends_with("ä..."));
}

#[test]
fn a_refusal_that_only_the_user_can_end_is_a_warning() {
    let vpa = fixture::vpa(&json!({}));
    let update = RollingUpdate {
        deployment: ObjectKey::new("shop", "web"),
        uid: "uid-web".to_owned(),
    };
    for refusal in RollingUpdateRefusal::ALL {
        let event = EventRecord::roll_refused(&update, refusal, &vpa);
        let ends_itself = matches!(
            refusal,
            RollingUpdateRefusal::RolloutInProgress | RollingUpdateRefusal::TooSoon
        );
        assert_eq!(event.kind == EventType::Normal, ends_itself, "{refusal:?}");
        assert!(event.note.contains(&refusal.to_string()), "{}", event.note);
    }
}

#[test]
fn pods_of_other_namespaces_are_not_named() {
    let [own, other] = ["web-1", "web-2"].map(|name| ObjectKey::new("shop", name));
    let (vault, pay) = (
        ObjectKey::new("bank", "vault-0"),
        ObjectKey::new("hr", "pay-1"),
    );
    for (pods, expected) in [
        (vec![own.clone(), other], "shop/web-1, shop/web-2"),
        (vec![vault.clone()], "a pod of another namespace"),
        (
            vec![vault, own, pay],
            "shop/web-1, 2 pods of other namespaces",
        ),
    ] {
        assert_eq!(evicted(&pods, "shop"), expected);
    }
}

#[test]
fn changes_follow_the_sentence_within_the_limit() {
    assert_eq!(with_changes("Resized.", ""), "Resized.");
    assert_eq!(with_changes("Resized.", "a 1 -> 2"), "Resized. a 1 -> 2.");
    assert_eq!(with_changes("Resized.", &"a".repeat(2000)).len(), 1024);
}
