//! From prometheus-adapter: the adapter reads the same rule file.

use kube::ResourceExt as _;
use kube::api::DynamicObject;
use metric_routes::api_service::API_SERVICES;
use promql::rules::RuleSet;

use super::facts::{API_SERVICE, Facts, Source, name_of};
use super::plan::{Migration, Verdict, install, uninstall, verify, without_api_services};
use crate::installation::ObjectName;

pub(crate) const SOURCE: Source = Source {
    product: "prometheus-adapter",
    images: &[
        "prometheus-adapter",
        "k8s-prometheus-adapter",
        "k8s-prometheus-adapter-amd64",
    ],
    kinds: &[API_SERVICE],
    definitions: &[],
    reads_config_maps: true,
};
const RESOURCE_METRICS: &str = "v1beta1.metrics.k8s.io";
/// Most errors of a rule file that are shown.
const MAX_ERRORS: usize = 10;

pub(crate) fn migration(facts: &Facts) -> Migration {
    let mut migration = Migration::default();
    migration.deployments("prometheus-adapter", &facts.deployments);
    let files = rule_files(facts);
    for (map, entry, text) in &files {
        rules(map, entry, text, &mut migration);
    }
    if files.is_empty() && !facts.deployments.is_empty() {
        migration.notes.push(
            "No rule file was found: name the file of --config with `plimsoll rules check FILE`."
                .to_owned(),
        );
    }
    let moved = api_services(facts, &mut migration);
    steps(facts, &files, &moved, &mut migration);
    migration
}

fn rule_files(facts: &Facts) -> Vec<(&DynamicObject, &str, &str)> {
    let entries = facts.config_maps.iter().flat_map(|map| {
        let data = map.data["data"].as_object().into_iter().flatten();
        data.filter_map(move |(entry, text)| Some((map, entry.as_str(), text.as_str()?)))
    });
    let is_rules = |(_, entry, text): &(&DynamicObject, &str, &str)| {
        let is_yaml = std::path::Path::new(entry)
            .extension()
            .is_some_and(|ending| ending == "yaml" || ending == "yml");
        is_yaml && text.contains("ules:")
    };
    entries.filter(is_rules).collect()
}

fn rules(map: &DynamicObject, entry: &str, text: &str, migration: &mut Migration) {
    let kind = "ConfigMap";
    let errors = promql::rules::errors(text);
    for error in errors.iter().take(MAX_ERRORS) {
        let reason = format!("{entry}: {error}");
        migration.item(kind, map, Verdict::Blocked, reason);
    }
    if let Ok(rules) = RuleSet::parse(text) {
        let reason = format!(
            "{entry} is valid here: {} rules of custom and {} of external metrics",
            rules.custom.len(),
            rules.external.len()
        );
        migration.item(kind, map, Verdict::Kept, reason);
        for warning in rules.warnings.iter().take(MAX_ERRORS) {
            migration.item(kind, map, Verdict::Manual, format!("{entry}: {warning}"));
        }
    }
}

fn api_services(facts: &Facts, migration: &mut Migration) -> Vec<String> {
    let mut moved = Vec::new();
    for object in facts.of(&API_SERVICE) {
        let name = object.name_any();
        let Some(owner) = facts.owner(&name) else {
            continue;
        };
        let ObjectName { namespace, .. } = &owner;
        let is_theirs = facts.is_in(namespace) && *namespace != facts.system_namespace;
        if name == RESOURCE_METRICS && is_theirs && owner.name.contains("prometheus") {
            let reason = format!(
                "points at {owner}: install metrics-server first, because the adapter does not serve metrics.k8s.io"
            );
            migration.item(API_SERVICE.name, object, Verdict::Blocked, reason);
        } else if API_SERVICES.contains(&name.as_str()) && is_theirs {
            let reason = format!("points at {owner}, to be moved to the adapter");
            migration.item(API_SERVICE.name, object, Verdict::Changed, reason);
            moved.push(name);
        } else if API_SERVICES.contains(&name.as_str()) && *namespace != facts.system_namespace {
            let reason = format!("points at {owner}, another provider: see docs/routes.md");
            migration.item(API_SERVICE.name, object, Verdict::Manual, reason);
        }
    }
    moved
}

fn steps(
    facts: &Facts,
    files: &[(&DynamicObject, &str, &str)],
    moved: &[String],
    migration: &mut Migration,
) {
    migration.save_api_services(moved);
    for (map, entry, _) in files {
        let ObjectName { namespace, name } = name_of(map);
        migration.step(
            format!("Take over the rules of {namespace}/{name}"),
            "The adapter reads the same file.",
            [
                format!(
                    "kubectl get configmap {name} -n {namespace} -o jsonpath='{{.data.{}}}' > config.yaml",
                    entry.replace('.', "\\.")
                ),
                "plimsoll rules check config.yaml".to_owned(),
            ],
            [],
        );
    }
    migration.flags(
        &facts.deployments,
        "Those of Prometheus, of listing and of the age of series have the same names here. The others are of its own server.",
    );
    let reason = "ADDRESS is that of Prometheus. An overlay has the component rules with config.yaml, and none of the components custom-metrics-api and external-metrics-api. prometheus-adapter still serves all metrics.";
    let mut arguments = " --set prometheus.address=ADDRESS".to_owned();
    if !files.is_empty() {
        arguments += " --set-file adapter.rules=config.yaml";
    }
    arguments += &without_api_services(moved);
    migration.step(
        "Install the suite without its APIService objects",
        reason,
        [install(facts, "horizontal", &arguments), verify()],
        [uninstall(facts)],
    );
    migration.move_api_services(facts, moved);
    migration.stop(
        "Stop prometheus-adapter",
        "It serves nothing since the step before.",
        &facts.deployments,
    );
    migration.delete_release_records(&facts.deployments);
}
