//! Flags that select the namespaces of VPA objects.

use std::collections::BTreeSet;

use anyhow::ensure;

/// Flags that select namespaces.
#[derive(Debug, Clone, clap::Args)]
pub struct NamespaceArgs {
    /// Only namespace to watch. Empty means all.
    #[arg(long, default_value = "", value_name = "NAMESPACE")]
    pub vpa_object_namespace: String,
    /// Comma-separated namespaces to ignore. Cannot be combined with --vpa-object-namespace.
    #[arg(long, default_value = "", value_name = "NAMESPACES")]
    pub ignored_vpa_object_namespaces: String,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Namespaces {
    /// The only namespace; `None` means all.
    pub only: Option<String>,
    pub ignored: BTreeSet<String>,
}

impl NamespaceArgs {
    /// The selected namespaces; an error if both flags are set.
    pub fn namespaces(self) -> anyhow::Result<Namespaces> {
        let Self {
            vpa_object_namespace: only,
            ignored_vpa_object_namespaces: ignored,
        } = self;
        let ignored: BTreeSet<String> = ignored
            .split(',')
            .map(str::trim)
            .filter(|namespace| !namespace.is_empty())
            .map(str::to_owned)
            .collect();
        ensure!(
            only.is_empty() || ignored.is_empty(),
            "--vpa-object-namespace and --ignored-vpa-object-namespaces exclude each other"
        );
        Ok(Namespaces {
            only: Some(only).filter(|only| !only.is_empty()),
            ignored,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `expected`: the only namespace, and those that are ignored; none where the flags exclude each other.
    fn check(only: &str, ignored: &str, expected: Option<(Option<&str>, &[&str])>) {
        let flags = NamespaceArgs {
            vpa_object_namespace: only.to_owned(),
            ignored_vpa_object_namespaces: ignored.to_owned(),
        };
        let expected = expected.map(|(only, ignored)| Namespaces {
            only: only.map(str::to_owned),
            ignored: ignored
                .iter()
                .map(|&namespace| namespace.to_owned())
                .collect(),
        });
        assert_eq!(flags.namespaces().ok(), expected, "{only:?} {ignored:?}");
    }

    #[test]
    fn namespaces_are_all_some_or_one() {
        check("", "", Some((None, &[])));
        check("a", "", Some((Some("a"), &[])));
        check("", "a, b,", Some((None, &["a", "b"])));
        check("a", "b", None);
    }
}
