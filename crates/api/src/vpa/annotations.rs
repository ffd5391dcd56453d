//! Annotations of a `VerticalPodAutoscaler`: the group of nodes to which one of a `DaemonSet` is
//! restricted, and the handling of resources by which a `HorizontalPodAutoscaler` (HPA) scales.
//!
//! A pod has no labels of its node. The webhook copies the label of the group to pods that are being
//! created, under a key of its own; the selector of the object requires that label.

use model::{Requirement, Selector, is_label_name, is_label_value};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::VerticalPodAutoscaler;
use crate::WellKnown;

/// Annotation that users set on a VPA: LABEL=VALUE of the nodes whose pods of a DaemonSet it sizes;
/// see docs/sizing.md#node-groups-of-a-daemonset.
pub const NODE_GROUP: &str = "plimsoll.dev/node-group";

/// Annotation that `plimsoll revert` writes on a VPA or sizing policy: the mode that `plimsoll resume` gives
/// it again, empty for the default; see docs/safety.md#back-to-the-templates.
pub const MODE_BEFORE_REVERT: &str = "plimsoll.dev/mode-before-revert";

const POD_LABEL_PREFIX: &str = "node-group.plimsoll.dev";
/// Maximum length of an invalid value in an error, in characters.
const MAX_VALUE: usize = 40;

/// The nodes with one label. Borrowed, since a tenant can write many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeGroup<'a> {
    node_label: &'a str,
    value: &'a str,
}

impl<'a> NodeGroup<'a> {
    /// The group in the annotation of an object; `None` without the annotation. The error names the
    /// annotation.
    pub fn of(object: &'a VerticalPodAutoscaler) -> Option<Result<Self, String>> {
        let text = Self::annotation(object)?;
        let group = Self::parse(text, &object.spec.target_ref.kind);
        Some(group.map_err(|error| {
            let text = shortened(text);
            format!("annotation {NODE_GROUP}: {text:?}: {error}; the object sizes nothing")
        }))
    }

    /// The value of the annotation.
    pub fn annotation(object: &'a VerticalPodAutoscaler) -> Option<&'a str> {
        let annotations = object.metadata.annotations.as_ref()?;
        annotations.get(NODE_GROUP).map(String::as_str)
    }

    /// Parses the value of the annotation of an object with a target of this kind.
    pub fn parse(text: &'a str, target_kind: &str) -> Result<Self, String> {
        if target_kind != WellKnown::DaemonSet.kind() {
            let kind = shortened(target_kind);
            return Err(format!("the target must be a DaemonSet, not {kind:?}"));
        }
        match text.split_once('=') {
            Some((node_label, value))
                if is_label_name(node_label)
                    && is_label_name(&pod_label(node_label))
                    && is_label_value(value) =>
            {
                Ok(Self { node_label, value })
            }
            _ => Err("must be LABEL=VALUE, a label of nodes".to_owned()),
        }
    }

    /// The name of the nodes' label.
    pub fn node_label(&self) -> &'a str {
        self.node_label
    }

    /// The name of the label of pods on these nodes. No two labels of nodes have the same.
    pub fn pod_label(&self) -> String {
        pod_label(self.node_label)
    }

    /// The value of both labels.
    pub fn value(&self) -> &'a str {
        self.value
    }

    /// Restricts the selector of an object's target to the group in its annotation: to no pod if the
    /// annotation is invalid.
    pub fn restrict(selector: Selector, object: &'a VerticalPodAutoscaler) -> Selector {
        match Self::of(object) {
            None => selector,
            Some(Ok(group)) => {
                let values = [group.value.to_owned()].into();
                selector.and(Requirement::In(group.pod_label(), values))
            }
            Some(Err(_)) => Selector::nothing(),
        }
    }

    /// Whether the group in an object's annotation includes a pod, so far as the target selects it.
    /// `label` returns the value of a label of the pod.
    pub fn includes<'b>(
        object: &'a VerticalPodAutoscaler,
        label: impl Fn(&str) -> Option<&'b str>,
    ) -> bool {
        match Self::of(object) {
            None => true,
            Some(Ok(group)) => label(&group.pod_label()) == Some(group.value),
            Some(Err(_)) => false,
        }
    }
}

fn pod_label(node_label: &str) -> String {
    match node_label.split_once('/') {
        None => format!("{POD_LABEL_PREFIX}/{node_label}"),
        Some((prefix, name)) => format!("{prefix}.{POD_LABEL_PREFIX}/{name}"),
    }
}

pub(crate) fn shortened(text: &str) -> String {
    text.chars().take(MAX_VALUE).collect()
}

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
    use model::Labels;
    use serde_json::json;

    use super::*;

    fn object(kind: &str, value: Option<&str>) -> VerticalPodAutoscaler {
        let annotations = value.map(|value| json!({NODE_GROUP: value}));
        let object = crate::vpa::parse(json!({
            "metadata": {"name": "logs", "namespace": "shop", "annotations": annotations},
            "spec": {"targetRef": {"apiVersion": "apps/v1", "kind": kind, "name": "logs"}},
        }));
        object.expect("an object")
    }

    #[test]
    fn the_annotation_names_one_label_of_nodes_of_a_daemon_set() {
        let long = "é".repeat(300_000);
        let name = "a".repeat(63);
        let prefix = "a.".repeat(114) + "a";
        let longest = format!("{prefix}/{name}={name}");
        let longest_label = format!("{prefix}.node-group.plimsoll.dev/{name}");
        let too_long = format!("a.{prefix}/{name}=x");
        let pool = ("node-group.plimsoll.dev/pool", "big");
        for (kind, value, expected) in [
            ("DaemonSet", "pool=big", Some(pool)),
            ("DaemonSet", "pool=", Some((pool.0, ""))),
            (
                "DaemonSet",
                "node.kubernetes.io/instance-type=m5.large",
                Some((
                    "node.kubernetes.io.node-group.plimsoll.dev/instance-type",
                    "m5.large",
                )),
            ),
            (
                "DaemonSet",
                &longest,
                Some((longest_label.as_str(), name.as_str())),
            ),
            ("DaemonSet", &too_long, None),
            ("DaemonSet", "pool", None),
            ("DaemonSet", "", None),
            ("DaemonSet", "=big", None),
            ("DaemonSet", "pool=big,zone=a", None),
            ("DaemonSet", "pool==big", None),
            ("DaemonSet", " pool=big", None),
            ("DaemonSet", "/pool=big", None),
            ("DaemonSet", &long, None),
            ("Deployment", "pool=big", None),
            ("daemonset", "pool=big", None),
            (&long, "pool=big", None),
        ] {
            let object = object(kind, Some(value));
            let found = NodeGroup::of(&object).expect("an annotation");
            if let Err(error) = &found {
                assert!(error.starts_with("annotation plimsoll.dev/node-group: "));
                assert!(error.len() < 400, "{error}");
            }
            let found = found.ok();
            let label = found.map(|group| (group.pod_label(), group.value()));
            let label = label
                .as_ref()
                .map(|(label, value)| (label.as_str(), *value));
            assert_eq!(label, expected);
            if let Some((label, value)) = label {
                assert!(is_label_name(label) && is_label_value(value));
            }
        }
        assert_eq!(NodeGroup::of(&object("Deployment", None)), None);
    }

    #[test]
    fn the_selector_requires_the_label_and_an_invalid_annotation_selects_nothing() {
        let [plain, big, small] = [None, Some("big"), Some("small")].map(|pool| {
            let pool = pool.map(|pool| ("node-group.plimsoll.dev/pool", pool));
            [("app", "logs")]
                .into_iter()
                .chain(pool)
                .collect::<Labels>()
        });
        for (kind, value, expected) in [
            ("DaemonSet", None, [true; 3]),
            ("Deployment", None, [true; 3]),
            ("DaemonSet", Some("pool=big"), [false, true, false]),
            ("DaemonSet", Some("pool"), [false; 3]),
            ("Deployment", Some("pool=big"), [false; 3]),
        ] {
            let object = object(kind, value);
            let all = Selector::match_labels([("app", "logs")]);
            let selector = NodeGroup::restrict(all, &object);
            let selects = |labels: &Labels| {
                let matches = selector.matches(labels);
                let includes = NodeGroup::includes(&object, |key| labels.get(key));
                assert_eq!(matches, includes, "{kind} {value:?} {labels}");
                matches
            };
            assert_eq!([&plain, &big, &small].map(selects), expected, "{value:?}");
        }
    }

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
