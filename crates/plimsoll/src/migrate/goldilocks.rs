//! From Goldilocks: its VPA objects of each namespace become those of a sizing policy.

use std::collections::BTreeMap;

use kube::ResourceExt as _;
use kube::api::DynamicObject;
use serde_json::{Value, json};

use super::facts::{Facts, Kind, Source, VPA, kind, name_of};
use super::fields::Fields;
use super::plan::{Migration, Verdict, apply, install, uninstall};
use super::vpa::GOLDILOCKS;

const NAMESPACE: Kind = kind("Namespace", "namespaces/v1");
pub(crate) const SOURCE: Source = Source {
    product: "Goldilocks",
    images: &["goldilocks"],
    kinds: &[NAMESPACE, VPA],
    definitions: &[],
    reads_config_maps: false,
};
const PREFIX: &str = "goldilocks.fairwinds.com";
const ENABLED: &str = "enabled";
const UPDATE_MODE: &str = "vpa-update-mode";
const RESOURCE_POLICY: &str = "vpa-resource-policy";
const MIN_REPLICAS: &str = "vpa-min-replicas";
const SETTINGS: [&str; 4] = [ENABLED, UPDATE_MODE, RESOURCE_POLICY, MIN_REPLICAS];
/// Values of labels that mean yes to Goldilocks, those of Go's `strconv.ParseBool`.
const TRUE: [&str; 6] = ["1", "t", "T", "true", "TRUE", "True"];
const POLICY: &str = "from-goldilocks";

pub(crate) fn migration(facts: &Facts) -> Migration {
    let mut migration = Migration::default();
    migration.deployments("Goldilocks", &facts.deployments);
    let namespaces = namespaces(facts);
    for (name, namespace) in &namespaces {
        let mut verdict = Verdict::Changed;
        let mut reason = format!(
            "{} VPA objects give way to those of a SizingPolicy with updateMode {}",
            namespace.vpas, namespace.mode
        );
        if !namespace.left_out.is_empty() {
            verdict = Verdict::Manual;
            reason = format!("{reason}; {}", namespace.left_out.join("; "));
        }
        migration.items.push(super::plan::Item {
            object: format!("Namespace {name}"),
            verdict,
            reason,
        });
    }
    overrides(facts, &namespaces, &mut migration);
    steps(facts, &namespaces, &mut migration);
    migration
}

#[derive(Debug)]
struct Namespace {
    vpas: usize,
    mode: &'static str,
    resource_policy: Option<Value>,
    min_replicas: Option<i64>,
    left_out: Vec<String>,
}

/// Namespaces that Goldilocks manages: labelled ones, and those with VPA objects by it, as
/// `--on-by-default` needs no label.
fn namespaces(facts: &Facts) -> BTreeMap<String, Namespace> {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for vpa in facts.of(&VPA).iter().filter(|vpa| is_by_goldilocks(vpa)) {
        let namespace = vpa.namespace().unwrap_or_default();
        *counts.entry(namespace).or_default() += 1;
    }
    let mut namespaces = BTreeMap::new();
    for object in facts.of(&NAMESPACE) {
        let enabled = object.labels().get(&format!("{PREFIX}/{ENABLED}"));
        let vpas = counts.get(&object.name_any()).copied().unwrap_or(0);
        let is_enabled = |text: &String| TRUE.contains(&text.as_str());
        if vpas > 0 || enabled.is_some_and(is_enabled) {
            namespaces.insert(object.name_any(), settings(object, vpas));
        }
    }
    namespaces
}

fn is_by_goldilocks(vpa: &DynamicObject) -> bool {
    let (label, value) = GOLDILOCKS;
    vpa.labels().get(label).is_some_and(|found| found == value)
}

fn settings(namespace: &DynamicObject, vpas: usize) -> Namespace {
    let (labels, annotations) = (namespace.labels(), namespace.annotations());
    // An annotation precedes the label of the same name, as with Goldilocks.
    let setting = |name: &str| {
        let key = format!("{PREFIX}/{name}");
        annotations.get(&key).or(labels.get(&key))
    };
    let mut left_out = Vec::new();
    let keys = labels.keys().chain(annotations.keys());
    let settings = keys.filter_map(|key| key.strip_prefix(PREFIX)?.strip_prefix('/'));
    let unknown = settings.filter(|name| !SETTINGS.contains(name));
    left_out.extend(unknown.map(|name| format!("{PREFIX}/{name} has no counterpart")));
    let mut invalid = |name: &str, why: &str| left_out.push(format!("{PREFIX}/{name} {why}"));
    let policy = setting(RESOURCE_POLICY);
    let resource_policy = policy.and_then(|text| match serde_json::from_str::<Value>(text) {
        Ok(value) if value.is_object() => Some(value),
        _ => {
            invalid(RESOURCE_POLICY, "is no JSON object and is left out");
            None
        }
    });
    let mode = setting(UPDATE_MODE).map(|mode| mode.to_lowercase());
    let mode = match mode.as_deref() {
        Some("initial") => "Initial",
        Some("recreate" | "auto") => "Recreate",
        None | Some("off") => "Off",
        Some(_) => {
            invalid(UPDATE_MODE, "is unknown and counts as Off");
            "Off"
        }
    };
    let replicas = setting(MIN_REPLICAS);
    let min_replicas = replicas.and_then(|text| {
        let replicas = text.parse().ok().filter(|replicas| *replicas > 0);
        if replicas.is_none() {
            invalid(MIN_REPLICAS, "is no positive number and is left out");
        }
        replicas
    });
    Namespace {
        vpas,
        mode,
        resource_policy,
        min_replicas,
        left_out,
    }
}

/// VPA objects that differ from their namespace's policy, such as by a label of the workload.
fn overrides(facts: &Facts, namespaces: &BTreeMap<String, Namespace>, migration: &mut Migration) {
    for vpa in facts.of(&VPA).iter().filter(|vpa| is_by_goldilocks(vpa)) {
        let Some(namespace) = namespaces.get(&name_of(vpa).namespace) else {
            continue;
        };
        let mut fields = Fields::of(vpa);
        for part in ["apiVersion", "kind", "name"] {
            fields.take(&format!("/spec/targetRef/{part}"));
        }
        for (label, value) in [GOLDILOCKS, ("creator", "Fairwinds")] {
            fields.take_if(&format!("/metadata/labels/{label}"), &value.into());
        }
        let replicas = json!(namespace.min_replicas);
        fields.take_if("/spec/updatePolicy/minReplicas", &replicas);
        let mode = fields.text("/spec/updatePolicy/updateMode");
        let mode = mode.map_or("Recreate".to_owned(), |it| it.replace("Auto", "Recreate"));
        let mut reasons = Vec::new();
        if mode != namespace.mode {
            let of_namespace = namespace.mode;
            reasons.push(format!(
                "its mode {mode} is not the namespace's {of_namespace}"
            ));
        }
        let of_namespace = namespace.resource_policy.as_ref().unwrap_or(&Value::Null);
        if fields.take("/spec/resourcePolicy") != *of_namespace {
            reasons.push("its resourcePolicy is not the namespace's".to_owned());
        }
        let rest = fields.rest().join(", ");
        if !rest.is_empty() {
            reasons.push(format!("the policy of the namespace lacks {rest}"));
        }
        for reason in reasons {
            let remedy = "write a second SizingPolicy with a selector for this workload";
            let reason = format!("{reason}: {remedy}");
            migration.item(VPA.name, vpa, Verdict::Manual, reason);
        }
    }
}

fn steps(facts: &Facts, namespaces: &BTreeMap<String, Namespace>, migration: &mut Migration) {
    let system = &facts.system_namespace;
    migration.flags(
        &facts.deployments,
        "Those that choose namespaces and kinds become the selector and the kinds of a policy (docs/sizing.md). The others have no counterpart.",
    );
    migration.stop(
        "Stop Goldilocks",
        "Otherwise it creates its VPA objects again. Its dashboard stops too; `plimsoll dashboard` has the sizes.",
        &facts.deployments,
    );
    migration.step(
        "Run the controller of sizing policies",
        "After `plimsoll migrate vpa`, for the programs. An overlay has the component sizing-policies.",
        [
            install(facts, "vertical", " --set recommender.sizingPolicies=true"),
            format!("kubectl rollout status deployment/plimsoll-recommender -n {system} --timeout=2m"),
        ],
        [uninstall(facts)],
    );
    for (name, namespace) in namespaces {
        hand_over(name, namespace, migration);
    }
}

fn hand_over(name: &str, namespace: &Namespace, migration: &mut Migration) {
    let ready =
        format!("kubectl wait sizingpolicy/{POLICY} -n {name} --for=condition=Ready --timeout=1m");
    // Before an object is deleted, the controller has to work.
    let mut commands = vec![apply(&policy(name, namespace)), ready.clone()];
    let mut undo = vec![format!("kubectl delete sizingpolicy {POLICY} -n {name}")];
    if namespace.vpas > 0 {
        let (label, value) = GOLDILOCKS;
        let file = format!("goldilocks-{name}.yaml");
        let save = format!("kubectl get vpa -n {name} -l {label}={value} -o yaml > {file}");
        commands.insert(0, save);
        commands.push(format!("kubectl delete vpa -n {name} -l {label}={value}"));
        commands.push(ready);
        undo.push(format!("kubectl create -f {file}"));
    }
    commands.push(format!(
        "kubectl get sizingpolicy {POLICY} -n {name}    # SELECTED is MANAGED plus CONFLICTS, which have a VPA of yours"
    ));
    migration.step(
        format!("Hand over the namespace {name}"),
        "The policy creates a VPA for each workload without one, so the old objects go right after it. Histories begin again unless the recommender reads Prometheus; with less than a day of usage a request is only raised.",
        commands,
        undo,
    );
}

fn policy(name: &str, namespace: &Namespace) -> Value {
    let mut spec = json!({"updateMode": namespace.mode});
    if let Some(policy) = &namespace.resource_policy {
        spec["resourcePolicy"] = policy.clone();
    }
    if let Some(replicas) = namespace.min_replicas {
        spec["minReplicas"] = replicas.into();
    }
    json!({
        "apiVersion": api::sizing_policy::API_VERSION, "kind": "SizingPolicy",
        "metadata": {"name": POLICY, "namespace": name},
        "spec": spec,
    })
}
