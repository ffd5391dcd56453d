//! The metrics APIs and their owners.

use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1::APIService;

use super::Extent;
use crate::check::facts::{Facts, PrometheusFact};
use crate::check::finding::{Findings, Verdict, error, skip, warn};
use crate::installation::{ObjectName, service_of};

const METRICS_SERVER: &str = "v1beta1.metrics.k8s.io";
const ADAPTER_APIS: [&str; 3] = [
    "custom.metrics.k8s.io/v1beta1",
    "custom.metrics.k8s.io/v1beta2",
    "external.metrics.k8s.io/v1beta1",
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
    let title = "metrics.k8s.io is available";
    findings.add("metrics-server-available", title, metrics_server(facts));
    findings.add("node-metrics", "nodes have metrics", node_metrics(facts));
    for api in ADAPTER_APIS {
        // Such as custom-metrics-v1beta1.
        let id = api.replace(".metrics.k8s.io/", "-metrics-");
        let title = format!("{api} has the expected owner");
        findings.add(id, title, expected_owner(facts, extent, api));
    }
    if extent == Extent::Installed {
        let title = "Prometheus has the series of the history";
        findings.add("prometheus-series", title, prometheus(facts));
    }
}

fn expected_owner(facts: &Facts, extent: Extent, api: &str) -> Verdict {
    let (group, version) = api.split_once('/').unwrap_or_default();
    let services = facts.api_services.as_ref()?;
    let service = find(services, &format!("{version}.{group}"));
    if extent == Extent::Before {
        return owner_before(service);
    }
    match (service, other_version(facts, services, group)) {
        (None, Some(other)) => Ok(other),
        (None, None) => not_installed(facts, services, group),
        (Some(service), _) => owner(facts, service),
    }
}

/// An API without an owner, which the values of the chart may leave out.
fn not_installed(facts: &Facts, services: &[APIService], group: &str) -> Verdict {
    if !has_adapter(facts) {
        return Ok("no owner, and no adapter is installed".to_owned());
    }
    let is_own = |service: &&APIService| {
        service_of(service).is_some_and(|it| it.namespace == facts.system_namespace)
    };
    let own = services
        .iter()
        .filter(is_own)
        .filter_map(|it| it.spec.as_ref());
    let groups = own.filter_map(|spec| spec.group.as_deref());
    let mut groups = groups
        .filter(|it| it.ends_with(".metrics.k8s.io"))
        .peekable();
    if groups.peek().is_some() && groups.all(|it| it != group) {
        return Ok("not installed; the adapter serves another API".to_owned());
    }
    error(
        "the APIService is missing, so HPAs get none of its metrics",
        "Set adapter.apiServices of the chart to true, or add the components external-metrics-api and custom-metrics-api to the overlay",
    )
}

fn has_adapter(facts: &Facts) -> bool {
    facts.programs().iter().any(|it| it.name == "adapter")
}

fn find<'a>(services: &'a [APIService], name: &str) -> Option<&'a APIService> {
    let has_name = |service: &&APIService| service.metadata.name.as_deref() == Some(name);
    services.iter().find(has_name)
}

/// Another provider serves another version of the API, which is enough for HPAs.
fn other_version(facts: &Facts, services: &[APIService], group: &str) -> Option<String> {
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

fn metrics_server(facts: &Facts) -> Verdict {
    match find(facts.api_services.as_ref()?, METRICS_SERVER).map(unavailable) {
        None => error(
            format!("there is no APIService {METRICS_SERVER}"),
            "Install metrics-server",
        ),
        Some(Some(reason)) => error(
            format!("the APIService {METRICS_SERVER} is not available: {reason}"),
            "Look at the pods and the log of metrics-server",
        ),
        Some(None) => Ok(String::new()),
    }
}

fn node_metrics(facts: &Facts) -> Verdict {
    let measured = *facts.measured_nodes.as_ref()?;
    let nodes = facts.nodes.as_ref().copied().unwrap_or(measured);
    let counted = format!("{measured} of {nodes} nodes have metrics");
    if measured == 0 && nodes > 0 {
        let hint = "Look at the log of metrics-server: it cannot read from the kubelets";
        return error(counted, hint);
    }
    if measured < nodes {
        let hint = "Nodes get metrics about a minute after they join; look at those without any";
        return warn(counted, hint);
    }
    Ok(counted)
}

fn name_of(service: &ObjectName) -> String {
    let mut products = PRODUCTS.iter();
    match products.find(|(part, _)| service.name.contains(part)) {
        Some((_, product)) => format!("{service} ({product})"),
        None => service.to_string(),
    }
}

fn owner_before(service: Option<&APIService>) -> Verdict {
    match service.map(service_of) {
        None => Ok("free".to_owned()),
        Some(None) => Ok("served by the API server itself".to_owned()),
        Some(Some(service)) => warn(
            format!(
                "the Service {} serves it, and the component of this API would take it over",
                name_of(&service)
            ),
            "Leave the component of this API out, or route its metrics (docs/routes.md)",
        ),
    }
}

fn owner(facts: &Facts, service: &APIService) -> Verdict {
    let owner = service_of(service).unwrap_or_else(|| ObjectName::new("", ""));
    let (namespace, owner) = (&owner.namespace, name_of(&owner));
    if let Some(reason) = unavailable(service) {
        return error(
            format!("the Service {owner} does not answer: {reason}"),
            "Look at the pods of that Service; HPAs with such metrics do not scale down meanwhile",
        );
    }
    if has_adapter(facts) && *namespace != facts.system_namespace {
        return warn(
            format!("the Service {owner} serves it, not the adapter"),
            "Run `plimsoll migrate keda`, `prometheus-adapter` or `crane` with --plan, or use the mode vertical (docs/operations.md)",
        );
    }
    Ok(owner)
}

fn prometheus(facts: &Facts) -> Verdict {
    let Some(PrometheusFact {
        address,
        series,
        refusal,
    }) = &facts.prometheus
    else {
        return skip("the recommender reads no Prometheus");
    };
    if let Some(refusal) = refusal {
        return error(
            format!("{address}: {refusal}"),
            "Set prometheus.matchers of the chart (docs/history.md)",
        );
    }
    let counted = super::SERIES.into_iter().zip(series.as_ref()?);
    let missing = counted.filter(|(_, count)| **count == 0);
    let missing: Vec<&str> = missing.map(|(metric, _)| metric).collect();
    if missing.is_empty() {
        return Ok(address.clone());
    }
    error(
        format!("{address} has no series of {}", missing.join(", ")),
        "Scrape the kubelets' cAdvisor and kube-state-metrics (docs/history.md)",
    )
}
