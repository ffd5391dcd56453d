//! Names, labels and annotations of the objects that an EHPA owns. All of them are Crane's, so that
//! its objects are recognised.

use std::collections::BTreeMap;

use api::ehpa::{ADOPT, ADOPTED_BY, Adopter, EffectiveHorizontalPodAutoscaler, adopted_by};
use api::prediction::RECOMMENDER_ANNOTATION;
use api::vpa::DEFAULT_RECOMMENDER;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::core::ObjectMeta;
use kube::{Resource as _, ResourceExt as _};
use model::is_label_value;
use view::MANAGED_BY;

/// Label that Plimsoll writes on an HPA, a Substitute and a prediction: UID of the EHPA; Crane's.
pub(super) const UID_LABEL: &str = "autoscaling.crane.io/effective-hpa-uid";
/// Annotation that users set on an EHPA: query for the history of the metric whose identifier
/// follows; see docs/predictions.md#history-by-rules-of-prometheus-adapter.
const QUERY_ANNOTATION: &str = "metric-query.autoscaling.crane.io/";
pub(super) const PREDICTION_METRIC: &str = "crane_autoscaling_prediction";
pub(super) const CRON_METRIC: &str = "crane_autoscaling_cron";

/// Message about a target that a label selector cannot name.
pub(super) const TARGET_UNNAMEABLE: &str =
    "the workload's name is not a valid label value, so the HPA cannot select the metric";

/// Labels and annotations of an EHPA that are copied to the objects that it owns.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Propagation {
    pub label_prefixes: Vec<String>,
    pub labels: Vec<String>,
    pub annotation_prefixes: Vec<String>,
    pub annotations: Vec<String>,
}

pub fn owned_name(object: &EffectiveHorizontalPodAutoscaler) -> String {
    format!("ehpa-{}", object.name_any())
}

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
    let own_labels = [
        ("app.kubernetes.io/name", owned_name(object)),
        ("app.kubernetes.io/part-of", object.name_any()),
        (MANAGED_BY.0, MANAGED_BY.1.to_owned()),
        (UID_LABEL, object.uid().unwrap_or_default()),
    ];
    // The API server rejects labels with long values, such as that of a long name. No lookup uses
    // them.
    let own_labels = own_labels.into_iter().filter(|(_, it)| is_label_value(it));
    passed_labels.extend(own_labels.map(|(key, value)| (key.to_owned(), value)));
    let annotations = passed(object.annotations(), annotation_prefixes, annotations);
    ObjectMeta {
        name: Some(owned_name(object)),
        namespace: object.namespace(),
        labels: Some(passed_labels),
        annotations: Some(annotations).filter(|annotations| !annotations.is_empty()),
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
        let mut prefixes = prefixes.iter();
        keys.contains(key) || prefixes.any(|prefix| key.starts_with(prefix.as_str()))
    };
    let mut passed = all.clone();
    passed.retain(|key, _| is_passed(key));
    passed
}

/// With this owner the garbage collector deletes the object after the EHPA. The workload stays as
/// it is.
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

pub(crate) fn controller(metadata: &ObjectMeta) -> Option<&OwnerReference> {
    let mut owners = metadata.owner_references.iter().flatten();
    owners.find(|owner| owner.controller == Some(true))
}

pub(super) fn is_owned(metadata: &ObjectMeta, object: &EffectiveHorizontalPodAutoscaler) -> bool {
    let uid = object.uid().unwrap_or_default();
    !uid.is_empty() && controller(metadata).is_some_and(|owner| owner.uid == uid)
}

/// Metadata of an HPA that an EHPA adopts: its own and the annotation of the adopter.
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

/// Whether an EHPA adopted an HPA. One that now has a controller belongs to that.
pub(super) fn is_adopted(metadata: &ObjectMeta, object: &EffectiveHorizontalPodAutoscaler) -> bool {
    let adopter = metadata.annotations.as_ref().and_then(Adopter::of);
    controller(metadata).is_none()
        && adopter.is_some_and(|adopter| object.metadata.uid.as_deref() == Some(adopter.uid))
}

/// Whether an annotation allows the EHPA to adopt the HPA of this name though a tool installed it.
pub fn may_adopt(object: &EffectiveHorizontalPodAutoscaler, name: &str) -> bool {
    let named = object.annotations().get(ADOPT);
    named.is_some_and(|named| named == name)
}

pub(crate) fn ehpa_owner(metadata: &ObjectMeta) -> Option<&str> {
    let kind = EffectiveHorizontalPodAutoscaler::kind(&());
    if let Some(owner) = controller(metadata) {
        return (owner.kind == kind).then_some(owner.name.as_str());
    }
    let adopter = metadata.annotations.as_ref().and_then(Adopter::of);
    adopter.map(|adopter| adopter.name)
}

/// Name of the recommender responsible for an EHPA.
pub(crate) fn recommender(object: &EffectiveHorizontalPodAutoscaler) -> &str {
    let name = object.annotations().get(RECOMMENDER_ANNOTATION);
    name.map_or(DEFAULT_RECOMMENDER, String::as_str)
}

/// Query for the history of a metric from an annotation of the EHPA.
pub(super) fn query<'a>(
    object: &'a EffectiveHorizontalPodAutoscaler,
    identifier: &str,
) -> Option<&'a str> {
    let key = format!("{QUERY_ANNOTATION}{identifier}");
    object.annotations().get(&key).map(String::as_str)
}

/// Labels that select a metric of the EHPA's target.
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
