//! Desired object for a workload, its name, and the patch of an existing one.
//!
//! The policy owns the specification, two labels, the annotations of the sizing policy and the
//! owner reference. All other fields stay as they are.
//!
//! The name is `plimsoll-KIND-NAME`, so that workloads of two kinds with the same name have different
//! objects. Checkpoints are named `NAME-CONTAINER`, with at most 253 characters, 63 of them for the
//! container. Longer names are cut and end with a hash.

use std::collections::BTreeMap;

use api::limit_mode::LIMIT_MODE;
use api::rollback::WAVE_QUERY;
use api::sizing_policy::{API_VERSION, POLICY_LABEL, Sizing, SizingPolicySpec, UPDATES_SINCE};
use api::vpa::{
    CrossVersionObjectReference, HPA_ANNOTATION, HpaMode, PodUpdatePolicy, RecommenderSelector,
    VerticalPodAutoscaler, VerticalPodAutoscalerSpec,
};
use json_patch::jsonptr::PointerBuf;
use json_patch::{AddOperation, Patch, PatchOperation, RemoveOperation, TestOperation};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::core::ObjectMeta;
use model::{Workload, fnv1a};
use serde_json::Value;
use sizing::SIZING_PREFIX;
use view::{ObjectKey, Policy, Vpa, WellKnown};

use crate::schedulable::CAP_TO_SCHEDULABLE;

/// Label of objects that this program creates.
const MANAGED_BY: (&str, &str) = ("app.kubernetes.io/managed-by", "plimsoll");
const GROUP_PREFIX: &str = "plimsoll.dev/";

/// The annotations that select the sizing policy and the mode next to an HPA. The default mode of
/// an object of a policy needs no annotation.
pub(super) fn annotations(spec: &SizingPolicySpec) -> BTreeMap<String, String> {
    let hpa = spec.hpa.filter(|mode| *mode != HpaMode::default());
    let hpa = hpa.map(|mode| (HPA_ANNOTATION.to_owned(), mode.as_str().to_owned()));
    let default = Sizing::default();
    let sizing = spec.sizing.as_ref().unwrap_or(&default);
    sizing_annotations(sizing).chain(hpa).collect()
}

fn sizing_annotations(sizing: &Sizing) -> impl Iterator<Item = (String, String)> {
    let method = sizing.policy.unwrap_or_default();
    let named = [
        ("policy", Some(method.as_str())),
        ("caution", sizing.caution.as_deref()),
    ];
    let settings = sizing
        .settings
        .iter()
        .map(|(key, value)| (key.as_str(), value.as_str()));
    // The fields come last: they take precedence over settings of the same name.
    settings
        .chain(
            named
                .into_iter()
                .filter_map(|(key, value)| Some((key, value?))),
        )
        .map(|(key, value)| (format!("{SIZING_PREFIX}{key}"), value.to_owned()))
}

fn all_annotations(spec: &SizingPolicySpec) -> BTreeMap<String, String> {
    let limit_mode = spec.limit_mode.clone();
    let limit_mode = limit_mode.map(|mode| (LIMIT_MODE.to_owned(), mode));
    let cap = spec.cap_to_schedulable.clone();
    let cap = cap.map(|sources| (CAP_TO_SCHEDULABLE.to_owned(), sources));
    let wave_query = spec.wave_query.clone();
    let wave_query = wave_query.map(|query| (WAVE_QUERY.to_owned(), query));
    annotations(spec)
        .into_iter()
        .chain(limit_mode)
        .chain(cap)
        .chain(wave_query)
        .collect()
}

/// The UID of the policy that owns an object; `None` if no policy does.
pub(super) fn owner(vpa: &Vpa) -> Option<&str> {
    let mut references = vpa.object.metadata.owner_references.iter().flatten();
    Some(&references.find(|reference| is_policy(reference))?.uid)
}

pub(crate) fn is_of_policy(object: &VerticalPodAutoscaler) -> bool {
    let owners = object.metadata.owner_references.iter();
    owners.flatten().any(is_policy)
}

pub fn is_policy(reference: &OwnerReference) -> bool {
    reference.controller == Some(true)
        && reference.api_version.starts_with(GROUP_PREFIX)
        && matches!(
            reference.kind.as_str(),
            "SizingPolicy" | "ClusterSizingPolicy"
        )
}

pub(super) fn key(workload: Workload<'_>) -> ObjectKey {
    let name = object_name(workload.kind, custom_group(workload), workload.name);
    ObjectKey::new(workload.namespace, name)
}

pub(super) fn object(policy: &Policy, workload: Workload<'_>) -> VerticalPodAutoscaler {
    let annotations = all_annotations(&policy.spec);
    let ObjectKey { namespace, name } = key(workload);
    VerticalPodAutoscaler {
        metadata: ObjectMeta {
            name: Some(name),
            namespace: Some(namespace),
            labels: Some(labels(policy)),
            annotations: Some(annotations),
            owner_references: Some(vec![reference(policy)]),
            ..ObjectMeta::default()
        },
        spec: spec(&policy.spec, workload),
        status: None,
    }
}

fn labels(policy: &Policy) -> BTreeMap<String, String> {
    let ours = [MANAGED_BY, (POLICY_LABEL, policy.key.name.as_str())];
    ours.into_iter()
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .collect()
}

/// The owner reference. It does not block the deletion of the policy, which would need a right to
/// set finalizers.
fn reference(policy: &Policy) -> OwnerReference {
    OwnerReference {
        api_version: API_VERSION.to_owned(),
        kind: policy.kind().to_owned(),
        name: policy.key.name.clone(),
        uid: policy.uid.clone(),
        controller: Some(true),
        block_owner_deletion: None,
    }
}

fn spec(policy: &SizingPolicySpec, workload: Workload<'_>) -> VerticalPodAutoscalerSpec {
    let recommender = Some(&policy.recommender).filter(|name| !name.is_empty());
    VerticalPodAutoscalerSpec {
        target_ref: CrossVersionObjectReference {
            api_version: workload.api_version.to_owned(),
            kind: workload.kind.to_owned(),
            name: workload.name.to_owned(),
        },
        update_policy: Some(PodUpdatePolicy {
            update_mode: Some(policy.effective_update_mode()),
            min_replicas: policy.min_replicas,
            eviction_requirements: policy.eviction_requirements.clone(),
            evict_after_oom_seconds: policy.evict_after_oom_seconds,
        }),
        resource_policy: policy.resource_policy.clone(),
        recommenders: recommender
            .map(|name| RecommenderSelector { name: name.clone() })
            .into_iter()
            .collect(),
        startup_boost: policy.startup_boost.clone(),
    }
}

/// The patch from `seen` to `desired`; `None` without a difference. It tests the UID and the owner
/// references: an object whose owner reference was removed is no longer changed.
pub(super) fn changes(
    seen: &Vpa,
    desired: &VerticalPodAutoscaler,
) -> Result<Option<Patch>, serde_json::Error> {
    let (metadata, new) = (&seen.object.metadata, &desired.metadata);
    let mut operations = Vec::new();
    let owners = replaced(
        metadata.owner_references.as_deref(),
        new.owner_references.as_deref(),
    );
    if Some(owners.as_slice()) != metadata.owner_references.as_deref() {
        operations.push(add(
            ["metadata", "ownerReferences"],
            serde_json::to_value(owners)?,
        ));
    }
    merge(
        &mut operations,
        "labels",
        metadata.labels.as_ref(),
        new.labels.as_ref(),
        |_| false,
    );
    let of_fields = [
        HPA_ANNOTATION,
        LIMIT_MODE,
        CAP_TO_SCHEDULABLE,
        WAVE_QUERY,
        UPDATES_SINCE,
    ];
    merge(
        &mut operations,
        "annotations",
        metadata.annotations.as_ref(),
        new.annotations.as_ref(),
        |key| key.starts_with(SIZING_PREFIX) || of_fields.contains(&key),
    );
    if seen.object.spec != desired.spec {
        operations.push(add(["spec"], serde_json::to_value(&desired.spec)?));
    }
    if operations.is_empty() {
        return Ok(None);
    }
    let tests = [
        test(["metadata", "uid"], seen.uid().into()),
        test(
            ["metadata", "ownerReferences"],
            serde_json::to_value(&metadata.owner_references)?,
        ),
    ];
    Ok(Some(Patch(tests.into_iter().chain(operations).collect())))
}

/// The owner references, with the policy replaced by the one that has the workload now.
fn replaced(
    seen: Option<&[OwnerReference]>,
    desired: Option<&[OwnerReference]>,
) -> Vec<OwnerReference> {
    let new = desired.unwrap_or_default();
    let same = |old: &OwnerReference| {
        new.iter()
            .any(|new| new.uid == old.uid && new.name == old.name)
    };
    let seen = seen.unwrap_or_default();
    if seen.iter().any(|old| is_policy(old) && same(old)) {
        return seen.to_vec();
    }
    seen.iter()
        .filter(|old| !is_policy(old))
        .chain(new)
        .cloned()
        .collect()
}

/// Adds desired entries, and removes entries that the policy owns and no longer desires.
fn merge(
    operations: &mut Vec<PatchOperation>,
    field: &str,
    seen: Option<&BTreeMap<String, String>>,
    desired: Option<&BTreeMap<String, String>>,
    is_ours: impl Fn(&str) -> bool,
) {
    let nothing = BTreeMap::new();
    let (before, desired) = (seen.unwrap_or(&nothing), desired.unwrap_or(&nothing));
    let missing = desired
        .iter()
        .filter(|(key, value)| before.get(*key) != Some(value));
    if seen.is_none() && !desired.is_empty() {
        operations.push(add(["metadata", field], serde_json::json!(desired)));
    } else {
        operations.extend(
            missing.map(|(key, value)| add(["metadata", field, key], value.as_str().into())),
        );
    }
    let dropped = before
        .keys()
        .filter(|key| is_ours(key) && !desired.contains_key(*key));
    operations.extend(dropped.map(|key| {
        PatchOperation::Remove(RemoveOperation {
            path: PointerBuf::from_tokens(["metadata", field, key.as_str()]),
        })
    }));
}

fn add<const N: usize>(path: [&str; N], value: Value) -> PatchOperation {
    PatchOperation::Add(AddOperation {
        path: PointerBuf::from_tokens(path),
        value,
    })
}

fn test<const N: usize>(path: [&str; N], value: Value) -> PatchOperation {
    PatchOperation::Test(TestOperation {
        path: PointerBuf::from_tokens(path),
        value,
    })
}

const PREFIX: &str = "plimsoll";
/// Maximum length of a name.
const MAX: usize = 253 - 63 - 1;
/// Hexadecimal digits of the hash.
const DIGITS: usize = 16;

/// The name for a workload. `group` is that of a kind which is not Kubernetes' own: two groups may
/// have a kind of the same name.
pub(super) fn object_name(kind: &str, group: Option<&str>, workload: &str) -> String {
    let kind = kind.to_ascii_lowercase();
    let whole = match group {
        None => format!("{PREFIX}-{kind}-{workload}"),
        Some(group) => format!(
            "{PREFIX}-{kind}.{:0DIGITS$x}-{workload}",
            fnv1a(group.as_bytes())
        ),
    };
    // A name that is as long as a cut one is cut too, so that the two cannot be equal.
    if whole.len() < MAX {
        return whole;
    }
    let kept = whole
        .get(..MAX - DIGITS - 1)
        .unwrap_or_default()
        .trim_end_matches(['-', '.']);
    format!("{kept}-{:0DIGITS$x}", fnv1a(whole.as_bytes()))
}

/// The API group of a workload of another kind than Kubernetes' own.
pub(super) fn custom_group(workload: Workload<'_>) -> Option<&str> {
    if WellKnown::of_kind(workload.kind).is_some() {
        return None;
    }
    let group = workload.api_version.rsplit_once('/');
    Some(group.map_or("", |(group, _)| group))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(kind: &str, workload: &str, expected: &str) {
        assert_eq!(object_name(kind, None, workload), expected);
    }

    #[test]
    fn kinds_keep_workloads_of_one_name_apart() {
        check("Deployment", "web", "plimsoll-deployment-web");
        check("StatefulSet", "web", "plimsoll-statefulset-web");
        let of = |group| object_name("Rollout", Some(group), "web");
        assert_eq!(of("argoproj.io"), "plimsoll-rollout.e8c5a380cfb106f7-web");
        assert_ne!(of("argoproj.io"), of("example.com"));
    }

    #[test]
    fn a_long_name_is_cut_and_stays_its_own() {
        let long = |last: char| "a".repeat(252) + &last.to_string();
        let (one, other) = (
            object_name("Deployment", None, &long('b')),
            object_name("Deployment", None, &long('c')),
        );
        assert_eq!((one.len(), other.len()), (MAX, MAX));
        assert_ne!(one, other);
        let dotted = object_name("Deployment", None, &(".a".repeat(100)));
        assert!(dotted.len() <= MAX && !dotted.contains(".-"), "{dotted}");
    }
}
