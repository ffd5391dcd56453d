//! Results of the specs.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use serde::Deserialize;
use serde_json::Value;

use crate::suites::passes_without_programs;

/// Words of the specs' names that all of them have.
const EVERYWHERE: [&str; 2] = ["[sig-autoscaling] [VPA] ", "[v1] "];
/// Letters of a failure that are shown.
const SHOWN: usize = 160;

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Spec {
    container_hierarchy_texts: Option<Vec<String>>,
    leaf_node_type: String,
    leaf_node_text: String,
    state: String,
    /// In nanoseconds.
    run_time: f64,
    failure: Option<Failure>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Failure {
    message: String,
}

impl Spec {
    fn name(&self) -> String {
        let texts = self.container_hierarchy_texts.iter().flatten();
        let texts: Vec<&str> = texts
            .chain([&self.leaf_node_text])
            .map(|text| &**text)
            .collect();
        EVERYWHERE
            .iter()
            .fold(texts.join(" "), |name, words| name.replace(words, ""))
    }

    fn passed(&self) -> bool {
        self.state == "passed"
    }
}

#[derive(Debug, Default)]
pub(crate) struct Report {
    suites: Vec<Counts>,
}

/// Specs of a suite that ran, and those among them that passed.
#[derive(Debug)]
pub(crate) struct Counts {
    pub(crate) suite: String,
    pub(crate) ran: usize,
    pub(crate) passed: usize,
    /// Time from the first spec to the last.
    pub(crate) time: Duration,
    /// Names of those that did not pass.
    pub(crate) others: Vec<String>,
}

impl Report {
    /// Prints a line per spec of a suite that ran, and counts them. `report` is ginkgo's.
    pub(crate) fn add(&mut self, suite: &str, report: &Value, time: Duration) -> Result<()> {
        let specs = specs_in(report)?;
        let tells = |spec: &Spec| spec.passed() && !passes_without_programs(&spec.name());
        let programs_work = specs.iter().any(tells);
        let mut others = Vec::new();
        for spec in &specs {
            let name = spec.name();
            let counts = programs_work || !passes_without_programs(&name);
            let state = match spec.passed() {
                true if counts => "passed",
                true => "passes without programs",
                false => &spec.state,
            };
            println!("  {state:8} {:6.1} s  {name}", spec.run_time / 1e9);
            if let Some(failure) = &spec.failure {
                let line = failure.message.replace('\n', " ");
                println!(
                    "           {}",
                    line.chars().take(SHOWN).collect::<String>()
                );
            }
            if state != "passed" {
                others.push(name);
            }
        }
        let (ran, passed) = (specs.len(), specs.len() - others.len());
        println!("{suite}: {passed} of {ran} passed");
        self.suites.push(Counts {
            suite: suite.to_owned(),
            ran,
            passed,
            time,
            others,
        });
        Ok(())
    }

    /// The suites in the order of their names.
    pub(crate) fn sorted(&mut self) -> &[Counts] {
        self.suites.sort_by(|a, b| a.suite.cmp(&b.suite));
        &self.suites
    }

    /// Numbers of specs that passed, and that ran.
    pub(crate) fn sum(&self) -> (usize, usize) {
        let passed = self.suites.iter().map(|counts| counts.passed).sum();
        (passed, self.suites.iter().map(|counts| counts.ran).sum())
    }

    /// An error unless all specs passed, and at least one ran.
    pub(crate) fn finish(&self) -> Result<()> {
        let (passed, ran) = self.sum();
        println!("{passed} of {ran} specs passed");
        ensure!(ran > 0, "no spec ran");
        ensure!(passed == ran, "{} did not", ran - passed);
        Ok(())
    }
}

/// Names of the specs in a report of ginkgo, each with whether it passed.
pub(crate) fn outcomes(report: &Value) -> Result<BTreeMap<String, bool>> {
    let specs = specs_in(report)?;
    Ok(specs
        .iter()
        .map(|spec| (spec.name(), spec.passed()))
        .collect())
}

fn specs_in(report: &Value) -> Result<Vec<Spec>> {
    let parts = report.as_array().context("a report is a list of suites")?;
    let mut specs = Vec::new();
    for part in parts {
        let found = part["SpecReports"].clone();
        let found = Option::<Vec<Spec>>::deserialize(found).context("a report of specs")?;
        specs.extend(found.into_iter().flatten());
    }
    specs.retain(|spec| spec.leaf_node_type == "It" && spec.state != "skipped");
    Ok(specs)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn spec(text: &str, state: &str) -> Value {
        json!({
            "ContainerHierarchyTexts": ["[sig-autoscaling] [VPA] [updater]"], "LeafNodeType": "It",
            "LeafNodeText": text, "State": state, "RunTime": 1_500_000_000,
        })
    }

    fn counts(specs: &[Value]) -> [usize; 2] {
        let mut report = Report::default();
        let setup = json!({"LeafNodeType": "BeforeSuite", "LeafNodeText": "", "State": "passed", "RunTime": 1});
        let specs = [specs, &[setup]].concat();
        let parts = json!([{"SpecReports": specs}, {"SpecReports": null}]);
        report.add("updater", &parts, Duration::ZERO).unwrap();
        let (passed, ran) = report.sum();
        [passed, ran]
    }

    #[test]
    fn a_spec_that_passes_without_programs_counts_beside_one_that_does_not() {
        let idle = spec(
            "doesn't evict pods when Admission Controller status unavailable",
            "passed",
        );
        let works = spec("evicts pods for downscaling", "passed");
        let fails = spec("evicts pods for downscaling", "failed");
        let skipped = spec("evicts pods", "skipped");
        assert_eq!(counts(&[idle.clone(), skipped]), [0, 1]);
        assert_eq!(counts(&[idle.clone(), fails]), [0, 2]);
        assert_eq!(counts(&[idle, works]), [2, 2]);
    }

    #[test]
    fn nothing_that_ran_is_an_error() {
        Report::default().finish().unwrap_err();
        for (passed, is_success) in [(1, false), (2, true)] {
            let report = Report {
                suites: vec![Counts {
                    suite: String::new(),
                    ran: 2,
                    passed,
                    time: Duration::ZERO,
                    others: Vec::new(),
                }],
            };
            assert_eq!(report.finish().is_ok(), is_success);
        }
    }
}
