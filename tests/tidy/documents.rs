//! Documents tell the truth about where things are, and the first of them stays short.

use std::path::{Path, PathBuf};

use crate::repository::{files, read, root};

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

#[test]
fn the_readme_is_one_page() {
    let lines = read(Path::new("README.md")).lines().count();
    assert!(lines <= 130, "{lines} lines: the rest belongs in docs/");
}
