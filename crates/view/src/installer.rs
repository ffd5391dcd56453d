//! Detection of tools that install objects and revert changes by others: Helm, Argo CD, Flux and
//! the Operator Lifecycle Manager.

use kube::core::ObjectMeta;

/// Annotation or label that a tool sets on installed objects, and the name of its unit of
/// installation.
const MARKS: [(&str, &str); 5] = [
    ("meta.helm.sh/release-name", "the Helm release"),
    ("argocd.argoproj.io/tracking-id", "the Argo CD application"),
    ("kustomize.toolkit.fluxcd.io/name", "the Flux kustomization"),
    ("helm.toolkit.fluxcd.io/name", "the Flux release"),
    ("olm.owner", "the operator lifecycle manager's"),
];

/// Field manager of a tool, and the tool's name. Argo CD may set no mark but a label that others
/// use too.
const FIELD_MANAGERS: [(&str, &str); 5] = [
    ("helm", "Helm"),
    ("argocd-controller", "Argo CD"),
    ("argocd-application-controller", "Argo CD"),
    ("kustomize-controller", "Flux"),
    ("helm-controller", "Flux"),
];

/// Length limit of a quoted name, in characters.
const MOST_CHARACTERS: usize = 100;

/// Returns the installations that an object belongs to by its annotations and labels, such as
/// `the Helm release web`.
pub fn installations(metadata: &ObjectMeta) -> impl Iterator<Item = String> {
    let marks = metadata
        .annotations
        .iter()
        .chain(metadata.labels.iter())
        .flatten();
    marks.filter_map(|(key, name)| {
        let (_, unit) = MARKS.iter().find(|(mark, _)| mark == key)?;
        let name: String = name.chars().take(MOST_CHARACTERS).collect();
        Some(format!("{unit} {name}"))
    })
}

/// Returns the tool that wrote an object, by its managed fields. The objects of a
/// [`View`](crate::View) have none.
pub fn installing_writer(metadata: &ObjectMeta) -> Option<&'static str> {
    let managers = metadata
        .managed_fields
        .iter()
        .flatten()
        .filter_map(|entry| entry.manager.as_deref());
    managers.into_iter().find_map(|manager| {
        let (_, tool) = FIELD_MANAGERS.iter().find(|(known, _)| *known == manager)?;
        Some(*tool)
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn check(metadata: &Value, expected: &[&str], writer: Option<&str>) {
        let metadata: ObjectMeta = serde_json::from_value(metadata.clone()).expect("metadata");
        assert!(
            installations(&metadata).eq(expected.iter().copied()),
            "{metadata:?}"
        );
        assert_eq!(installing_writer(&metadata), writer, "{metadata:?}");
    }

    #[test]
    fn marks_and_field_managers_name_the_tool() {
        check(&json!({}), &[], None);
        let other = json!({"labels": {"app.kubernetes.io/managed-by": "kubectl"}});
        check(&other, &[], None);
        let helm = json!({"annotations": {"meta.helm.sh/release-name": "web"}});
        check(&helm, &["the Helm release web"], None);
        let olm = json!({"labels": {"olm.owner": "keda.v2"}});
        check(&olm, &["the operator lifecycle manager's keda.v2"], None);
        let entries = |managers: &[&str]| json!({"managedFields": managers.iter().map(|name| json!({"manager": name})).collect::<Vec<_>>()});
        check(&entries(&["kubectl", "kube-controller-manager"]), &[], None);
        let argo = entries(&["kubectl", "argocd-controller"]);
        check(&argo, &[], Some("Argo CD"));
    }
}
