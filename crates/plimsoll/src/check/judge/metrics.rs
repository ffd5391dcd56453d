//! The metrics APIs and their owners.

use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1::{
    APIService, APIServiceCondition,
};

use super::{Extent, Other};
use crate::check::facts::Facts;
use crate::check::finding::{Finding, Findings};

const METRICS_SERVER: &str = "v1beta1.metrics.k8s.io";
/// APIs of the adapter, with the identifier of their check.
const ADAPTER_APIS: [(&str, &str); 3] = [
    ("custom.metrics.k8s.io/v1beta1", "custom-metrics-v1beta1"),
    ("custom.metrics.k8s.io/v1beta2", "custom-metrics-v1beta2"),
    (
        "external.metrics.k8s.io/v1beta1",
        "external-metrics-v1beta1",
    ),
];

pub(super) fn findings(facts: &Facts, extent: Extent) -> Vec<Finding> {
    let mut findings = Findings::new("metrics");
    metrics_server(facts, &mut findings);
    for (api, id) in ADAPTER_APIS {
        let (group, version) = api.split_once('/').unwrap_or_default();
        let name = &format!("{version}.{group}");
        let title = format!("{api} has the expected owner");
        let check = (id, title.as_str());
        if let Some(services) = findings.read(check, &facts.api_services) {
            let service = find(services, name);
            match extent {
                Extent::Before => owner_before(service, check, &mut findings),
                Extent::Installed => match (service, other_version(facts, services, name)) {
                    (None, Some(other)) => findings.ok(check, other),
                    _ => owner(facts, service, check, &mut findings),
                },
            }
        }
    }
    if extent == Extent::Installed {
        prometheus(facts, &mut findings);
    }
    findings.list
}

fn find<'a>(services: &'a [APIService], name: &str) -> Option<&'a APIService> {
    let has_name = |service: &&APIService| service.metadata.name.as_deref() == Some(name);
    services.iter().find(has_name)
}

/// Another provider serves another version of the API, which is enough for HPAs.
fn other_version(facts: &Facts, services: &[APIService], name: &str) -> Option<String> {
    let (_, group) = name.split_once('.')?;
    let mut others = services.iter().filter_map(|service| {
        let spec = service.spec.as_ref()?;
        (spec.group.as_deref() == Some(group)).then_some(())?;
        let (namespace, name) = owner_of(service)?;
        (namespace != facts.system_namespace).then_some(())?;
        let version = spec.version.clone().unwrap_or_default();
        Some(format!(
            "not installed; {} serves {version}",
            name_of(&namespace, &name)
        ))
    });
    others.next()
}

fn unavailable(service: &APIService) -> Option<String> {
    let conditions = service.status.iter().flat_map(|status| &status.conditions);
    let available = conditions.flatten().find(|one| one.type_ == "Available");
    let text = |condition: &APIServiceCondition| {
        let message = condition.message.as_deref().unwrap_or_default();
        format!(
            "{}: {message}",
            condition.reason.as_deref().unwrap_or_default()
        )
    };
    match available {
        Some(condition) if condition.status == "True" => None,
        Some(condition) => Some(text(condition)),
        None => Some("it has no condition Available".to_owned()),
    }
}

fn metrics_server(facts: &Facts, findings: &mut Findings) {
    let check = ("metrics-server-available", "metrics.k8s.io is available");
    if let Some(services) = findings.read(check, &facts.api_services) {
        match find(services, METRICS_SERVER).map(unavailable) {
            None => findings.error(
                check,
                format!("there is no APIService {METRICS_SERVER}"),
                "Install metrics-server",
            ),
            Some(Some(reason)) => findings.error(
                check,
                format!("the APIService {METRICS_SERVER} is not available: {reason}"),
                "Look at the pods and the log of metrics-server",
            ),
            Some(None) => findings.ok(check, ""),
        }
    }
    let check = ("node-metrics", "nodes have metrics");
    let Some(measured) = findings.read(check, &facts.measured_nodes) else {
        return;
    };
    let nodes = facts.nodes.as_ref().copied().unwrap_or(*measured);
    let counted = format!("{measured} of {nodes} nodes have metrics");
    if *measured == 0 && nodes > 0 {
        findings.error(
            check,
            counted,
            "Look at the log of metrics-server: it cannot read from the kubelets",
        );
    } else if *measured < nodes {
        findings.warn(
            check,
            counted,
            "Nodes get metrics about a minute after they join; look at those without any",
        );
    } else {
        findings.ok(check, counted);
    }
}

/// Product behind a Service, by the Service's name.
fn product(service: &str) -> Option<Other> {
    [
        ("keda", Other::Keda),
        ("prometheus-adapter", Other::PrometheusAdapter),
        ("crane", Other::Crane),
        ("metric-adapter", Other::Crane),
    ]
    .into_iter()
    .find(|(part, _)| service.contains(part))
    .map(|(_, product)| product)
}

fn owner_of(service: &APIService) -> Option<(String, String)> {
    let reference = service.spec.as_ref()?.service.as_ref()?;
    let text = |field: &Option<String>| field.clone().unwrap_or_default();
    Some((text(&reference.namespace), text(&reference.name)))
}

fn name_of(namespace: &str, name: &str) -> String {
    let label = match product(name) {
        Some(Other::Keda) => " (KEDA)",
        Some(Other::PrometheusAdapter) => " (prometheus-adapter)",
        Some(Other::Crane) => " (Crane)",
        _ => "",
    };
    format!("{namespace}/{name}{label}")
}

fn owner_before(service: Option<&APIService>, check: (&str, &str), findings: &mut Findings) {
    match service.map(owner_of) {
        None => findings.ok(check, "free"),
        Some(None) => findings.ok(check, "served by the API server itself"),
        Some(Some((namespace, name))) => findings.warn(
            check,
            format!(
                "the Service {} serves it, and the component of this API would take it over",
                name_of(&namespace, &name)
            ),
            "Leave the component of this API out, or route its metrics (docs/routes.md)",
        ),
    }
}

fn owner(
    facts: &Facts,
    service: Option<&APIService>,
    check: (&str, &str),
    findings: &mut Findings,
) {
    let has_adapter = facts.programs().iter().any(|it| it.name == "adapter");
    let Some(service) = service else {
        if has_adapter {
            findings.error(
                check,
                "the APIService is missing, so HPAs get no forecasts",
                "Add the component external-metrics-api or custom-metrics-api to the overlay",
            );
        } else {
            findings.ok(check, "no owner, and no adapter is installed");
        }
        return;
    };
    let (namespace, name) = owner_of(service).unwrap_or_default();
    let owner = name_of(&namespace, &name);
    if let Some(reason) = unavailable(service) {
        findings.error(
            check,
            format!("the Service {owner} does not answer: {reason}"),
            "Look at the pods of that Service; HPAs with such metrics do not scale down meanwhile",
        );
    } else if has_adapter && namespace != facts.system_namespace {
        findings.warn(
            check,
            format!("the Service {owner} serves it, not the adapter"),
            "Run `plimsoll migrate keda`, `prometheus-adapter` or `crane` with --plan, or use the mode vertical (docs/operations.md)",
        );
    } else {
        findings.ok(check, owner);
    }
}

fn prometheus(facts: &Facts, findings: &mut Findings) {
    let check = (
        "prometheus-series",
        "Prometheus has the series of the history",
    );
    let Some(prometheus) = &facts.prometheus else {
        findings.skip(check, "the recommender reads no Prometheus");
        return;
    };
    let Some(counts) = findings.read(check, &prometheus.series) else {
        return;
    };
    let missing = super::SERIES
        .iter()
        .zip(counts)
        .filter(|(_, count)| **count == 0);
    let missing: Vec<&str> = missing.map(|(metric, _)| *metric).collect();
    if missing.is_empty() {
        findings.ok(check, prometheus.address.clone());
    } else {
        findings.error(
            check,
            format!(
                "{} has no series of {}",
                prometheus.address,
                missing.join(", ")
            ),
            "Scrape the kubelets' cAdvisor and kube-state-metrics (docs/history.md)",
        );
    }
}
