//! Every value of the chart, and what another one changes.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use anyhow::{Context as _, Result, ensure};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use serde_json::Value;

use super::objects;
use e2e::helm::Helm;

/// A value: its path, another value, and the values that it needs.
type Case = (&'static str, &'static str, &'static [&'static str]);

const PROMETHEUS: &[&str] = &[
    "prometheus.address=http://prometheus",
    "prometheus.secretName=read",
    "adapter.rules=rules: []",
    "updater.waves.prometheus.queryTimeout=5s",
];
const BASIC: &[&str] = &[
    "prometheus.address=http://prometheus",
    "prometheus.secretName=read",
    "adapter.rules=rules: []",
    "updater.waves.prometheus.queryTimeout=5s",
    "prometheus.username=reader",
    "prometheus.passwordKey=password",
];
const ONE_NAMESPACE: &[&str] = &["mode=vertical", "extender.enabled=false"];
const CERT_MANAGER: &[&str] = &["certificates.mode=certManager"];
const ISSUER: &[&str] = &[
    "certificates.mode=certManager",
    "certificates.issuerRef.name=own",
];
const EXISTING: &[&str] = &["certificates.mode=existing"];
const CASES: &[Case] = &[
    ("mode", "vertical", &[]),
    ("global.imageRegistry", "registry.example.com", &[]),
    ("global.imagePullSecrets[0].name", "pull", &[]),
    ("global.labels.team", "platform", &[]),
    ("global.annotations.team", "platform", &[]),
    ("global.nodeSelector.disk", "ssd", &[]),
    ("global.affinity.nodeAffinity.a", "b", &[]),
    ("global.tolerations[0].operator", "Exists", &[]),
    ("global.priorityClassName", "system-cluster-critical", &[]),
    ("global.kubeApiQps", "20", &[]),
    ("global.kubeApiBurst", "40", &[]),
    ("global.logLevel", "4", &[]),
    ("global.logFormat", "json", &[]),
    ("global.runAsUser", "null", &[]),
    ("crds.install", "false", &["crds.install=true"]),
    ("crds.keep", "false", &["crds.install=true"]),
    ("rbac.create", "false", &[]),
    ("rbac.aggregate", "false", &[]),
    ("leaderElection.namespace", "kube-system", &[]),
    ("otherAutoscalers", "ignore", &["mode=vertical"]),
    ("watchNamespace", "shop", ONE_NAMESPACE),
    ("leaderElection.leaseDuration", "3s", &[]),
    ("leaderElection.renewDeadline", "2s", &[]),
    ("leaderElection.retryPeriod", "500ms", &[]),
    ("prometheus.address", "http://prometheus", &[]),
    ("prometheus.secretName", "other", PROMETHEUS),
    ("prometheus.caKey", "ca.crt", PROMETHEUS),
    ("prometheus.tokenKey", "token", PROMETHEUS),
    ("prometheus.username", "other", BASIC),
    ("prometheus.passwordKey", "other", BASIC),
    ("prometheus.headers.X-Scope-OrgID", "shop", PROMETHEUS),
    ("prometheus.matchers", "cluster=\"a\"", PROMETHEUS),
    ("prometheus.certificateKey", "tls.crt", PROMETHEUS),
    ("prometheus.privateKeyKey", "tls.key", PROMETHEUS),
    ("featureGates", "InPlace=true", &[]),
    ("certificates.mode", "certManager", &[]),
    ("certificates.mode", "existing", &[]),
    ("certificates.issuerRef.name", "own", CERT_MANAGER),
    ("certificates.issuerRef.kind", "ClusterIssuer", ISSUER),
    ("certificates.issuerRef.group", "example.com", ISSUER),
    ("certificates.secrets.webhook", "own", EXISTING),
    ("certificates.secrets.adapter", "own", EXISTING),
    ("certificates.secrets.extender", "own", EXISTING),
    ("certificates.secrets.feed.recommender", "own", EXISTING),
    ("certificates.secrets.feed.updater", "own", EXISTING),
    ("certificates.secrets.feed.webhook", "own", EXISTING),
    ("certificates.secrets.feed.adapter", "own", EXISTING),
    ("recommender.interval", "30s", &[]),
    ("recommender.refreshInterval", "0s", &[]),
    ("recommender.shards", "2", &[]),
    ("recommender.capToSchedulable[0]", "nodes", &[]),
    ("recommender.capacityFrom[0]", "karpenter", &[]),
    ("recommender.recommendationMetrics", "true", &[]),
    ("recommender.sizingPolicies", "true", &[]),
    ("recommender.specificReplicas", "true", &[]),
    ("updater.interval", "30s", &[]),
    ("updater.evictionTolerance", "0.25", &[]),
    ("updater.minReplicas", "3", &[]),
    ("updater.evictionPace", "false", &[]),
    ("updater.waves.provenAfter", "2m", &[]),
    ("updater.evictionRateLimit", "1", &[]),
    ("updater.evictionRateBurst", "5", &[]),
    ("updater.podUpdateThreshold", "0.2", &[]),
    ("updater.settlingTime", "1m", &[]),
    ("updater.inPlaceSkipDisruptionBudget", "true", &[]),
    ("updater.makeRoom", "dry-run", &[]),
    ("updater.rollingUpdates", "true", &[]),
    ("updater.rebalancing", "true", &[]),
    ("webhook.failurePolicy", "Fail", &[]),
    ("webhook.timeoutSeconds", "10", &[]),
    ("webhook.namespaceSelector.matchLabels.team", "a", &[]),
    ("webhook.objectSelector.matchLabels.team", "a", &[]),
    ("webhook.matchConditions", CONDITIONS, &[]),
    ("webhook.reinvocationPolicy", "IfNeeded", &[]),
    ("webhook.port", "9443", &[]),
    ("webhook.nodeGroups", "true", &[]),
    ("webhook.apiServerNetworks[0]", "10.0.0.0/24", &[]),
    ("adapter.apiServices.custom", "true", &[]),
    ("adapter.apiServices.external", "true", &[]),
    ("adapter.port", "7443", &[]),
    ("adapter.rules", "rules: []", RULES),
    ("adapter.routes", "routes: []", &[]),
    ("recommender.enabled", "false", &[]),
    ("updater.enabled", "false", &[]),
    ("webhook.enabled", "false", &[]),
    ("adapter.enabled", "false", &[]),
    ("updater.replicas", "0", &[]),
    ("extender.enabled", "false", &[]),
    ("extender.config.load.interval", "5s", &[]),
    (
        "extender.config.policy",
        "LowRiskOverCommitment",
        &["updater.rebalancing=true"],
    ),
    (
        "extender.scheduler.enabled",
        "true",
        &["extender.scheduler.image.tag=v1.37.0"],
    ),
    ("extender.scheduler.name", "dense", SCHEDULER),
    ("extender.scheduler.replicas", "1", SCHEDULER),
    (
        "extender.scheduler.image.repository",
        "registry.example.com/scheduler",
        SCHEDULER,
    ),
    ("extender.scheduler.image.tag", "v1.36.1", SCHEDULER),
    ("extender.scheduler.image.digest", DIGEST, SCHEDULER),
    ("extender.scheduler.image.pullPolicy", "Always", SCHEDULER),
    (
        "dashboard.enabled",
        "true",
        &["dashboard.host=a.example.com"],
    ),
    ("dashboard.host", "b.example.com", DASHBOARD),
    ("dashboard.tlsSecret", "own", DASHBOARD),
    ("dashboard.publicNamespaces[0]", "shop", DASHBOARD),
    ("metrics.podMonitor.enabled", "true", &[]),
    ("metrics.podMonitor.labels.team", "a", MONITOR),
    ("metrics.podMonitor.interval", "30s", MONITOR),
    ("metrics.prometheusRule.enabled", "true", &[]),
    ("metrics.prometheusRule.labels.team", "a", ALERTS),
    ("metrics.prometheusRule.clusterLabel", "k8s_cluster", ALERTS),
    ("metrics.grafanaDashboards.enabled", "true", &[]),
    ("metrics.grafanaDashboards.labels.team", "a", DASHBOARDS),
    ("metrics.grafanaDashboards.folder", "Scaling", DASHBOARDS),
    ("networkPolicy.enabled", "true", &[]),
    ("policies", POLICIES, &["recommender.sizingPolicies=true"]),
    ("test.image.repository", "registry.example.com/other", &[]),
    ("test.image.tag", "1.2.3", &[]),
    ("test.image.digest", DIGEST, &[]),
    ("test.image.pullPolicy", "Always", &[]),
    ("extraObjects", EXTRA, &[]),
];
const RULES: &[&str] = &["prometheus.address=http://prometheus"];
const SCHEDULER: &[&str] = &[
    "extender.scheduler.enabled=true",
    "extender.scheduler.image.tag=v1.37.0",
];
const MONITOR: &[&str] = &["metrics.podMonitor.enabled=true"];
const ALERTS: &[&str] = &["metrics.prometheusRule.enabled=true"];
const DASHBOARDS: &[&str] = &["metrics.grafanaDashboards.enabled=true"];
const CONDITIONS: &str = r#"[{"name": "jobs", "expression": "true"}]"#;
const POLICIES: &str =
    r#"[{"name": "all", "spec": {}}, {"name": "web", "namespace": "shop", "spec": {}}]"#;
const EXTRA: &str = r#"[{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "extra", "namespace": "shop"}}]"#;

const OF_PROGRAMS: &[(&str, &str)] = &[
    ("replicas", "3"),
    ("pod.image.repository", "registry.example.com/other"),
    ("pod.image.tag", "1.2.3"),
    ("pod.image.digest", DIGEST),
    ("pod.image.pullPolicy", "Always"),
    ("pod.resources.limits.memory", "2Gi"),
    ("pod.extraArgs[0]", "--v=5"),
    ("pod.extraEnv[0].name", "TZ"),
    ("pod.extraVolumes[0].name", "extra"),
    ("pod.extraVolumeMounts[0].name", "extra"),
    ("pod.annotations.team", "platform"),
    ("pod.labels.team", "platform"),
    ("pod.securityContext.fsGroup", "65532"),
    ("pod.containerSecurityContext.privileged", "false"),
    ("pod.nodeSelector.disk", "ssd"),
    ("pod.affinity.nodeAffinity.a", "b"),
    ("pod.tolerations[0].operator", "Exists"),
    ("pod.topologySpreadConstraints[0].maxSkew", "2"),
    ("pod.priorityClassName", "high"),
    ("pod.terminationGracePeriodSeconds", "60"),
    ("pod.hostNetwork", "true"),
    ("pod.livenessProbe.failureThreshold", "5"),
    ("pod.readinessProbe.failureThreshold", "5"),
    ("pod.startupProbe.failureThreshold", "30"),
    ("disruptionBudget.enabled", "false"),
    ("disruptionBudget.maxUnavailable", "0"),
    ("disruptionBudget.unhealthyPodEvictionPolicy", "AlwaysAllow"),
    ("serviceAccount.create", "false"),
    ("serviceAccount.name", "other"),
    ("serviceAccount.annotations.team", "platform"),
    ("serviceAccount.automount", "false"),
    ("revisionHistoryLimit", "3"),
    ("updateStrategy.type", "Recreate"),
];
const DIGEST: &str = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
const DASHBOARD: &[&str] = &["dashboard.enabled=true", "dashboard.host=a.example.com"];

const PROGRAMS: [&str; 5] = ["recommender", "updater", "webhook", "adapter", "extender"];

/// Lines of an object or of a value that are shown.
const MAX_LINES: usize = 12;
const MAX_LENGTH: usize = 160;

/// All values with which a case is rendered, without its own.
fn base(needs: &[&str]) -> Vec<String> {
    let base = ["mode=all", "crds.install=false", "extender.enabled=true"];
    base.iter().chain(needs).map(ToString::to_string).collect()
}

fn cases() -> Vec<(String, &'static str, Vec<String>)> {
    let own = CASES
        .iter()
        .map(|(path, value, needs)| ((*path).to_owned(), *value, base(needs)));
    // It has one replica, so no budget.
    let is_of_dashboard = |path: &str| path != "replicas" && !path.starts_with("disruptionBudget");
    let of_dashboard = OF_PROGRAMS
        .iter()
        .filter(move |(path, _)| is_of_dashboard(path));
    let of_dashboard = of_dashboard.map(|(path, value)| {
        let mut before = base(DASHBOARD);
        if *path == "serviceAccount.create" {
            before.push("dashboard.serviceAccount.name=other".to_owned());
        }
        (format!("dashboard.{path}"), *value, before)
    });
    let of_programs = PROGRAMS.iter().flat_map(|program| {
        let values = OF_PROGRAMS.iter();
        values.map(move |(path, value)| {
            let mut before = base(&[]);
            if *path == "serviceAccount.create" {
                before.push(format!("{program}.serviceAccount.name=other"));
            }
            (format!("{program}.{path}"), *value, before)
        })
    });
    own.chain(of_programs).chain(of_dashboard).collect()
}

fn leaves(value: &Value, path: &str, found: &mut BTreeSet<String>) {
    match value.as_object().filter(|object| !object.is_empty()) {
        Some(object) => {
            for (key, value) in object {
                let path = if path.is_empty() {
                    key.clone()
                } else {
                    format!("{path}.{key}")
                };
                leaves(value, &path, found);
            }
        }
        None => {
            found.insert(path.to_owned());
        }
    }
}

#[test]
fn every_value_is_in_the_table() -> Result<()> {
    let text = fs::read_to_string(e2e::repository().join("deploy/chart/values.yaml"))?;
    let values: Value = serde_yaml_ng::from_str(&text)?;
    let mut missing = BTreeSet::new();
    leaves(&values, "", &mut missing);
    for (path, ..) in cases() {
        missing.retain(|leaf| {
            let rest = path.strip_prefix(leaf.as_str());
            !rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
        });
    }
    assert_eq!(missing, BTreeSet::new());
    Ok(())
}

#[tokio::test]
async fn every_value_changes_the_objects_as_recorded() -> Result<()> {
    let helm = Helm::find().await?;
    let render = async |values: Vec<String>| objects(&helm.template(&values).await?);
    let changes = stream::iter(cases()).map(async |(path, value, mut values)| {
        let before = render(values.clone()).await?;
        values.push(format!("{path}={value}"));
        let after = render(values).await.with_context(|| path.clone())?;
        let lines = differences(&before, &after);
        ensure!(!lines.is_empty(), "{path}={value} changes nothing");
        let more = lines.len().saturating_sub(MAX_LINES);
        let shown = lines.into_iter().take(MAX_LINES);
        let more = (more > 0).then(|| format!("and {more} more"));
        let shown = shown.chain(more).map(|line| format!("    {line}\n"));
        let text = format!("{path}={value}\n{}", shown.collect::<String>());
        Ok(text)
    });
    let changes: Vec<String> = changes.buffered(2).try_collect().await?;
    let found = changes.concat();
    let file = e2e::repository().join("tests/e2e/chart/values.txt");
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        fs::write(&file, &found)?;
    }
    let recorded = fs::read_to_string(&file).unwrap_or_default();
    ensure!(
        recorded == found,
        "{} differs; UPDATE_GOLDEN=1 writes it",
        file.display()
    );
    Ok(())
}

/// Changed fields, and objects of which there is only one.
fn differences(before: &BTreeMap<String, Value>, after: &BTreeMap<String, Value>) -> Vec<String> {
    let mut lines = Vec::new();
    for (name, old) in before {
        let shown = name.replace('"', "");
        match after.get(name) {
            Some(new) => compare(&shown, old, new, &mut lines),
            None => lines.push(format!("- {shown}")),
        }
    }
    for (name, _) in after.iter().filter(|(name, _)| !before.contains_key(*name)) {
        lines.push(format!("+ {}", name.replace('"', "")));
    }
    lines
}

fn compare(path: &str, old: &Value, new: &Value, lines: &mut Vec<String>) {
    if old == new {
        return;
    }
    if let (Some(old), Some(new)) = (old.as_object(), new.as_object()) {
        let keys: BTreeSet<&String> = old.keys().chain(new.keys()).collect();
        for key in keys {
            let of = |object: &serde_json::Map<String, Value>| {
                object.get(key).cloned().unwrap_or_default()
            };
            compare(&format!("{path} {key}"), &of(old), &of(new), lines);
        }
    } else if let (Some(old), Some(new)) = (old.as_array(), new.as_array()) {
        for index in 0..old.len().max(new.len()) {
            let of = |list: &[Value]| list.get(index).cloned().unwrap_or_default();
            compare(&format!("{path} {index}"), &of(old), &of(new), lines);
        }
    } else {
        let mut line = format!("{path}: {old} -> {new}");
        if line.len() > MAX_LENGTH {
            let end = (0..=MAX_LENGTH)
                .rev()
                .find(|end| line.is_char_boundary(*end));
            line.truncate(end.unwrap_or(0));
            line += "...";
        }
        lines.push(line);
    }
}
