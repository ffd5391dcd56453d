//! Steps from the stored history to the recommended requests, by the code of the recommender: it reads
//! the checkpoints as after a restart, with the flags of the installed recommender.

use std::str::FromStr;

use api::vpa::DEFAULT_RECOMMENDER;
use jiff::Timestamp;
use kube::ResourceExt as _;
use model::{Cap, Explanation, Quantity, ResourceName, shown_name};
use replay::Resource;
use runtime::GoDuration;
use serde_json::{Value, json};
use sizing::Config;
use vertical::recommender_state::{RecommenderConfig, RecommenderState};
use vertical::resource_policy::vpa_method;
use view::{Checkpoint, ObjectKey, View, Vpa};

use super::Facts;
use crate::check::Unread;
use crate::check::reader::deployments;
use crate::cluster::Cluster;
use crate::installation::{Program, programs};
use crate::usage::{MIB, amount};

/// Interval at which the recommender reads usage.
const USAGE_INTERVAL: std::time::Duration = std::time::Duration::from_mins(1);

/// Step of a target that differs from the result of the others.
pub(super) const IN_STATUS: &str = "in the status, with samples that are not stored yet";

/// A step with its result in words, and in millicores or MiB if it is an amount of the resource.
fn step(
    container: &str,
    number: &Explanation,
    step: &str,
    (value, amount): (String, Option<f64>),
) -> Value {
    json!({
        "container": shown_name(container), "resource": number.resource.as_str(), "step": step,
        "value": value, "amount": amount,
    })
}

fn quantity(number: &Explanation, text: String) -> (String, Option<f64>) {
    let resource = match number.resource {
        ResourceName::Cpu => Resource::Cpu,
        _ => Resource::Memory,
    };
    let amount = amount(&text, resource);
    (text, amount)
}

/// The steps of all recommended requests. Empty without checkpoints.
pub(super) fn steps(facts: &Facts, now: Timestamp) -> Vec<Value> {
    let vpa = &facts.vpa;
    let recommenders = &vpa.spec.recommenders;
    let recommender = recommenders.first();
    let recommender = recommender.map_or(DEFAULT_RECOMMENDER, |it| it.name.as_str());
    let config = RecommenderConfig {
        recommender_name: recommender.to_owned(),
        memory_saver: false,
        native_sidecars: true,
        usage_interval: USAGE_INTERVAL,
    };
    let Ok(mut state) = RecommenderState::new(config, facts.sizing.clone()) else {
        return Vec::new();
    };
    let mut view = View::default();
    view.vpas.apply(Vpa::from_k8s(vpa.clone()).into());
    for checkpoint in &facts.checkpoints {
        let checkpoint = Checkpoint::from_k8s(checkpoint.clone());
        view.checkpoints.apply(checkpoint.into());
    }
    state.load_vpas(&view);
    state.load_checkpoints(&view.checkpoints, now);
    let settings = vpa_method(vpa).apply(&facts.sizing);
    let key = ObjectKey::new(vpa.namespace().unwrap_or_default(), vpa.name_any());
    let mut lines = Vec::new();
    for checkpoint in &facts.checkpoints {
        let container = &checkpoint.spec.container_name;
        for number in &state.explain(&key, container).unwrap_or_default() {
            add(&mut lines, container, number, &settings);
            let published = target(facts, container, number);
            let published = published.filter(|it| *it != &number.capped);
            let published = published.map(|it| quantity(number, it.to_string()));
            lines.extend(published.map(|it| step(container, number, IN_STATUS, it)));
        }
    }
    lines
}

fn target<'a>(facts: &'a Facts, container: &str, number: &Explanation) -> Option<&'a Quantity> {
    let recommendation = facts.vpa.status.as_ref()?.recommendation.as_ref()?;
    let mut containers = recommendation.containers.iter();
    let of_container = containers.find(|it| it.container_name == container)?;
    of_container.target.get(&number.resource)
}

fn add(lines: &mut Vec<Value>, container: &str, number: &Explanation, config: &Config) {
    let is_cpu = number.resource == ResourceName::Cpu;
    let amount = |amount: i64| format!("{amount}{}", if is_cpu { "m" } else { "" });
    let mut add = |name: &str, value| lines.push(step(container, number, name, value));
    if number.method_steps.is_empty() {
        // Without the error of the product: 29, not 28.999999999999996.
        let percentile = (1e8 * number.percentile).round() / 1e6;
        let margin = 100.0 * config.margin_fraction;
        add(
            &format!("{percentile}th percentile of the history"),
            quantity(number, amount(number.usage)),
        );
        add(
            &format!("plus a margin of {margin:.0} %"),
            quantity(number, amount(number.with_margin)),
        );
        add(
            &format!("at least {}", amount(number.minimum)),
            quantity(number, amount(number.at_least_minimum)),
        );
    }
    for step in &number.method_steps {
        let value = match (step.value, &step.text) {
            (Some(value), _) => {
                let amount = match step.unit.as_str() {
                    "millicores" | "MiB" => Some(value),
                    "bytes" => Some(value / MIB),
                    _ => None,
                };
                (
                    format!("{value} {}", step.unit).trim_end().to_owned(),
                    amount,
                )
            }
            (None, text) => (text.clone().unwrap_or_default(), None),
        };
        add(&step.name, value);
    }
    add(
        "as a quantity",
        quantity(number, number.rounded.to_string()),
    );
    if number.in_whole_units != number.rounded {
        let whole = number.in_whole_units.to_string();
        add("in whole cores", quantity(number, whole));
    }
    if let Some(cap) = number.capped_by {
        let name = match cap {
            Cap::MinAllowed => "minAllowed",
            Cap::MaxAllowed => "maxAllowed",
            Cap::GlobalMaxAllowed => "maximum of the recommender",
            Cap::LimitRange => "LimitRange",
            Cap::Quota => "ResourceQuota",
            Cap::Node => "largest node",
        };
        let capped = quantity(number, number.capped.to_string());
        add(&format!("limited by {name}"), capped);
    }
}

/// The settings of the installed recommender; the defaults, with the reason, if it cannot be read.
pub(super) async fn settings(
    cluster: &Cluster,
    system_namespace: &str,
) -> (Config, Option<String>) {
    let found = deployments(cluster, system_namespace).await;
    let programs = programs(found.as_deref().unwrap_or_default());
    if let Some(recommender) = programs.iter().find(|it| it.name == "recommender") {
        return (config(*recommender), None);
    }
    let reason = match &found {
        Ok(_) => format!("the namespace {system_namespace} has no recommender"),
        Err(Unread { reason, .. }) => reason.clone(),
    };
    let note = format!("The steps are those of a recommender with default flags: {reason}.");
    (Config::default(), Some(note))
}

/// The value of a flag; `None` if it is absent or invalid.
fn parsed<T: FromStr>(recommender: Program<'_>, name: &str) -> Option<T> {
    recommender.flag(name)?.parse().ok()
}

/// The settings of sizing in the flags of a recommender; an invalid flag, with which it would not
/// run, keeps its default.
pub(super) fn config(recommender: Program<'_>) -> Config {
    let mut config = Config::default();
    let percentiles = [&mut config.cpu_percentiles, &mut config.memory_percentiles];
    let [cpu_target, memory_target] = percentiles.map(|percentiles| &mut percentiles.target);
    let (margin, mebibytes) = (&mut config.margin_fraction, &mut config.pod_min_memory_mib);
    for (name, field) in [
        ("recommendation-margin-fraction", margin),
        (
            "pod-recommendation-min-cpu-millicores",
            &mut config.pod_min_cpu_millicores,
        ),
        ("pod-recommendation-min-memory-mb", mebibytes),
        ("target-cpu-percentile", cpu_target),
        ("target-memory-percentile", memory_target),
    ] {
        *field = parsed(recommender, name).unwrap_or(*field);
    }
    let (cpu, memory) = (
        &mut config.cpu_half_life_ns,
        &mut config.memory_half_life_ns,
    );
    let interval = &mut config.memory.interval_ns;
    for (name, field) in [
        ("cpu-histogram-decay-half-life", cpu),
        ("memory-histogram-decay-half-life", memory),
        ("memory-aggregation-interval", interval),
    ] {
        let duration = parsed(recommender, name).map(|GoDuration(it)| it.as_nanos());
        let nanoseconds = duration.and_then(|it| i64::try_from(it).ok());
        *field = nanoseconds.unwrap_or(*field);
    }
    for (name, field) in [
        ("round-cpu-millicores", &mut config.round_cpu_millicores),
        ("round-memory-bytes", &mut config.round_memory_bytes),
    ] {
        *field = parsed(recommender, name).unwrap_or(*field);
    }
    let is_on = |name: &str| recommender.flag(name).as_deref() == Some("true");
    config.humanize_memory = is_on("humanize-memory");
    config.integer_cpu = is_on("cpu-integer-post-processor-enabled");
    if config.validate().is_err() {
        return Config::default();
    }
    config
}
