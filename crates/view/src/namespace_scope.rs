//! The namespaces that a program watches.

use std::collections::BTreeSet;

use crate::shard::Shard;

/// One namespace or all, without the ignored ones and those of other shards.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Scope {
    /// The only watched namespace; `None` for all.
    pub namespace: Option<String>,
    pub ignored: BTreeSet<String>,
    /// Shard of this process; namespaces of other shards are ignored.
    pub shard: Shard,
}

impl Scope {
    /// Whether objects of this namespace count. Cluster-scoped ones count in every shard.
    pub fn includes(&self, namespace: &str) -> bool {
        let is_wanted = self
            .namespace
            .as_deref()
            .is_none_or(|only| only == namespace);
        let is_ours = namespace.is_empty() || self.shard.includes(namespace);
        is_wanted && is_ours && !self.ignored.contains(namespace)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(only: Option<&str>, ignored: &[&str], namespace: &str, expected: bool) {
        let scope = Scope {
            namespace: only.map(str::to_owned),
            ignored: ignored.iter().map(|&ignored| ignored.to_owned()).collect(),
            ..Scope::default()
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

    #[test]
    fn namespaces_of_other_shards_do_not_count() {
        let scope = |shard: &str| Scope {
            shard: shard.parse().expect(shard),
            ..Scope::default()
        };
        assert!(scope("0/2").includes("shop") && !scope("1/2").includes("shop"));
        assert!(!scope("0/2").includes("mail") && scope("1/2").includes("mail"));
        assert!(scope("0/2").includes("") && scope("1/2").includes(""));
        let both = Scope {
            ignored: ["shop".to_owned()].into(),
            ..scope("0/2")
        };
        assert!(!both.includes("shop") && !both.includes("mail"));
    }
}
