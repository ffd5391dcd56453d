//! The text of the annotation `vpaUpdates`:
//! `Pod resources updated by web: container 0: cpu request; container 1: memory request`.
//!
//! Source: upstream `pkg/admission-controller/resource/pod/patch/resource_updates.go`.

use std::fmt::{self, Write as _};

use crate::patch::ContainerPath;

/// The text so far, and byte offsets in it.
pub(super) struct UpdatesText {
    text: String,
    /// The start of the first container.
    first: usize,
    /// The start of the current container.
    current: usize,
    /// The start of the current container's items.
    items: usize,
}

impl UpdatesText {
    /// A text without containers that names this VPA.
    pub(super) fn new(vpa: &str) -> Self {
        let mut text = String::with_capacity(256);
        text.push_str("Pod resources updated by ");
        text.push_str(vpa);
        let end = text.len();
        Self {
            text,
            first: end,
            current: end,
            items: end,
        }
    }

    /// Begins the items of a container.
    pub(super) fn begin_container(&mut self, path: ContainerPath) {
        self.current = self.text.len();
        let separator = if self.current == self.first {
            ": "
        } else {
            "; "
        };
        self.append(format_args!("{separator}{path}: "));
        self.items = self.text.len();
    }

    /// Adds an item of the current container.
    pub(super) fn push(&mut self, item: fmt::Arguments<'_>) {
        if self.text.len() > self.items {
            self.text.push_str(", ");
        }
        self.append(item);
    }

    /// Removes the current container, which is not patched.
    pub(super) fn discard_container(&mut self) {
        self.text.truncate(self.current);
    }

    /// The text; `None` without containers.
    pub(super) fn into_text(self) -> Option<String> {
        (self.text.len() > self.first).then_some(self.text)
    }

    fn append(&mut self, item: fmt::Arguments<'_>) {
        // Writing to a string does not fail.
        let _ = self.text.write_fmt(item);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(containers: &[&[&str]], expected: Option<&str>) {
        let mut updates = UpdatesText::new("web");
        for (index, items) in containers.iter().enumerate() {
            updates.begin_container(ContainerPath::Container(index));
            for item in *items {
                updates.push(format_args!("{item}"));
            }
            if items.is_empty() {
                updates.discard_container();
            }
        }
        assert_eq!(updates.into_text().as_deref(), expected, "{containers:?}");
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
