//! Choice of the recommendation in the status: the one from usage, or the published one while
//! samples or history are missing.

use api::vpa::{
    ContainerScalingMode, RecommendedPodResources, VerticalPodAutoscaler,
    VerticalPodAutoscalerStatus,
};

use super::{HistoryState, StatusInput};

/// Whether the object has a recommendation for at least one container.
pub fn has_recommendation(status: Option<&VerticalPodAutoscalerStatus>) -> bool {
    let recommendation = status.and_then(|status| status.recommendation.as_ref());
    recommendation.is_some_and(|recommendation| !is_empty(recommendation))
}

pub(super) fn is_empty(recommendation: &RecommendedPodResources) -> bool {
    recommendation.container_recommendations.is_empty()
}

pub(super) fn recommendation(input: StatusInput) -> RecommendedPodResources {
    let StatusInput {
        object,
        recommendation: found,
        is_measured,
        may_be_measured_soon,
        history,
        ..
    } = input;
    let kept = published(object);
    let waits = matches!(
        history,
        HistoryState::Missing {
            keeps_recommendation: true,
            ..
        }
    ) && !is_empty(&kept);
    if is_measured && !waits {
        return found.into();
    }
    if may_be_measured_soon || !is_empty(&kept) {
        kept
    } else {
        found.into()
    }
}

/// The published recommendation, without containers that are no longer sized.
fn published(object: &VerticalPodAutoscaler) -> RecommendedPodResources {
    let published = object
        .status
        .as_ref()
        .and_then(|status| status.recommendation.clone());
    let mut published = published.unwrap_or_default();
    published.container_recommendations.retain(|container| {
        let policy = object.spec.container_policy(&container.container_name);
        policy.is_none_or(|policy| policy.effective_mode() == ContainerScalingMode::Auto)
    });
    published
}
