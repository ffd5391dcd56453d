//! Restricted and rejected expressions.

use super::*;

/// `expected`: the expression with `NS` as the matcher of the namespace, or a part of the error.
fn check(expression: &str, expected: Result<&str, &str>) {
    let found = confine(expression, "namespace", "shop");
    match expected {
        Ok(expected) => {
            let expected = expected.replace("NS", r#"namespace="shop""#);
            assert_eq!(found, Ok(expected), "{expression}");
        }
        Err(part) => {
            let error = found.expect_err(expression).to_string();
            assert!(error.contains(part), "{expression}: {error}");
            assert!(error.len() < 200, "{error}");
        }
    }
}

#[test]
fn every_selector_gets_the_matcher() {
    check("up", Ok("up{NS}"));
    check("up{}", Ok("up{NS}"));
    check(
        r#"up{job="a",pod=~"b.*",}"#,
        Ok(r#"up{job="a",pod=~"b.*",NS}"#),
    );
    check(r#"{__name__=~".+"}"#, Ok(r#"{__name__=~".+",NS}"#));
    check(
        "up or secret and other",
        Ok("up{NS} or secret{NS} and other{NS}"),
    );
    check(
        "sum(rate(a:b[5m])) by (pod) / on(pod) group_left(x) b",
        Ok("sum(rate(a:b{NS}[5m])) by (pod) / on (pod) group_left (x) b{NS}"),
    );
    check("a > bool on() b", Ok("a{NS} > bool on () b{NS}"));
    check(
        "a * ignoring(x) group_right b",
        Ok("a{NS} * ignoring (x) group_right b{NS}"),
    );
    check(
        "max_over_time(rate(a[5m])[1h:5m] offset 1d)",
        Ok("max_over_time(rate(a{NS}[5m])[1h:5m] offset 1d)"),
    );
    check(
        "a[1h:] @ start() offset -5m",
        Ok("a{NS}[1h:] @ start() offset -5m"),
    );
    check(
        "-a ^ +2 + a @ 1609746000",
        Ok("-a{NS} ^ +2 + a{NS} @ 1609746000"),
    );
    check("(a)", Ok("(a{NS})"));
    check(
        "histogram_quantile(0.9, sum by(le, job)(rate(a[5m])))",
        Ok("histogram_quantile(0.9, sum by (le,job)(rate(a{NS}[5m])))"),
    );
    check(
        "clamp_max(a, Inf) + time() + vector(1) - nan",
        Ok("clamp_max(a{NS}, Inf) + time() + vector(1) - nan"),
    );
    // Metrics with names of functions.
    check("rate + time", Ok("rate{NS} + time{NS}"));
}

#[test]
fn parameters_of_aggregations_are_confined_too() {
    check(
        "topk(scalar(secret), a)",
        Ok("topk(scalar(secret{NS}), a{NS})"),
    );
    check(
        "quantile without (x) (scalar(secret), a)",
        Ok("quantile without (x)(scalar(secret{NS}), a{NS})"),
    );
    check(
        r#"label_replace(a, "b", "$1", "c", "(.*)")"#,
        Ok(r#"label_replace(a{NS}, "b", "$1", "c", "(.*)")"#),
    );
}

#[test]
fn a_matcher_of_another_namespace_stays_and_finds_nothing() {
    check(r#"up{namespace="bank"}"#, Ok(r#"up{namespace="bank",NS}"#));
    check(
        r#"up{namespace=~"shop|bank"}"#,
        Ok(r#"up{namespace=~"shop|bank",NS}"#),
    );
    check(
        r#"up{namespace!="shop"}"#,
        Ok(r#"up{namespace!="shop",NS}"#),
    );
    // One matcher is enough.
    check(r#"up{namespace="shop",a="b"}"#, Ok(r#"up{NS,a="b"}"#));
    check(r"up{namespace='shop'}", Ok(r"up{namespace='shop',NS}"));
}

#[test]
fn keywords_may_be_written_in_capitals() {
    check(
        "SUM(a) BY (b) AND c OFFSET 5m",
        Ok("sum(a{NS}) by (b) and c{NS} offset 5m"),
    );
}

#[test]
fn nothing_can_be_put_into_it_by_strings_and_comments() {
    check(
        r#"up{a="x\"} or secret{b=\""}"#,
        Ok(r#"up{a="x\"} or secret{b=\"",NS}"#),
    );
    check(
        r#"up{a='x"} or secret{b="'}"#,
        Ok(r#"up{a='x"} or secret{b="',NS}"#),
    );
    check(r"up{a=`x\`} # ` or secret", Ok(r#"up{a="x\\",NS}"#));
    check("up # {\n or secret", Ok("up{NS} or secret{NS}"));
    check("up #\r or secret", Ok("up{NS}"));
}

#[test]
fn the_value_cannot_leave_its_quotes() {
    let confined = confine("up", "namespace", "a\"} or up{b=\"");
    assert_eq!(
        confined.as_deref(),
        Ok(r#"up{namespace="a\"} or up{b=\""}"#)
    );
}

#[test]
fn what_may_read_more_is_refused() {
    for (expression, why) in [
        (
            "info(up)",
            "character 1: the function info cannot be confined",
        ),
        (
            "unheard_of(up)",
            "the function unheard_of cannot be confined",
        ),
        (r#"up{a="b" or c="d"}"#, "expected ,, found or"),
        (
            r#"{"up", a="b"}"#,
            "expected the name of a label, found a string",
        ),
        (r#"{"a.b"="c"}"#, "expected the name of a label"),
        ("WITH (x = up) x", "the function WITH"),
        ("sum{}", "expected (, found {"),
        ("by", "by is a keyword"),
        ("offset{}", "offset is a keyword"),
    ] {
        check(expression, Err(why));
    }
}

#[test]
fn what_is_no_expression_is_refused() {
    for (expression, why) in [
        ("", "character 1: expected an operand, found the end"),
        ("up)", "character 3: expected an operator, found )"),
        ("up up", "character 4: expected an operator, found up"),
        ("(up", "expected ), found the end"),
        ("up{", "expected the name of a label"),
        ("up{a}", "expected =, !=, =~ or !~"),
        ("up{a=b}", "expected a string"),
        ("up{a=\"b\"", "expected ,"),
        ("up{a:b=\"c\"}", "expected the name of a label"),
        ("up[x]", "expected a number or a duration"),
        ("up[5m", "expected ]"),
        ("sum()", "expected an operand"),
        ("rate(a,)", "expected an operand"),
        ("a + * b", "expected an operand, found *"),
        ("up; drop", "';' is not part of an expression"),
        ("up{a=\"b", "the string does not end"),
        ("5x", "neither a number nor a duration"),
        ("a by (b)", "expected an operator, found by"),
    ] {
        check(expression, Err(why));
    }
}

#[test]
fn depth_is_bounded_and_the_length_of_a_chain_is_not() {
    let nested = |depth: usize| format!("{}1{}", "(".repeat(depth), ")".repeat(depth));
    check(&nested(50), Ok(&nested(50)));
    check(&nested(51), Err("brackets are nested deeper than 50"));
    check(&nested(100_000), Err("brackets are nested deeper than 50"));
    let chain = "1 + ".repeat(2000) + "1";
    check(&chain, Ok(&chain));
    let signs = "-".repeat(7000) + "1";
    check(&signs, Ok(&signs));
    let calls = "a(".repeat(8000);
    check(&calls, Err("the function a cannot be confined"));
    let long = format!("{}(1)", "x".repeat(8000));
    check(&long, Err("the function xxxx"));
}

proptest::proptest! {
    #[test]
    fn confining_twice_is_confining_once(text in "(sum|rate|up|b|by|on|or|\\(|\\)|\\{|\\}|a=\"b\"|a!~'c'|\\[5m\\]|,| |-|offset 5m|@ 1|1){0,30}") {
        if let Ok(once) = confine(&text, "namespace", "shop") {
            let selectors = once.matches('{').count();
            proptest::prop_assert_eq!(once.matches(r#"namespace="shop"}"#).count(), selectors, "{}", &once);
            let twice = confine(&once, "namespace", "shop");
            proptest::prop_assert_eq!(twice.as_deref(), Ok(once.as_str()));
        }
    }

    #[test]
    fn no_text_makes_the_parser_panic(text in proptest::prelude::any::<String>()) {
        drop(confine(&text, "namespace", "shop"));
    }
}
