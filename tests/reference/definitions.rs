//! Names of events, conditions, annotations and labels: constants whose doc comments begin with their
//! kind and objects, such as "Event of a pod: it was evicted."

use std::fmt::Write as _;

use crate::sources::sources_with_tool;
use crate::title;

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Definition {
    pub(crate) name: String,
    pub(crate) kind: Kind,
    /// The objects, such as "pod".
    pub(crate) objects: Vec<String>,
    /// The meaning, as Markdown without a period at its end.
    pub(crate) meaning: String,
    pub(crate) crate_name: String,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    Event,
    Condition,
    /// Reason of conditions of these types.
    Reason(Vec<String>),
    /// Annotation or label.
    Metadata {
        is_set_by_users: bool,
        is_label: bool,
    },
}

/// All definitions of the services and of the command-line tool, by name.
pub(crate) fn definitions() -> Vec<Definition> {
    let mut found = Vec::new();
    for source in sources_with_tool() {
        let mut comment: Vec<&str> = Vec::new();
        let mut lines = source.text.lines().map(str::trim);
        while let Some(line) = lines.next() {
            if let Some(text) = line.strip_prefix("///") {
                comment.push(text.trim());
                continue;
            }
            let comment = std::mem::take(&mut comment);
            let Some((_, value)) = line.split_once("const ").and_then(|(_, constant)| {
                let (name, value) = constant.split_once(": &str =")?;
                Some((name, value.trim()))
            }) else {
                continue;
            };
            // A long literal has a line of its own.
            let value = if value.is_empty() {
                lines.next().unwrap_or_default()
            } else {
                value
            };
            let name = value.trim_end_matches(';').trim_matches('"');
            let paragraph = comment.split(|line| line.is_empty()).next();
            let paragraph = paragraph.unwrap_or_default().join(" ");
            found.extend(parse(name, &paragraph, source.crate_name()));
        }
    }
    found.sort();
    found
}

/// The definitions that a doc comment has for a name: none if it begins with another word.
fn parse(name: &str, comment: &str, crate_name: &str) -> Vec<Definition> {
    let Some((head, meaning)) = comment.split_once(": ") else {
        return Vec::new();
    };
    let lower = head.to_lowercase();
    let is_label = head.starts_with("Label that ");
    let (kinds, objects) = if is_label || head.starts_with("Annotation that ") {
        let (by, objects) = head.split_once(" on ").unwrap_or_default();
        let is_set_by_users = by.ends_with("users set");
        let kind = Kind::Metadata {
            is_set_by_users,
            is_label,
        };
        (vec![kind], objects)
    } else {
        let starts = [" of a ", " of an ", " of the "];
        let start = starts.iter().filter_map(|start| head.find(start)).min();
        let objects = start.map_or("", |start| &head[start + " of ".len()..]);
        let has = |word: &str| lower.starts_with(word) || lower.contains(&format!(" {word}"));
        let types = head.split('`').skip(1).step_by(2).map(str::to_owned);
        let types: Vec<_> = types.collect();
        let kinds = [
            has("event").then_some(Kind::Event),
            has("condition").then_some(Kind::Condition),
            has("reason of `").then_some(Kind::Reason(types)),
        ];
        (kinds.into_iter().flatten().collect(), objects)
    };
    let objects = objects.replace(", ", " and ");
    let objects = objects.split(" and ").map(|object| {
        let articles = ["a ", "an ", "the "];
        let bare = articles
            .iter()
            .find_map(|article| object.strip_prefix(article));
        bare.unwrap_or(object).trim_matches('`').to_owned()
    });
    let objects: Vec<String> = objects.filter(|object| !object.is_empty()).collect();
    if objects.is_empty() {
        return Vec::new();
    }
    let definition = |kind| Definition {
        name: name.to_owned(),
        kind,
        objects: objects.clone(),
        meaning: with_links(meaning.trim_end_matches('.')),
        crate_name: crate_name.to_owned(),
    };
    kinds.into_iter().map(definition).collect()
}

/// The text with links in place of paths such as `docs/sizing.md#limits`.
fn with_links(text: &str) -> String {
    let mut parts = text.split("docs/");
    let mut linked = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let is_end = |letter: char| !(letter.is_ascii_alphanumeric() || ".#-".contains(letter));
        let (target, rest) = part.split_at(part.find(is_end).unwrap_or(part.len()));
        let _ = write!(linked, "[{}](../{target}){rest}", title(target));
    }
    linked
}

#[test]
fn a_comment_names_kinds_objects_and_meaning() {
    let comment = "Event, and reason of `Ready` and `Accurate`, of an EHPA and a prediction: it works; see \
        docs/sizing.md#sizing-methods, or docs/rules.md.";
    let kinds = parse("Works", comment, "horizontal");
    let types = vec!["Ready".to_owned(), "Accurate".to_owned()];
    let of = |kind| {
        Definition {
        name: "Works".to_owned(),
        kind,
        objects: vec!["EHPA".to_owned(), "prediction".to_owned()],
        meaning:
            "it works; see [Sizing methods](../sizing.md#sizing-methods), or [Metrics from queries to Prometheus](../rules.md)"
                .to_owned(),
        crate_name: "horizontal".to_owned(),
    }
    };
    assert_eq!(kinds, [of(Kind::Event), of(Kind::Reason(types))]);
    let label = parse("a/b", "Label that Plimsoll writes on a pod: a name.", "api");
    let expected = Kind::Metadata {
        is_set_by_users: false,
        is_label: true,
    };
    assert_eq!(label[0].kind, expected);
    assert_eq!(parse("x", "Length of a name: at most 3.", "api"), []);
}
