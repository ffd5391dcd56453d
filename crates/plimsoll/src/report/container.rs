//! A container: its findings in words, plots of its usage with its requests, and these as YAML.

use maud::{Markup, html};
use plot::{Layer, Mark, Shape, Unit};
use replay::peers::AnnotatedPolicy;
use replay::{Resource, Series};

use crate::backtest::{WARM_UP_DAYS, executor};
use crate::output::LINE;
use crate::output::numbers::{CPU, MEMORY};
use crate::scan::{ScannedContainer, ScannedResource};
use crate::usage::{ContainerUsage, amount_of};
use crate::usage_plot::{PerSlot, line};

const DAY: i64 = 86_400;

pub(super) fn html(usage: &ContainerUsage, scanned: &ScannedContainer, caution: &str) -> Markup {
    let name = usage.id.to_string();
    let resources = [
        (Resource::Cpu, "CPU", CPU, &scanned.cpu),
        (Resource::Memory, "Memory", MEMORY, &scanned.memory),
    ];
    html! {
        section {
            h3 { (name) } (LINE)
            div.pair { @for (resource, word, unit, scanned) in resources {
                @let pods = usage.series(resource);
                @if !pods.is_empty() { div {
                    @let (layers, kills) = requests(usage, &pods, resource, caution);
                    @let limit = amount_of(usage.limits, resource);
                    p { (sentence(word, &pods, unit, scanned, limit, kills)) } (LINE)
                    @let present = amount_of(usage.requests, resource);
                    // A far limit would flatten the rest of the plot.
                    @let most = 1.5 * pods.iter().map(Series::peak).fold(present.unwrap_or_default(), f64::max);
                    @let near = limit.filter(|limit| *limit <= most);
                    @let constants = [("present request", "request", present), ("limit", "limit", near)];
                    (PerSlot::of(&pods).plot(format!("{word} of {name}"), unit, &constants, layers).figure()) (LINE)
                } }
            } }
            details { summary { "YAML" } pre { (yaml(scanned)) } }
        } (LINE)
    }
}

fn sentence(
    word: &str,
    pods: &[Series],
    unit: Unit,
    scanned: &ScannedResource,
    limit: Option<f64>,
    kills: usize,
) -> String {
    let amounts = pods.iter().flat_map(|pod| &pod.usage);
    let mut amounts: Vec<f64> = amounts.copied().collect();
    amounts.sort_by(f64::total_cmp);
    let at = |share: f64| (unit.label)(amounts[((amounts.len() - 1) as f64 * share) as usize]);
    let present = match &scanned.request {
        Some(request) => format!("requested {request}"),
        None => "not requested".to_owned(),
    };
    let limit = limit.map_or_else(String::new, |limit| {
        format!(", limit {}", (unit.label)(limit))
    });
    let kills = match kills {
        0 => String::new(),
        1 => " It reached the limit: 1 OOM kill.".to_owned(),
        kills => format!(" It reached the limit: {kills} OOM kills."),
    };
    format!(
        "{word}: {present}{limit}, recommended {} ({}). Usage was below {} half of the time, below {} for 99 %, and at most \
         {}.{kills}",
        scanned.recommended.as_deref().unwrap_or("none"),
        scanned.reason,
        at(0.5),
        at(0.99),
        at(1.0)
    )
}

/// The replayed request and the OOM kills, and the number of these. Without a present request, the
/// policy knows nothing on the first day.
fn requests(
    usage: &ContainerUsage,
    pods: &[Series],
    resource: Resource,
    caution: &str,
) -> (Vec<Layer>, usize) {
    let PerSlot { grid, highest, .. } = PerSlot::of(pods);
    let settings = [("policy", "plimsoll"), ("caution", caution)];
    let mut requests = Vec::new();
    if let Some(mut policy) = AnnotatedPolicy::new(resource, &settings) {
        let executor = executor(usage, resource, WARM_UP_DAYS);
        executor.trace_pods(pods, &mut policy, |_, request| requests.push(request));
    }
    let is_known = amount_of(usage.requests, resource).is_some();
    let first = if is_known { 0 } else { DAY / grid.step };
    let first = requests.len().min(first as usize);
    let second = |slot: usize| grid.start + grid.step * slot as i64;
    let limit = amount_of(usage.limits, resource);
    let limit = limit.filter(|_| resource == Resource::Memory);
    let above = |slot: usize| limit.is_some_and(|limit| highest[slot] >= limit);
    let begins = |slot: &usize| above(*slot) && (*slot == 0 || !above(slot - 1));
    let kills = (0..highest.len()).filter(begins).map(|slot| Mark {
        at: (second(slot) as f64, highest[slot]),
        title: "usage at the limit: OOM kill".to_owned(),
        label: String::new(),
    });
    let kills: Vec<Mark> = kills.collect();
    let (number, name) = (kills.len(), "request in a replay");
    let start = (second(first), grid.step);
    let advice = line(name, "advice", start, &requests[first..]);
    let marks = (number > 0).then(|| Layer::new("OOM kill", "oom", Shape::Marks(kills)));
    (std::iter::once(advice).chain(marks).collect(), number)
}

fn yaml(scanned: &ScannedContainer) -> String {
    let resources = [("cpu", &scanned.cpu), ("memory", &scanned.memory)];
    let lines = resources.into_iter().filter_map(|(name, resource)| {
        let amount = resource.recommended.as_ref()?;
        Some(format!("    {name}: {amount}\n"))
    });
    let lines: String = lines.collect();
    format!(
        "# container {}\nresources:\n  requests:\n{lines}",
        scanned.id.container
    )
}
