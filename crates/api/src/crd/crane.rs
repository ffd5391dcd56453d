//! Additions to the derived definitions of Crane's kinds: defaults shown to users.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, JSON, JSONSchemaProps,
};
use serde_json::Value;

use super::{from_type, schema_of};
use crate::ehpa::{DEFAULT_PREDICTION_WINDOW_SECONDS, EffectiveHorizontalPodAutoscaler};
use crate::prediction::TimeSeriesPrediction;
use crate::substitute::Substitute;

/// `effectivehorizontalpodautoscalers.autoscaling.crane.io`.
pub fn effective_horizontal_pod_autoscaler() -> CustomResourceDefinition {
    let mut definition = from_type::<EffectiveHorizontalPodAutoscaler>();
    for schema in definition.spec.versions.iter_mut().filter_map(schema_of) {
        set_default(schema, &["spec", "minReplicas"], 1.into());
        set_default(schema, &["spec", "scaleStrategy"], "Auto".into());
        let window = DEFAULT_PREDICTION_WINDOW_SECONDS;
        set_default(
            schema,
            &["spec", "prediction", "predictionWindowSeconds"],
            window.into(),
        );
    }
    definition
}

/// `substitutes.autoscaling.crane.io`.
pub fn substitute() -> CustomResourceDefinition {
    from_type::<Substitute>()
}

/// `timeseriespredictions.prediction.crane.io`.
pub fn time_series_prediction() -> CustomResourceDefinition {
    from_type::<TimeSeriesPrediction>()
}

fn set_default(schema: &mut JSONSchemaProps, path: &[&str], default: Value) {
    let field = path.iter().try_fold(schema, |schema, name| {
        schema.properties.as_mut()?.get_mut(*name)
    });
    if let Some(field) = field {
        field.default = Some(JSON(default));
    }
}
