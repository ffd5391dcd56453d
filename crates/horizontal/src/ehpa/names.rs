//! Names, labels and annotations of what an effective autoscaler owns. All of them are Crane's, so
//! that its objects are found again.

use std::collections::BTreeMap;

use api::ehpa::{ADOPT, ADOPTED_BY, Adopter, EffectiveHorizontalPodAutoscaler, adopted_by};
use api::vpa::DEFAULT_RECOMMENDER;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::core::ObjectMeta;
use kube::{Resource as _, ResourceExt as _};
use view::MANAGED_BY;

/// Tells an object that belongs to an effective autoscaler, by its uid.
pub(super) const UID_LABEL: &str = "autoscaling.crane.io/effective-hpa-uid";
/// Annotations that say how the history of a metric is asked for, followed by a slash and the
/// metric's identifier.
const QUERY_ANNOTATION: &str = "metric-query.autoscaling.crane.io/";
/// Annotation that names the recommender in charge of an effective autoscaler; the one called
/// default unless it is there.
const RECOMMENDER: &str = "plimsoll.dev/recommender";
/// The external metric of what is expected.
pub(super) const PREDICTION_METRIC: &str = "crane_autoscaling_prediction";
/// The external metric of windows of time.
pub(super) const CRON_METRIC: &str = "crane_autoscaling_cron";

/// Why nothing can be asked for.
pub(super) const TARGET_UNNAMEABLE: &str =
    "the name of the workload, by which the autoscaler would ask, is no value of a label";

/// Which labels and annotations of an effective autoscaler are passed on to what it owns.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Propagation {
    /// Labels of which the key begins so.
    pub label_prefixes: Vec<String>,
    /// Labels with these keys.
    pub labels: Vec<String>,
    /// Annotations of which the key begins so.
    pub annotation_prefixes: Vec<String>,
    /// Annotations with these keys.
    pub annotations: Vec<String>,
}

/// The name of everything that belongs to an object.
pub fn owned_name(object: &EffectiveHorizontalPodAutoscaler) -> String {
    format!("ehpa-{}", object.name_any())
}

/// Metadata of something that belongs to an object.
pub(super) fn metadata(
    object: &EffectiveHorizontalPodAutoscaler,
    propagation: &Propagation,
) -> ObjectMeta {
    let Propagation {
        label_prefixes,
        labels,
        annotation_prefixes,
        annotations,
    } = propagation;
    let mut passed_labels = passed(object.labels(), label_prefixes, labels);
    // The server refuses an object with a label that is too long, as that of a long name is;
    // nothing is found by it.
    passed_labels.extend(
        own_labels(object)
            .into_iter()
            .filter(|(_, value)| is_label_value(value)),
    );
    ObjectMeta {
        name: Some(owned_name(object)),
        namespace: object.namespace(),
        labels: Some(passed_labels),
        annotations: Some(passed(
            object.annotations(),
            annotation_prefixes,
            annotations,
        ))
        .filter(|annotations| !annotations.is_empty()),
        owner_references: Some(vec![owner(object)]),
        ..ObjectMeta::default()
    }
}

fn passed(
    all: &BTreeMap<String, String>,
    prefixes: &[String],
    keys: &[String],
) -> BTreeMap<String, String> {
    let is_passed = |key: &String| {
        keys.contains(key)
            || prefixes
                .iter()
                .any(|prefix| key.starts_with(prefix.as_str()))
    };
    all.iter()
        .filter(|(key, _)| is_passed(key))
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect()
}

fn own_labels(object: &EffectiveHorizontalPodAutoscaler) -> [(String, String); 4] {
    [
        ("app.kubernetes.io/name", owned_name(object)),
        ("app.kubernetes.io/part-of", object.name_any()),
        (MANAGED_BY.0, MANAGED_BY.1.to_owned()),
        (UID_LABEL, object.uid().unwrap_or_default()),
    ]
    .map(|(key, value)| (key.to_owned(), value))
}

/// The API server removes what the object owned once the object is gone; the workload stays as it
/// is.
fn owner(object: &EffectiveHorizontalPodAutoscaler) -> OwnerReference {
    OwnerReference {
        api_version: EffectiveHorizontalPodAutoscaler::api_version(&()).into_owned(),
        kind: EffectiveHorizontalPodAutoscaler::kind(&()).into_owned(),
        name: object.name_any(),
        uid: object.uid().unwrap_or_default(),
        controller: Some(true),
        block_owner_deletion: Some(true),
    }
}

/// Whether something belongs to an object.
pub(super) fn is_owned(metadata: &ObjectMeta, object: &EffectiveHorizontalPodAutoscaler) -> bool {
    let uid = object.uid().unwrap_or_default();
    let references = metadata.owner_references.iter().flatten();
    !uid.is_empty()
        && references
            .into_iter()
            .any(|owner| owner.controller == Some(true) && owner.uid == uid)
}

/// Metadata of a native autoscaler that an object adopts: it keeps its own, and has the annotation
/// of its adopter in addition.
pub(super) fn adopted_metadata(
    object: &EffectiveHorizontalPodAutoscaler,
    name: &str,
) -> ObjectMeta {
    ObjectMeta {
        name: Some(name.to_owned()),
        namespace: object.namespace(),
        annotations: Some([(ADOPTED_BY.to_owned(), adopted_by(object))].into()),
        ..ObjectMeta::default()
    }
}

/// Whether an object adopted a native autoscaler. One that got a controller since is the
/// controller's.
pub(super) fn is_adopted(metadata: &ObjectMeta, object: &EffectiveHorizontalPodAutoscaler) -> bool {
    let is_controlled = metadata
        .owner_references
        .iter()
        .flatten()
        .any(|owner| owner.controller == Some(true));
    let adopter = metadata.annotations.as_ref().and_then(Adopter::of);
    !is_controlled
        && adopter.is_some_and(|adopter| object.metadata.uid.as_deref() == Some(adopter.uid))
}

/// Whether an object may adopt the native autoscaler of this name even if a tool installed it.
pub fn may_adopt(object: &EffectiveHorizontalPodAutoscaler, name: &str) -> bool {
    object
        .annotations()
        .get(ADOPT)
        .is_some_and(|named| named == name)
}

/// The name of the object that controls or adopted a native autoscaler.
pub(crate) fn ehpa_owner(metadata: &ObjectMeta) -> Option<&str> {
    let kind = EffectiveHorizontalPodAutoscaler::kind(&());
    match metadata
        .owner_references
        .iter()
        .flatten()
        .find(|owner| owner.controller == Some(true))
    {
        Some(owner) => (owner.kind == kind).then_some(owner.name.as_str()),
        None => metadata
            .annotations
            .as_ref()
            .and_then(Adopter::of)
            .map(|adopter| adopter.name),
    }
}

/// The recommender in charge of an object.
pub(crate) fn recommender(object: &EffectiveHorizontalPodAutoscaler) -> &str {
    object
        .annotations()
        .get(RECOMMENDER)
        .map_or(DEFAULT_RECOMMENDER, String::as_str)
}

/// How the user wants the history of a metric to be asked for.
pub(super) fn query<'a>(
    object: &'a EffectiveHorizontalPodAutoscaler,
    identifier: &str,
) -> Option<&'a str> {
    object
        .annotations()
        .get(&format!("{QUERY_ANNOTATION}{identifier}"))
        .map(String::as_str)
}

/// What selects the metrics of an object's target, as labels.
pub(super) fn target_labels(
    object: &EffectiveHorizontalPodAutoscaler,
    identifier: &str,
) -> BTreeMap<String, String> {
    let target = &object.spec.scale_target_ref;
    [
        ("targetKind", target.kind.clone()),
        ("targetName", target.name.clone()),
        ("targetNamespace", object.namespace().unwrap_or_default()),
        ("resourceIdentifier", identifier.to_owned()),
    ]
    .map(|(key, value)| (key.to_owned(), value))
    .into()
}

/// Whether a text may be the value of a label, as each value of a selector must.
pub(super) fn is_label_value(text: &str) -> bool {
    let is_end = |byte: Option<&u8>| byte.is_none_or(u8::is_ascii_alphanumeric);
    let bytes = text.as_bytes();
    bytes.len() <= 63
        && is_end(bytes.first())
        && is_end(bytes.last())
        && bytes
            .iter()
            .all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(byte))
}
