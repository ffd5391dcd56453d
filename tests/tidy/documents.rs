//! Documents tell the truth about where things are, and the first of them stays short.

use std::path::{Path, PathBuf};

use crate::repository::{files, read, root, sources};

/// Everything in Markdown. Paths in it are from the root or from its own folder, links from its own
/// folder.
fn documents() -> Vec<PathBuf> {
    files()
        .into_iter()
        .filter(|path| path.extension().is_some_and(|extension| extension == "md"))
        .collect()
}

fn code(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

fn looks_like_a_path(code: &str) -> bool {
    ["crates/", "deploy/", "tests/", "proto/", "certs/", "src/"]
        .iter()
        .any(|top| code.starts_with(top))
        && !code.contains([' ', '*', '$', '<'])
}

#[test]
fn every_path_in_a_document_exists() {
    for document in documents() {
        let (text, folder) = (
            read(&document),
            document.parent().expect("a file lies in a folder"),
        );
        for path in code(&text).filter(|code| looks_like_a_path(code)) {
            let exists = root().join(path).exists() || root().join(folder).join(path).exists();
            assert!(
                exists,
                "{} names {path}, which does not exist",
                document.display()
            );
        }
    }
}

/// The anchors of the headings of a document: lower case, without punctuation, dashes for spaces.
fn anchors(text: &str) -> impl Iterator<Item = String> {
    text.lines()
        .filter(|line| line.starts_with('#'))
        .map(|line| {
            line.trim_start_matches('#')
                .trim()
                .to_lowercase()
                .chars()
                .filter(|letter| letter.is_alphanumeric() || [' ', '-', '_'].contains(letter))
                .map(|letter| if letter == ' ' { '-' } else { letter })
                .collect()
        })
}

#[test]
fn every_link_in_a_document_leads_to_a_file_and_a_heading() {
    for document in documents() {
        let (text, folder) = (
            read(&document),
            document.parent().expect("a file lies in a folder"),
        );
        for link in &links(&text) {
            let (path, anchor) = link.split_once('#').unwrap_or((link, ""));
            let target = if path.is_empty() {
                document.clone()
            } else {
                folder.join(path)
            };
            assert!(
                root().join(&target).exists(),
                "{} links to {link}, which does not exist",
                document.display()
            );
            assert!(
                anchor.is_empty() || anchors(&read(&target)).any(|heading| heading == anchor),
                "{} links to {link}, which has no such heading",
                document.display()
            );
        }
    }
}

/// The links of a document to files. Code has none.
fn links(text: &str) -> Vec<String> {
    let text: Vec<&str> = text.split('`').step_by(2).collect();
    let text = text.concat();
    let links = text.split("](").skip(1);
    links
        .filter_map(|rest| rest.split(')').next())
        .filter(|link| !link.starts_with("http"))
        .map(str::to_owned)
        .collect()
}

#[test]
fn the_summary_of_the_book_has_each_page_once() {
    let summary = read(Path::new("docs/SUMMARY.md"));
    let listed = links(&summary).into_iter();
    let mut listed: Vec<PathBuf> = listed.map(|link| Path::new("docs").join(link)).collect();
    listed.sort();
    let mut pages = documents();
    pages.retain(|path| path.starts_with("docs") && !path.ends_with("SUMMARY.md"));
    pages.sort();
    assert_eq!(listed, pages);
}

#[test]
fn pages_of_the_book_link_to_pages_of_the_book() {
    for page in documents()
        .into_iter()
        .filter(|path| path.starts_with("docs"))
    {
        let depth = page.components().count() - 2;
        for link in links(&read(&page)) {
            let steps = link.split('/').take_while(|part| *part == "..").count();
            assert!(
                steps <= depth,
                "{} links to {link}: write the path as code",
                page.display()
            );
        }
    }
}

/// The rows of the table of formulas in a crate's own documentation: what, and which file below its
/// `src`.
fn formulas(text: &str) -> impl Iterator<Item = &str> {
    text.lines()
        .skip_while(|line| *line != "//! | formula | file |")
        .skip(2)
        .take_while(|line| line.starts_with("//! |"))
}

#[test]
fn every_table_of_formulas_names_its_files_and_is_linked_from_contributing() {
    let contributing = read(Path::new("CONTRIBUTING.md"));
    let mut tables = 0;
    for path in files()
        .into_iter()
        .filter(|path| path.starts_with("crates"))
    {
        let is_table = path.ends_with("src/lib.rs") && formulas(&read(&path)).next().is_some()
            || path.ends_with("README.md") && read(&path).contains("| formula | file |");
        if !is_table {
            continue;
        }
        tables += 1;
        assert!(
            contributing.contains(&format!("]({})", path.display())),
            "CONTRIBUTING.md does not link to {}",
            path.display()
        );
        for row in formulas(&read(&path)) {
            let files: Vec<&str> = row
                .rsplit(" | ")
                .next()
                .into_iter()
                .flat_map(code)
                .collect();
            assert!(!files.is_empty(), "{}: {row} names no file", path.display());
            for file in files {
                assert!(
                    root().join(&path).with_file_name(file).exists(),
                    "{} names {file}",
                    path.display()
                );
            }
        }
    }
    assert!(tables >= 10, "there are {tables} tables of formulas");
}

/// The modules in the map of a crate: names with which entries of lists and tables in its own
/// documentation begin.
fn mapped(text: &str) -> Vec<&str> {
    let entries = text.lines().filter_map(|line| {
        let entry = line.strip_prefix("//! ")?;
        let entry = entry.trim_start_matches(|letter: char| letter.is_ascii_digit());
        ["* ", ". ", "| "]
            .iter()
            .find_map(|start| entry.strip_prefix(start))
    });
    let is_name = |name: &&str| {
        !name.is_empty() && name.bytes().all(|it| it == b'_' || it.is_ascii_lowercase())
    };
    let names = entries.flat_map(|entry| {
        let is_opened_by_code = entry.starts_with(['`', '[']);
        let (head, is_list) = match entry.split_once([':', '|']) {
            Some((head, _)) => (head, true),
            None => (entry, false),
        };
        let names = code(head).take(if is_list { usize::MAX } else { 1 });
        names.take_while(move |_| is_opened_by_code)
    });
    names.filter(is_name).collect()
}

#[test]
fn every_map_of_a_crate_names_its_modules() {
    let mut names = 0;
    for path in files() {
        if !path.starts_with("crates") || !path.ends_with("src/lib.rs") {
            continue;
        }
        let text = read(&path);
        for name in mapped(&text) {
            names += 1;
            let is_module = text.contains(&format!("mod {name};"));
            let is_crate = root().join("crates").join(name).exists();
            assert!(
                is_module || is_crate,
                "{} names {name}, which is no module",
                path.display()
            );
        }
    }
    assert!(names > 50, "the maps have {names} names");
}

/// The longest line of prose. Rust's formatter wraps code, and no comment.
const MAX_COLUMNS: usize = 120;

/// Lines of prose: of a document those outside of tables and code, of a source its comments outside of tables.
fn prose(path: &Path) -> Vec<(usize, String)> {
    let is_document = path.extension().is_some_and(|extension| extension == "md");
    let mut is_code = false;
    let text = read(path);
    let lines = text.lines().enumerate().filter(|(_, line)| {
        let line = line.trim_start();
        is_code ^= is_document && line.starts_with("```");
        let is_prose = !is_code && (is_document || line.starts_with("//"));
        is_prose && !line.trim_start_matches(['/', '!', ' ']).starts_with('|')
    });
    lines
        .map(|(number, line)| (number + 1, line.to_owned()))
        .collect()
}

#[test]
fn prose_fits_a_screen() {
    let golden = |path: &PathBuf| path.iter().any(|part| part == "golden");
    let paths = documents().into_iter().chain(sources());
    for path in paths.filter(|path| !golden(path)) {
        for (number, line) in prose(&path) {
            assert!(
                line.chars().count() <= MAX_COLUMNS,
                "{}:{number} has more than {MAX_COLUMNS} columns",
                path.display()
            );
        }
    }
}

#[test]
fn all_documents_together_stay_readable() {
    let lines: usize = documents()
        .iter()
        .map(|path| read(path).lines().count())
        .sum();
    assert!(
        lines <= 6540,
        "{lines} lines of Markdown: delete what another page says"
    );
}

#[test]
fn the_readme_is_one_page() {
    let lines = read(Path::new("README.md")).lines().count();
    assert!(lines <= 80, "{lines} lines: the rest belongs in docs/");
}
