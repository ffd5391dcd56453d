//! Imports inside a crate: no circle of more than two modules.
//!
//! Modules are compared with their siblings: an import between `a::x` and `b::y` counts for `a` and
//! `b`. A child that imports from its parent is no circle.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use crate::repository::{read, sources};

/// The most modules in a circle of imports.
const MAX_CIRCLE: usize = 2;

/// A module's path inside its crate; empty for the root.
type Module = Vec<String>;
/// A module's name, to those of the siblings that it imports from.
type Imports = BTreeMap<String, BTreeSet<String>>;

#[test]
fn modules_import_in_no_circle_of_more_than_two() {
    let mut crates: BTreeMap<String, BTreeMap<Module, String>> = BTreeMap::new();
    for path in sources() {
        if let Some((name, module)) = module_of(&path) {
            let text = production_code(&read(&path));
            crates.entry(name).or_default().insert(module, text);
        }
    }
    let mut found = Vec::new();
    for (name, modules) in &crates {
        for (parent, imports) in imports_between_siblings(modules) {
            for circle in circles(&imports) {
                if circle.len() > MAX_CIRCLE {
                    found.push(format!("{name} {}: {circle:?}", parent.join("::")));
                }
            }
        }
    }
    assert!(
        found.is_empty(),
        "circles of imports:\n{}",
        found.join("\n")
    );
}

/// The crate and the module of `crates/<name>/src/...`. Tests are left out.
fn module_of(path: &Path) -> Option<(String, Module)> {
    let path = path.strip_prefix("crates").ok()?.with_extension("");
    let mut parts = path.iter().map(|part| part.to_string_lossy().into_owned());
    let name = parts.next()?;
    let module: Module = (parts.next()? == "src").then(|| parts.collect())?;
    let is_root = ["lib", "main"]
        .map(|root| vec![root.to_owned()])
        .contains(&module);
    let is_test = module.iter().any(|part| part == "tests");
    (!is_test).then_some((name, if is_root { Vec::new() } else { module }))
}

/// A file without its comments and without the unit tests at its end.
fn production_code(text: &str) -> String {
    let code = text
        .split("\n#[cfg(test)]\nmod tests {")
        .next()
        .unwrap_or_default();
    let lines = code
        .lines()
        .map(|line| line.split("//").next().unwrap_or_default());
    lines.collect::<Vec<_>>().join("\n")
}

fn imports_between_siblings(modules: &BTreeMap<Module, String>) -> BTreeMap<Module, Imports> {
    let mut siblings: BTreeMap<Module, Imports> = BTreeMap::new();
    for (from, text) in modules {
        for path in paths(text) {
            let Some(to) = resolve(from, &path, modules) else {
                continue;
            };
            let common = from.iter().zip(&to).take_while(|(a, b)| a == b).count();
            if let (Some(one), Some(other)) = (from.get(common), to.get(common)) {
                let imports = siblings.entry(from[..common].to_vec()).or_default();
                imports
                    .entry(one.clone())
                    .or_default()
                    .insert(other.clone());
                imports.entry(other.clone()).or_default();
            }
        }
    }
    siblings
}

/// Every path that begins with `crate`, `self` or `super`, those in braces written out.
fn paths(text: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for root in ["crate::", "self::", "super::"] {
        for (at, _) in text.match_indices(root) {
            let before = text[..at].chars().next_back();
            if !before.is_some_and(|last| last.is_alphanumeric() || last == '_' || last == ':') {
                expand("", &text[at..], &mut found);
            }
        }
    }
    found
}

/// Adds the paths at the beginning of `text`, each after `prefix`. Returns what follows them.
fn expand<'a>(prefix: &str, text: &'a str, found: &mut BTreeSet<String>) -> &'a str {
    let is_path = |letter: char| letter.is_alphanumeric() || letter == '_' || letter == ':';
    let end = text.find(|letter| !is_path(letter)).unwrap_or(text.len());
    let (path, mut rest) = text.split_at(end);
    let path = format!("{prefix}{path}");
    if !path.ends_with("::") || !rest.starts_with('{') {
        found.insert(path);
        return rest;
    }
    loop {
        rest = rest[1..].trim_start();
        if !rest.starts_with('}') {
            rest = expand(&path, rest, found).trim_start();
        }
        if !rest.starts_with(',') {
            return rest.strip_prefix('}').unwrap_or_default();
        }
    }
}

/// The module in which a path ends, as seen from another one.
fn resolve(from: &Module, path: &str, modules: &BTreeMap<Module, String>) -> Option<Module> {
    let mut parts: Vec<&str> = path.split("::").filter(|part| !part.is_empty()).collect();
    let mut base = from.clone();
    if parts.first() == Some(&"crate") {
        base.clear();
    }
    while let Some(first @ ("crate" | "self" | "super")) = parts.first().copied() {
        if first == "super" {
            base.pop();
        }
        parts.remove(0);
    }
    base.extend(parts.into_iter().map(str::to_owned));
    while !modules.contains_key(&base) {
        base.pop()?;
    }
    Some(base)
}

/// Sets of modules of which each leads to each.
fn circles(imports: &Imports) -> BTreeSet<BTreeSet<&str>> {
    let reached = |from: &str| {
        let mut reached = BTreeSet::new();
        let mut open: Vec<&str> = vec![from];
        while let Some(next) = open.pop() {
            for to in imports
                .get_key_value(next)
                .into_iter()
                .flat_map(|(_, all)| all)
            {
                if reached.insert(to.as_str()) {
                    open.push(to);
                }
            }
        }
        reached
    };
    let all: BTreeMap<&str, BTreeSet<&str>> = imports
        .keys()
        .map(|name| (name.as_str(), reached(name)))
        .collect();
    let mut circles = BTreeSet::new();
    for (name, reached) in &all {
        let leads_back =
            |other: &&str| all.get(other).is_some_and(|reached| reached.contains(name));
        let circle: BTreeSet<&str> = reached.iter().copied().filter(leads_back).collect();
        if circle.len() > 1 {
            circles.insert(circle);
        }
    }
    circles
}

#[test]
fn a_circle_of_three_is_found() {
    let module = |name: &str, text: &str| (vec![name.to_owned()], text.to_owned());
    let modules = BTreeMap::from([
        module("a", "use crate::{b::B, d};"),
        module("b", "fn f() -> super::c::C {}"),
        module("c", "use crate::a::{A, x::{Y, Z}};"),
        module("d", ""),
    ]);
    let imports = imports_between_siblings(&modules).remove(&Vec::new());
    let imports = imports.expect("modules of the root");
    assert_eq!(
        circles(&imports),
        BTreeSet::from([BTreeSet::from(["a", "b", "c"])])
    );
}
