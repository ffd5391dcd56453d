//! The Helm chart in `deploy/chart`: the same objects as the overlays, an effect of every value, and the
//! life of a release on the control plane.

mod checkers;
mod gitops;
mod monitoring;
mod one_namespace;
mod package;
mod pods;
pub(crate) mod release;
mod values;
mod webhook;

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context as _, Result, ensure};
use serde::Deserialize as _;
use serde_json::{Value, json};

use super::deploy::Combination;
use e2e::helm::Helm;

/// Labels of the release, which the overlays do not have.
const RELEASE_LABELS: [&str; 3] = [
    "helm.sh/chart",
    "app.kubernetes.io/instance",
    "app.kubernetes.io/managed-by",
];

/// Kind, namespace and name of an object.
fn key(object: &Value) -> String {
    let (kind, metadata) = (&object["kind"], &object["metadata"]);
    format!("{kind} {} {}", metadata["namespace"], metadata["name"])
}

/// Objects of YAML documents by kind, namespace and name. Labels of the release are left out.
fn objects(text: &str) -> Result<BTreeMap<String, Value>> {
    let mut objects = BTreeMap::new();
    for document in serde_yaml_ng::Deserializer::from_str(text) {
        let mut object = Value::deserialize(document)?;
        if object.is_null() {
            continue;
        }
        if let Some(labels) = object["metadata"]["labels"].as_object_mut() {
            labels.retain(|key, _| !RELEASE_LABELS.contains(&key.as_str()));
            if labels.is_empty() {
                object["metadata"]["labels"] = Value::Null;
            }
        }
        let key = key(&object);
        let is_new = objects.insert(key.clone(), object).is_none();
        ensure!(is_new, "{key} is there twice");
    }
    Ok(objects)
}

async fn rendered(values: &[&str]) -> Result<BTreeMap<String, Value>> {
    objects(&Helm::find().await?.template(values).await?)
}

/// The names of configurations in the chart. In an overlay, a hash of it follows.
const CONFIG: [&str; 2] = ["plimsoll-extender-config", "plimsoll-scheduler-config"];
/// Length of that hash, with a hyphen.
const HASH_LENGTH: usize = 11;

/// Objects of an overlay, with the names of the chart.
fn without_hash(text: &str) -> String {
    CONFIG.iter().fold(text.to_owned(), |text, name| {
        let mut parts = text.split(name);
        let first = parts.next().unwrap_or_default().to_owned();
        parts.fold(first, |text, part| {
            text + name + part.get(HASH_LENGTH..).unwrap_or_default()
        })
    })
}

/// Sorts flags and volumes, whose order has no meaning, and removes the chart's checksum of a
/// configuration.
fn sorted(mut object: Value) -> Value {
    let metadata = &mut object["spec"]["template"]["metadata"];
    if let Some(annotations) = metadata["annotations"].as_object_mut() {
        annotations.remove("checksum/config");
        if annotations.is_empty() {
            metadata["annotations"] = Value::Null;
        }
    }
    let pod = &mut object["spec"]["template"]["spec"];
    if let Some(volumes) = pod["volumes"].as_array_mut() {
        volumes.sort_by_key(ToString::to_string);
    }
    for container in pod["containers"].as_array_mut().into_iter().flatten() {
        for field in ["args", "volumeMounts"] {
            if let Some(list) = container[field].as_array_mut() {
                list.sort_by_key(ToString::to_string);
            }
        }
    }
    object
}

/// Values of the chart, and the components of an overlay with the same effect.
const SAME: &[(&[&str], &[&str])] = &[
    (&[], &[]),
    (&["recommender.shards=2"], &["sharded"]),
    (&["recommender.sizingPolicies=true"], &["sizing-policies"]),
    (
        &["recommender.specificReplicas=true"],
        &["specific-replicas"],
    ),
    (
        &["recommender.capToSchedulable={nodes,quotas,limit-ranges}"],
        &["schedulable"],
    ),
    (
        &["recommender.capacityFrom={karpenter,cluster-autoscaler}"],
        &["node-capacity"],
    ),
    (&["updater.rollingUpdates=true"], &["rolling-updates"]),
    (&["updater.rebalancing=true"], &["rebalancing"]),
    (&["webhook.nodeGroups=true"], &["node-groups"]),
    (&["extender.enabled=true"], &["extender"]),
    (
        &[
            "extender.enabled=true",
            "extender.scheduler.enabled=true",
            "extender.scheduler.image.tag=v1.37.0",
        ],
        &["extender", "scheduler"],
    ),
    (&["certificates.mode=certManager"], &["cert-manager"]),
    (
        &[
            "certificates.mode=certManager",
            "extender.enabled=true",
            "extender.scheduler.enabled=true",
            "extender.scheduler.image.tag=v1.37.0",
        ],
        &[
            "cert-manager",
            "extender",
            "scheduler",
            "extender-cert-manager",
        ],
    ),
    (
        &[
            "leaderElection.leaseDuration=3s",
            "leaderElection.renewDeadline=2s",
            "leaderElection.retryPeriod=500ms",
        ],
        &["fast-failover"],
    ),
    (
        &[
            "adapter.apiServices.custom=true",
            "adapter.apiServices.external=true",
        ],
        &["custom-metrics-api", "external-metrics-api"],
    ),
];

/// Checks that the chart and an overlay have the same objects.
async fn check_same(helm: &Helm, mode: &str, values: &[&str], components: &[&str]) -> Result<()> {
    let mode_value = format!("mode={mode}");
    let all = [
        mode_value.as_str(),
        "crds.install=false",
        // They are components.
        "adapter.apiServices.custom=false",
        "adapter.apiServices.external=false",
    ];
    let all = [&all, values].concat();
    let mut of_chart = objects(&helm.template(&all).await?)?;
    of_chart.retain(|_, object| object["metadata"]["annotations"]["helm.sh/hook"].is_null());
    let of_overlay = Combination::new(mode, components)?.render().await?;
    let mut of_overlay = objects(&without_hash(&of_overlay))?;
    of_overlay.retain(|_, object| object["kind"] != "Namespace");
    let names = |objects: &BTreeMap<String, Value>| objects.keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(&of_chart), names(&of_overlay), "{mode} {values:?}");
    for (name, object) in of_chart {
        let of_overlay = sorted(of_overlay[&name].clone());
        assert_eq!(sorted(object), of_overlay, "{mode} {values:?}: {name}");
    }
    Ok(())
}

#[tokio::test]
async fn the_chart_has_the_objects_of_the_overlays_and_components() -> Result<()> {
    let helm = Helm::find().await?;
    for mode in ["recommend", "vertical", "horizontal"] {
        check_same(&helm, mode, &[], &[]).await?;
    }
    for (values, components) in SAME {
        check_same(&helm, "all", values, components).await?;
    }
    Ok(())
}

#[tokio::test]
async fn definitions_stay_when_the_release_goes() -> Result<()> {
    let mut definitions = rendered(&["crds.install=true"]).await?;
    definitions.retain(|_, object| object["kind"] == "CustomResourceDefinition");
    assert_eq!(definitions.len(), 7);
    for (name, definition) in definitions {
        let annotations = &definition["metadata"]["annotations"];
        assert_eq!(annotations["helm.sh/resource-policy"], "keep", "{name}");
        let of_argo = &annotations["argocd.argoproj.io/sync-options"];
        assert_eq!(of_argo, "Prune=false", "{name}");
    }
    Ok(())
}

#[tokio::test]
async fn another_namespace_is_used_throughout() -> Result<()> {
    let helm = Helm::find().await?;
    let values = [
        "mode=all",
        "crds.install=false",
        "prometheus.address=http://prometheus",
        "adapter.rules=rules: []",
        "adapter.routes=routes: []",
        "certificates.mode=certManager",
        "recommender.sizingPolicies=true",
        "recommender.specificReplicas=true",
        "updater.rebalancing=true",
        "extender.enabled=true",
    ];
    let rendered = helm.template_in("scaling", &values).await?;
    ensure!(!rendered.contains("plimsoll-system"), "{rendered}");
    let mut names: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for object in objects(&rendered)?.into_values() {
        let text = |field| object["metadata"][field].as_str().map(str::to_owned);
        if let Some(namespace) = text("namespace") {
            names.entry(namespace).or_default().extend(text("name"));
        }
    }
    // Events about objects of the cluster, and the configuration of the API server's aggregation.
    let namespaces: Vec<&String> = names.keys().collect();
    assert_eq!(namespaces, ["default", "kube-system", "scaling"]);
    let reader = "plimsoll-adapter-authentication-reader";
    assert_eq!(names["kube-system"], [reader]);
    Ok(())
}

#[tokio::test]
async fn the_adapter_may_read_the_objects_that_its_routes_name_and_no_others() -> Result<()> {
    let secret = "{secret: {namespace: keda\\, name: kedaorg-certs}}";
    let map = "{configMap: {namespace: feed-shop\\, name: lease-ca}}";
    let routes = [
        format!("{{name: keda\\, caFrom: {secret}\\, certFrom: {secret}}}"),
        format!("{{name: shop\\, caFrom: {map}}}"),
        "{name: file\\, caFile: other.crt}".to_owned(),
    ];
    let routes = format!("adapter.routes=upstreams: [{}]", routes.join("\\, "));
    let objects = rendered(&["mode=all", "crds.install=false", &routes]).await?;
    let name = "plimsoll-adapter-upstream-certificates";
    let of_name = |object: &&Value| object["metadata"]["name"] == name;
    let found: Vec<_> = objects.values().filter(of_name).collect();
    assert_eq!(found.len(), 4, "{found:#?}");
    for (namespace, resource, object) in [
        ("keda", "secrets", "kedaorg-certs"),
        ("feed-shop", "configmaps", "lease-ca"),
    ] {
        let role = &objects[&format!("\"Role\" \"{namespace}\" \"{name}\"")];
        let expected = json!({
            "apiGroups": [""], "resources": [resource], "resourceNames": [object], "verbs": ["get"],
        });
        assert_eq!(role["rules"], json!([expected]));
        let binding = &objects[&format!("\"RoleBinding\" \"{namespace}\" \"{name}\"")];
        assert_eq!(binding["subjects"][0]["namespace"], "plimsoll-system");
    }
    Ok(())
}

#[tokio::test]
async fn without_a_cluster_nothing_is_taken_from_another_provider() -> Result<()> {
    for mode in ["recommend", "vertical", "horizontal", "all"] {
        let mode = format!("mode={mode}");
        for (value, services, definitions) in [
            ("crds.install=auto", 0, 2),
            ("crds.install=true", 0, 7),
            ("crds.install=false", 0, 0),
            ("adapter.apiServices.external=true", 1, 2),
        ] {
            let objects = rendered(&[&mode, value]).await?;
            let of_kind = |kind| objects.values().filter(move |it| it["kind"] == kind);
            let has_adapter = !["mode=recommend", "mode=vertical"].contains(&mode.as_str());
            let expected = if has_adapter { services } else { 0 };
            let what = format!("{mode} {value}");
            assert_eq!(of_kind("APIService").count(), expected, "{what}");
            let found = of_kind("CustomResourceDefinition");
            let groups: Vec<&Value> = found.map(|it| &it["spec"]["group"]).collect();
            assert_eq!(groups.len(), definitions, "{what}");
            let are_own = groups.iter().all(|group| **group == "plimsoll.dev");
            ensure!(
                are_own || value == "crds.install=true",
                "{what}: {groups:?}"
            );
        }
    }
    Ok(())
}

#[tokio::test]
async fn extra_objects_are_as_they_are_written() -> Result<()> {
    let api = "rbac.authorization.k8s.io/v1";
    let metadata = |name: &str| json!({"name": name, "namespace": "shop"});
    let written = json!([
        {"apiVersion": api, "kind": "Role", "metadata": metadata("release-reader"), "rules": []},
        {"apiVersion": api, "kind": "ClusterRole", "metadata": {"name": "own"}, "rules": []},
        {"apiVersion": api, "kind": "ClusterRoleBinding", "metadata": {"name": "own"},
         "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "own"},
         "subjects": [{"kind": "ServiceAccount", "name": "plimsoll-webhook", "namespace": "shop"}]},
    ]);
    let extra = format!("extraObjects={written}");
    for value in [
        "rbac.create=false",
        "watchNamespace=shop",
        "global.labels.a=b",
    ] {
        let objects = rendered(&["mode=vertical", value, &extra]).await?;
        for expected in written.as_array().context("a list")? {
            let key = key(expected);
            let mut found = objects.get(&key).context(key)?.clone();
            if let Some(metadata) = found["metadata"].as_object_mut() {
                metadata.remove("labels");
            }
            assert_eq!(found, *expected, "{value}");
        }
    }
    Ok(())
}

#[tokio::test]
async fn roles_of_people_are_widened_only_with_aggregation() -> Result<()> {
    let helm = Helm::find().await?;
    for expected in [true, false] {
        let values = ["mode=all", &format!("rbac.aggregate={expected}")];
        let found = helm.template(&values).await?.contains("aggregate-to-");
        assert_eq!(found, expected, "{values:?}");
    }
    Ok(())
}

#[tokio::test]
async fn the_chart_passes_the_checks_of_helm() -> Result<()> {
    let helm = Helm::find().await?;
    helm.run(&["lint", "--strict"]).await.map(drop)
}

async fn check_refused(helm: &Helm, values: &[&str], expected: &str) -> Result<()> {
    let error = helm.template(values).await.err();
    let error = error.with_context(|| format!("{values:?} are accepted"))?;
    ensure!(format!("{error:#}").contains(expected), "{error:#}");
    Ok(())
}

#[tokio::test]
async fn wrong_values_are_refused_by_name() -> Result<()> {
    let helm = Helm::find().await?;
    for (value, expected) in [
        ("mode=both", "mode"),
        ("recommender.replicas=-1", "recommender"),
        ("updater.evictionTolerance=2", "evictionTolerance"),
        ("webhook.timeoutSeconds=31", "timeoutSeconds"),
        ("adapter.apiServices.external=perhaps", "external"),
        ("leaderElection.leaseDuration=fifteen", "leaseDuration"),
        ("watchNamespace=Shop", "watchNamespace"),
        ("updater.enabled=perhaps", "enabled"),
        ("test.image.pullPolicy=Sometimes", "pullPolicy"),
        ("webhook.reinvocationPolicy=Always", "reinvocationPolicy"),
        ("webhook.namespaceSelector.matchLabel.a=b", "matchLabel"),
        ("webhook.matchConditions[0].name=a", "expression"),
        ("webhook.port=0", "port"),
        ("adapter.port=65536", "port"),
        ("global.runAsUser=0", "runAsUser"),
        ("global.kubeApiQps=0", "kubeApiQps"),
        ("global.kubeApiBurst=0", "kubeApiBurst"),
        ("recommender.refreshInterval=soon", "refreshInterval"),
        ("metrics.prometheusRule.clusterLabel=a-b", "clusterLabel"),
        ("prometheus.headers.X Scope=a", "headers"),
        ("prometheus.matchers=cluster=a", "matchers"),
        ("extender.scheduler.name=Load", "name"),
        ("updater.makeRoom=maybe", "makeRoom"),
        ("updater.settlingTime=soon", "settlingTime"),
        ("updater.evictionRateBurst=0", "evictionRateBurst"),
        ("adapter.updateStrategy.type=Replace", "type"),
        ("adapter.serviceAccount.automount=perhaps", "automount"),
        ("metrics.podMonitor.interval=often", "interval"),
        ("metrics.prometheusRule.enabled=perhaps", "enabled"),
        ("metrics.grafanaDashboards.folder[0]=a", "folder"),
        ("networkPolicy.enabled=perhaps", "enabled"),
        ("policies[0].name=a", "spec"),
        ("unknown=1", "unknown"),
        ("webhook.pod.unknown=1", "unknown"),
    ] {
        check_refused(&helm, &[value], expected).await?;
    }
    for row in [
        "mode=all|adapter.rules=rules: [] => needs prometheus.address",
        "mode=all|watchNamespace=shop => needs mode recommend or vertical",
        "recommender.shards=2|watchNamespace=shop => watchNamespace and recommender.shards",
        "policies[0].name=a|policies[0].spec.updateMode=Off => policies need recommender.sizingPolicies",
        "mode=vertical|webhook.reinvocationPolicy=IfNeeded,featureGates=CPUStartupBoost=true => reinvocationPolicy=IfNeeded and",
        "mode=all|updater.serviceAccount.create=false => needs updater.serviceAccount.name",
        "prometheus.matchers=cluster=\"a\" => prometheus.matchers needs prometheus.address",
        "prometheus.address=http://p|prometheus.tokenKey=token => prometheus.tokenKey needs prometheus.secretName",
        "prometheus.address=http://p|prometheus.username=u => prometheus.username and prometheus.passwordKey",
        "extender.enabled=true|extender.scheduler.enabled=true => scheduler.image.tag needs the version",
        "extender.enabled=true|watchNamespace=shop => watchNamespace and extender.enabled",
    ] {
        let (values, expected) = row.split_once(" => ").context("values and an error")?;
        let values: Vec<&str> = values.split('|').collect();
        check_refused(&helm, &values, expected).await?;
    }
    Ok(())
}

/// Resources of namespaces, or `*`, in a rule.
fn has_namespaced(rule: &Value) -> bool {
    let resources = rule["resources"].as_array().into_iter().flatten();
    let mut resources = resources.filter_map(Value::as_str);
    resources.any(|resource| {
        let cluster = [
            "nodes",
            "namespaces",
            "nodepools",
            "nodeclaims",
            "clusterroles",
        ];
        let webhooks = ["mutatingwebhookconfigurations", "endpointslices"];
        !cluster.contains(&resource) && !webhooks.contains(&resource)
    })
}

#[tokio::test]
async fn rights_in_one_namespace_are_those_of_all_namespaces_and_no_more() -> Result<()> {
    let rules = async |more: &[&str]| {
        let values = [
            "mode=vertical",
            "crds.install=false",
            "rbac.aggregate=false",
            "recommender.sizingPolicies=true",
            "recommender.capToSchedulable={nodes}",
            "recommender.capacityFrom={karpenter}",
            "updater.rollingUpdates=true",
            "webhook.nodeGroups=true",
        ];
        let mut rendered = rendered(&[&values, more].concat()).await?;
        rendered.retain(|_, object| object["metadata"]["annotations"]["helm.sh/hook"].is_null());
        let mut found = BTreeSet::new();
        for role in rendered.into_values() {
            for rule in role["rules"].as_array().into_iter().flatten() {
                let is_wide = role["kind"] == "ClusterRole" && has_namespaced(rule);
                ensure!(!is_wide || more.is_empty(), "{role:#}");
                for resource in rule["resources"].as_array().into_iter().flatten() {
                    for verb in rule["verbs"].as_array().into_iter().flatten() {
                        let program = &role["metadata"]["labels"]["app.kubernetes.io/name"];
                        found.insert(format!("{program} {verb} {resource}"));
                    }
                }
            }
        }
        Ok(found)
    };
    let everywhere = rules(&[]).await?;
    let in_one = rules(&["watchNamespace=shop"]).await?;
    let more: Vec<_> = in_one.difference(&everywhere).collect();
    assert!(more.is_empty(), "{more:?}");
    let missing: Vec<_> = everywhere.difference(&in_one).collect();
    assert_eq!(
        missing,
        [
            r#""recommender" "list" "clustersizingpolicies""#,
            r#""recommender" "patch" "clustersizingpolicies/status""#,
            r#""recommender" "watch" "clustersizingpolicies""#,
        ]
    );
    Ok(())
}
