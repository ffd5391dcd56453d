//! Dependencies keep to `deny.toml`, as far as that can be checked without a network.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;

use crate::metadata::Metadata;
use crate::repository::root;

#[derive(Deserialize)]
struct Deny {
    licenses: Licences,
    bans: Bans,
}

#[derive(Deserialize)]
struct Licences {
    allow: Vec<String>,
}

#[derive(Deserialize)]
struct Bans {
    skip: Vec<Skipped>,
}

#[derive(Deserialize)]
struct Skipped {
    /// `name@version`, the version perhaps without its last numbers.
    #[serde(rename = "crate")]
    package: String,
}

fn deny() -> Deny {
    let text = std::fs::read_to_string(root().join("deny.toml")).expect("deny.toml");
    toml::from_str(&text).expect("deny.toml has licenses and bans")
}

#[test]
fn every_licence_is_allowed() {
    let allowed = deny().licenses.allow;
    for package in Metadata::load().packages() {
        let licence = package.license.as_deref().unwrap_or_default();
        assert!(
            is_satisfied(licence, &|name| allowed
                .iter()
                .any(|allowed| allowed == name)),
            "{} {} has the licence {licence:?}, which deny.toml does not allow",
            package.name,
            package.version
        );
    }
}

#[test]
fn duplicate_versions_are_listed_with_the_reason() {
    let skipped = deny().bans.skip;
    let metadata = Metadata::load();
    let mut versions: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for package in metadata.packages() {
        versions
            .entry(&package.name)
            .or_default()
            .insert(&package.version);
    }
    versions.retain(|_, versions| versions.len() > 1);
    for (name, versions) in &versions {
        let unlisted = |version: &&&str| {
            let listed = skipped.iter().any(|skipped| {
                let prefix = skipped.package.strip_prefix(&format!("{name}@"));
                prefix
                    .is_some_and(|prefix| format!("{version}.").starts_with(&format!("{prefix}.")))
            });
            !listed
        };
        let unlisted: Vec<_> = versions.iter().filter(unlisted).collect();
        assert!(unlisted.len() <= 1, "{name} has the versions {unlisted:?}");
    }
    for Skipped { package } in &skipped {
        let (name, _) = package.split_once('@').expect("name@version");
        assert!(
            versions.contains_key(name),
            "{name} has one version: take it out of deny.toml"
        );
    }
}

/// Whether the licences named by `has` satisfy an SPDX expression: `AND` binds tighter than `OR`,
/// and `/` is an old form of `OR`.
fn is_satisfied(expression: &str, has: &dyn Fn(&str) -> bool) -> bool {
    let expression = expression.replace('/', " OR ");
    let any = |parts: Vec<&str>| parts.into_iter().any(|part| all_of(part, has));
    any(split_outside(&expression, " OR "))
}

fn all_of(expression: &str, has: &dyn Fn(&str) -> bool) -> bool {
    split_outside(expression, " AND ").into_iter().all(|part| {
        let part = part.trim();
        let inner = part
            .strip_prefix('(')
            .and_then(|part| part.strip_suffix(')'));
        inner.map_or_else(|| has(part), |inner| is_satisfied(inner, has))
    })
}

/// The parts of `text` between separators that are not in parentheses.
fn split_outside<'a>(text: &'a str, separator: &str) -> Vec<&'a str> {
    let (mut parts, mut start, mut depth) = (Vec::new(), 0, 0_usize);
    for (at, letter) in text.char_indices() {
        match letter {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ if depth == 0 && at >= start && text[at..].starts_with(separator) => {
                parts.push(&text[start..at]);
                start = at + separator.len();
            }
            _ => {}
        }
    }
    parts.push(&text[start..]);
    parts
}

#[test]
fn expressions_are_read_as_spdx_defines_them() {
    let has = |name: &str| ["MIT", "ISC"].contains(&name);
    for (expression, expected) in [
        ("MIT", true),
        ("GPL-3.0 OR MIT", true),
        ("GPL-3.0/MIT", true),
        ("GPL-3.0 AND MIT", false),
        ("ISC AND (GPL-3.0 OR MIT)", true),
        ("(MIT OR ISC) AND GPL-3.0", false),
        ("MIT AND GPL-3.0 OR ISC", true),
        ("", false),
    ] {
        assert_eq!(is_satisfied(expression, &has), expected, "{expression}");
    }
}
