//! The conventions that a compiler does not check: which crate may depend on which, that the pure crates stay pure,
//! that no source file is an orphan, that no module is a drawer for odds and ends, and that the README tells the truth
//! about where things are.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde::Deserialize;

/// Crate, then the crates of ours that it may depend on. The same arrows as in the README.
const ARROWS: &[(&str, &[&str])] = &[
    ("model", &[]),
    ("sizing", &["model"]),
    ("forecast", &["model"]),
    ("scaling", &["model"]),
    ("placement", &["model"]),
    ("replay", &["sizing", "forecast", "scaling", "placement", "model"]),
    ("api", &["model"]),
    ("feed", &["model"]),
    ("cluster", &["model", "api"]),
    ("sources", &["model", "api"]),
    ("runtime", &[]),
    ("recommender", &["sizing", "forecast", "scaling", "model", "api", "feed", "cluster", "sources", "runtime"]),
    ("updater", &["sizing", "model", "api", "feed", "cluster", "runtime"]),
    ("webhook", &["sizing", "model", "api", "feed", "cluster", "runtime"]),
    ("adapter", &["scaling", "model", "api", "feed", "cluster", "sources", "runtime"]),
    ("extender", &["placement", "model", "cluster", "sources", "runtime"]),
    ("cli", &["replay", "sizing", "forecast", "scaling", "placement", "model", "api", "cluster", "sources", "runtime"]),
    ("sandbox", &["runtime"]),
    // For tests.
    ("recordings", &[]),
    ("eventually", &[]),
    ("e2e", &["api", "sandbox", "eventually"]),
];

/// No clock, no network, no Kubernetes client in these, not even through a dependency.
const PURE: &[&str] = &["model", "sizing", "forecast", "scaling", "placement", "replay"];
const IMPURE_PACKAGES: &[&str] = &["tokio", "kube", "kube-client", "hyper", "axum", "tonic"];
/// Words that a pure crate's sources may not contain: time and settings are arguments there.
const IMPURE_WORDS: &[&str] =
    &["SystemTime::now", "Instant::now", "Timestamp::now", "Zoned::now", "std::env", "std::net"];

const BANNED_MODULES: &[&str] = &["common", "util", "utils", "helper", "helpers", "misc", "shared", "stuff"];

/// The longest that a source file may be; half of them should be under 150.
const MAX_LINES: usize = 900;

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
    resolve: Resolve,
    workspace_members: Vec<String>,
}

#[derive(Deserialize)]
struct Package {
    id: String,
    name: String,
    manifest_path: PathBuf,
    targets: Vec<Target>,
    version: String,
    publish: Option<Vec<String>>,
}

#[derive(Deserialize)]
struct Target {
    src_path: PathBuf,
}

#[derive(Deserialize)]
struct Resolve {
    nodes: Vec<Node>,
}

#[derive(Deserialize)]
struct Node {
    id: String,
    deps: Vec<Dependency>,
}

#[derive(Deserialize)]
struct Dependency {
    pkg: String,
    dep_kinds: Vec<DependencyKind>,
}

#[derive(Deserialize)]
struct DependencyKind {
    kind: Option<String>,
}

impl Dependency {
    /// Part of what ships: neither a dev- nor a build-dependency.
    fn is_normal(&self) -> bool {
        self.dep_kinds.iter().any(|kind| kind.kind.is_none())
    }
}

impl Metadata {
    fn load() -> Self {
        let output = Command::new(env!("CARGO"))
            .args(["metadata", "--format-version=1", "--locked", "--offline"])
            .current_dir(root())
            .output()
            .expect("cargo runs");
        assert!(output.status.success(), "cargo metadata: {}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice(&output.stdout).expect("cargo metadata prints its documented JSON")
    }

    fn members(&self) -> impl Iterator<Item = &Package> {
        self.packages.iter().filter(|package| self.workspace_members.contains(&package.id))
    }

    fn package(&self, id: &str) -> &Package {
        self.packages.iter().find(|package| package.id == id).expect("a resolved id is a package")
    }

    fn normal_dependencies(&self, id: &str) -> impl Iterator<Item = &Package> {
        let node = self.resolve.nodes.iter().find(|node| node.id == id).expect("a package id is a node");
        node.deps.iter().filter(|dependency| dependency.is_normal()).map(|dependency| self.package(&dependency.pkg))
    }

    /// Everything that ends up in the crate, with the path of names that led there.
    fn reach<'a>(&'a self, package: &'a Package) -> BTreeMap<&'a str, Vec<&'a str>> {
        let mut found: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        let mut open = vec![(package, vec![package.name.as_str()])];
        while let Some((package, path)) = open.pop() {
            for dependency in self.normal_dependencies(&package.id) {
                if !found.contains_key(dependency.name.as_str()) {
                    let path: Vec<&str> = path.iter().copied().chain([dependency.name.as_str()]).collect();
                    found.insert(&dependency.name, path.clone());
                    open.push((dependency, path));
                }
            }
        }
        found
    }
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("tests/ lies in the repository").to_path_buf()
}

/// The files that git knows or would add, as paths from the root; a clone without git lists the folder instead.
fn files() -> Vec<PathBuf> {
    let output = Command::new("git")
        .args(["ls-files", "--cached", "--others", "--exclude-standard"])
        .current_dir(root())
        .output()
        .expect("git runs");
    assert!(output.status.success(), "git ls-files: {}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).expect("our paths are UTF-8");
    text.lines().map(PathBuf::from).filter(|path| root().join(path).exists()).collect()
}

fn sources() -> Vec<PathBuf> {
    files().into_iter().filter(|path| path.extension().is_some_and(|extension| extension == "rs")).collect()
}

fn read(path: &Path) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

#[test]
fn crates_depend_along_the_allowed_arrows_only() {
    let metadata = Metadata::load();
    let names: BTreeSet<&str> = metadata.members().map(|package| package.name.as_str()).collect();
    for package in metadata.members() {
        let Some((_, allowed)) = ARROWS.iter().find(|(name, _)| *name == package.name) else {
            panic!("crate {} has no line in ARROWS", package.name);
        };
        for dependency in metadata.normal_dependencies(&package.id) {
            let ours = names.contains(dependency.name.as_str());
            assert!(
                !ours || allowed.contains(&dependency.name.as_str()),
                "{} may not depend on {}",
                package.name,
                dependency.name
            );
        }
    }
}

#[test]
fn pure_crates_reach_no_runtime_and_no_kubernetes_client() {
    let metadata = Metadata::load();
    for package in metadata.members().filter(|package| PURE.contains(&package.name.as_str())) {
        let reach = metadata.reach(package);
        for impure in IMPURE_PACKAGES {
            assert!(!reach.contains_key(impure), "{} is pure but reaches {}", package.name, reach[impure].join(" -> "));
        }
    }
}

#[test]
fn pure_crates_ask_neither_the_clock_nor_the_environment() {
    for path in sources() {
        let pure = PURE.iter().any(|name| path.starts_with(format!("crates/{name}/src")));
        if pure {
            let text = read(&path);
            for word in IMPURE_WORDS {
                assert!(!text.contains(word), "{} uses {word}: make it an argument", path.display());
            }
        }
    }
}

#[test]
fn no_package_brings_in_ring_or_openssl() {
    let metadata = Metadata::load();
    for package in metadata.members() {
        let reach = metadata.reach(package);
        for banned in ["openssl-sys", "native-tls"] {
            assert!(!reach.contains_key(banned), "{} reaches {}", package.name, reach[banned].join(" -> "));
        }
    }
}

#[test]
fn folders_are_named_after_their_crates_and_nothing_is_published() {
    for package in Metadata::load().members() {
        let folder = package.manifest_path.parent().expect("a manifest lies in a folder");
        let folder = folder.strip_prefix(root()).expect("a member lies in the repository");
        let expected =
            if package.name == "e2e" { PathBuf::from("tests") } else { Path::new("crates").join(&package.name) };
        assert_eq!(folder, expected);
        assert_eq!(package.version, "0.0.0", "{}", package.name);
        assert_eq!(package.publish.as_deref(), Some(&[][..]), "{} must set publish = false", package.name);
    }
}

/// Follows `mod name;` from every target's root, as the compiler does.
fn reachable_sources(metadata: &Metadata) -> BTreeSet<PathBuf> {
    let mut open: Vec<PathBuf> =
        metadata.members().flat_map(|package| &package.targets).map(|target| target.src_path.clone()).collect();
    let mut reached = BTreeSet::new();
    let roots: BTreeSet<PathBuf> = open.iter().cloned().collect();
    while let Some(path) = open.pop() {
        if !reached.insert(path.clone()) {
            continue;
        }
        let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let parent = path.parent().expect("a file lies in a folder");
        let stem = path.file_stem().expect("a file has a name");
        let children = if roots.contains(&path) || stem == "mod" { parent.to_path_buf() } else { parent.join(stem) };
        for name in text.lines().filter_map(declared_module) {
            let candidates = [children.join(format!("{name}.rs")), children.join(&name).join("mod.rs")];
            let file = candidates.iter().find(|candidate| candidate.exists());
            open.push(file.unwrap_or_else(|| panic!("{}: mod {name} has no file", path.display())).clone());
        }
    }
    reached
}

/// The name in `mod name;`, with or without a visibility.
fn declared_module(line: &str) -> Option<String> {
    let rest = line.trim_start();
    let rest = rest.strip_prefix("pub(crate) ").or_else(|| rest.strip_prefix("pub ")).unwrap_or(rest);
    let name = rest.strip_prefix("mod ")?.trim_end().strip_suffix(';')?;
    Some(name.to_owned())
}

#[test]
fn no_source_file_is_an_orphan() {
    let reached = reachable_sources(&Metadata::load());
    for path in sources() {
        assert!(reached.contains(&root().join(&path)), "{} belongs to no target", path.display());
    }
}

#[test]
fn no_module_is_a_drawer_for_odds_and_ends() {
    for path in sources() {
        for part in path.with_extension("").components() {
            let part = part.as_os_str().to_string_lossy();
            assert!(!BANNED_MODULES.contains(&part.as_ref()), "{}: name it after what it holds", path.display());
        }
    }
}

#[test]
fn source_files_stay_small() {
    let mut lengths: Vec<(usize, PathBuf)> =
        sources().into_iter().map(|path| (read(&path).lines().count(), path)).collect();
    lengths.sort();
    if let Some((lines, path)) = lengths.last() {
        assert!(*lines <= MAX_LINES, "{} has {lines} lines: is it one room, or several?", path.display());
    }
}

#[test]
fn nothing_is_left_unfinished() {
    // Put together here, so that this file does not contain them.
    let words = [concat!("todo", "!("), concat!("unimplemented", "!("), concat!("dbg", "!("), concat!("#[", "ignore")];
    for path in sources() {
        let text = read(&path);
        for word in words {
            assert!(!text.contains(word), "{} contains {word}", path.display());
        }
    }
}

/// Everything in Markdown. Paths in it are from the root or from its own folder, links from its own folder.
fn documents() -> Vec<PathBuf> {
    files().into_iter().filter(|path| path.extension().is_some_and(|extension| extension == "md")).collect()
}

fn code(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

fn looks_like_a_path(code: &str) -> bool {
    ["crates/", "deploy/", "tests/", "proto/", "certs/", "src/"].iter().any(|top| code.starts_with(top))
        && !code.contains([' ', '*', '$', '<'])
}

#[test]
fn every_path_in_a_document_exists() {
    for document in documents() {
        let (text, folder) = (read(&document), document.parent().expect("a file lies in a folder"));
        for path in code(&text).filter(|code| looks_like_a_path(code)) {
            let exists = root().join(path).exists() || root().join(folder).join(path).exists();
            assert!(exists, "{} names {path}, which does not exist", document.display());
        }
    }
}

#[test]
fn every_link_in_a_document_leads_to_a_file() {
    for document in documents() {
        let (text, folder) = (read(&document), document.parent().expect("a file lies in a folder"));
        for link in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let exists = link.starts_with("http") || link.starts_with('#') || root().join(folder).join(link).exists();
            assert!(exists, "{} links to {link}, which does not exist", document.display());
        }
    }
}

/// The rows of the table of formulas in a crate's own documentation: what, and which file below its `src`.
fn formulas(text: &str) -> impl Iterator<Item = &str> {
    text.lines()
        .skip_while(|line| *line != "//! | formula | file |")
        .skip(2)
        .take_while(|line| line.starts_with("//! |"))
}

#[test]
fn every_table_of_formulas_names_its_files_and_the_readme_leads_to_it() {
    let readme = read(Path::new("README.md"));
    let mut tables = 0;
    for path in files().into_iter().filter(|path| path.starts_with("crates")) {
        let is_table = path.ends_with("src/lib.rs") && formulas(&read(&path)).next().is_some()
            || path.ends_with("README.md") && read(&path).contains("| formula | file |");
        if !is_table {
            continue;
        }
        tables += 1;
        assert!(readme.contains(&format!("]({})", path.display())), "the README does not link to {}", path.display());
        for row in formulas(&read(&path)) {
            let files: Vec<&str> = row.rsplit(" | ").next().into_iter().flat_map(code).collect();
            assert!(!files.is_empty(), "{}: {row} names no file", path.display());
            for file in files {
                assert!(root().join(&path).with_file_name(file).exists(), "{} names {file}", path.display());
            }
        }
    }
    assert!(tables >= 10, "there are {tables} tables of formulas");
}

#[test]
fn the_readme_is_one_page() {
    let lines = read(Path::new("README.md")).lines().count();
    assert!(lines <= 130, "{lines} lines: tell the rest in the README of the crate whose matter it is");
}

#[test]
fn the_top_level_is_the_agreed_one() {
    let known = [
        ".ci",
        ".gitignore",
        "Cargo.lock",
        "Cargo.toml",
        "LICENSE",
        "Makefile",
        "NOTICE",
        "README.md",
        "certs",
        "crates",
        "deploy",
        "proto",
        "rust-toolchain.toml",
        "rustfmt.toml",
        "tests",
    ];
    for path in files() {
        let top = path.components().next().expect("a path has a first part").as_os_str().to_string_lossy().into_owned();
        assert!(known.contains(&top.as_str()), "{top} is new at the top level");
    }
}
