//! The first page: what is requested, recommended and used, what was done, what waits and why.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Event;
use kube::Api;
use kube::api::ListParams;
use maud::{Markup, html};
use plot::{Layer, Shape, Unit};

use super::fleet::{Fleet, VpaLine};
use super::query::ListQuery;
use super::timeline;
use crate::check::reader::{deployments, stop_fact};
use crate::cluster::Cluster;
use crate::explain::{Mark, marks_of_events};
use crate::installation::{programs, stop_switch};
use crate::output::numbers::ago;
use crate::output::{LINE, Row, Table, or_absent};
use crate::prices::Prices;
use crate::usage::{ConnectionArgs, read_sums};
use crate::usage_plot::over_time;

/// Objects that are summed up. Of more, a note tells.
const MAX_OBJECTS: u32 = 1000;
/// Events of the updater that are read; the API server has them for an hour, unless it is set otherwise.
const MAX_EVENTS: u32 = 500;
const MAX_ACTS: usize = 100;
const MAX_NAMESPACES: usize = 100;
/// Rows of the other tables.
const MAX_ROWS: usize = 20;
/// Reasons of `Applied` for which pods do not wait for anything.
const DONE: [&str; 5] = [
    "-",
    "Applied",
    "NoRecommendation",
    "Updating",
    "StartupBoost",
];
/// Reasons that a wave has, and the command for each.
const WAVES: [(&str, &str); 3] = [
    ("Wave", "plimsoll revert"),
    ("HealthUnknown", "plimsoll revert"),
    ("RolledBack", "plimsoll explain"),
];

pub(super) struct Overview {
    /// Empty for all.
    namespace: String,
    fleet: Fleet,
    /// Whether the suite runs, in one line.
    health: String,
    acts: Vec<Mark>,
}

/// Reads it; with the health of the suite in its namespace.
pub(super) async fn read(
    cluster: &Cluster,
    system_namespace: Option<&str>,
    query: &ListQuery,
    prices: &Prices,
) -> anyhow::Result<Overview> {
    let mut fleet = super::fleet::read(cluster, query, MAX_OBJECTS, prices).await?;
    if !fleet.next.is_empty() {
        let note = format!("The sums are those of the first {MAX_OBJECTS} VPA objects.");
        fleet.notes.push(note);
    }
    let acts = match acts(cluster, query.namespace()).await {
        Ok((acts, is_complete)) => {
            let note = || format!("Acts are those of the first {MAX_EVENTS} events by name.");
            fleet.notes.extend((!is_complete).then(note));
            acts
        }
        Err(error) => {
            fleet.notes.push(format!("Acts are not shown: {error:#}."));
            Vec::new()
        }
    };
    let health = match system_namespace {
        Some(namespace) => health(cluster, namespace).await,
        None => String::new(),
    };
    Ok(Overview {
        namespace: query.namespace.clone(),
        fleet,
        health,
        acts,
    })
}

/// Events of the updater, and whether these are all. For an eviction, that of the pod is enough.
async fn acts(cluster: &Cluster, namespace: Option<&str>) -> anyhow::Result<(Vec<Mark>, bool)> {
    let events: Api<Event> = match namespace {
        Some(namespace) => cluster.within(namespace),
        None => cluster.all(),
    };
    let params = ListParams::default()
        .fields("source=vpa-updater,reason!=EvictedPod")
        .limit(MAX_EVENTS);
    let found = events.list(&params).await;
    let found = found.map_err(cluster.failed("events of the updater"))?;
    let is_complete = found.metadata.continue_.is_none_or(|next| next.is_empty());
    Ok((marks_of_events(&found.items, MAX_ACTS), is_complete))
}

/// Ready programs, and whether updates are stopped.
async fn health(cluster: &Cluster, system_namespace: &str) -> String {
    let deployments = match deployments(cluster, system_namespace).await {
        Ok(deployments) => deployments,
        Err(unread) => return format!("Health is not known: {}.", unread.reason),
    };
    let programs = programs(&deployments);
    let is_ready = |(ready, replicas): (i32, i32)| ready >= replicas;
    let ready = programs.iter().filter(|it| is_ready(it.replicas())).count();
    let programs = match programs.len() {
        0 => format!("The namespace {system_namespace} has no Deployment of the suite."),
        all if all == ready => format!("All {all} programs are ready."),
        all => format!("{ready} of {all} programs are ready."),
    };
    match stop_fact(cluster, &stop_switch(system_namespace)).await {
        Ok(Some(stop)) => format!("{programs} Updates are stopped{}.", stop.text()),
        Ok(None) => programs,
        Err(unread) => format!(
            "{programs} Whether updates are stopped is not known: {}.",
            unread.reason
        ),
    }
}

/// CPU of all nodes over time, from the metrics of the recommender and of kubelets.
pub(super) async fn over_a_week(connection: &ConnectionArgs, cluster: &Cluster) -> Markup {
    let sums = [
        (
            "requested",
            "request",
            "sum(plimsoll_node_group_requested_cpu_cores)",
        ),
        (
            "recommended",
            "advice",
            "sum(plimsoll_node_group_recommended_cpu_cores)",
        ),
        (
            "used",
            "usage",
            "sum(rate(container_cpu_usage_seconds_total{container!=\"\",container!=\"POD\"}[10m]))",
        ),
    ];
    let read = read_sums(connection, cluster, &sums.map(|(_, _, query)| query)).await;
    let series = match read {
        Ok(series) => series,
        Err(error) => {
            return html! { p.note { "CPU over time is not shown: " (format!("{error:#}")) "." } };
        }
    };
    let (mut layers, mut missing) = (Vec::new(), Vec::new());
    for ((name, class, _), points) in sums.iter().zip(series) {
        if points.len() < 2 {
            missing.push(*name);
            continue;
        }
        let points = points.into_iter();
        let points = points.map(|(second, cores)| (second as f64, cores));
        layers.push(Layer::new(*name, class, Shape::Line(points.collect())));
    }
    html! {
        @if !layers.is_empty() {
            (over_time("CPU cores of all nodes, at most a week".to_owned(), Unit::NUMBER, layers).figure())
        }
        @if !missing.is_empty() { p.note { "Prometheus has no two hours of CPU cores " (missing.join(", ")) "." } }
    }
}

impl Overview {
    /// The page without its title. `plot` is that of the last week.
    pub(super) fn html(&self, prices: &Prices, plot: &Markup, now: Timestamp) -> Markup {
        let scan = self.fleet.scan(prices);
        let too_small = scan
            .containers
            .iter()
            .filter(|it| it.is_too_small())
            .count();
        let sentence = scan
            .total
            .sentence(self.fleet.used_cores, too_small, &prices.currency);
        let mut namespaces = scan.totals();
        let total = namespaces.rows.pop();
        namespaces.rows.truncate(MAX_NAMESPACES);
        for row in &mut namespaces.rows {
            row.link = Some(list_link(&row.cells[0], ""));
        }
        namespaces.rows.extend(total);
        let tables = [self.waits(), waves(&self.fleet.objects), namespaces];
        html! {
            p.lead { (sentence) } (LINE)
            @if !self.health.is_empty() { p { (self.health) " " a href="health" { "Health" } } (LINE) }
            (plot)
            @for table in tables.iter().filter(|table| !table.rows.is_empty()) {
                h2 { (table.title) } (LINE) (table.html())
            }
            h2 { "What was done" } (LINE)
            @if self.acts.is_empty() {
                p { "The API server has no events of the updater. It keeps events for an hour, unless it is set otherwise." }
            } @else {
                (timeline::lines(&self.acts, now))
                @let last = last_acts(&self.acts, now);
                h3 { (last.title) } (last.html())
            }
            @for note in &self.fleet.notes { p.note { (note) } (LINE) }
            p.note { (prices.note()) } (LINE)
        }
    }

    /// Objects whose pods wait, by reason, with the message of one of them.
    fn waits(&self) -> Table {
        let mut reasons: BTreeMap<&str, Vec<&VpaLine>> = BTreeMap::new();
        for vpa in &self.fleet.objects {
            if !DONE.contains(&vpa.applied.as_str()) {
                reasons.entry(&vpa.applied).or_default().push(vpa);
            }
        }
        let mut reasons: Vec<_> = reasons.into_iter().collect();
        reasons.sort_by_key(|(_, vpas)| std::cmp::Reverse(vpas.len()));
        let rows = reasons.iter().take(MAX_ROWS).map(|(reason, vpas)| Row {
            link: Some(list_link(&self.namespace, reason)),
            ..Row::plain([
                (*reason).to_owned(),
                vpas.len().to_string(),
                format!("{}: {}", vpas[0].object, vpas[0].message),
            ])
        });
        Table::new("What waits", "reason| objects|for example", rows)
    }
}

/// The list of a namespace, or of all, with a text in it.
fn list_link(namespace: &str, search: &str) -> String {
    let page = "vertical?";
    let mut query = form_urlencoded::Serializer::for_suffix(page.to_owned(), page.len());
    for (name, value) in [("namespace", namespace), ("search", search)] {
        if !value.is_empty() {
            query.append_pair(name, value);
        }
    }
    query.finish()
}

/// Waves and reverts that are not at their end, with the command for each.
fn waves(vpas: &[VpaLine]) -> Table {
    let rows = vpas.iter().filter_map(|vpa| {
        let (namespace, name) = vpa.object.split_once('/')?;
        let wave = WAVES.iter().find(|(reason, _)| *reason == vpa.applied);
        let (state, command) = match (vpa.is_reverted, wave) {
            (true, _) => ("reverted", "plimsoll resume"),
            (false, Some(wave)) => *wave,
            (false, None) => return None,
        };
        let command = format!("{command} -n {namespace} vpa/{name}");
        let message = or_absent(Some(&vpa.message).filter(|message| !message.is_empty()));
        Some(Row {
            link: Some(format!("vpa/{}", vpa.object)),
            ..Row::plain([vpa.object.clone(), state.to_owned(), message, command])
        })
    });
    let title = "Waves and reverts in progress";
    Table::new(title, "object|state|message|command", rows.take(MAX_ROWS))
}

fn last_acts(acts: &[Mark], now: Timestamp) -> Table {
    let rows = acts.iter().take(MAX_ROWS).map(|act| {
        let before = ago(now.as_second() - act.time.as_second());
        Row::plain([before, act.label.clone(), act.text.clone()])
    });
    let title = format!("The last {} of {} acts", rows.len(), acts.len());
    Table::new(title, "when|act|pod, cause and effect", rows)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::dashboard::fleet::tests::fleet_of;

    fn overview(count: usize, status: &serde_json::Value) -> Overview {
        let names =
            (0..count).map(|number| (format!("team-{}", number % 200), format!("web-{number}")));
        let act = |second: i64| {
            Mark {
            time: Timestamp::from_second(second).expect("a time"),
            label: "EvictedByVPA".to_owned(),
            text: "Pod/web-6d5f9c7b8d-abcde: Pod was evicted by VPA Updater to apply resource recommendation. \
                   app: cpu 4 -> 511m, memory 4Gi -> 826Mi."
                .to_owned(),
            is_warning: false,
        }
        };
        Overview {
            namespace: String::new(),
            fleet: fleet_of(names, status),
            health: "All 3 programs are ready.".to_owned(),
            acts: (0..MAX_ACTS as i64)
                .map(|number| act(60 * number))
                .collect(),
        }
    }

    fn html(overview: &Overview) -> String {
        let now = Timestamp::from_second(6000).expect("a time");
        let body = overview.html(&Prices::default(), &html! {}, now);
        crate::output::page("Overview", &html! {}, &body)
    }

    #[test]
    fn a_thousand_workloads_are_a_small_page() {
        let target = json!({"cpu": "250m", "memory": "100Mi"});
        let status = json!({
            "recommendation": {"containerRecommendations": [{"containerName": "app", "target": target}]},
            "conditions": [{"type": "Applied", "reason": "Wave", "message": "m".repeat(200)}],
        });
        let page = html(&overview(1000, &status));
        assert!(page.len() < 300_000, "{} bytes", page.len());
        assert!(page.contains("Your 1,000 containers request"), "{page}");
        let reason = "<a href=\"vertical?search=Wave\">Wave</a></td><td class=\"number\">1000</td>";
        assert!(page.contains(reason), "{page}");
        let command = "plimsoll revert -n team-0 vpa/web-0";
        assert!(page.contains(command), "{page}");
    }

    #[test]
    fn hostile_texts_are_text() {
        let conditions = json!([{"type": "Applied", "reason": "<script>", "message": "<b>\u{1b}"}]);
        let page = html(&overview(1, &json!({"conditions": conditions})));
        assert!(
            !page.contains("<script>") && !page.contains("<b>\u{fffd}"),
            "{page}"
        );
        assert!(page.contains("&lt;script&gt;"), "{page}");
    }
}
