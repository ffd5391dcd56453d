//! Number of objects by kind: upstream's gauge with all combinations of its labels.

use api::vpa::{RecommendedContainerResources, UpdateMode};
use prometheus::IntGaugeVec;
use runtime::metrics::start;

use vertical::recommender_state::Decision;
use vertical::status::has_recommendation;

const MODES: [&str; 6] = [
    "Off",
    "Initial",
    "Recreate",
    "InPlaceOrRecreate",
    "InPlace",
    "Auto",
];
/// Versions of the API in upstream's label. Only the last one is served.
const VERSIONS: [&str; 3] = ["v1beta1", "v1beta2", "v1"];
const BOOLEANS: [&str; 2] = ["false", "true"];

/// Sets every combination, also those without objects.
pub(super) fn count<'a>(objects: &IntGaugeVec, decisions: impl IntoIterator<Item = &'a Decision>) {
    objects.reset();
    let labels: [&[&str]; 5] = [&MODES, &BOOLEANS, &VERSIONS, &BOOLEANS, &BOOLEANS];
    start(objects, &labels.each_ref().map(std::slice::from_ref));
    for decision in decisions {
        objects
            .with_label_values(&[
                mode(update_mode(decision).unwrap_or(UpdateMode::Recreate)),
                boolean(has_recommendation(Some(&decision.status))),
                "v1",
                boolean(decision.pods > 0),
                boolean(decision.unsupported),
            ])
            .inc();
    }
}

/// The recommendations for the containers of an object.
pub(super) fn containers(
    decision: &Decision,
) -> impl Iterator<Item = &RecommendedContainerResources> {
    let recommendation = decision.status.recommendation.iter();
    recommendation.flat_map(|recommendation| &recommendation.container_recommendations)
}

/// The label value of a boolean.
pub(super) fn boolean(value: bool) -> &'static str {
    BOOLEANS[usize::from(value)]
}

pub(super) fn update_mode(decision: &Decision) -> Option<UpdateMode> {
    let policy = decision.vpa.object.spec.update_policy.as_ref()?;
    policy.update_mode
}

pub(super) fn mode(mode: UpdateMode) -> &'static str {
    match mode {
        UpdateMode::Off => "Off",
        UpdateMode::Initial => "Initial",
        UpdateMode::Recreate => "Recreate",
        UpdateMode::InPlaceOrRecreate => "InPlaceOrRecreate",
        UpdateMode::InPlace => "InPlace",
        UpdateMode::Auto => "Auto",
    }
}
