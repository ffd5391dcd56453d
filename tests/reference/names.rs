//! Events, conditions, annotations and labels: the pages have those of the sources, and the programs
//! contain each of them.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use crate::page;
use crate::sources::{consists_of, literals, sources};

const EVENTS: &str = "docs/reference/events.md";
const CONDITIONS: &str = "docs/reference/conditions.md";
const ANNOTATIONS: &str = "docs/reference/annotations.md";

/// Words in CamelCase that are neither reasons nor types of conditions.
const OTHER_WORDS: &str = "tests/reference/other-words.txt";

/// Beginnings of the names of annotations, and a field of checkpoints.
const NOT_ANNOTATIONS: [&str; 3] = ["plimsoll.dev/", "updater.plimsoll.dev/", "vpaObjectName"];

/// A row of a table: the name, and the programs if the table names them.
struct Row {
    name: String,
    programs: Vec<String>,
}

fn rows(path: &str) -> Vec<Row> {
    let text = page(path);
    let rows = text.lines().filter(|line| line.starts_with("| `"));
    rows.map(|line| {
        let mut cells = line.split(" | ");
        let name = cells
            .next()
            .unwrap_or_default()
            .trim_matches(['|', ' ', '`']);
        let programs = cells.nth(1).unwrap_or_default().split(", ");
        Row {
            name: name.to_owned(),
            programs: programs.map(str::to_owned).collect(),
        }
    })
    .collect()
}

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

#[test]
fn each_reason_and_condition_of_the_sources_is_in_a_page() {
    let other = page(OTHER_WORDS);
    let other: BTreeSet<&str> = other.split_whitespace().collect();
    let known: BTreeSet<String> = [EVENTS, CONDITIONS]
        .into_iter()
        .flat_map(rows)
        .map(|row| row.name)
        .collect();
    let literals = literals_of_services();
    let words = literals.iter().filter(|literal| is_camel_case(literal));
    let missing: Vec<_> = words
        .filter(|word| !known.contains(*word) && !other.contains(word.as_str()))
        .collect();
    assert!(
        missing.is_empty(),
        "a reason or a type of a condition belongs into {EVENTS} or {CONDITIONS}, another word into {OTHER_WORDS}: {missing:?}"
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
fn each_annotation_of_the_sources_is_in_the_page() {
    let known: BTreeSet<String> = rows(ANNOTATIONS).into_iter().map(|row| row.name).collect();
    let literals = literals_of_services();
    let missing: Vec<_> = literals
        .iter()
        .filter(|literal| is_annotation(literal) && !known.contains(*literal))
        .collect();
    assert!(missing.is_empty(), "{ANNOTATIONS} lacks {missing:?}");
}

#[test]
fn the_programs_contain_each_name_of_the_pages() {
    let mut contents: BTreeMap<String, String> = BTreeMap::new();
    for path in [EVENTS, CONDITIONS, ANNOTATIONS] {
        let rows = rows(path);
        assert!(rows.len() > 30, "{path} has {} rows", rows.len());
        for row in rows {
            // The updater reports the reasons of the condition `Applied`.
            let programs = match path {
                CONDITIONS => vec!["recommender or updater".to_owned()],
                _ => row.programs,
            };
            for program in programs {
                let text = contents
                    .entry(program.clone())
                    .or_insert_with(|| program.split(" or ").map(text_of).collect());
                assert!(
                    text.contains(&row.name),
                    "{path}: {program} lacks {}",
                    row.name
                );
            }
        }
    }
}

/// The part of a program that is loaded into memory, without debugging information.
fn text_of(program: &str) -> String {
    let program = e2e::program(program).unwrap_or_else(|error| panic!("{error:#}"));
    let contents = fs::read(program).expect("a program");
    let number = |at: usize, length: usize| {
        let bytes = contents[at..at + length].iter().rev();
        bytes.fold(0, |number, byte| number << 8 | usize::from(*byte))
    };
    // Program headers of ELF64: place, size and number, then the place and size of each segment.
    let (headers, size, count) = (number(32, 8), number(54, 2), number(56, 2));
    let ends = (0..count).map(|index| {
        let header = headers + index * size;
        number(header + 8, 8) + number(header + 32, 8)
    });
    let end = ends.max().expect("a segment");
    String::from_utf8_lossy(&contents[..end]).into_owned()
}
