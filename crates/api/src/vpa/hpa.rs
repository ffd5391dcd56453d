//! Handling of resources by which a `HorizontalPodAutoscaler` (HPA) scales the same workload.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::VerticalPodAutoscaler;
use super::node_group::shortened;

/// Annotation that users set on a VPA: handling of a resource by which an HPA scales; see
/// docs/sizing.md#next-to-an-hpa.
///
/// Respect, `KeepScalePoint` or Ignore.
pub const HPA_ANNOTATION: &str = "plimsoll.dev/hpa";

/// Handling of a resource by whose utilization a HorizontalPodAutoscaler scales the workload.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum HpaMode {
    /// The resource is left out of the recommendation.
    #[default]
    Respect,
    /// The resource is sized once an EffectiveHorizontalPodAutoscaler scales by an amount per pod
    /// that does not change with the requests. Until then the same as Respect.
    KeepScalePoint,
    /// The resource is sized. Each change of the requests moves the scale point.
    Ignore,
}

impl HpaMode {
    /// Name in objects.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Respect => "Respect",
            Self::KeepScalePoint => "KeepScalePoint",
            Self::Ignore => "Ignore",
        }
    }

    /// Mode in the annotation of an object; `None` without the annotation. The error names the
    /// annotation.
    pub fn of(object: &VerticalPodAutoscaler) -> Option<Result<Self, String>> {
        let value = object.metadata.annotations.as_ref()?.get(HPA_ANNOTATION)?;
        let mut modes = [Self::Respect, Self::KeepScalePoint, Self::Ignore].into_iter();
        Some(modes.find(|mode| mode.as_str() == value).ok_or_else(|| {
            let value = shortened(value);
            format!(
                "annotation {HPA_ANNOTATION}: {value:?} is not Respect, KeepScalePoint or Ignore"
            )
        }))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_annotation_names_a_mode_and_anything_else_is_refused() {
        let long = "é".repeat(300_000);
        for (value, expected) in [
            (None, None),
            (Some("Respect"), Some(Ok(HpaMode::Respect))),
            (Some("KeepScalePoint"), Some(Ok(HpaMode::KeepScalePoint))),
            (Some("Ignore"), Some(Ok(HpaMode::Ignore))),
            (Some("respect"), Some(Err(()))),
            (Some(""), Some(Err(()))),
            (Some(long.as_str()), Some(Err(()))),
        ] {
            let annotations = value.map(|value| json!({HPA_ANNOTATION: value}));
            let object = crate::vpa::parse(json!({
                "metadata": {"name": "web", "namespace": "shop", "annotations": annotations},
                "spec": {"targetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}},
            }));
            let found = HpaMode::of(&object.expect("an object"));
            if let Some(Err(error)) = &found {
                assert!(error.starts_with("annotation plimsoll.dev/hpa: ") && error.len() < 200);
            }
            assert_eq!(found.map(|found| found.map_err(drop)), expected);
        }
    }
}
