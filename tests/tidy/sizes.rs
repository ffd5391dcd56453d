//! Sizes: no file, function or crate is too long to read. A budget for what has to be read and known
//! grows only where `budget.txt` says why.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use e2e::SERVICES;

use crate::repository::{files, read, sources};

/// Lines of a source file; half of them should be under 150.
const MAX_FILE: usize = 500;
const MAX_FUNCTION: usize = 100;
/// Lines of a crate, in percent of those of all crates.
const MAX_CRATE_PERCENT: f64 = 12.0;
/// Lines of the recommender, which wires controllers whose decisions are in other crates.
const MAX_RECOMMENDER: usize = 6000;

#[test]
fn source_files_stay_small() {
    let lines = |path: &PathBuf| read(path).lines().count();
    let long = sources().into_iter().map(|path| (lines(&path), path));
    let long: Vec<_> = long.filter(|(lines, _)| *lines > MAX_FILE).collect();
    assert!(long.is_empty(), "more than {MAX_FILE} lines: {long:#?}");
}

#[test]
fn functions_stay_short() {
    let mut long = Vec::new();
    for path in sources() {
        for (name, lines) in functions(&read(&path)) {
            if lines > MAX_FUNCTION {
                long.push(format!("{}: {name} has {lines} lines", path.display()));
            }
        }
    }
    assert!(
        long.is_empty(),
        "more than {MAX_FUNCTION} lines:\n{}",
        long.join("\n")
    );
}

/// Names of functions with bodies, and their lines. In formatted code a function ends with the
/// first brace at its own indentation.
fn functions(text: &str) -> Vec<(String, usize)> {
    let (mut found, mut open) = (Vec::new(), None);
    for (number, line) in text.lines().enumerate() {
        let code = line.trim_start();
        let indentation = line.len() - code.len();
        if let Some(name) = function_name(code) {
            open = Some((indentation, number, name.to_owned()));
        } else if code == "}"
            && let Some((_, begin, name)) = open.take_if(|(at, ..)| *at == indentation)
        {
            found.push((name, number - begin + 1));
        }
    }
    found
}

fn function_name(code: &str) -> Option<&str> {
    let words = [
        "pub ",
        "pub(crate) ",
        "pub(super) ",
        "const ",
        "async ",
        "unsafe ",
    ];
    let mut rest = code;
    while let Some(next) = words.iter().find_map(|word| rest.strip_prefix(word)) {
        rest = next;
    }
    let name = rest.strip_prefix("fn ")?;
    name.split(['(', '<']).next()
}

#[test]
fn no_crate_holds_too_much() {
    let mut crates: BTreeMap<PathBuf, usize> = BTreeMap::new();
    for path in sources() {
        // A crate, or one of the test targets.
        let name = path.iter().take(2).collect();
        *crates.entry(name).or_default() += read(&path).lines().count();
    }
    let all: usize = crates.values().sum();
    for (name, lines) in &crates {
        let percent = 100.0 * *lines as f64 / all as f64;
        assert!(
            percent <= MAX_CRATE_PERCENT,
            "{} has {lines} lines, {percent:.1} % of all",
            name.display()
        );
    }
    let recommender = crates[Path::new("crates/recommender")];
    assert!(
        recommender <= MAX_RECOMMENDER,
        "the recommender has {recommender} lines"
    );
}

#[test]
fn lines_of_functions_are_counted() {
    let text = "impl A {\n    pub(super) async fn long<T>() {\n        {\n        }\n    }\n}\nfn f() {\n}\n";
    let expected = [("long", 4), ("f", 2)].map(|(name, lines)| (name.to_owned(), lines));
    assert_eq!(functions(text), expected);
}

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
    // The README of the chart is generated.
    let markdown = files().into_iter().filter(|path| {
        path.extension().is_some_and(|it| it == "md") && !path.starts_with("deploy/chart")
    });
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

/// Crates that tests and demonstrations run on.
const TEST_CRATES: [&str; 2] = ["sandbox", "testing"];

fn is_product(path: &Path) -> bool {
    let mut parts = path.iter().filter_map(|part| part.to_str());
    let is_of_product = parts.next() == Some("crates")
        && parts
            .next()
            .is_some_and(|name| !TEST_CRATES.contains(&name))
        && parts.next() == Some("src");
    is_of_product
        && !parts.any(|part| matches!(part, "tests" | "tests.rs" | "vectors" | "vectors.rs"))
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
        ("crates/testing/src/hpa.rs", false),
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
