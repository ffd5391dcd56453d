//! Findings in the forms that CI systems read: `JUnit`, and SARIF 2.1.0 with the fields that GitHub needs.
//!
//! | level | `JUnit` | SARIF |
//! |---|---|---|
//! | error, warning | `failure` of this type | result of this level |
//! | note | passed, with the message | result `note` |
//! | passed | passed | no result |
//! | skipped | `skipped` | no result |

use std::collections::BTreeMap;

use clap::ValueEnum;
use clap::builder::PossibleValue;
use maud::{PreEscaped, html};
use model::fnv1a;
use serde_json::{Value, json};

use crate::output::{Format, LINE, markup_text};

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum CiFormat {
    /// `JUnit` XML, with a test case for each finding.
    Junit,
    /// SARIF 2.1.0 for code scanning.
    Sarif,
}

/// Forms of a scan: those of tables, and those of findings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ScanFormat {
    Document(Format),
    Ci(CiFormat),
}

impl ValueEnum for ScanFormat {
    fn value_variants<'a>() -> &'a [Self] {
        &[
            Self::Document(Format::Table),
            Self::Document(Format::Json),
            Self::Document(Format::Yaml),
            Self::Document(Format::Csv),
            Self::Document(Format::Md),
            Self::Document(Format::Html),
            Self::Ci(CiFormat::Junit),
            Self::Ci(CiFormat::Sarif),
        ]
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        match self {
            Self::Document(format) => format.to_possible_value(),
            Self::Ci(format) => format.to_possible_value(),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Level {
    Passed,
    Skipped,
    Note,
    Warning,
    Error,
}

impl Level {
    fn as_str(self) -> &'static str {
        match self {
            Self::Passed => "passed",
            Self::Skipped => "skipped",
            Self::Note => "note",
            Self::Warning => "warning",
            Self::Error => "error",
        }
    }

    fn is_result(self) -> bool {
        matches!(self, Self::Note | Self::Warning | Self::Error)
    }
}

/// A finding, or a judged subject without one.
pub(crate) struct CiFinding {
    /// Name of the test case. It is the same with and without a finding.
    pub(crate) case: String,
    /// Identifier of the rule; it keeps its meaning between versions.
    pub(crate) rule: String,
    pub(crate) description: String,
    /// Remedy in one sentence.
    pub(crate) help: String,
    /// Judged object as a path, such as `prod/shop/deployment/web/app`.
    pub(crate) subject: String,
    pub(crate) level: Level,
    pub(crate) message: String,
}

/// `command` names the tool, such as `plimsoll scan`.
pub(crate) fn render(command: &str, findings: &[CiFinding], format: CiFormat) -> String {
    match format {
        CiFormat::Junit => junit(command, findings),
        CiFormat::Sarif => format!("{:#}\n", sarif(command, findings)),
    }
}

fn junit(command: &str, findings: &[CiFinding]) -> String {
    let count = |levels: &[Level]| {
        let counted = findings.iter().filter(|it| levels.contains(&it.level));
        counted.count()
    };
    markup_text(html! {
        (PreEscaped("<?xml version=\"1.0\" encoding=\"UTF-8\"?>")) (LINE)
        testsuites { (LINE)
            testsuite name=(command) tests=(findings.len()) failures=(count(&[Level::Warning, Level::Error]))
                errors="0" skipped=(count(&[Level::Skipped])) { (LINE)
                @for CiFinding { subject, case, message, help, level, .. } in findings {
                    testcase classname=(subject) name=(case) {
                        @match level {
                            Level::Passed => {}
                            Level::Skipped => { skipped message=(message) {} }
                            Level::Note => { system-out { (message) } }
                            Level::Warning | Level::Error => {
                                failure type=(level.as_str()) message=(message) { (help) }
                            }
                        }
                    } (LINE)
                }
            } (LINE)
        } (LINE)
    })
}

fn sarif(command: &str, findings: &[CiFinding]) -> Value {
    let results = || findings.iter().filter(|it| it.level.is_result());
    let rules: BTreeMap<&str, Value> = results().map(|it| (it.rule.as_str(), rule(it))).collect();
    json!({
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{
            "tool": {"driver": {
                "name": command,
                "version": env!("CARGO_PKG_VERSION"),
                "rules": rules.into_values().collect::<Vec<_>>(),
            }},
            "results": results().map(result).collect::<Vec<_>>(),
        }],
    })
}

fn rule(finding: &CiFinding) -> Value {
    json!({
        "id": finding.rule,
        "shortDescription": {"text": finding.description},
        "fullDescription": {"text": finding.description},
        "help": {"text": finding.help},
    })
}

/// GitHub shows no result without a place in a file: the path of the subject stands for it.
fn result(finding: &CiFinding) -> Value {
    let CiFinding { rule, subject, .. } = finding;
    let is_kept = |letter: char| letter.is_ascii_alphanumeric() || "-._/".contains(letter);
    let uri = subject.replace(|letter| !is_kept(letter), "_");
    let fingerprint = fnv1a(format!("{rule}\n{subject}").as_bytes());
    json!({
        "ruleId": rule,
        "level": finding.level.as_str(),
        "message": {"text": format!("{subject}: {}", finding.message)},
        "locations": [{
            "physicalLocation": {
                "artifactLocation": {"uri": format!("kubernetes/{uri}")},
                "region": {"startLine": 1, "startColumn": 1, "endLine": 1, "endColumn": 1},
            },
            "logicalLocations": [{"fullyQualifiedName": subject}],
        }],
        "partialFingerprints": {"primaryLocationLineHash": format!("{fingerprint:016x}:1")},
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings() -> [CiFinding; 4] {
        let finding = |case: &str, level, message: &str| CiFinding {
            case: case.to_owned(),
            rule: format!("{case}-rule"),
            description: "Needs \"quotes\"".to_owned(),
            help: "Do <this>".to_owned(),
            subject: "me@prod:1/shop/deployment/web".to_owned(),
            level,
            message: message.to_owned(),
        };
        [
            finding("a", Level::Passed, "fits"),
            finding("b", Level::Skipped, "no right"),
            finding("c", Level::Note, "20 % unused"),
            finding("d", Level::Error, "a < b & \u{1b}c"),
        ]
    }

    #[test]
    fn junit_has_a_case_for_each_finding() {
        let case = |name: &str, inner: &str| {
            format!(
                "<testcase classname=\"me@prod:1/shop/deployment/web\" name=\"{name}\">{inner}</testcase>\n"
            )
        };
        let failure = "<failure type=\"error\" message=\"a &lt; b &amp; \u{fffd}c\">\
                       Do &lt;this&gt;</failure>";
        let expected = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n<testsuite \
                        name=\"plimsoll scan\" tests=\"4\" failures=\"1\" errors=\"0\" skipped=\"1\">\n"
            .to_owned()
            + &case("a", "")
            + &case("b", "<skipped message=\"no right\"></skipped>")
            + &case("c", "<system-out>20 % unused</system-out>")
            + &case("d", failure)
            + "</testsuite>\n</testsuites>\n";
        assert_eq!(
            render("plimsoll scan", &findings(), CiFormat::Junit),
            expected
        );
    }

    #[test]
    fn sarif_has_the_fields_that_github_requires() {
        let text = render("plimsoll scan", &findings(), CiFormat::Sarif);
        let sarif: Value = serde_json::from_str(&text).expect("JSON");
        assert_eq!(sarif["version"], "2.1.0");
        assert!(sarif["$schema"].is_string());
        let run = &sarif["runs"][0];
        assert_eq!(run["tool"]["driver"]["name"], "plimsoll scan");
        let rules = run["tool"]["driver"]["rules"].as_array().expect("rules");
        for rule in rules {
            for text in [
                "/id",
                "/shortDescription/text",
                "/fullDescription/text",
                "/help/text",
            ] {
                assert!(rule.pointer(text).is_some_and(Value::is_string), "{text}");
            }
        }
        let results = run["results"].as_array().expect("results");
        let levels: Vec<&Value> = results.iter().map(|result| &result["level"]).collect();
        assert_eq!(levels, ["note", "error"]);
        for result in results {
            assert!(rules.iter().any(|rule| rule["id"] == result["ruleId"]));
            assert!(result["message"]["text"].is_string());
            assert!(result["partialFingerprints"]["primaryLocationLineHash"].is_string());
            let place = &result["locations"][0]["physicalLocation"];
            let uri = "kubernetes/me_prod_1/shop/deployment/web";
            assert_eq!(place["artifactLocation"]["uri"], uri);
            for field in ["startLine", "startColumn", "endLine", "endColumn"] {
                assert!(place["region"][field].is_u64(), "{field}");
            }
        }
        let hashes = results
            .iter()
            .map(|it| it["partialFingerprints"].to_string());
        let hashes: Vec<String> = hashes.collect();
        assert_ne!(hashes[0], hashes[1]);
    }
}
