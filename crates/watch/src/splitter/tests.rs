//! Responses are split at every byte: chunk boundaries make no difference.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

const CUTS: &[ExcludedField] = &[
    ExcludedField::only(&["metadata"], &["managedFields"]),
    ExcludedField::only(&["spec", "template", "containers"], &["env"]),
    ExcludedField::all_but(&["metadata", "annotations"], &["plimsoll.dev/", "vpa"]),
];

/// Namespace, name, resourceVersion and remaining fields of an object; documents have no name.
type Found = Vec<(String, String, String, Option<Value>)>;

fn split(framing: Framing, chunks: &[&[u8]], most_weight: usize) -> Result<Found, Malformed> {
    let mut splitter = Splitter::new(framing, CUTS, most_weight);
    let mut all = Vec::new();
    for chunk in chunks {
        splitter.push(chunk, |piece| {
            let json = |text: &[u8]| serde_json::from_slice(text).expect("what is left is JSON");
            let ([namespace, name, version], text) = match piece {
                Piece::Item(item) => ([item.namespace, item.name, item.version], item.text),
                Piece::Document(text) => ([""; 3], Some(text)),
            };
            let [namespace, name, version] = [namespace, name, version].map(str::to_owned);
            all.push((namespace, name, version, text.map(json)));
        })?;
    }
    splitter.end()?;
    Ok(all)
}

/// Splits at each byte, and in one piece.
fn check(framing: Framing, text: &str, expected: &[(&str, Value)]) {
    let expected: Vec<_> = expected
        .iter()
        .map(|(name, value)| ((*name).to_owned(), Some(value.clone())))
        .collect();
    let found = |chunks: &[&[u8]]| -> Vec<_> {
        let found = split(framing, chunks, usize::MAX).expect("it is well formed");
        found
            .into_iter()
            .map(|(_, name, _, value)| (name, value))
            .collect()
    };
    let bytes: Vec<_> = text.as_bytes().chunks(1).collect();
    assert_eq!(found(&[text.as_bytes()]), expected, "{text}");
    assert_eq!(found(&bytes), expected, "{text}");
}

#[test]
fn a_list_is_split_into_objects_without_excluded_fields() {
    let object = json!({
        "metadata": {
            "annotations": {"a\"]}": "{[", "plimsoll.dev/x": "\\\"", "vpaUpdates": "y"}, "managedFields": [{"a": ["}"]}, 1],
            "name": "web", "namespace": "shop", "resourceVersion": "7", "labels": {"managedFields": "stays"},
        },
        "spec": {"template": {"containers": [{"env": 1, "name": "a"}, {"name": "b", "env": [{}]}, 3, null]}, "env": true},
    });
    let left = json!({
        "metadata": {
            "annotations": {"plimsoll.dev/x": "\\\"", "vpaUpdates": "y"},
            "name": "web", "namespace": "shop", "resourceVersion": "7", "labels": {"managedFields": "stays"},
        },
        "spec": {"template": {"containers": [{"name": "a"}, {"name": "b"}, 3, null]}, "env": true},
    });
    let list = json!({"kind": "List", "items": [object, {"metadata": {"name": "b"}}], "metadata": {"continue": "c"}});
    let envelope = json!({"kind": "List", "items": [], "metadata": {"continue": "c"}});
    let expected = [
        ("web", left),
        ("b", json!({"metadata": {"name": "b"}})),
        ("", envelope),
    ];
    check(Framing::List, &list.to_string(), &expected);
    check(Framing::List, &format!("{list:#}\n"), &expected);
    for whole in [
        json!({"items": [], "x": {"items": [1]}}),
        json!({"items": null}),
    ] {
        check(Framing::List, &whole.to_string(), &[("", whole)]);
    }
}

#[test]
fn events_are_split_into_objects_and_types() {
    let object =
        json!({"metadata": {"name": "web", "managedFields": [1]}, "object": {"items": [2]}});
    let left = json!({"metadata": {"name": "web"}, "object": {"items": [2]}});
    let event = json!({"type": "ADDED", "object": object});
    let around = json!({"type": "ADDED", "object": null});
    let bookmark = json!({"object": {"metadata": {"resourceVersion": "8"}}, "type": "BOOKMARK"});
    check(
        Framing::Events,
        &format!("{event}\n{event}{bookmark}\n"),
        &[
            ("web", left.clone()),
            ("", around.clone()),
            ("web", left),
            ("", around),
            ("", json!({"metadata": {"resourceVersion": "8"}})),
            ("", json!({"type": "BOOKMARK", "object": null})),
        ],
    );
    let around = json!({"type": "ADDED", "object": null});
    let number = r#"{"type": "ADDED", "object": 1}"#;
    check(Framing::Events, number, &[("", json!(1)), ("", around)]);
}

#[test]
fn an_object_that_is_too_large_or_too_deep_has_a_key_and_no_text() {
    let deep = "[".repeat(1000) + &"]".repeat(1000);
    let long = "x".repeat(3 * MOST_OF_ENVELOPE);
    let metadata = r#""metadata": {"name": "a", "namespace": "b", "resourceVersion": "3"}"#;
    for large in [
        format!(r#"{{"spec": "{long}", {metadata}}}"#),
        format!(r#"{{"spec": {{"{long}": 1}}, {metadata}}}"#),
        format!(r#"{{{metadata}, "spec": {deep}}}"#),
    ] {
        let text = format!(r#"{{"items": [{large}, {{"metadata": {{"name": "c"}}}}]}}"#);
        let chunks: Vec<_> = text.as_bytes().chunks(7).collect();
        let found = split(Framing::List, &chunks, 1000).expect("well formed");
        let key = |name: &str| found.iter().find(|(_, found, _, _)| found == name).cloned();
        let [namespace, name, version] = ["b", "a", "3"].map(str::to_owned);
        assert_eq!(key("a"), Some((namespace, name, version, None)));
        assert!(key("c").is_some_and(|(_, _, _, text)| text.is_some()));
    }
}

#[test]
fn excluded_fields_weigh_nothing() {
    let weight = |env: usize| {
        let env = vec![json!({"name": "A", "value": "b"}); env];
        let object = json!({"metadata": {"name": "a"}, "spec": {"template": {"containers": [{"env": env}]}}});
        let text = json!({"items": [object]}).to_string();
        let (mut splitter, mut found) = (Splitter::new(Framing::List, CUTS, usize::MAX), 0);
        let pushed = splitter.push(text.as_bytes(), |piece| {
            if let Piece::Item(item) = piece {
                found = item.weight;
            }
        });
        assert_eq!(pushed, Ok(()));
        found
    };
    assert_eq!(weight(10_000), weight(1));
    assert!((1000..3000).contains(&weight(1)), "{}", weight(1));
}

#[test]
fn incomplete_and_malformed_responses_are_errors() {
    let check = |text: &[u8]| {
        let found = split(Framing::List, &[text], usize::MAX);
        assert_eq!(found, Err(Malformed), "{}", String::from_utf8_lossy(text));
    };
    let item = json!({"metadata": {"name": "a", "managedFields": [1]}});
    let text = json!({"items": [item], "metadata": {}}).to_string();
    for end in 1..text.len() {
        check(&text.as_bytes()[..end]);
    }
    for text in ["}", "]", ",", ":", "{]", "[}", r#"{"a": 1}]"#, "<html>"] {
        check(text.as_bytes());
    }
    let long = "x".repeat(MOST_OF_ENVELOPE);
    check(format!(r#"{{"metadata": {{"continue": "{long}"}}}}"#).as_bytes());
}

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        ".*".prop_map(Value::from)
    ];
    let name = prop_oneof![
        Just("items".to_owned()),
        Just("object".to_owned()),
        Just("env".to_owned()),
        ".*"
    ];
    leaf.prop_recursive(6, 60, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::btree_map(name.clone(), inner, 0..6).prop_map(|map| json!(map)),
        ]
    })
}

proptest! {
    #[test]
    fn an_object_without_excluded_fields_is_unchanged(spec in value(), sizes in prop::collection::vec(1_usize..40, 1..20)) {
        let object = json!({"metadata": {"name": "a"}, "data": spec});
        let text = json!({"type": "ADDED", "object": object}).to_string();
        let (mut chunks, mut rest, mut sizes) = (Vec::new(), text.as_bytes(), sizes.into_iter().cycle());
        while !rest.is_empty() {
            let (chunk, after) = rest.split_at(sizes.next().expect("some").min(rest.len()));
            chunks.push(chunk);
            rest = after;
        }
        let found = split(Framing::Events, &chunks, usize::MAX).expect("well formed");
        prop_assert_eq!(found[0].3.as_ref(), Some(&object));
    }

    #[test]
    fn no_bytes_make_it_panic(bytes in prop::collection::vec(prop_oneof![any::<u8>(), prop::sample::select(b"{}[]\",:\\ \n1".to_vec())], 0..200)) {
        for framing in [Framing::List, Framing::Events] {
            let mut splitter = Splitter::new(framing, CUTS, 500);
            // Well-formedness does not matter here.
            let _ = splitter.push(&bytes, |_| ()).and_then(|()| splitter.end());
        }
    }
}
