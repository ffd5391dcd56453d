//! Requests and limits that the recommended sizes would change, as differences and as manifests.
//!
//! A resource changes if a scan finds anything about it (see `severity`). A limit keeps its
//! proportion to the request, as with a VPA. Nothing is written to a cluster.

mod manifests;

use clap::{ArgGroup, Args};
use model::{Quantity, ResourceList, ResourceName};
use serde::Serialize;
use sizing::proportional_limits;

use crate::failure::Outcome;
use crate::output::{self, Document, OutputArgs, Table};
use crate::prices::Prices;
use crate::recommend::SizingArgs;
use crate::scan::{ScannedContainer, ScannedResource, scan_all};
use crate::severity::Severity;
use crate::usage::{self, ContainerId, ContainerUsage, SourceArgs, resource_list};

/// Usage and sizing of both commands.
#[derive(Clone, Debug, Args)]
pub(crate) struct ChangeArgs {
    #[command(flatten)]
    pub(crate) source: SourceArgs,
    #[command(flatten, next_help_heading = None)]
    pub(crate) sizing: SizingArgs,
    /// Only resources with a finding of at least this severity.
    #[arg(long, value_enum, value_name = "SEVERITY", default_value_t = Severity::Info)]
    pub(crate) min_severity: Severity,
}

#[derive(Clone, Debug, Args)]
pub(crate) struct DiffArgs {
    #[command(flatten)]
    pub(crate) changes: ChangeArgs,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

#[derive(Clone, Debug, Args)]
#[command(group(ArgGroup::new("form").required(true)))]
pub(crate) struct ManifestsArgs {
    #[command(flatten)]
    pub(crate) changes: ChangeArgs,
    /// Print partial objects for `kubectl apply --server-side --force-conflicts -f -`.
    #[arg(long, group = "form")]
    pub(crate) patch: bool,
    /// Print a Kustomize component with patches.
    #[arg(long, group = "form")]
    pub(crate) kustomize: bool,
    /// Print `resources` by workload and container, for the values of a Helm chart.
    #[arg(long, group = "form")]
    pub(crate) helm_values: bool,
}

/// Change of one request, and of its limit if there is one.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
struct ResourceChange {
    request: Option<String>,
    new_request: String,
    limit: Option<String>,
    /// Limit in the same proportion to the request.
    new_limit: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
struct ContainerChange {
    #[serde(flatten)]
    id: ContainerId,
    cpu: Option<ResourceChange>,
    memory: Option<ResourceChange>,
}

impl ContainerChange {
    fn resources(&self) -> impl Iterator<Item = (&'static str, &ResourceChange)> {
        let both = [("cpu", &self.cpu), ("memory", &self.memory)];
        both.into_iter()
            .filter_map(|(name, change)| Some((name, change.as_ref()?)))
    }
}

/// Changes of all containers, and sentences about those without a recommendation.
fn changes(args: &ChangeArgs) -> anyhow::Result<(Vec<ContainerChange>, Vec<String>)> {
    let usage = usage::read(&args.source)?;
    let (scanned, left_out) = scan_all(&usage, &args.sizing.caution, &Prices::default());
    let mut usage = usage.iter();
    let changes = scanned.iter().filter_map(|container| {
        // Both are in the order of containers.
        let usage = usage.find(|usage| usage.id == container.id)?;
        change(usage, container, args.min_severity)
    });
    let left_out = left_out.iter();
    let left_out = left_out.map(|id| format!("{id}: less than an hour of usage"));
    Ok((changes.collect(), left_out.collect()))
}

fn change(
    usage: &ContainerUsage,
    scanned: &ScannedContainer,
    min_severity: Severity,
) -> Option<ContainerChange> {
    let of = |resource: &ScannedResource, name: ResourceName| {
        let is_found = resource.severity > Severity::Ok && resource.severity >= min_severity;
        let new_request = resource.recommended.clone().filter(|_| is_found)?;
        let limits = resource_list(usage.limits);
        let limit = limits.get(&name).map(Quantity::to_string);
        let recommended = ResourceList::from_iter([(name.clone(), new_request.parse().ok()?)]);
        let requests = resource_list(usage.requests);
        let found = proportional_limits(&limits, &requests, &recommended, None);
        Some(ResourceChange {
            request: resource.request.clone(),
            new_request,
            new_limit: found.limits.get(&name).map(Quantity::to_string),
            limit,
        })
    };
    let change = ContainerChange {
        id: scanned.id.clone(),
        cpu: of(&scanned.cpu, ResourceName::Cpu),
        memory: of(&scanned.memory, ResourceName::Memory),
    };
    (change.cpu.is_some() || change.memory.is_some()).then_some(change)
}

pub(crate) fn diff(args: &DiffArgs) -> anyhow::Result<Outcome> {
    let (changes, left_out) = changes(&args.changes)?;
    output::print(&document(&changes), &args.output)?;
    Ok(Outcome::left_out(&left_out))
}

pub(crate) fn print_manifests(args: &ManifestsArgs) -> anyhow::Result<Outcome> {
    let (changes, mut left_out) = changes(&args.changes)?;
    let text = if args.helm_values {
        manifests::helm_values(&changes)?
    } else {
        let (patches, refused) = manifests::patches(&changes);
        left_out.extend(refused);
        if args.kustomize {
            manifests::kustomize(&patches)?
        } else {
            manifests::documents(&patches)?
        }
    };
    output::print_text(text)?;
    Ok(Outcome::left_out(&left_out))
}

fn document(changes: &[ContainerChange]) -> Document {
    let rows = changes.iter().flat_map(|container| {
        container.resources().flat_map(move |(resource, change)| {
            let ResourceChange {
                request,
                new_request,
                limit,
                new_limit,
            } = change;
            let request = Some((request, new_request, "request"));
            let fields = [request, new_limit.as_ref().map(|new| (limit, new, "limit"))];
            fields.into_iter().flatten().map(move |(from, to, field)| {
                let from = from.as_deref().unwrap_or("none");
                (&container.id, format!("{resource} {field}"), from, to)
            })
        })
    });
    Document {
        title: "Plimsoll diff".to_owned(),
        tables: vec![Table::of(
            "Changes",
            "Namespace=0/namespace|Workload=0/workload|Container=0/container|Field=1| Present=2| New=3",
            rows.collect::<Vec<_>>(),
        )],
        notes: vec![
            "Limits keep their proportion to requests. `plimsoll manifests` prints them for `kubectl`, Kustomize and Helm.".to_owned(),
        ],
        data: serde_json::json!({ "containers": changes }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::usage::tests::{constant, resources, usage};

    #[test]
    fn limits_keep_their_proportion() {
        // A tenth of the CPU request and two thirds of the memory request.
        let pod = constant(2, Some(100.0), Some(650.0));
        let requests = resources(Some(1000), Some(1 << 30));
        let mut usage = usage("deployment/web", requests, &[pod]);
        usage.limits = resources(Some(2000), Some(1 << 30));
        let (scanned, _) = scan_all(std::slice::from_ref(&usage), "normal", &Prices::default());
        let found = change(&usage, &scanned[0], Severity::Info).expect("a change");
        let cpu = found.cpu.expect("a smaller CPU request");
        let millicores = |text: &str| text.parse::<Quantity>().expect("a quantity").milli_value();
        assert_eq!(cpu.limit.as_deref(), Some("2"));
        let new_limit = cpu.new_limit.expect("a limit");
        assert_eq!(millicores(&new_limit), 2 * millicores(&cpu.new_request));
        assert_eq!(change(&usage, &scanned[0], Severity::Critical), None);
    }
}
