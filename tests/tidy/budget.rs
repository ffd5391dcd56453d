//! A budget for what has to be read and known: it grows only where `budget.txt` says why.

use std::path::{Path, PathBuf};

use e2e::SERVICES;

use crate::repository::{files, read, sources};

/// Percent below its limit from which a number lowers the limit.
const MAX_SLACK_PERCENT: usize = 2;

/// A limit, and what counts now.
#[derive(Debug)]
struct Item {
    name: &'static str,
    found: usize,
}

fn items() -> Vec<Item> {
    let item = |name, found| Item { name, found };
    let product = sources().into_iter().filter(|path| is_product(path));
    let product = product.map(|path| product_lines(&read(&path))).sum();
    let markdown = files()
        .into_iter()
        .filter(|path| path.extension().is_some_and(|it| it == "md"));
    let lines = |path: &PathBuf| read(path).lines().count();
    let reference = |name: &str| read(&Path::new("tests/reference").join(name));
    vec![
        item("product lines", product),
        item("all lines of Rust", sources().iter().map(lines).sum()),
        item("lines of Markdown", markdown.map(|path| lines(&path)).sum()),
        item("flags of the services", flags(&reference("flags.txt"))),
        item("metrics", reference("metrics.txt").lines().count()),
        item(
            "conditions and their reasons",
            reference("conditions.txt").lines().count(),
        ),
        item(
            "annotations and labels",
            reference("annotations.txt").lines().count(),
        ),
    ]
}

fn is_product(path: &Path) -> bool {
    let mut parts = path.iter().filter_map(|part| part.to_str());
    let is_source = parts.next() == Some("crates") && parts.nth(1) == Some("src");
    is_source && !parts.any(|part| matches!(part, "tests" | "tests.rs" | "vectors" | "vectors.rs"))
}

/// Lines before the unit tests.
fn product_lines(text: &str) -> usize {
    let product = text.split("#[cfg(test)]\nmod tests {").next();
    product.unwrap_or_default().lines().count()
}

/// Flags of each service; one of two services counts twice.
fn flags(list: &str) -> usize {
    let services = list
        .lines()
        .filter_map(|line| Some(line.rsplit_once(": ")?.1));
    let services = services.flat_map(|services| services.split(", "));
    services.filter(|name| SERVICES.contains(name)).count()
}

#[test]
fn nothing_grows_without_a_reason() {
    let text = read(Path::new("tests/tidy/budget.txt"));
    let limit = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name));
        let number = line.and_then(|line| line.trim_start_matches(": ").split(',').next());
        let number = number.and_then(|number| number.parse::<usize>().ok());
        number.unwrap_or_else(|| panic!("budget.txt has no number for {name}"))
    };
    let is_wrong = |item: &Item| {
        let limit = limit(item.name);
        let slack = limit * MAX_SLACK_PERCENT / 100;
        item.found > limit || item.found + slack < limit
    };
    let wrong: Vec<_> = items().into_iter().filter(is_wrong).collect();
    assert!(
        wrong.is_empty(),
        "not as in tests/tidy/budget.txt: {wrong:#?}"
    );
}

#[test]
fn tests_are_no_product() {
    for (path, expected) in [
        ("crates/view/src/matched.rs", true),
        ("crates/view/src/matched/tests.rs", false),
        ("crates/view/tests/all.rs", false),
        ("tests/tidy/main.rs", false),
    ] {
        assert_eq!(is_product(Path::new(path)), expected, "{path}");
    }
    assert_eq!(product_lines("a\nb\n#[cfg(test)]\nmod tests {\n}\n"), 2);
    assert_eq!(
        flags("--a [1]: updater, plimsoll x\n--a: webhook, updater\n"),
        3
    );
}
