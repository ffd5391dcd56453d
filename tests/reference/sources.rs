//! The code of the services' crates: without comments and tests.

use std::path::{Path, PathBuf};

use crate::repository;

/// Crate of the command-line tool.
const TOOL: &str = "plimsoll";
/// Other crates that no service depends on.
const OTHER_CRATES: [&str; 3] = ["replay", "sandbox", "testing"];

/// A file, without comments and test modules.
pub(crate) struct Source {
    /// Path from the root of the repository.
    pub(crate) path: PathBuf,
    /// The code with comments.
    pub(crate) text: String,
    pub(crate) code: String,
}

impl Source {
    pub(crate) fn crate_name(&self) -> &str {
        let part = self.path.iter().nth(1).and_then(|part| part.to_str());
        part.expect("crates/NAME/src/...")
    }
}

/// All files of the services' crates.
pub(crate) fn sources() -> Vec<Source> {
    let sources = sources_with_tool().into_iter();
    sources
        .filter(|source| source.crate_name() != TOOL)
        .collect()
}

/// All files of the crates of the services and of the command-line tool.
pub(crate) fn sources_with_tool() -> Vec<Source> {
    let paths = repository::sources().into_iter();
    paths
        .filter(|path| is_of_program(path))
        .map(|path| {
            let text = repository::read(&path);
            let text = text.split("#[cfg(test)]\nmod tests {").next();
            let text = text.unwrap_or_default().to_owned();
            let code = text.lines();
            let code = code.filter(|line| !line.trim_start().starts_with("//"));
            let code = code.collect::<Vec<_>>().join("\n");
            Source { path, text, code }
        })
        .collect()
}

fn is_of_program(path: &Path) -> bool {
    let parts: Vec<_> = path.iter().filter_map(|part| part.to_str()).collect();
    let is_test = |part: &str| {
        let name = part.trim_end_matches(".rs");
        [
            "tests",
            "fixture",
            "golden",
            "vectors",
            "upstream",
            "upstream_flags",
        ]
        .contains(&name)
    };
    matches!(parts[..], ["crates", name, "src", ..] if !OTHER_CRATES.contains(&name))
        && !parts.iter().skip(3).any(|part| is_test(part))
}

pub(crate) fn literals(code: &str) -> Vec<String> {
    let (mut found, mut letters) = (Vec::new(), code.chars().peekable());
    while let Some(letter) = letters.next() {
        if letter == '\'' && letters.peek() == Some(&'"') {
            letters.next();
        } else if letter == '"' {
            let mut literal = String::new();
            while let Some(letter) = letters.next().filter(|letter| *letter != '"') {
                if letter == '\\' {
                    letters.next();
                } else {
                    literal.push(letter);
                }
            }
            found.push(literal);
        }
    }
    found
}

/// Whether the text has only these letters and is not empty.
pub(crate) fn consists_of(text: &str, is_allowed: impl Fn(char) -> bool) -> bool {
    !text.is_empty() && text.chars().all(is_allowed)
}
