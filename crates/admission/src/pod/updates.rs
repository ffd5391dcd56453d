//! What is said about a pod that is changed:
//! `Pod resources updated by web: container 0: cpu request; container 1: memory request`.
//!
//! Source: upstream `pkg/admission-controller/resource/pod/patch/resource_updates.go`.

use std::fmt::{self, Write as _};

use crate::patch::Place;

/// The text so far.
pub(super) struct Updates {
    text: String,
    /// Where the first container is told of.
    first: usize,
    /// Where the last container is told of, and where what is said about it begins.
    last: usize,
    said: usize,
}

impl Updates {
    /// None yet; the text will name this autoscaler.
    pub(super) fn by(autoscaler: &str) -> Self {
        let mut text = String::with_capacity(256);
        text.push_str("Pod resources updated by ");
        text.push_str(autoscaler);
        let end = text.len();
        Self {
            text,
            first: end,
            last: end,
            said: end,
        }
    }

    /// What is said next is about this container.
    pub(super) fn begin(&mut self, place: Place) {
        self.last = self.text.len();
        let separator = if self.last == self.first { ": " } else { "; " };
        self.append(format_args!("{separator}{place}: "));
        self.said = self.text.len();
    }

    /// Says something about the last container.
    pub(super) fn say(&mut self, what: fmt::Arguments<'_>) {
        if self.text.len() > self.said {
            self.text.push_str(", ");
        }
        self.append(what);
    }

    /// The last container is not changed after all.
    pub(super) fn take_back(&mut self) {
        self.text.truncate(self.last);
    }

    /// The text; none where no container is changed.
    pub(super) fn into_text(self) -> Option<String> {
        (self.text.len() > self.first).then_some(self.text)
    }

    fn append(&mut self, what: fmt::Arguments<'_>) {
        // Strings take whatever is written.
        let _ = self.text.write_fmt(what);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(containers: &[&[&str]], expected: Option<&str>) {
        let mut updates = Updates::by("web");
        for (index, said) in containers.iter().enumerate() {
            updates.begin(Place::Container(index));
            for what in *said {
                updates.say(format_args!("{what}"));
            }
            if said.is_empty() {
                updates.take_back();
            }
        }
        assert_eq!(updates.into_text().as_deref(), expected, "{containers:?}");
    }

    #[test]
    fn containers_that_are_changed_are_told_of() {
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
