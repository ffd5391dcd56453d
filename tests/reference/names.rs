//! Events, conditions, annotations and labels, from the definitions in the sources. The programs contain
//! each of them.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;

use crate::definitions::{Definition, Kind, definitions};
use crate::sources::{consists_of, literals, sources};
use crate::{SERVICES, add_page, check_list, page, repository};

/// Words in CamelCase that are neither reasons nor types of conditions.
const OTHER_WORDS: &str = "tests/reference/other-words.txt";

/// Beginnings of the names of annotations, and a field of checkpoints.
const NOT_ANNOTATIONS: [&str; 3] = ["plimsoll.dev/", "updater.plimsoll.dev/", "vpaObjectName"];

const EVENTS_INTRODUCTION: &str = "# Events

Generated from the sources; a test finds each reason in its programs. `kubectl get events -n NAMESPACE
--field-selector reason=EvictedByVPA` shows events of one reason.

| reason | object | program | meaning |
|---|---|---|---|
";

const CONDITIONS_INTRODUCTION: &str = "# Conditions

Generated from the sources; a test finds each type and reason in the programs. The recommender writes all
conditions. `kubectl get vpa NAME -o jsonpath='{.status.conditions}'` shows them.

## Types

| type | object | meaning |
|---|---|---|
";

const ANNOTATIONS_INTRODUCTION: &str = "# Annotations and labels

Generated from the sources, with the programs that contain the name.
";

fn literals_of_services() -> BTreeSet<String> {
    let sources = sources().into_iter();
    sources.flat_map(|source| literals(&source.code)).collect()
}

fn is_camel_case(text: &str) -> bool {
    text.len() > 3
        && text.starts_with(|letter: char| letter.is_ascii_uppercase())
        && text.contains(|letter: char| letter.is_ascii_lowercase())
        && consists_of(text, |letter| letter.is_ascii_alphanumeric())
}

fn is_annotation(text: &str) -> bool {
    let is_ours = text.contains("plimsoll.dev/") || text.contains("crane.io/");
    let is_upstreams = text.starts_with("vpa-post-processor.")
        || text
            .strip_prefix("vpa")
            .is_some_and(|rest| rest.starts_with(|letter: char| letter.is_uppercase()));
    (is_ours || is_upstreams)
        && !text.contains("/v1")
        && !NOT_ANNOTATIONS.contains(&text)
        && consists_of(text, |letter| {
            letter.is_ascii_alphanumeric() || "./-".contains(letter)
        })
}

/// Programs with their data and the crates that they consist of.
struct Programs(BTreeMap<&'static str, (String, BTreeSet<String>)>);

impl Programs {
    fn new(names: &[&'static str]) -> Self {
        let programs = names.iter().map(|name| {
            let mut crates = BTreeSet::new();
            add_crates(name, &mut crates);
            (*name, (data_of(name), crates))
        });
        Self(programs.collect())
    }

    /// Those that contain this name and its definition, which must not be none.
    fn with(&self, definition: &Definition) -> String {
        let with = self.0.iter().filter(|(_, (data, crates))| {
            crates.contains(&definition.crate_name) && data.contains(&definition.name)
        });
        let with: Vec<&str> = with.map(|(program, _)| *program).collect();
        assert!(!with.is_empty(), "no program contains {definition:?}");
        with.join(", ")
    }
}

#[test]
fn the_list_of_events_has_those_of_the_sources() {
    let programs = Programs::new(&SERVICES);
    let mut text = EVENTS_INTRODUCTION.to_owned();
    let mut lines = Vec::new();
    for event in definitions().iter().filter(|one| one.kind == Kind::Event) {
        let Definition {
            name,
            objects,
            meaning,
            ..
        } = event;
        let objects = objects.join(", ");
        let programs = programs.with(event);
        lines.push(format!("{name} of {objects}: {programs}"));
        let _ = writeln!(text, "| `{name}` | {objects} | {programs} | {meaning} |");
    }
    check_list("events.txt", &lines);
    add_page("events.md", &text);
}

#[test]
fn the_list_of_conditions_has_those_of_the_sources() {
    // The updater reports the reasons of the condition `Applied`.
    let programs = Programs::new(&["recommender", "updater"]);
    let all = definitions();
    let mut text = CONDITIONS_INTRODUCTION.to_owned();
    let mut lines = Vec::new();
    for condition in all.iter().filter(|one| one.kind == Kind::Condition) {
        programs.with(condition);
        let Definition {
            name,
            objects,
            meaning,
            ..
        } = condition;
        let objects = objects.join(", ");
        lines.push(format!("{name} of {objects}"));
        let _ = writeln!(text, "| `{name}` | {objects} | {meaning} |");
    }
    let mut reasons: BTreeMap<&str, Vec<(&Definition, String)>> = BTreeMap::new();
    for reason in &all {
        let Kind::Reason(types) = &reason.kind else {
            continue;
        };
        programs.with(reason);
        for kind in types {
            let has_type = |one: &&Definition| one.kind == Kind::Condition && one.name == *kind;
            assert!(all.iter().any(|one| has_type(&one)), "{reason:?}");
        }
        let types: Vec<_> = types.iter().map(|kind| format!("`{kind}`")).collect();
        for object in &reason.objects {
            let of_object = reasons.entry(object).or_default();
            of_object.push((reason, types.join(", ")));
        }
    }
    for (object, reasons) in reasons {
        let article = if object.starts_with('E') { "an" } else { "a" };
        let _ = write!(
            text,
            "\n## Reasons of {article} {object}\n\n| reason | type | meaning |\n|---|---|---|\n"
        );
        for (Definition { name, meaning, .. }, types) in reasons {
            lines.push(format!("{types} of {object}: {name}").replace('`', ""));
            let _ = writeln!(text, "| `{name}` | {types} | {meaning} |");
        }
    }
    check_list("conditions.txt", &lines);
    add_page("conditions.md", &text);
}

#[test]
fn the_list_of_annotations_has_those_of_the_sources() {
    let programs = Programs::new(&[&SERVICES[..], &["plimsoll"]].concat());
    let mut text = ANNOTATIONS_INTRODUCTION.to_owned();
    let mut lines = Vec::new();
    for (title, by_users) in [("Set by users", true), ("Written by the programs", false)] {
        let _ = write!(
            text,
            "\n## {title}\n\n| annotation or label | object | programs | meaning |\n|---|---|---|---|\n"
        );
        for definition in &definitions() {
            let Kind::Metadata {
                is_set_by_users,
                is_label,
            } = definition.kind
            else {
                continue;
            };
            if is_set_by_users != by_users {
                continue;
            }
            let Definition { name, meaning, .. } = definition;
            let objects = definition.objects.join(", ");
            let label = if is_label { " (label)" } else { "" };
            let programs = programs.with(definition);
            lines.push(format!("{title}: {name} of {objects}{label}: {programs}"));
            let _ = writeln!(
                text,
                "| `{name}` | {objects}{label} | {programs} | {meaning} |"
            );
        }
    }
    check_list("annotations.txt", &lines);
    add_page("annotations.md", &text);
}

#[test]
fn each_word_in_camel_case_is_a_reason_or_a_type_or_another_word() {
    let other = page(OTHER_WORDS);
    let other: BTreeSet<&str> = other.split_whitespace().collect();
    let known: BTreeSet<String> = definitions().into_iter().map(|one| one.name).collect();
    let literals = literals_of_services();
    let words = literals.iter().filter(|literal| is_camel_case(literal));
    let missing: Vec<_> = words
        .filter(|word| !known.contains(*word) && !other.contains(word.as_str()))
        .collect();
    assert!(
        missing.is_empty(),
        "a reason or a type of a condition is a constant whose comment begins with \"Event of a\", \"Condition of a\" or \
         \"Reason of `TYPE` of a\"; another word belongs into {OTHER_WORDS}: {missing:?}"
    );
    let old: Vec<_> = other
        .iter()
        .filter(|word| !literals.contains(**word))
        .collect();
    assert!(
        old.is_empty(),
        "{OTHER_WORDS} has words that no source has: {old:?}"
    );
}

#[test]
fn each_annotation_of_the_sources_is_defined() {
    let known: BTreeSet<String> = definitions().into_iter().map(|one| one.name).collect();
    let literals = literals_of_services();
    let missing: Vec<_> = literals
        .iter()
        .filter(|literal| is_annotation(literal) && !known.contains(*literal))
        .collect();
    assert!(
        missing.is_empty(),
        "the comment of the constant must begin with \"Annotation that users set on a\", \"Annotation that Plimsoll writes \
         on a\", or the same with \"Label\": {missing:?}"
    );
}

/// Adds a crate and those that it depends on.
fn add_crates(name: &str, crates: &mut BTreeSet<String>) {
    if !crates.insert(name.to_owned()) {
        return;
    }
    let manifest = page(&format!("crates/{name}/Cargo.toml"));
    let lines = manifest.lines();
    let of_program = lines
        .skip_while(|line| *line != "[dependencies]")
        .skip(1)
        .take_while(|line| !line.starts_with('['));
    for line in of_program {
        let dependency = line.split(['.', ' ']).next().unwrap_or_default();
        let manifest = format!("crates/{dependency}/Cargo.toml");
        if repository::root().join(manifest).exists() && !dependency.is_empty() {
            add_crates(dependency, crates);
        }
    }
}

/// The data that a program is loaded with: its segments without code and debugging information.
fn data_of(program: &str) -> String {
    /// Type of segments that are loaded, and the flag of those with code.
    const LOADED: usize = 1;
    const IS_CODE: usize = 1;
    let program = e2e::program(program).unwrap_or_else(|error| panic!("{error:#}"));
    let contents = fs::read(program).expect("a program");
    let number = |at: usize, length: usize| {
        let bytes = contents[at..at + length].iter().rev();
        bytes.fold(0, |number, byte| number << 8 | usize::from(*byte))
    };
    // Program headers of ELF64: place, size and number.
    let (headers, size, count) = (number(32, 8), number(54, 2), number(56, 2));
    let mut data = String::new();
    for header in (0..count).map(|index| headers + index * size) {
        let (kind, flags) = (number(header, 4), number(header + 4, 4));
        if kind == LOADED && flags & IS_CODE == 0 {
            let (start, length) = (number(header + 8, 8), number(header + 32, 8));
            data += &String::from_utf8_lossy(&contents[start..start + length]);
        }
    }
    assert!(!data.is_empty(), "a program has data");
    data
}
