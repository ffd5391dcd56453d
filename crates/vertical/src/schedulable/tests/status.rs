//! Caps in the status of an object.

use api::vpa::VerticalPodAutoscalerStatus;

use super::*;
use crate::status::ConditionChange;

/// The status after `found` was decided with a node of `millicores`, after `published`.
fn after(
    found: Recommendation,
    millicores: i64,
    published: Option<&VerticalPodAutoscalerStatus>,
) -> VerticalPodAutoscalerStatus {
    let web = object(None, &json!({}));
    let mut status = VerticalPodAutoscalerStatus {
        recommendation: Some(found),
        conditions: published
            .map(|published| published.conditions.clone())
            .unwrap_or_default(),
        observed_generation: 1,
    };
    let mut schedulable = everything();
    let cluster = Cluster::default().nodes([node("a", "x", millicores)]);
    let cluster = cluster.pods([pod("web-1", "web", 100, PodPlacement::default())]);
    load(&mut schedulable, &cluster.0, &web);
    let fit = |found: &_| schedulable.fit(&web, false, found);
    apply_cap(&mut status, published, fit, at(0));
    status
}

fn next(
    found: i64,
    millicores: i64,
    published: Option<&VerticalPodAutoscalerStatus>,
) -> VerticalPodAutoscalerStatus {
    after(recommend(found), millicores, published)
}

fn cpu(status: &VerticalPodAutoscalerStatus) -> i64 {
    let recommended = status.recommendation.as_ref().expect("published");
    let target = &recommended.containers[0].target;
    target.cpu().expect("it has CPU").millicores()
}

#[track_caller]
fn check(
    before: Option<&VerticalPodAutoscalerStatus>,
    status: &VerticalPodAutoscalerStatus,
    target: i64,
    change: Option<ConditionChange>,
) {
    assert_eq!((cpu(status), cap_change(before, status)), (target, change));
}

#[test]
fn news_come_when_it_begins_and_when_it_ends() {
    let free = next(1000, 4000, None);
    check(None, &free, 1000, None);
    let capped = next(9000, 4000, Some(&free));
    let message = "Capped to schedulable resources: cpu of container main to 4 by Node";
    check(
        Some(&free),
        &capped,
        4000,
        Some(ConditionChange::Began(message)),
    );
    let counts = [("node", 1), ("quota", 0), ("limit_range", 0)];
    assert_eq!(count_capped([&capped]), counts);
    let still = next(9500, 3000, Some(&capped));
    check(Some(&capped), &still, 3000, None);
    let again_free = next(2000, 4000, Some(&still));
    check(
        Some(&still),
        &again_free,
        2000,
        Some(ConditionChange::Ended),
    );
    assert_eq!(again_free.conditions, []);
}

#[test]
fn another_source_is_news() {
    let capped = next(9000, 4000, None);
    let mut other = capped.clone();
    other.conditions[0].reason = "ResourceQuota".to_owned();
    let change = cap_change(Some(&other), &capped);
    assert!(matches!(change, Some(ConditionChange::Began(_))));
}

#[test]
fn what_stays_for_want_of_usage_stays_capped() {
    let capped = next(9000, 4000, None);
    let kept = || capped.recommendation.clone().expect("published");
    let stays = after(kept(), 4000, Some(&capped));
    assert_eq!(stays, capped);
    let smaller = after(kept(), 3000, Some(&capped));
    check(Some(&capped), &smaller, 3000, None);
}

#[test]
fn without_the_switch_the_condition_goes() {
    let mut capped = next(9000, 4000, None);
    clear_cap(&mut capped);
    assert_eq!(capped.conditions, []);
}
