//! Selectors: matching, parsing and formatting.

use std::collections::BTreeMap;

use model::{Labels, Selector};
use proptest::prelude::*;

/// Parses a selector, compares its canonical text, and checks the label sets that it matches.
fn check(text: &str, canonical: &str, expected: [bool; 4]) {
    let selector: Selector = text.parse().expect(text);
    assert_eq!(selector.to_string(), canonical, "{text}");
    let again: Selector = canonical.parse().expect(canonical);
    assert_eq!(again, selector, "{text} reads back");
    let sets: [&[(&str, &str)]; 4] = [
        &[],
        &[("app", "web")],
        &[("app", "db"), ("tier", "back")],
        &[("app", "web"), ("tier", "front")],
    ];
    for (labels, expected) in sets.iter().zip(expected) {
        let labels: Labels = labels.iter().copied().collect();
        assert_eq!(selector.matches(&labels), expected, "{text} on {labels}");
    }
}

#[test]
fn selectors_match_as_in_kubernetes() {
    let all = |matches: [u8; 4]| matches.map(|it| it == 1);
    for (text, canonical, expected) in [
        ("", "", [1, 1, 1, 1]),
        ("app=web", "app=web", [0, 1, 0, 1]),
        (" app == web ", "app=web", [0, 1, 0, 1]),
        ("app!=web", "app!=web", [1, 0, 1, 0]),
        (
            "app in (web, db),tier",
            "app in (db,web),tier",
            [0, 0, 1, 1],
        ),
        ("tier notin (back),app", "app,tier!=back", [0, 1, 0, 1]),
        (
            "tier notin (back,mid)",
            "tier notin (back,mid)",
            [1, 1, 0, 1],
        ),
        ("!tier,app=web", "app=web,!tier", [0, 1, 0, 0]),
        ("tier=", "tier=", [0, 0, 0, 0]),
        ("tier > 1", "tier>1", [0, 0, 0, 0]),
    ] {
        check(text, canonical, all(expected));
    }
}

#[test]
fn numbers_are_compared_as_numbers() {
    let matches = |selector: &str, value: &str| {
        let labels: Labels = [("n", value)].into_iter().collect();
        selector.parse::<Selector>().unwrap().matches(&labels)
    };
    assert!(matches("n>9", "10") && !matches("n>9", "9") && !matches("n>9", "ten"));
    assert!(matches("n<9", "-10") && !matches("n<9", "9") && !matches("n < 9", ""));
}

#[test]
fn texts_that_are_not_selectors_are_refused() {
    for text in [
        "=web",
        "app=web,",
        "app in web",
        "app in (web",
        "app between (a)",
        "a b",
        "a>",
        "a>b",
        ">1",
        "a>1.5",
        "a<99999999999999999999",
        "!",
        "app=(a)",
    ] {
        assert!(text.parse::<Selector>().is_err(), "{text}");
    }
}

#[test]
fn nothing_matches_nothing_and_differs_from_everything() {
    assert!(!Selector::nothing().matches(&Labels::default()));
    assert_ne!(Selector::nothing(), Selector::everything());
}

#[test]
fn match_expressions_become_conditions() {
    let labels = BTreeMap::from([("app".to_owned(), "web".to_owned())]);
    let expression = |operator: &str, values: &[&str]| {
        let values = values.iter().map(|value| (*value).to_owned()).collect();
        Selector::from_parts(&labels, [("tier".to_owned(), operator.to_owned(), values)])
            .map(|s| s.to_string())
    };
    assert_eq!(
        expression("In", &["b", "a"]).unwrap(),
        "app=web,tier in (a,b)"
    );
    assert_eq!(expression("NotIn", &["b"]).unwrap(), "app=web,tier!=b");
    assert_eq!(expression("Exists", &[]).unwrap(), "app=web,tier");
    assert_eq!(expression("DoesNotExist", &[]).unwrap(), "app=web,!tier");
    assert!(expression("In", &[]).is_err());
    assert!(expression("Exists", &["a"]).is_err());
    assert!(expression("Above", &["a"]).is_err());
}

proptest! {
    #[test]
    fn no_text_panics(text in "\\PC*") {
        if let Ok(selector) = text.parse::<Selector>() {
            prop_assert_eq!(selector.to_string().parse::<Selector>().unwrap(), selector);
        }
    }
}
