//! Checks of the adapter's files, with the parsers of the adapter: rule files of prometheus-adapter
//! and the routes file.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow, ensure};
use clap::{Args, Subcommand};
use metric_routes::File;
use promql::rules::RuleSet;
use serving::own_service::OwnService;

use crate::failure::Outcome;
use crate::output;

/// Largest file, in bytes.
const MAX_BYTES: u64 = 4 << 20;
const MAX_ERRORS: usize = 100;

#[derive(Clone, Debug, Subcommand)]
pub(crate) enum RulesCommand {
    /// Check a rule file of prometheus-adapter as the adapter reads it.
    Check(FileArgs),
}

#[derive(Clone, Debug, Subcommand)]
pub(crate) enum RoutesCommand {
    /// Check a routes file as the adapter reads it.
    Check(RoutesArgs),
}

#[derive(Clone, Debug, Args)]
pub(crate) struct FileArgs {
    /// File in YAML; `-` for the standard input.
    pub(crate) file: PathBuf,
}

#[derive(Clone, Debug, Args)]
pub(crate) struct RoutesArgs {
    #[command(flatten)]
    pub(crate) file: FileArgs,
    /// Namespace of the adapter, whose own Service is no valid upstream.
    #[arg(long, default_value = "plimsoll-system", value_name = "NAMESPACE")]
    pub(crate) system_namespace: String,
    /// Service of the adapter.
    #[arg(long, default_value = "plimsoll-adapter", value_name = "NAME")]
    pub(crate) service_name: String,
}

pub(crate) fn rules(command: &RulesCommand) -> anyhow::Result<Outcome> {
    let RulesCommand::Check(FileArgs { file }) = command;
    output::print_text(judge_rules(&file.display().to_string(), &read(file)?)?)
}

pub(crate) fn routes(command: &RoutesCommand) -> anyhow::Result<Outcome> {
    let RoutesCommand::Check(args) = command;
    let file = &args.file.file;
    let own = OwnService::new(&*args.system_namespace, &*args.service_name);
    let name = file.display().to_string();
    output::print_text(judge_routes(&name, &read(file)?, &own)?)
}

fn read(path: &Path) -> anyhow::Result<String> {
    let shown = path.display();
    let mut text = String::new();
    let most = MAX_BYTES + 1;
    let read = if path == Path::new("-") {
        std::io::stdin().take(most).read_to_string(&mut text)
    } else {
        std::fs::File::open(path).and_then(|file| file.take(most).read_to_string(&mut text))
    };
    read.with_context(|| format!("cannot read {shown}"))?;
    ensure!(
        text.len() as u64 <= MAX_BYTES,
        "{shown} has more than {} MiB, the most that is read",
        MAX_BYTES >> 20
    );
    Ok(text)
}

fn judge_rules(name: &str, text: &str) -> anyhow::Result<String> {
    let errors = promql::rules::errors(text).into_iter().take(MAX_ERRORS);
    let lines: Vec<String> = errors.map(|error| format!("{name}: {error}")).collect();
    ensure!(lines.is_empty(), lines.join("\n"));
    let rules = RuleSet::parse(text).map_err(|error| anyhow!("{name}: {error}"))?;
    let (custom, external) = (rules.custom.len(), rules.external.len());
    let warnings = rules.warnings.iter();
    let warnings = warnings.map(|warning| format!("{name}: warning: {warning}\n"));
    let warnings: String = warnings.collect();
    Ok(format!(
        "{warnings}{name}: valid, {custom} rules of custom and {external} of external metrics\n"
    ))
}

fn judge_routes(name: &str, text: &str, own: &OwnService) -> anyhow::Result<String> {
    let file = File::read(text, own, Path::new("")).map_err(|error| anyhow!("{name}: {error}"))?;
    let (upstreams, routes) = (file.upstreams.len(), file.routes.len());
    Ok(format!(
        "{name}: valid, {upstreams} upstreams and {routes} routes\n"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(result: anyhow::Result<String>, expected: Result<&str, &str>) {
        let result = result.map_err(|failure| failure.to_string());
        match (&result, expected) {
            (Ok(text), Ok(expected)) => assert_eq!(text, expected),
            (Err(error), Err(expected)) => assert!(error.starts_with(expected), "{error}"),
            _ => panic!("{result:?} instead of {expected:?}"),
        }
    }

    #[test]
    fn an_error_in_a_rule_file_names_file_and_field() {
        let check = |text: &str, expected| check(judge_rules("a.yaml", text), expected);
        check(
            "rules: [{seriesQuery: up, metricsQuery: x}]",
            Ok(
                "a.yaml: warning: rules[0].resources: neither template nor overrides is set, so no \
                 series belongs to an object\n\
                 a.yaml: valid, 1 rules of custom and 0 of external metrics\n",
            ),
        );
        check(
            "rules: [{seriesQuery: up, metrcsQuery: x}]",
            Err("a.yaml: rules[0]"),
        );
        check("rules: [", Err("a.yaml: "));
        let regex = "externalRules: [{seriesQuery: up, metricsQuery: x, name: {matches: '('}}]";
        check(regex, Err("a.yaml: externalRules[0].name.matches"));
        let two = "rules: [{seriesQuery: up}]\nexternalRules: [{metricsQuery: x}]";
        let errors = "a.yaml: rules[0].metricsQuery: must be set\n\
                      a.yaml: externalRules[0].seriesQuery: must be set";
        check(two, Err(errors));
    }

    #[test]
    fn an_error_in_a_routes_file_names_file_and_field() {
        let own = OwnService::new("suite", "adapter");
        let check = |text: &str, expected| check(judge_routes("r.yaml", text, &own), expected);
        let valid = "upstreams: [{name: a, url: 'https://a', caFile: ca}]\ndefaultUpstream: a";
        check(valid, Ok("r.yaml: valid, 1 upstreams and 0 routes\n"));
        let own = "upstreams: [{name: a, url: 'https://adapter.suite.svc', caFile: ca}]";
        check(
            own,
            Err("r.yaml: upstreams[0].url: this is the adapter itself"),
        );
        let unknown = "defaultUpstream: b";
        check(
            unknown,
            Err("r.yaml: defaultUpstream: there is no upstream \"b\""),
        );
    }
}
