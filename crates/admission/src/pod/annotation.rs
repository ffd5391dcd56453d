//! The text of the annotation `vpaUpdates`:
//! `Pod resources updated by web: container 0: cpu request; container 1: memory request`.
//!
//! Source: upstream `pkg/admission-controller/resource/pod/patch/resource_updates.go`.

use crate::patch::ContainerPath;

/// The text about the patched containers with their items; `None` without any.
pub(super) fn updates_text(
    vpa: &str,
    containers: &[(ContainerPath, Vec<String>)],
) -> Option<String> {
    let containers = containers.iter();
    let containers = containers.map(|(path, items)| format!("{path}: {}", items.join(", ")));
    let containers: Vec<String> = containers.collect();
    let text = format!("Pod resources updated by {vpa}: {}", containers.join("; "));
    (!containers.is_empty()).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(containers: &[&[&str]], expected: Option<&str>) {
        let patched = containers.iter().enumerate();
        let patched = patched.filter(|(_, items)| !items.is_empty());
        let patched = patched.map(|(index, items)| {
            let items = items.iter().map(ToString::to_string).collect();
            (ContainerPath::Container(index), items)
        });
        let text = updates_text("web", &patched.collect::<Vec<_>>());
        assert_eq!(text.as_deref(), expected, "{containers:?}");
    }

    #[test]
    fn patched_containers_are_listed() {
        check(&[], None);
        check(&[&[]], None);
        check(
            &[&[], &["a", "b"]],
            Some("Pod resources updated by web: container 1: a, b"),
        );
        check(
            &[&["a"], &[], &["b"]],
            Some("Pod resources updated by web: container 0: a; container 2: b"),
        );
    }
}
