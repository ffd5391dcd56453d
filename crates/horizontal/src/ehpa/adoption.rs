//! Preconditions for changing an existing object, and the annotations of adoption.

use api::ehpa::{ADOPT, ADOPTED_BY, ORIGINAL_SPEC};
use kube::ResourceExt as _;
use kube::core::{DynamicObject, ObjectMeta};
use view::{installations, installing_writer};

use super::names::controller;

/// Maximum length of an annotation in a message, in characters.
const MAX_VALUE: usize = 100;

/// Existing objects that a write may change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Writable {
    /// Objects that the EHPA created or adopted.
    Own,
    /// In addition, an HPA without a controller, to adopt it.
    Adopt {
        /// Whether a tool such as Helm may have installed it.
        installed: bool,
    },
}

/// Returns the reason for which `there` must not be changed to the wanted object.
pub fn refusal(there: &DynamicObject, wanted: &ObjectMeta, writable: Writable) -> Option<String> {
    if let Some(controller) = controller(&there.metadata) {
        let mut owners = wanted.owner_references.iter().flatten();
        let is_own = owners.any(|owner| owner.uid == controller.uid);
        return (!is_own)
            .then(|| format!("is controlled by {} {}", controller.kind, controller.name));
    }
    if let Some(adopter) = there.annotations().get(ADOPTED_BY) {
        let wanted = wanted.annotations.as_ref();
        let is_own = wanted.and_then(|wanted| wanted.get(ADOPTED_BY)) == Some(adopter);
        let quoted = || adopter.chars().take(MAX_VALUE).collect::<String>();
        return (!is_own).then(|| format!("is adopted by {}", quoted()));
    }
    match writable {
        Writable::Own => Some("is not controlled by the EHPA".to_owned()),
        Writable::Adopt { installed: true } => None,
        Writable::Adopt { installed: false } => {
            let tool = || installing_writer(&there.metadata).map(str::to_owned);
            let installer = installations(&there.metadata).next().or_else(tool)?;
            let name = there.name_any();
            Some(format!(
                "is installed by {installer}: the annotation {ADOPT} set to {name} adopts it nevertheless"
            ))
        }
    }
}

/// Saves the spec of an object that is being adopted in an annotation. The annotation of an earlier
/// adoption is replaced.
pub fn with_original(mut there: DynamicObject, wanted: &ObjectMeta) -> DynamicObject {
    let wanted = wanted.annotations.as_ref();
    let is_wanted = wanted.is_some_and(|wanted| wanted.contains_key(ADOPTED_BY));
    if is_wanted && !there.annotations().contains_key(ADOPTED_BY) {
        let original = there.data["spec"].to_string();
        there
            .annotations_mut()
            .insert(ORIGINAL_SPEC.to_owned(), original);
    }
    there
}

/// The object as before its adoption. Its spec stays if it got a controller since, or if the
/// annotation is not valid JSON.
pub fn restored(mut there: DynamicObject) -> DynamicObject {
    there.annotations_mut().remove(ADOPTED_BY);
    let original = there.annotations_mut().remove(ORIGINAL_SPEC);
    there
        .metadata
        .annotations
        .take_if(|annotations| annotations.is_empty());
    if let Some(original) = original.filter(|_| controller(&there.metadata).is_none())
        && let Ok(spec @ serde_json::Value::Object(_)) = serde_json::from_str(&original)
    {
        there.data["spec"] = spec;
    }
    there
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn object(metadata: &Value, spec: &Value) -> DynamicObject {
        let mut object = json!({"metadata": {"name": "mine"}, "spec": spec});
        object["metadata"]
            .as_object_mut()
            .expect("metadata")
            .extend(metadata.as_object().cloned().unwrap_or_default());
        serde_json::from_value(object).expect("an object")
    }

    fn adopter(uid: &str) -> ObjectMeta {
        serde_json::from_value(
            json!({"name": "mine", "annotations": {ADOPTED_BY: format!("web/{uid}")}}),
        )
        .expect("one")
    }

    fn check(metadata: &Value, writable: Writable, expected: Option<&str>) {
        let found = refusal(&object(metadata, &json!({})), &adopter("u1"), writable);
        let is_so = match (&found, expected) {
            (Some(found), Some(expected)) => found.starts_with(expected),
            (found, expected) => found.as_deref() == expected,
        };
        assert!(is_so, "{metadata} {writable:?}: {found:?}");
    }

    #[test]
    fn foreign_objects_are_refused_and_installed_ones_need_an_annotation() {
        let owner = json!({"apiVersion": "keda.sh/v1alpha1", "kind": "ScaledObject", "name": "web", "uid": "s", "controller": true});
        let adopt = Writable::Adopt { installed: false };
        check(&json!({}), Writable::Own, Some("is not controlled"));
        check(&json!({}), adopt, None);
        check(
            &json!({"ownerReferences": [owner]}),
            adopt,
            Some("is controlled by ScaledObject web"),
        );
        check(
            &json!({"annotations": {ADOPTED_BY: "web/u1"}}),
            Writable::Own,
            None,
        );
        check(
            &json!({"annotations": {ADOPTED_BY: "web/u2"}}),
            adopt,
            Some("is adopted by web/u2"),
        );
        let helm = json!({"annotations": {"meta.helm.sh/release-name": "shop"}});
        check(
            &helm,
            adopt,
            Some("is installed by the Helm release shop: "),
        );
        check(&helm, Writable::Adopt { installed: true }, None);
        let argo = json!({"managedFields": [{"manager": "argocd-controller"}]});
        check(&argo, adopt, Some("is installed by Argo CD: "));
    }

    #[test]
    fn restoration_returns_the_original_spec_and_changes_nothing_else() {
        let (first, ours) = (json!({"maxReplicas": 3}), json!({"maxReplicas": 10}));
        let there = object(&json!({"labels": {"team": "a"}}), &first);
        let mut adopted = with_original(there.clone(), &adopter("u1"));
        adopted
            .annotations_mut()
            .insert(ADOPTED_BY.to_owned(), "web/u1".to_owned());
        adopted.data["spec"] = ours.clone();
        assert_eq!(
            with_original(adopted.clone(), &adopter("u1")),
            adopted,
            "the first one is kept"
        );
        assert_eq!(restored(adopted.clone()), there);

        let mut forged = adopted.clone();
        forged
            .annotations_mut()
            .insert(ORIGINAL_SPEC.to_owned(), "no JSON".to_owned());
        assert_eq!(restored(forged).data["spec"], ours);
        let owner = json!([{"apiVersion": "v1", "kind": "Other", "name": "o", "uid": "o", "controller": true}]);
        adopted.metadata.owner_references = serde_json::from_value(owner).expect("owners");
        let restored = restored(adopted);
        assert_eq!(
            (&restored.data["spec"], restored.metadata.annotations),
            (&ours, None)
        );
    }
}
