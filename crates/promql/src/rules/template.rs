//! Templates of rule files: Go's `text/template` between `<<` and `>>`, as far as rules use it.
//!
//! | syntax | meaning |
//! |---|---|
//! | `<<.Series>>`, `<<$.Series>>` | a field |
//! | `<<.LabelValuesByName.pod>>` | the value of a map; `<no value>` if missing |
//! | `<<index .LabelValuesByName "pod">>`, `<<.GroupBy \| len>>` | a function: `index`, `len`, `eq`, `ne`, `lt`, `le`, `gt`, `ge`, `and`, `or`, `not` |
//! | `<<$x := .Series>>`, `<<$x>>` | a variable |
//! | `<<if ..>>`, `<<else if ..>>`, `<<else>>`, `<<end>>` | a condition |
//! | `<<range $key, $value := .LabelValuesByName>>`, `<<with ..>>` | a loop, another dot |
//! | `<<- ..>>`, `<<.. ->>`, `<</* .. */>>` | trimmed white space, a comment |
//!
//! Everything else is rejected when the file is parsed, and so are unknown fields and variables.
//! The crate `gotmpl` (0.6) cannot take this place: it accepts a lone `<<end>>` and an `<<if>>`
//! without one (test `what_is_no_template_is_refused`), and prints `<no value>` where Go prints
//! nothing, for `index` with an absent label (test `functions_are_called`).
//! Source: <https://pkg.go.dev/text/template>.

mod evaluate;
mod lex;
mod parse;

use std::collections::BTreeMap;
use std::fmt;

use parse::Node;

pub(super) type Fields = BTreeMap<&'static str, Value>;

/// Template whose fields and variables all exist.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Template(Vec<Node>);

impl Template {
    /// Parses a template that may use these fields.
    pub(super) fn parse(text: &str, fields: &[&'static str]) -> Result<Self, String> {
        parse::parse(text, fields).map(Self)
    }

    pub(super) fn fill(&self, fields: &Fields) -> Result<String, String> {
        evaluate::evaluate(&self.0, fields)
    }

    pub(super) fn uses(&self, field: &str) -> bool {
        parse::uses(&self.0, field)
    }
}

/// Value, formatted as in Go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Value {
    Text(String),
    Number(i64),
    Bool(bool),
    List(Vec<String>),
    Map(BTreeMap<String, String>),
    /// Missing value of a map.
    Nothing,
}

impl Value {
    /// Truth of a value: false if empty, zero or false.
    fn holds(&self) -> bool {
        match self {
            Self::Text(text) => !text.is_empty(),
            Self::Number(number) => *number != 0,
            Self::Bool(bool) => *bool,
            Self::List(list) => !list.is_empty(),
            Self::Map(map) => !map.is_empty(),
            Self::Nothing => false,
        }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => f.write_str(text),
            Self::Number(number) => write!(f, "{number}"),
            Self::Bool(bool) => write!(f, "{bool}"),
            Self::Nothing => f.write_str("<no value>"),
            Self::List(list) => write!(f, "[{}]", list.join(" ")),
            Self::Map(map) => {
                let pairs: Vec<String> = map
                    .iter()
                    .map(|(name, text)| format!("{name}:{text}"))
                    .collect();
                write!(f, "map[{}]", pairs.join(" "))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIELDS: &[&str] = &["Series", "GroupBy", "GroupBySlice", "LabelValuesByName"];

    fn fields() -> Fields {
        let values = [("pod", "a|b"), ("namespace", "shop")];
        let values = values
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .into();
        Fields::from([
            ("Series", Value::Text("up".to_owned())),
            ("GroupBy", Value::Text("pod,x".to_owned())),
            (
                "GroupBySlice",
                Value::List(vec!["pod".to_owned(), "x".to_owned()]),
            ),
            ("LabelValuesByName", Value::Map(values)),
        ])
    }

    fn check(text: &str, expected: Result<&str, &str>) {
        let filled = Template::parse(text, FIELDS).and_then(|template| template.fill(&fields()));
        match expected {
            Ok(expected) => assert_eq!(filled.as_deref(), Ok(expected), "{text}"),
            Err(part) => {
                let error = filled.expect_err(text);
                assert!(error.contains(part), "{text}: {error}");
            }
        }
    }

    #[test]
    fn fields_are_filled_in() {
        check(
            "sum(<<.Series>>) by (<< .GroupBy >>)",
            Ok("sum(up) by (pod,x)"),
        );
        check(
            "<<.GroupBySlice>> <<.LabelValuesByName>>",
            Ok("[pod x] map[namespace:shop pod:a|b]"),
        );
        check("no field { a < b << 1", Err("is not closed"));
        check("{a=~\"b\"} < 1 > 2", Ok("{a=~\"b\"} < 1 > 2"));
    }

    #[test]
    fn functions_are_called() {
        check("<<index .LabelValuesByName \"pod\">>", Ok("a|b"));
        check("<<index .LabelValuesByName \"none\">>", Ok(""));
        check("<<index .GroupBySlice 1>>", Ok("x"));
        check("<<index .GroupBySlice 2>>", Err("there are only 2"));
        check("<<.GroupBySlice | len>>", Ok("2"));
        check("<<len (index .LabelValuesByName `pod`)>>", Ok("3"));
        check(
            "<<eq .Series \"down\" \"up\">> <<ne .Series \"up\">> <<not \"\">>",
            Ok("true false true"),
        );
        check("<<and .Series 0>> <<or \"\" .Series>>", Ok("0 up"));
        check("<<eq .Series 1>>", Err("cannot be compared"));
        check(
            "<<gt (len .GroupBySlice) 1>> <<lt 1 1>> <<le 1 1>> <<ge \"a\" \"b\">>",
            Ok("true false true false"),
        );
        check("<<printf \"%s\" .Series>>", Err("function \"printf\""));
        check("<<index .Series 0>>", Err("index"));
    }

    #[test]
    fn a_map_has_members() {
        check(
            "<<.LabelValuesByName.pod>>,<<$.LabelValuesByName.namespace>>",
            Ok("a|b,shop"),
        );
        check(
            "<<range .GroupBySlice>><<$.LabelValuesByName.pod | len>><<end>>",
            Ok("33"),
        );
        check(
            "<<.LabelValuesByName.code>> <<if .LabelValuesByName.code>>a<<else>>b<<end>>",
            Ok("<no value> b"),
        );
        check(
            "<<.GroupBy.pod>>",
            Err("there is no field .pod of .GroupBy"),
        );
        check(
            "<<.LabelValuesByName.pod.x>>",
            Err("there is no field .x here"),
        );
        check(
            "<<index .LabelValuesByName .Series.x>>",
            Err("there is no field .x of .Series"),
        );
        check("<<.LabelValuesByName .pod>>", Err("expected"));
    }

    #[test]
    fn lists_and_maps_are_gone_through() {
        check(
            "<<range $i, $v := .GroupBySlice>><<if $i>>,<<end>><<$v>><<end>>",
            Ok("pod,x"),
        );
        check(
            "<<range .GroupBySlice>>[<<.>> <<$.Series>>]<<end>>",
            Ok("[pod up][x up]"),
        );
        check(
            "{<< range $key, $value :=.LabelValuesByName >><< if ne $key \"namespace\" >><< $key >>=\"<< $value >>\",<<end >><< end >>}",
            Ok("{pod=\"a|b\",}"),
        );
        check("<<range .Series>>x<<end>>", Err("range"));
        check("<<range .GroupBySlice>><<else>>none<<end>>", Ok(""));
    }

    #[test]
    fn choices_and_variables_are_made() {
        check(
            "<<if eq .Series \"x\">>a<<else if .Series>>b<<else>>c<<end>>",
            Ok("b"),
        );
        check("<<with .Series>><<.>>!<<else>>none<<end>>", Ok("up!"));
        check("<<$x := .Series>><<$x>>", Ok("up"));
        check("<<$x>>", Err("variable $x"));
        check("<<if .Series>><<$x := 1>><<end>><<$x>>", Err("variable $x"));
        check("a  <<- .Series ->>  b<</* remark */>>", Ok("aupb"));
    }

    #[test]
    fn what_is_no_template_is_refused() {
        check("<<.Nothing>>", Err("field .Nothing"));
        check(
            "<<range .GroupBySlice>><<.Series>><<end>>",
            Err("field .Series"),
        );
        check("<<if .Series>>", Err("end"));
        check("<<end>>", Err("end"));
        check("<<else>>", Err("else"));
        check("<<>>", Err("empty"));
        check("<<.Series", Err("is not closed"));
        check("<<\"a>>", Err("is not closed"));
        check("<<.Series .GroupBy>>", Err("expected"));
        check("<<template \"x\">>", Err("template"));
        check("<<(.Series>>", Err(")"));
        check("<<$x = 1>>", Err("="));
    }

    #[test]
    fn the_text_that_a_template_makes_is_bounded() {
        let text = format!("<<range .GroupBySlice>>{}<<end>>", "x".repeat(600_000));
        check(&text, Err("longer than"));
    }

    proptest::proptest! {
        #[test]
        fn no_text_makes_the_reader_panic(text in "(<<|>>|-|[a-z.$ :=\"`(),|]|range|end|if|else|index|\\.Series){0,40}") {
            if let Ok(template) = Template::parse(&text, FIELDS) {
                let _ = template.fill(&fields());
            }
        }
    }
}
