//! Detection of tools that install objects, of which most revert changes by others.

use kube::core::ObjectMeta;

/// Annotation or label that a tool sets on installed objects.
struct Mark {
    key: &'static str,
    /// The only value that counts; `None` for any.
    value: Option<&'static str>,
    /// Name of its unit of installation, which is the value.
    unit: &'static str,
    /// Whether the tool reverts changes.
    reverts: bool,
}

const fn mark(key: &'static str, unit: &'static str) -> Mark {
    Mark {
        key,
        value: None,
        unit,
        reverts: true,
    }
}

/// The tools. What none of them marks is taken for no tool's.
const MARKS: [Mark; 10] = [
    Mark {
        // Helm changes objects only when people do.
        reverts: false,
        ..mark("meta.helm.sh/release-name", "the Helm release")
    },
    mark("argocd.argoproj.io/tracking-id", "the Argo CD application"),
    mark("argocd.argoproj.io/instance", "the Argo CD application"),
    mark("kustomize.toolkit.fluxcd.io/name", "the Flux kustomization"),
    mark("helm.toolkit.fluxcd.io/name", "the Flux release"),
    mark("olm.owner", "the operator lifecycle manager's"),
    mark("objectset.rio.cattle.io/id", "the Fleet bundle"),
    mark("kapp.k14s.io/app", "the kapp application"),
    Mark {
        value: Some("enabled"),
        ..mark("configmanagement.gke.io/managed", "Config Sync")
    },
    Mark {
        value: Some("Reconcile"),
        ..mark("addonmanager.kubernetes.io/mode", "the addon manager")
    },
];

/// Field manager of a tool, and the tool's name. Argo CD's only mark may be a common label.
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
    marks(metadata).map(|(mark, name)| {
        if mark.value.is_some() {
            return mark.unit.to_owned();
        }
        let name: String = name.chars().take(MOST_CHARACTERS).collect();
        format!("{} {name}", mark.unit)
    })
}

/// Whether an object belongs to a tool that reverts changes by others.
pub fn is_reverted(metadata: &ObjectMeta) -> bool {
    marks(metadata).any(|(mark, _)| mark.reverts)
}

fn marks(metadata: &ObjectMeta) -> impl Iterator<Item = (&'static Mark, &str)> {
    let all = metadata
        .annotations
        .iter()
        .chain(metadata.labels.iter())
        .flatten();
    all.filter_map(|(key, value)| {
        let found = MARKS.iter().find(|mark| mark.key == key)?;
        let counts = found.value.is_none_or(|expected| expected == value);
        counts.then_some((found, value.as_str()))
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
    fn each_tool_is_known_by_its_mark() {
        for (key, value, expected, is_reverted_by_it) in [
            (
                "meta.helm.sh/release-name",
                "web",
                "the Helm release web",
                false,
            ),
            (
                "argocd.argoproj.io/tracking-id",
                "web",
                "the Argo CD application web",
                true,
            ),
            (
                "argocd.argoproj.io/instance",
                "web",
                "the Argo CD application web",
                true,
            ),
            (
                "kustomize.toolkit.fluxcd.io/name",
                "web",
                "the Flux kustomization web",
                true,
            ),
            (
                "helm.toolkit.fluxcd.io/name",
                "web",
                "the Flux release web",
                true,
            ),
            (
                "olm.owner",
                "web",
                "the operator lifecycle manager's web",
                true,
            ),
            (
                "objectset.rio.cattle.io/id",
                "web",
                "the Fleet bundle web",
                true,
            ),
            ("kapp.k14s.io/app", "web", "the kapp application web", true),
            (
                "configmanagement.gke.io/managed",
                "enabled",
                "Config Sync",
                true,
            ),
            ("configmanagement.gke.io/managed", "disabled", "", false),
            (
                "addonmanager.kubernetes.io/mode",
                "Reconcile",
                "the addon manager",
                true,
            ),
            ("addonmanager.kubernetes.io/mode", "EnsureExists", "", false),
            ("app.kubernetes.io/instance", "web", "", false),
        ] {
            for field in ["annotations", "labels"] {
                let metadata = json!({field: {key: value}});
                let metadata: ObjectMeta = serde_json::from_value(metadata).expect("metadata");
                let found: Vec<_> = installations(&metadata).collect();
                assert_eq!(found.join(", "), expected, "{key}");
                assert_eq!(is_reverted(&metadata), is_reverted_by_it, "{key}: {value}");
            }
        }
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
