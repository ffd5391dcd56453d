//! Words: doc comments open with a noun or a verb, and no text uses the words of a private language.

use crate::repository::{files, read};

/// A doc comment that opens with one of these asks a question in place of naming a thing.
const QUESTION_WORDS: [&str; 8] = [
    "What", "How", "Which", "Who", "Whose", "Why", "Where", "When",
];

/// Put together here, so that this file does not contain them.
const BANNED: [&str; 9] = [
    concat!("for want", " of"),
    concat!("some", "body"),
    concat!("no", "body"),
    concat!("any", "body"),
    concat!("who", "ever"),
    concat!("so", " many"),
    concat!("is", " none"),
    concat!("of", " what"),
    concat!("effective", " autoscaler"),
];

/// File name extensions whose text is checked.
const TEXTS: [&str; 6] = ["rs", "proto", "md", "yaml", "toml", "sh"];

#[test]
fn doc_comments_open_with_a_noun_or_a_verb() {
    let mut found = Vec::new();
    for path in files().iter().filter(|path| has_extension(path, &["rs"])) {
        let text = read(path);
        let mut is_inside = false;
        for (number, line) in text.lines().enumerate() {
            let comment = ["///", "//!"]
                .iter()
                .find_map(|marker| line.trim_start().strip_prefix(marker));
            let first = comment.and_then(|comment| comment.split_whitespace().next());
            if !is_inside && first.is_some_and(|word| QUESTION_WORDS.contains(&word)) {
                found.push(format!(
                    "{}:{}: {}",
                    path.display(),
                    number + 1,
                    line.trim()
                ));
            }
            is_inside = comment.is_some();
        }
    }
    assert!(found.is_empty(), "name the thing:\n{}", found.join("\n"));
}

#[test]
fn no_text_uses_banned_words() {
    let mut found = Vec::new();
    for path in files().iter().filter(|path| has_extension(path, &TEXTS)) {
        let text = read(path).to_lowercase();
        for (number, line) in text.lines().enumerate() {
            for word in BANNED.iter().filter(|word| contains_word(line, word)) {
                found.push(format!("{}:{}: {word}", path.display(), number + 1));
            }
        }
    }
    assert!(found.is_empty(), "use other words:\n{}", found.join("\n"));
}

fn has_extension(path: &std::path::Path, extensions: &[&str]) -> bool {
    path.extension()
        .and_then(|extension| extension.to_str())
        .is_some_and(|extension| extensions.contains(&extension))
}

/// Whether `text` contains `word`, not as a part of a longer one.
fn contains_word(text: &str, word: &str) -> bool {
    text.match_indices(word).any(|(at, _)| {
        let is_letter = |other: Option<char>| other.is_some_and(char::is_alphanumeric);
        !is_letter(text[..at].chars().next_back())
            && !is_letter(text[at + word.len()..].chars().next())
    })
}

#[test]
fn words_are_found_whole() {
    assert!(contains_word("a pod, so it is", "pod"));
    assert!(!contains_word("a podium", "pod") && !contains_word("tripod", "pod"));
}
