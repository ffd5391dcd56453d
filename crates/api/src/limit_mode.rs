//! Annotations about limits.

use model::LimitModes;

use crate::vpa::{VerticalPodAutoscaler, shortened};

/// Annotation that users set on a VPA: limits other than in proportion to requests; see
/// docs/sizing.md#limits.
pub const LIMIT_MODE: &str = "plimsoll.dev/limit-mode";
/// Annotation that Plimsoll writes on a pod: limits that a limit mode led to; see
/// docs/sizing.md#limits.
pub const LIMITS: &str = "plimsoll.dev/limits";

/// The limit modes of an object; proportional without the annotation. The error names the
/// annotation.
pub fn limit_modes(object: &VerticalPodAutoscaler) -> Result<LimitModes, String> {
    let annotations = object.metadata.annotations.as_ref();
    match annotations.and_then(|annotations| annotations.get(LIMIT_MODE)) {
        Some(value) => parse(value).map_err(|error| format!("annotation {LIMIT_MODE}: {error}")),
        None => Ok(LimitModes::default()),
    }
}

/// Parses the value of the annotation or of the field `limitMode`.
pub fn parse(value: &str) -> Result<LimitModes, String> {
    LimitModes::parse(value).ok_or_else(|| {
        let value = shortened(value);
        format!(
            "{value:?} is not proportional, equal, none, request-plus:SHARE% or a list such as \
             cpu=none,memory=request-plus:200Mi"
        )
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_annotation_names_modes_and_anything_else_is_refused() {
        let long = "é".repeat(100_000);
        for (value, expected) in [
            (None, Some("proportional")),
            (Some("equal"), Some("equal")),
            (Some("cpu=none"), Some("cpu=none")),
            (Some("double"), None),
            (Some(long.as_str()), None),
        ] {
            let annotations = value.map(|value| json!({LIMIT_MODE: value}));
            let object = crate::vpa::parse(json!({
                "metadata": {"name": "web", "namespace": "shop", "annotations": annotations},
                "spec": {"targetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}},
            }));
            let found = limit_modes(&object.expect("an object"));
            if let Err(error) = &found {
                assert!(error.starts_with("annotation plimsoll.dev/limit-mode: "));
                assert!(error.len() < 400, "{error}");
            }
            assert_eq!(
                found.ok(),
                expected.and_then(LimitModes::parse),
                "{value:?}"
            );
        }
    }
}
