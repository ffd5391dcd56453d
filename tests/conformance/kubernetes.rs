//! Kubernetes' own end-to-end specs on a real node, unmodified: with `PROGRAMS=none` without the suite,
//! else beside all of it. What passed without it must pass with it.

use std::collections::BTreeMap;
use std::time::Instant;

use anyhow::{Context as _, Result, bail, ensure};
use api::vpa::VerticalPodAutoscaler;
use e2e::benchmark::in_sandbox;
use e2e::{
    Namespace, apply, eventually, images_of_suite, install_suite, is_true, kubectl_in,
    real_node_options,
};
use k8s_openapi::jiff::Timestamp;
use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1::APIService;
use kube::Api;
use kube::api::DeleteParams;
use sandbox::Sandbox;
use serde_json::Value;

use crate::ginkgo::{Ginkgo, Specs, report_of, results_of};
use crate::images;
use crate::page;
use crate::report::{Report, outcomes};
use crate::source::{KUBERNETES_SPECS, build_kubernetes};
use crate::variable;

/// Name of the suite that is all groups, and first part of the names of groups.
const ALL: &str = "kubernetes";
/// Folders of the results.
const WITHOUT: &str = "without-suite";
const WITH: &str = "with-suite";
/// Name of the `APIService` of external metrics.
const EXTERNAL_METRICS: &str = "v1beta1.external.metrics.k8s.io";
/// Time after which a group is ended.
const LIMIT: &str = "4h";

/// Specs about one subject.
struct Group {
    name: &'static str,
    /// A regular expression that the names of the specs match.
    focus: &'static str,
    /// Specs that run at the same time on two cores. Most of them wait.
    processes: usize,
    /// Whether they make the `APIService` of external metrics, which must not be there before.
    own_external_metrics: bool,
}

/// Groups whose subject the suite acts on as well.
static GROUPS: [Group; 4] = [
    Group {
        name: "kubernetes-admission",
        focus: r"\[sig-api-machinery\] AdmissionWebhook.*\[Conformance\]",
        processes: 4,
        own_external_metrics: false,
    },
    Group {
        name: "kubernetes-apps",
        focus: r"\[sig-apps\].*\[Conformance\]",
        processes: 6,
        own_external_metrics: false,
    },
    // Up to ten pods of a spec request a fifth of a core each. Those of the others need half a core.
    Group {
        name: "kubernetes-autoscaling",
        focus: r"\[Feature:HPA\].*(external metric|non-default behavior|CRD targetRef|light|idle application \[|tolerance)",
        processes: 1,
        own_external_metrics: true,
    },
    Group {
        name: "kubernetes-resizes",
        focus: r"\[sig-node\].*Pod InPlace Resize",
        processes: 8,
        own_external_metrics: false,
    },
];

/// Values of the chart: everything is on, and acts without the pace that only people need.
const VALUES: [&str; 19] = [
    "mode=all",
    "extender.enabled=true",
    "recommender.capToSchedulable={nodes,quotas,limit-ranges}",
    "recommender.sizingPolicies=true",
    "recommender.specificReplicas=true",
    "updater.makeRoom=on",
    "updater.rebalancing=true",
    "updater.rollingUpdates=true",
    "webhook.failurePolicy=Fail",
    "webhook.nodeGroups=true",
    "recommender.pod.extraArgs[0]=--recommender-interval=10s",
    "updater.pod.extraArgs[0]=--updater-interval=10s",
    "updater.settlingTime=0s",
    r"featureGates=InPlace=true\,CPUStartupBoost=true",
    // Three pods of a spec request 1.5 of the two cores.
    "recommender.pod.resources.requests.cpu=10m",
    "updater.pod.resources.requests.cpu=10m",
    "webhook.pod.resources.requests.cpu=10m",
    "adapter.pod.resources.requests.cpu=10m",
    "extender.pod.resources.requests.cpu=10m",
];

/// Whether `suite` names specs of Kubernetes.
pub(crate) fn has(suite: &str) -> bool {
    suite.starts_with(ALL)
}

/// Runs the specs of `suite`, or those among them that `focus` matches.
pub(crate) async fn run(suite: &str, focus: Option<&str>) -> Result<()> {
    let with_suite = match variable("PROGRAMS").as_deref() {
        None | Some("ours") => true,
        Some("none") => false,
        Some(other) => bail!("PROGRAMS={other}: for SUITE={suite} it is `ours` or `none`"),
    };
    ensure!(
        variable("NODE").as_deref() == Some("real"),
        "SUITE={suite} needs NODE=real"
    );
    let missing = sandbox::missing_for_real_node();
    ensure!(missing.is_empty(), "{}", missing.join("; "));
    let selected = |group: &&Group| suite == ALL || suite == group.name;
    let groups: Vec<_> = GROUPS.iter().filter(selected).collect();
    ensure!(
        !groups.is_empty(),
        "SUITE={suite}: it is `{ALL}` or one of {}",
        GROUPS.each_ref().map(|group| group.name).join(", ")
    );
    if with_suite && focus.is_none() {
        for Group { name, .. } in &groups {
            let path = results_of(WITHOUT).join(format!("{name}.json"));
            ensure!(
                path.exists(),
                "SUITE={name} has not run without the suite: run it with PROGRAMS=none first"
            );
        }
    }
    let programs = build_kubernetes().await?;
    let mut report = Report::default();
    let mut kubernetes = String::new();
    // Both kinds of runs can go on side by side.
    let kind = if with_suite { WITH } else { WITHOUT };
    let options = real_node_options(format!("kubernetes-{kind}"))?;
    in_sandbox(options, async |sandbox| {
        kubernetes = sandbox
            .client()
            .await?
            .apiserver_version()
            .await?
            .git_version;
        sandbox
            .import(images::of_kubernetes_specs(&programs)?)
            .await?;
        serve_names(sandbox).await?;
        if with_suite {
            sandbox.import(images_of_suite()?).await?;
            install_suite(sandbox, &VALUES).await?;
            act_everywhere(sandbox).await?;
        }
        // They run commands in containers.
        let kubectl = format!("--kubectl-path={}", sandbox.kubectl().display());
        let ginkgo = Ginkgo {
            programs: &programs,
            kubeconfig: sandbox.kubeconfig(),
            results: results_of(if focus.is_some() { "focus" } else { kind }),
        };
        for group in groups {
            let focus = format!("{}.*{}", group.focus, focus.unwrap_or_default());
            let specs = Specs {
                name: group.name,
                program: KUBERNETES_SPECS,
                focus: &focus,
                processes: group.processes,
                limit: LIMIT,
                // The node is of no cloud.
                arguments: &["--provider=skeleton", "--num-nodes=1", &kubectl],
            };
            let steps_aside = with_suite && group.own_external_metrics;
            if steps_aside {
                leave_external_metrics(sandbox).await?;
            }
            let begun = Instant::now();
            let found = ginkgo.run(&specs).await?;
            report.add(group.name, &found, begun.elapsed())?;
            if steps_aside {
                // The chart serves the API again, as no other program does.
                install_suite(sandbox, &VALUES).await?;
            }
        }
        Ok(())
    })
    .await?;
    if !with_suite || focus.is_some() {
        return report.finish();
    }
    let table = table()?;
    let title = "A real node, Kubernetes' own specs without and with Plimsoll";
    page::write(title, &section(&kubernetes, &table))?;
    let lost: Vec<_> = table.iter().flat_map(Row::lost).collect();
    ensure!(
        lost.is_empty(),
        "passed without the suite, and not with it:\n  {}",
        lost.join("\n  ")
    );
    println!("What passed without the suite passed with it");
    Ok(())
}

/// The last results of a group: names of its specs, each with whether it passed.
struct Row {
    group: &'static str,
    without: BTreeMap<String, bool>,
    with: BTreeMap<String, bool>,
}

impl Row {
    fn lost(&self) -> impl Iterator<Item = &str> {
        let passed = self.without.iter().filter(|(_, passed)| **passed);
        passed
            .filter(|(name, _)| self.with.get(*name) != Some(&true))
            .map(|(name, _)| &**name)
    }
}

/// The groups that ran both without the suite and with it.
fn table() -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for Group { name, .. } in &GROUPS {
        let [without, with] = [WITHOUT, WITH].map(|kind| report_of(&results_of(kind), name));
        if let (Some(without), Some(with)) = (without?, with?) {
            rows.push(Row {
                group: name,
                without: outcomes(&without)?,
                with: outcomes(&with)?,
            });
        }
    }
    Ok(rows)
}

fn section(kubernetes: &str, table: &[Row]) -> String {
    let passed = |outcomes: &BTreeMap<String, bool>| outcomes.values().filter(|it| **it).count();
    let rows = table.iter().map(|row| {
        let Row {
            group,
            without,
            with,
        } = row;
        format!(
            "| {group} | {} | {} | {} | {} |\n",
            without.len(),
            passed(without),
            passed(with),
            row.lost().count()
        )
    });
    let date = Timestamp::now().strftime("%Y-%m-%d");
    format!(
        "Last runs until {date}, on Kubernetes {kubernetes}.\n\n\
         | specs | number | passed without | passed with | passed without only |\n\
         |---|---|---|---|---|\n{}",
        rows.collect::<String>()
    )
}

/// Lets pods find each other by the names of Services.
async fn serve_names(sandbox: &Sandbox) -> Result<()> {
    apply(sandbox, "tests/conformance/coredns/coredns.yaml").await?;
    let status = "-n kube-system rollout status deployment/coredns --timeout=4m";
    kubectl_in(sandbox, status).await.map(drop)
}

/// Lets the suite size all workloads of all namespaces, by resizes and evictions, and scale one.
async fn act_everywhere(sandbox: &Sandbox) -> Result<()> {
    apply(sandbox, "tests/conformance/kubernetes/beside.yaml").await?;
    let own = Namespace::of(sandbox.client().await?, "beside-the-specs");
    eventually("the workload beside the specs has a size", async || {
        let vpas = own.list::<VerticalPodAutoscaler>().await?;
        let is_sized = |vpa: &Value| is_true(&vpa["status"], "RecommendationProvided");
        ensure!(
            vpas.iter().any(is_sized),
            "none of {} objects has one",
            vpas.len()
        );
        Ok(())
    })
    .await
}

/// Deletes the suite's `APIService` of external metrics, as where another program is to serve it.
async fn leave_external_metrics(sandbox: &Sandbox) -> Result<()> {
    let objects: Api<APIService> = Api::all(sandbox.client().await?);
    let found = objects
        .delete(EXTERNAL_METRICS, &DeleteParams::default())
        .await;
    found.context("the suite does not serve external metrics")?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use e2e::repository;

    #[test]
    fn the_specs_have_the_version_of_the_sandbox() {
        let version = |module: &str| {
            let text = fs::read_to_string(repository().join(module).join("go.mod")).unwrap();
            let line = text
                .lines()
                .find_map(|line| line.trim().strip_prefix("k8s.io/kubernetes "));
            let version = line.and_then(|line| line.split(' ').next());
            version.unwrap().to_owned()
        };
        let specs = version("tests/conformance/kubernetes");
        assert_eq!(specs, version("crates/sandbox/control-plane"));
    }
}
