//! Findings of a scan for CI systems: one for each resource of a container.

use super::{Scan, ScannedContainer, ScannedResource};
use crate::ci::{CiFinding, Level};
use crate::output::or_absent;
use crate::severity::Severity;

const HELP: &str = "Set the recommended request: `plimsoll apply` prints it as a manifest";

/// All resources, with the names of their clusters; an empty name is left out.
pub(super) fn findings(scans: &[(String, Scan)]) -> Vec<CiFinding> {
    let containers = scans.iter().flat_map(|(cluster, scan)| {
        let containers = scan.containers.iter();
        containers.map(move |container| (cluster.as_str(), container))
    });
    let findings = containers.flat_map(|(cluster, container)| {
        let resources = [("cpu", &container.cpu), ("memory", &container.memory)];
        resources.map(|(name, resource)| finding(&subject(cluster, container), name, resource))
    });
    findings.collect()
}

/// Names with slashes between them, without the empty ones.
fn subject(cluster: &str, container: &ScannedContainer) -> String {
    let id = &container.id;
    let mut names = vec![cluster, &id.namespace, &id.workload, &id.container];
    names.retain(|name| !name.is_empty());
    names.join("/")
}

fn finding(subject: &str, name: &str, resource: &ScannedResource) -> CiFinding {
    let change = resource.amounts;
    let (kind, words) = if change.present.is_none() {
        ("missing", "is missing")
    } else if change.saved() < 0.0 {
        ("too-small", "is below the recommended one")
    } else {
        ("too-large", "is above the recommended one")
    };
    let [request, recommended] =
        [&resource.request, &resource.recommended].map(|it| or_absent(it.as_ref()));
    CiFinding {
        case: format!("{name}-request"),
        rule: format!("{name}-request-{kind}"),
        description: format!("The {name} request {words}"),
        help: HELP.to_owned(),
        subject: subject.to_owned(),
        level: match resource.severity {
            Severity::Ok => Level::Passed,
            Severity::Info => Level::Note,
            Severity::Warning => Level::Warning,
            Severity::Critical => Level::Error,
        },
        message: format!(
            "{name} request {request}, recommended {recommended}: {}",
            resource.reason
        ),
    }
}
