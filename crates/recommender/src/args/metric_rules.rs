//! Flags for the location of prometheus-adapter rules, under Crane's names.

use anyhow::{Context as _, ensure};
use clap::Args;
use sources::rules::read_matchers;

use crate::ehpa::rule_file::{RuleFileSettings, RuleLocation};

/// Rules for the history of custom and external metrics.
#[derive(Debug, Clone, Args)]
pub struct MetricRulesArgs {
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

impl MetricRulesArgs {
    /// The location of the rules; `None` without any.
    pub(crate) fn settings(self) -> anyhow::Result<Option<RuleFileSettings>> {
        let Self {
            prometheus_adapter_config: file,
            prometheus_adapter_configmap_namespace: namespace,
            prometheus_adapter_configmap_name: name,
            prometheus_adapter_configmap_key: key,
            prometheus_adapter_extension_labels: extension,
        } = self;
        let matchers = read_matchers(&extension).with_context(|| {
            format!("--prometheus-adapter-extension-labels: {extension:?} is not of the form a=\"b\",c!=\"d\"")
        })?;
        let is_map = [&namespace, &name, &key].map(|part| !part.is_empty());
        let location = match (file.is_empty(), is_map) {
            (true, [false, false, false]) => return Ok(None),
            (false, [false, false, false]) => RuleLocation::File(file.into()),
            (is_alone, all) => {
                ensure!(
                    is_alone,
                    "--prometheus-adapter-config and --prometheus-adapter-configmap-* exclude each other"
                );
                let parts = "--prometheus-adapter-configmap-namespace, -name and -key";
                ensure!(all == [true; 3], "{parts} need each other");
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
    use super::*;
    use crate::args::tests::parse;

    /// `expected`: the location of the rules, or part of the error.
    fn check(line: &str, expected: Result<Option<RuleLocation>, &str>) {
        let found = parse(line).expect(line).metric_rules.settings();
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
            .metric_rules
            .settings()
            .expect(line)
            .expect("settings");
        assert_eq!(settings.matchers, [r#"a="b,c""#, r#"d!="""#]);
    }
}
