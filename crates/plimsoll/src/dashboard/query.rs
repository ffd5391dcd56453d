//! Parameters of pages, and the form for them.

use maud::{Markup, html};
use serde::Deserialize;

/// Parameters of a list.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(default)]
pub(super) struct ListQuery {
    /// All without one.
    pub(super) namespace: String,
    /// Only objects with this text in their name, target, mode or reason.
    pub(super) search: String,
    /// Position in the list, from the page before.
    pub(super) after: String,
}

impl ListQuery {
    pub(super) fn namespace(&self) -> Option<&str> {
        Some(self.namespace.as_str()).filter(|name| !name.is_empty())
    }

    /// Without what a page does not use.
    pub(super) fn of_namespace(self) -> Self {
        Self {
            namespace: self.namespace,
            ..Self::default()
        }
    }

    /// The filter by namespace, and by text where the page has it.
    pub(super) fn form(&self, has_search: bool) -> Markup {
        html! {
            form role="search" {
                label { "Namespace " input name="namespace" value=(self.namespace); } " "
                @if has_search { label { "Search " input name="search" type="search" value=(self.search); } " " }
                button { "Show" }
            }
        }
    }
}
