//! Flags of EHPAs, under Crane's names.

use anyhow::{Context as _, ensure};
use clap::Args;
use horizontal::ehpa::Propagation;
use sources::rules::read_matchers;

use crate::ehpa::rule_file::{RuleFileSettings, RuleLocation};

/// Flags of the labels and annotations of an EHPA that are copied to the
/// objects that it owns, and of rules for the history of custom and external metrics.
#[derive(Debug, Clone, Args)]
pub struct EhpaArgs {
    /// Copy labels of an `EffectiveHorizontalPodAutoscaler` whose keys begin with one of these
    /// prefixes to the objects that it owns.
    #[arg(long, value_delimiter = ',', value_name = "PREFIXES")]
    pub ehpa_propagation_label_prefixes: Vec<String>,
    /// Copy labels with these keys.
    #[arg(long, value_delimiter = ',', value_name = "KEYS")]
    pub ehpa_propagation_labels: Vec<String>,
    /// Copy annotations whose keys begin with one of these prefixes.
    #[arg(long, value_delimiter = ',', value_name = "PREFIXES")]
    pub ehpa_propagation_annotation_prefixes: Vec<String>,
    /// Copy annotations with these keys.
    #[arg(long, value_delimiter = ',', value_name = "KEYS")]
    pub ehpa_propagation_annotations: Vec<String>,
    /// Rule file of prometheus-adapter with the queries for the history of custom and external
    /// metrics of `EffectiveHorizontalPodAutoscaler` objects. It is reloaded after changes.
    #[arg(long, default_value = "", value_name = "FILE")]
    pub prometheus_adapter_config: String,
    /// Namespace of a `ConfigMap` with such rules. It is reloaded after changes.
    #[arg(long, default_value = "", value_name = "NAMESPACE")]
    pub prometheus_adapter_configmap_namespace: String,
    /// Name of that `ConfigMap`.
    #[arg(long, default_value = "", value_name = "NAME")]
    pub prometheus_adapter_configmap_name: String,
    /// Its key with the rules.
    #[arg(long, default_value = "", value_name = "KEY")]
    pub prometheus_adapter_configmap_key: String,
    /// Label matchers added to every query of these rules, such as cluster="a",container!="".
    #[arg(long, default_value = "", value_name = "MATCHERS")]
    pub prometheus_adapter_extension_labels: String,
}

impl EhpaArgs {
    /// The labels and annotations to copy. Empty entries of a list are ignored.
    pub(crate) fn propagation(&self) -> Propagation {
        let named = |list: &[String]| list.iter().filter(|key| !key.is_empty()).cloned().collect();
        Propagation {
            label_prefixes: named(&self.ehpa_propagation_label_prefixes),
            labels: named(&self.ehpa_propagation_labels),
            annotation_prefixes: named(&self.ehpa_propagation_annotation_prefixes),
            annotations: named(&self.ehpa_propagation_annotations),
        }
    }

    /// The location of the rules; `None` without any.
    pub(crate) fn rules(&self) -> anyhow::Result<Option<RuleFileSettings>> {
        let file = &self.prometheus_adapter_config;
        let extension = &self.prometheus_adapter_extension_labels;
        let map = [
            &self.prometheus_adapter_configmap_namespace,
            &self.prometheus_adapter_configmap_name,
            &self.prometheus_adapter_configmap_key,
        ];
        let matchers = read_matchers(extension).with_context(|| {
            format!("--prometheus-adapter-extension-labels: {extension:?} is not of the form a=\"b\",c!=\"d\"")
        })?;
        let location = match (file.is_empty(), map.map(|part| !part.is_empty())) {
            (true, [false, false, false]) => return Ok(None),
            (false, [false, false, false]) => RuleLocation::File(file.into()),
            (is_alone, all) => {
                ensure!(
                    is_alone,
                    "--prometheus-adapter-config and --prometheus-adapter-configmap-* exclude each other"
                );
                let parts = "--prometheus-adapter-configmap-namespace, -name and -key";
                ensure!(all == [true; 3], "{parts} need each other");
                let [namespace, name, key] = map.map(Clone::clone);
                RuleLocation::ConfigMap {
                    namespace,
                    name,
                    key,
                }
            }
        };
        Ok(Some(RuleFileSettings { location, matchers }))
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: EhpaArgs,
    }

    fn parse(line: &str) -> Result<EhpaArgs, clap::Error> {
        let words = std::iter::once("recommender").chain(line.split_whitespace());
        Line::try_parse_from(words).map(|line| line.args)
    }

    #[test]
    fn nothing_is_passed_on_unless_it_is_named() {
        for (line, expected) in [
            ("", Propagation::default()),
            (
                "--ehpa-propagation-labels=team,tier,",
                Propagation {
                    labels: vec!["team".to_owned(), "tier".to_owned()],
                    ..Propagation::default()
                },
            ),
            (
                "--ehpa-propagation-annotation-prefixes=example.com/",
                Propagation {
                    annotation_prefixes: vec!["example.com/".to_owned()],
                    ..Propagation::default()
                },
            ),
        ] {
            assert_eq!(parse(line).expect(line).propagation(), expected, "{line}");
        }
    }

    /// `expected`: the location of the rules, or part of the error.
    fn check(line: &str, expected: Result<Option<RuleLocation>, &str>) {
        let found = parse(line).expect(line).rules();
        match (found, expected) {
            (Ok(found), Ok(expected)) => {
                assert_eq!(found.map(|settings| settings.location), expected, "{line}");
            }
            (Err(error), Err(part)) => assert!(error.to_string().contains(part), "{line}: {error}"),
            (found, _) => panic!("{line}: {found:?}"),
        }
    }

    #[test]
    fn rules_are_in_one_place() {
        check("", Ok(None));
        check(
            "--prometheus-adapter-config=/rules.yaml",
            Ok(Some(RuleLocation::File("/rules.yaml".into()))),
        );
        let [namespace, name, key] = ["monitoring", "adapter", "config.yaml"].map(str::to_owned);
        let map = "--prometheus-adapter-configmap-namespace=monitoring --prometheus-adapter-configmap-name=adapter \
                   --prometheus-adapter-configmap-key=config.yaml";
        check(
            map,
            Ok(Some(RuleLocation::ConfigMap {
                namespace,
                name,
                key,
            })),
        );
        check(
            "--prometheus-adapter-configmap-name=adapter",
            Err("need each other"),
        );
        check(
            &format!("{map} --prometheus-adapter-config=/rules.yaml"),
            Err("exclude each other"),
        );
    }

    #[test]
    fn every_series_may_have_to_fit_matchers() {
        check(
            "--prometheus-adapter-extension-labels=a=b",
            Err("\"a=b\" is not of the form"),
        );
        let line = "--prometheus-adapter-config=/r --prometheus-adapter-extension-labels=a=\"b,c\",d!=\"\"";
        let settings = parse(line)
            .expect(line)
            .rules()
            .expect(line)
            .expect("settings");
        assert_eq!(settings.matchers, [r#"a="b,c""#, r#"d!="""#]);
    }
}
