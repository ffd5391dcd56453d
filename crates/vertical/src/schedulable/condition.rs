//! Caps in an object's status: the numbers, the condition, and its changes.
//!
//! The condition names the source of the cap, and an event is recorded only when that changes. It
//! names neither a node nor the uncapped value, so it changes seldom.

use std::collections::BTreeSet;

use api::vpa::{Conditions, VerticalPodAutoscalerCondition, VerticalPodAutoscalerStatus};
use jiff::Timestamp;
use model::{Cap, Cpu, Memory, Quantity, Recommendation, ResourceName};
use sizing::{Fit, Maximum};

use crate::status::{ConditionChange, condition, condition_change, count_by_label, first_of};

/// Condition of a VPA: caps lower the recommendation; see
/// docs/sizing.md#recommendations-that-can-be-scheduled.
///
/// Not upstream's.
const CAPPED: &str = "RecommendationCapped";
/// Reason of `RecommendationCapped` of a VPA: no node is large enough; several reasons are joined,
/// such as `NodeAndResourceQuota`.
const NODE: &str = "Node";
/// Reason of `RecommendationCapped` of a VPA: a quota is not large enough.
const RESOURCE_QUOTA: &str = "ResourceQuota";
/// Reason of `RecommendationCapped` of a VPA: a limit range is not large enough.
const LIMIT_RANGE: &str = "LimitRange";

/// Separator of the words in a reason.
const AND: &str = "And";
const MAX_CAPS_IN_MESSAGE: usize = 6;

/// The change of the caps from one status to the next: their sources count.
pub fn cap_change<'a>(
    old: Option<&VerticalPodAutoscalerStatus>,
    new: &'a VerticalPodAutoscalerStatus,
) -> Option<ConditionChange<'a>> {
    condition_change(old, new, capped, |condition| &condition.reason)
}

/// The sources of the caps in a status, as in the reason of its condition.
fn capped_by(status: &VerticalPodAutoscalerStatus) -> impl Iterator<Item = &str> {
    capped(status)
        .into_iter()
        .flat_map(|condition| condition.reason.split(AND))
}

/// Words of the sources in reasons, and values of the label `source` of the metric.
const SOURCES: [(&str, &str); 3] = [
    (NODE, "node"),
    (RESOURCE_QUOTA, "quota"),
    (LIMIT_RANGE, "limit_range"),
];

/// Number of capped objects by source, also of sources without objects.
pub fn count_capped<'a>(
    statuses: impl IntoIterator<Item = &'a VerticalPodAutoscalerStatus>,
) -> [(&'static str, i64); 3] {
    count_by_label(SOURCES, statuses.into_iter().flat_map(capped_by))
}

/// Applies the caps to a status. `published` is the object's current status.
pub fn apply_cap(
    status: &mut VerticalPodAutoscalerStatus,
    published: Option<&VerticalPodAutoscalerStatus>,
    fit: impl FnOnce(&Recommendation) -> Option<Fit>,
    now: Timestamp,
) {
    let Some(recommendation) = &mut status.recommendation else {
        return clear_cap(status);
    };
    // What stays because nothing is measured was held to the same limits before.
    let published = published.and_then(|published| published.recommendation.as_ref());
    let stays = published == Some(&*recommendation);
    let fit = fit(recommendation);
    if let Some(fit) = &fit {
        fit.apply(recommendation);
    }
    let cuts: Vec<_> = fit.iter().flat_map(Fit::cuts).collect();
    if !cuts.is_empty() {
        let mut conditions: Conditions = status.conditions.drain(..).collect();
        conditions.set(CAPPED, true, &reason(&cuts), &message(&cuts), now);
        status.conditions = conditions.to_list();
    } else if !stays {
        clear_cap(status);
    }
}

pub fn clear_cap(status: &mut VerticalPodAutoscalerStatus) {
    status
        .conditions
        .retain(|condition| condition.kind != CAPPED);
}

fn capped(status: &VerticalPodAutoscalerStatus) -> Option<&VerticalPodAutoscalerCondition> {
    condition(status, CAPPED)
}

type Cut<'a> = (&'a str, &'a ResourceName, &'a Maximum);

fn reason(cuts: &[Cut]) -> String {
    let words: BTreeSet<&str> = cuts
        .iter()
        .map(|(_, _, most)| word(most.ceiling.by))
        .collect();
    words.into_iter().collect::<Vec<_>>().join(AND)
}

fn message(cuts: &[Cut]) -> String {
    let caps = cuts.iter().map(|(container, resource, most)| {
        let amount = match resource {
            ResourceName::Cpu => Quantity::from(Cpu::from_millicores(most.amount)),
            _ => Quantity::from(Memory::from_bytes(most.amount)),
        };
        let by = word(most.ceiling.by);
        let cap = format!("{resource} of container {container} to {amount} by {by}");
        match most.ceiling.by {
            Cap::Node => cap,
            _ => format!("{cap} {}", most.ceiling.object),
        }
    });
    let caps = first_of(caps, MAX_CAPS_IN_MESSAGE);
    format!("Capped to schedulable resources: {caps}")
}

/// The word of a source in reasons and metrics.
fn word(cap: Cap) -> &'static str {
    match cap {
        Cap::MinAllowed => "MinAllowed",
        Cap::MaxAllowed => "MaxAllowed",
        Cap::GlobalMaxAllowed => "GlobalMaxAllowed",
        Cap::LimitRange => LIMIT_RANGE,
        Cap::Quota => RESOURCE_QUOTA,
        Cap::Node => NODE,
    }
}
