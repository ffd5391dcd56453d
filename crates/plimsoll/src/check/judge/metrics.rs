//! The metrics APIs and their owners.

use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1::APIService;

use super::Extent;
use crate::check::facts::Facts;
use crate::check::finding::{Check, Findings};
use crate::installation::{ObjectName, service_of};

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

/// Parts of the names of Services, and the product behind each.
const PRODUCTS: [(&str, &str); 4] = [
    ("keda", "KEDA"),
    ("prometheus-adapter", "prometheus-adapter"),
    ("crane", "Crane"),
    ("metric-adapter", "Crane"),
];

pub(super) fn judge(facts: &Facts, extent: Extent, findings: &mut Findings) {
    findings.category = "metrics";
    metrics_server(facts, findings);
    for (api, id) in ADAPTER_APIS {
        let (group, version) = api.split_once('/').unwrap_or_default();
        let name = &format!("{version}.{group}");
        let mut check = findings.check(id, format!("{api} has the expected owner"));
        if let Some(services) = check.read(&facts.api_services) {
            let service = find(services, name);
            match extent {
                Extent::Before => owner_before(service, &mut check),
                Extent::Installed => match (service, other_version(facts, services, name)) {
                    (None, Some(other)) => check.ok(other),
                    _ => owner(facts, service, &mut check),
                },
            }
        }
    }
    if extent == Extent::Installed {
        prometheus(facts, findings);
    }
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
        let owner = service_of(service).filter(|it| it.namespace != facts.system_namespace)?;
        let version = spec.version.clone().unwrap_or_default();
        let owner = name_of(&owner);
        Some(format!("not installed; {owner} serves {version}"))
    });
    others.next()
}

fn unavailable(service: &APIService) -> Option<String> {
    let conditions = service.status.iter().flat_map(|status| &status.conditions);
    let available = conditions.flatten().find(|one| one.type_ == "Available");
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    match available {
        Some(it) if it.status == "True" => None,
        Some(it) => Some(format!("{}: {}", text(&it.reason), text(&it.message))),
        None => Some("it has no condition Available".to_owned()),
    }
}

fn metrics_server(facts: &Facts, findings: &mut Findings) {
    let mut check = findings.check("metrics-server-available", "metrics.k8s.io is available");
    if let Some(services) = check.read(&facts.api_services) {
        match find(services, METRICS_SERVER).map(unavailable) {
            None => check.error(
                format!("there is no APIService {METRICS_SERVER}"),
                "Install metrics-server",
            ),
            Some(Some(reason)) => check.error(
                format!("the APIService {METRICS_SERVER} is not available: {reason}"),
                "Look at the pods and the log of metrics-server",
            ),
            Some(None) => check.ok(""),
        }
    }
    let mut check = findings.check("node-metrics", "nodes have metrics");
    let Some(measured) = check.read(&facts.measured_nodes) else {
        return;
    };
    let nodes = facts.nodes.as_ref().copied().unwrap_or(*measured);
    let counted = format!("{measured} of {nodes} nodes have metrics");
    if *measured == 0 && nodes > 0 {
        check.error(
            counted,
            "Look at the log of metrics-server: it cannot read from the kubelets",
        );
    } else if *measured < nodes {
        check.warn(
            counted,
            "Nodes get metrics about a minute after they join; look at those without any",
        );
    } else {
        check.ok(counted);
    }
}

/// Namespace and name of a Service, with its product.
fn name_of(service: &ObjectName) -> String {
    let mut products = PRODUCTS.iter();
    match products.find(|(part, _)| service.name.contains(part)) {
        Some((_, product)) => format!("{service} ({product})"),
        None => service.to_string(),
    }
}

fn owner_before(service: Option<&APIService>, check: &mut Check<'_>) {
    match service.map(service_of) {
        None => check.ok("free"),
        Some(None) => check.ok("served by the API server itself"),
        Some(Some(service)) => check.warn(
            format!(
                "the Service {} serves it, and the component of this API would take it over",
                name_of(&service)
            ),
            "Leave the component of this API out, or route its metrics (docs/routes.md)",
        ),
    }
}

fn owner(facts: &Facts, service: Option<&APIService>, check: &mut Check<'_>) {
    let has_adapter = facts.programs().iter().any(|it| it.name == "adapter");
    let Some(service) = service else {
        if has_adapter {
            check.error(
                "the APIService is missing, so HPAs get no forecasts",
                "Add the component external-metrics-api or custom-metrics-api to the overlay",
            );
        } else {
            check.ok("no owner, and no adapter is installed");
        }
        return;
    };
    let owner = service_of(service).unwrap_or_else(|| ObjectName::new("", ""));
    let (namespace, owner) = (&owner.namespace, name_of(&owner));
    if let Some(reason) = unavailable(service) {
        check.error(
            format!("the Service {owner} does not answer: {reason}"),
            "Look at the pods of that Service; HPAs with such metrics do not scale down meanwhile",
        );
    } else if has_adapter && *namespace != facts.system_namespace {
        check.warn(
            format!("the Service {owner} serves it, not the adapter"),
            "Run `plimsoll migrate keda`, `prometheus-adapter` or `crane` with --plan, or use the mode vertical (docs/operations.md)",
        );
    } else {
        check.ok(owner);
    }
}

fn prometheus(facts: &Facts, findings: &mut Findings) {
    let mut check = findings.check(
        "prometheus-series",
        "Prometheus has the series of the history",
    );
    let Some(prometheus) = &facts.prometheus else {
        return check.skip("the recommender reads no Prometheus");
    };
    let Some(counts) = check.read(&prometheus.series) else {
        return;
    };
    let counted = super::SERIES.into_iter().zip(counts);
    let missing = counted.filter(|(_, count)| **count == 0);
    let missing: Vec<&str> = missing.map(|(metric, _)| metric).collect();
    if missing.is_empty() {
        check.ok(prometheus.address.clone());
    } else {
        check.error(
            format!(
                "{} has no series of {}",
                prometheus.address,
                missing.join(", ")
            ),
            "Scrape the kubelets' cAdvisor and kube-state-metrics (docs/history.md)",
        );
    }
}
