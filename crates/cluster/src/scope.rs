//! Which namespaces are looked at.

use std::collections::BTreeSet;

/// All namespaces but the ignored ones, or one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Scope {
    /// The only namespace to look at; none for all of them.
    pub namespace: Option<String>,
    /// Namespaces whose objects are as good as not there.
    pub ignored: BTreeSet<String>,
}

impl Scope {
    /// Whether objects of this namespace count.
    pub fn includes(&self, namespace: &str) -> bool {
        self.namespace.as_deref().is_none_or(|only| only == namespace) && !self.ignored.contains(namespace)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(only: Option<&str>, ignored: &[&str], namespace: &str, expected: bool) {
        let scope = Scope {
            namespace: only.map(str::to_owned),
            ignored: ignored.iter().map(|&ignored| ignored.to_owned()).collect(),
        };
        assert_eq!(scope.includes(namespace), expected, "{scope:?} {namespace}");
    }

    #[test]
    fn one_namespace_excludes_the_others() {
        check(None, &[], "a", true);
        check(Some("a"), &[], "a", true);
        check(Some("a"), &[], "b", false);
    }

    #[test]
    fn ignored_namespaces_do_not_count() {
        check(None, &["a"], "a", false);
        check(None, &["a"], "b", true);
    }
}
