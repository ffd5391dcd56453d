//! The installation at a glance: programs, leaders, the stop switch, numbers of objects, owners of
//! the metrics APIs.

use std::collections::BTreeMap;

use api::ehpa::EffectiveHorizontalPodAutoscaler as Ehpa;
use api::sizing_policy::{ClusterSizingPolicy, SizingPolicy};
use api::vpa::{APPLIED, RECOMMENDATION_PROVIDED, VerticalPodAutoscaler};
use clap::Args;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1::APIService;
use kube::api::{DynamicObject, ListParams};
use serde::Serialize;
use serde_json::{Value, json};

use crate::check::reader::{count_reverted, deployments, stop_fact};
use crate::check::{Read, StopFact, noted, unread};
use crate::cluster::{Answers, Cluster, ClusterArgs, ContextArgs, block_on, each};
use crate::failure::Outcome;
use crate::installation::{
    InstallationArgs, ObjectName, Program, programs, service_of, stop_switch,
};
use crate::json::items;
use crate::output::{self, Document, OutputArgs, Row, Table};
use crate::revert::is_reverted;

const APIS: [&str; 4] = [
    "v1beta1.metrics.k8s.io",
    "v1beta1.custom.metrics.k8s.io",
    "v1beta2.custom.metrics.k8s.io",
    "v1beta1.external.metrics.k8s.io",
];

#[derive(Clone, Debug, Args)]
pub(crate) struct StatusArgs {
    #[command(flatten)]
    pub(crate) installation: InstallationArgs,
    #[command(flatten)]
    pub(crate) contexts: ContextArgs,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct ProgramRow {
    name: String,
    ready: i32,
    replicas: i32,
    version: String,
    /// Holder of the Lease; `None` without one.
    leader: Option<String>,
}

#[derive(Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
struct VpaCounts {
    total: usize,
    with_recommendation: usize,
    /// By update mode, as written; `Recreate` without one.
    by_mode: BTreeMap<String, usize>,
    of_policies: usize,
    /// By the reason for which pods do not have the recommended requests, as their condition `Applied` says.
    not_applied: BTreeMap<String, usize>,
    /// Objects that `plimsoll revert` switched off.
    reverted: usize,
}

#[derive(Debug)]
struct StatusFacts {
    namespace: String,
    programs: Vec<ProgramRow>,
    switch: ObjectName,
    stop: Option<StopFact>,
    vpas: Option<VpaCounts>,
    /// Numbers of `SizingPolicy`, `ClusterSizingPolicy` and EHPA objects, and of reverted ones.
    others: [Option<[usize; 2]>; 3],
    /// Name, owner and availability of each API of metrics.
    owners: Vec<[String; 3]>,
}

pub(crate) fn run(args: &StatusArgs) -> anyhow::Result<Outcome> {
    let namespace = &args.installation.system_namespace;
    let read = |cluster: &ClusterArgs| {
        block_on(async { read(&cluster.connect().await?, namespace).await })
    };
    let cluster = &args.installation.cluster;
    let mut answers = args.contexts.read(cluster, read)?.some()?;
    let document = match answers.found.as_slice() {
        [_] if !answers.are_named => answers.found.remove(0).1,
        _ => of_clusters(&answers),
    };
    output::print(&document, &args.output)?;
    Ok(answers.outcome())
}

/// A section for each cluster, and their sum.
fn of_clusters(answers: &Answers<Document>) -> Document {
    let (mut tables, mut notes, mut clusters) = (Vec::new(), Vec::new(), Vec::new());
    let [mut ready, mut replicas, mut vpas, mut stopped] = [0; 4];
    for (cluster, document) in &answers.found {
        for table in &document.tables {
            tables.push(Table::of_clusters(
                &table.title,
                [(cluster.as_str(), table.clone())],
            ));
        }
        notes.extend(
            document
                .notes
                .iter()
                .map(|note| format!("{cluster}: {note}")),
        );
        let mut data = document.data.clone();
        let count = |value: &Value| value.as_u64().unwrap_or(0);
        for program in items(&data["programs"]) {
            ready += count(&program["ready"]);
            replicas += count(&program["replicas"]);
        }
        vpas += count(&data["verticalPodAutoscalers"]["total"]);
        stopped += u64::from(data["stopped"] == true);
        data["cluster"] = json!(cluster);
        clusters.push(data);
    }
    let found = answers.found.len();
    let asked = found + answers.failed.len();
    notes.push(format!(
        "{found} of {asked} clusters: {ready} of {replicas} replicas are ready, {vpas} \
         VerticalPodAutoscaler objects, updates are stopped in {stopped}."
    ));
    let mut data = json!({
        "clusters": clusters,
        "total": {"ready": ready, "replicas": replicas, "verticalPodAutoscalers": vpas, "stopped": stopped},
    });
    answers.add_left_out(&mut data);
    Document {
        title: "Status".to_owned(),
        tables,
        notes,
        data,
    }
}

pub(crate) async fn read(cluster: &Cluster, namespace: &str) -> anyhow::Result<Document> {
    cluster.version().await?;
    let mut unread = Vec::new();
    let deployments = noted(&mut unread, deployments(cluster, namespace).await).unwrap_or_default();
    let programs = programs(&deployments);
    let mut rows = Vec::new();
    for program in &programs {
        let leader = noted(&mut unread, leader(cluster, *program).await).flatten();
        let (ready, replicas) = program.replicas();
        rows.push(ProgramRow {
            name: program.deployment_name().to_owned(),
            ready,
            replicas,
            version: program.version().to_owned(),
            leader,
        });
    }
    let switch = stop_switch(namespace);
    let stop = noted(&mut unread, stop_fact(cluster, &switch).await).flatten();
    let facts = StatusFacts {
        namespace: namespace.to_owned(),
        programs: rows,
        switch,
        stop,
        vpas: noted(&mut unread, vpas(cluster).await),
        others: [
            noted(&mut unread, count_reverted::<SizingPolicy>(cluster).await),
            noted(
                &mut unread,
                count_reverted::<ClusterSizingPolicy>(cluster).await,
            ),
            noted(&mut unread, count_reverted::<Ehpa>(cluster).await),
        ],
        owners: noted(&mut unread, owners(cluster).await).unwrap_or_default(),
    };
    let notes = unread.iter().map(|reason| format!("Not shown: {reason}."));
    Ok(document(facts, notes.collect()))
}

fn document(facts: StatusFacts, mut notes: Vec<String>) -> Document {
    if facts.programs.is_empty() {
        let namespace = &facts.namespace;
        notes.push(format!(
            "The namespace {namespace} has no Deployment of the suite."
        ));
    }
    let stop = facts.stop.as_ref();
    if let Some(stop) = stop {
        let (switch, text) = (&facts.switch, stop.text());
        notes.push(format!(
            "Updates are stopped by the ConfigMap {switch}{text}."
        ));
    }
    let since = stop.and_then(|stop| stop.since);
    let [policies, cluster_policies, ehpas] = facts.others.map(|it| it.map(|[all, _]| all));
    let reverted: usize = facts
        .others
        .iter()
        .flatten()
        .map(|[_, reverted]| reverted)
        .sum();
    let data = json!({
        "programs": facts.programs,
        "stopped": stop.is_some(),
        "stoppedSince": since.map(|since| since.to_string()),
        "stopReason": stop.and_then(|stop| stop.reason.as_ref()),
        "verticalPodAutoscalers": facts.vpas,
        "sizingPolicies": policies,
        "clusterSizingPolicies": cluster_policies,
        "revertedPolicies": reverted,
        "effectiveHorizontalPodAutoscalers": ehpas,
        "apiServices": facts.owners.iter().map(|[name, owner, available]| {
            json!({"name": name, "owner": owner, "available": available == "True"})
        }).collect::<Vec<_>>(),
    });
    Document {
        title: "Status".to_owned(),
        tables: vec![
            program_table(&facts.programs),
            numbers(facts.vpas.as_ref(), facts.others),
            Table::new(
                "Metrics APIs",
                "api|owner|available",
                facts.owners.into_iter().map(Row::plain),
            ),
        ],
        notes,
        data,
    }
}

async fn leader(cluster: &Cluster, program: Program<'_>) -> Read<Option<String>> {
    let Some(name) = program.lease().filter(|_| program.name != "webhook") else {
        return Ok(None);
    };
    let lease = cluster.within(&name.namespace).get_opt(&name.name).await;
    let lease: Option<Lease> = lease.map_err(unread("Leases"))?;
    let holder = lease.and_then(|lease| lease.spec?.holder_identity);
    Ok(holder.filter(|holder| !holder.is_empty()))
}

async fn vpas(cluster: &Cluster) -> Read<VpaCounts> {
    let api = cluster.untyped::<VerticalPodAutoscaler>(None);
    let mut counts = VpaCounts::default();
    let read = each(&api, &ListParams::default(), |vpa| counts.add(&vpa)).await;
    read.map_err(unread("verticalpodautoscalers"))?;
    Ok(counts)
}

impl VpaCounts {
    fn add(&mut self, vpa: &DynamicObject) {
        self.total += 1;
        let json = &vpa.data;
        let mode = json["spec"]["updatePolicy"]["updateMode"].as_str();
        let mode = mode.unwrap_or("Recreate").to_owned();
        *self.by_mode.entry(mode).or_default() += 1;
        for condition in items(&json["status"]["conditions"]) {
            match (condition["type"].as_str(), condition["status"].as_str()) {
                (Some(RECOMMENDATION_PROVIDED), Some("True")) => self.with_recommendation += 1,
                (Some(APPLIED), Some("False" | "Unknown")) => {
                    let reason = condition["reason"].as_str().unwrap_or_default();
                    *self.not_applied.entry(reason.to_owned()).or_default() += 1;
                }
                _ => {}
            }
        }
        self.reverted += usize::from(is_reverted(&vpa.metadata));
        let mut owners = vpa.metadata.owner_references.iter().flatten();
        self.of_policies += usize::from(owners.any(|owner| owner.kind.ends_with("SizingPolicy")));
    }
}

async fn owners(cluster: &Cluster) -> Read<Vec<[String; 3]>> {
    let api = cluster.all::<APIService>();
    let mut rows = Vec::new();
    for name in APIS {
        let service = api.get_opt(name).await.map_err(unread("APIServices"))?;
        let Some(service) = service else {
            rows.push([name, "none", "False"].map(str::to_owned));
            continue;
        };
        let owner = service_of(&service).map(|owner| owner.to_string());
        let owner = owner.unwrap_or_else(|| "API server".to_owned());
        let conditions = service.status.and_then(|status| status.conditions);
        let mut conditions = conditions.into_iter().flatten();
        let available = conditions.find(|condition| condition.type_ == "Available");
        let available = available.map_or_else(|| "Unknown".to_owned(), |one| one.status);
        rows.push([name.to_owned(), owner, available]);
    }
    Ok(rows)
}

fn program_table(programs: &[ProgramRow]) -> Table {
    let mut table = Table::of("Programs", "name| ready|version|leader", programs);
    for (row, program) in table.rows.iter_mut().zip(programs) {
        row.cells[1] = format!("{}/{}", program.ready, program.replicas);
    }
    table
}

fn numbers(vpas: Option<&VpaCounts>, others: [Option<[usize; 2]>; 3]) -> Table {
    let mut rows = Vec::new();
    let mut add = |name: &str, count: usize| {
        rows.push(Row::plain([name.to_owned(), count.to_string()]));
    };
    if let Some(vpas) = vpas {
        add("VerticalPodAutoscaler", vpas.total);
        for (mode, count) in &vpas.by_mode {
            add(&format!("  mode {mode}"), *count);
        }
        add("  with a recommendation", vpas.with_recommendation);
        add("  of sizing policies", vpas.of_policies);
        for (reason, count) in &vpas.not_applied {
            add(&format!("  not applied: {reason}"), *count);
        }
        if vpas.reverted > 0 {
            add("  reverted", vpas.reverted);
        }
    }
    let kinds = [
        "SizingPolicy",
        "ClusterSizingPolicy",
        "EffectiveHorizontalPodAutoscaler",
    ];
    for (kind, count) in kinds.into_iter().zip(others) {
        if let Some([count, reverted]) = count {
            add(kind, count);
            if reverted > 0 {
                add("  reverted", reverted);
            }
        }
    }
    Table::new("Objects", "kind| count", rows)
}

#[cfg(test)]
mod tests {
    use api::vpa::MODE_BEFORE_REVERT;

    use super::*;
    use crate::json::tests::parse;
    use crate::output::Format;
    use crate::output::tests::golden;

    fn stopped_installation() -> Document {
        let program = |name: &str, ready, leader: Option<&str>| ProgramRow {
            name: format!("plimsoll-{name}"),
            ready,
            replicas: 2,
            version: "1.2".to_owned(),
            leader: leader.map(str::to_owned),
        };
        let owner =
            |api: &str, owner: &str, available: &str| [api, owner, available].map(str::to_owned);
        let facts = StatusFacts {
            namespace: "plimsoll-system".to_owned(),
            programs: vec![
                program("recommender", 2, Some("plimsoll-recommender-7d5_1")),
                program("webhook", 1, None),
            ],
            switch: stop_switch("plimsoll-system"),
            stop: Some(StopFact {
                since: "2026-11-01T12:00:00Z".parse().ok(),
                reason: Some("upgrade <b> of the nodes".to_owned()),
            }),
            vpas: Some(VpaCounts {
                total: 3,
                with_recommendation: 2,
                by_mode: [("Off".to_owned(), 1), ("Recreate".to_owned(), 2)].into(),
                of_policies: 1,
                not_applied: [("RolledBack".to_owned(), 1)].into(),
                reverted: 1,
            }),
            others: [Some([1, 1]), None, Some([4, 0])],
            owners: vec![
                owner(APIS[0], "kube-system/metrics-server", "True"),
                owner(APIS[3], "keda/keda-operator-metrics-apiserver", "False"),
            ],
        };
        let unread = "Not shown: you have no right to read clustersizingpolicies.";
        document(facts, vec![unread.to_owned()])
    }

    #[test]
    fn every_form_shows_a_stopped_installation() {
        golden::check_forms("status", &stopped_installation());
    }

    #[test]
    fn several_clusters_have_a_section_each_and_a_sum() {
        let found = ["prod-1", "prod-2"].map(|name| (name.to_owned(), stopped_installation()));
        let answers = Answers {
            are_named: true,
            found: found.into(),
            failed: vec![("prod-3".to_owned(), anyhow::anyhow!("no route"))],
        };
        let document = of_clusters(&answers);
        for (format, ending) in [
            (Format::Table, "txt"),
            (Format::Json, "json"),
            (Format::Csv, "csv"),
        ] {
            golden::check_form("status_clusters", &document, format, ending);
        }
    }

    #[test]
    fn vpa_objects_are_counted_by_mode_and_recommendation() {
        let vpa = |mode: serde_json::Value, status: &str, owner: &str| {
            let annotations = json!({MODE_BEFORE_REVERT: "Recreate"});
            let annotations = Some(annotations).filter(|_| mode["updateMode"] == "Off");
            let object = json!({
                "metadata": {"name": "web", "annotations": annotations, "ownerReferences": [
                    {"apiVersion": "a/v1", "kind": owner, "name": "b", "uid": "c"}]},
                "spec": {"targetRef": {"kind": "Deployment", "name": "web"}, "updatePolicy": mode},
                "status": {"conditions": [
                    {"type": "RecommendationProvided", "status": status},
                    {"type": "Applied", "status": status, "reason": "Wave"},
                ]},
            });
            parse::<DynamicObject>(object)
        };
        let mut counts = VpaCounts::default();
        counts.add(&vpa(json!({"updateMode": "Off"}), "True", "SizingPolicy"));
        // The API server accepts what our types may not.
        counts.add(&vpa(json!({"minReplicas": "x"}), "False", "Deployment"));
        let recreate = json!({"updateMode": "Recreate"});
        counts.add(&vpa(recreate, "True", "ClusterSizingPolicy"));
        let expected = VpaCounts {
            total: 3,
            with_recommendation: 2,
            by_mode: [("Off".to_owned(), 1), ("Recreate".to_owned(), 2)].into(),
            of_policies: 2,
            not_applied: [("Wave".to_owned(), 1)].into(),
            reverted: 1,
        };
        assert_eq!(counts, expected);
    }
}
