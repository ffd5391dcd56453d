//! The Helm chart in `deploy/chart`: the same objects as the overlays, an effect of every value, and the
//! life of a release on the control plane.

pub(crate) mod helm;
mod package;
pub(crate) mod release;
mod values;

use std::collections::BTreeMap;

use anyhow::{Context as _, Result, ensure};
use serde::Deserialize as _;
use serde_json::Value;

use super::deploy::Combination;
use helm::Helm;

/// Labels of the release, which the overlays do not have.
const RELEASE_LABELS: [&str; 3] = [
    "helm.sh/chart",
    "app.kubernetes.io/instance",
    "app.kubernetes.io/managed-by",
];

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
        let metadata = &object["metadata"];
        let key = format!(
            "{} {} {}",
            object["kind"], metadata["namespace"], metadata["name"]
        );
        ensure!(
            objects.insert(key.clone(), object).is_none(),
            "{key} is there twice"
        );
    }
    Ok(objects)
}

/// Sorts flags and volumes, whose order has no meaning.
fn sorted(mut object: Value) -> Value {
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
    (&["certificates.mode=certManager"], &["cert-manager"]),
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
    let all: Vec<String> = all.iter().chain(values).map(ToString::to_string).collect();
    let of_chart = objects(&helm.template(&all).await?)?;
    let mut of_overlay = objects(&Combination::new(mode, components)?.render().await?)?;
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
    let helm = Helm::find().await?;
    let rendered = objects(&helm.template(&[]).await?)?;
    let definitions = rendered.values();
    let definitions: Vec<&Value> = definitions
        .filter(|object| object["kind"] == "CustomResourceDefinition")
        .collect();
    assert_eq!(definitions.len(), 7);
    for definition in definitions {
        let policy = &definition["metadata"]["annotations"]["helm.sh/resource-policy"];
        assert_eq!(policy, "keep", "{definition:#}");
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
    let rendered = helm
        .template_in("scaling", &values.map(str::to_owned))
        .await?;
    ensure!(!rendered.contains("plimsoll-system"), "{rendered}");
    let objects = objects(&rendered)?;
    let namespaces = objects
        .values()
        .filter_map(|object| object["metadata"]["namespace"].as_str());
    let mut namespaces: Vec<&str> = namespaces.collect();
    namespaces.sort_unstable();
    namespaces.dedup();
    // Events about objects of the cluster, and the configuration of the API server's aggregation.
    assert_eq!(namespaces, ["default", "kube-system", "scaling"]);
    let in_system = objects
        .values()
        .filter(|it| it["metadata"]["namespace"] == "kube-system");
    let names: Vec<_> = in_system
        .map(|it| it["metadata"]["name"].as_str().unwrap_or_default())
        .collect();
    assert_eq!(names, ["plimsoll-adapter-authentication-reader"]);
    Ok(())
}

#[tokio::test]
async fn the_chart_passes_the_checks_of_helm() -> Result<()> {
    let helm = Helm::find().await?;
    helm.run(&["lint", "--strict"]).await.map(drop)
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
        ("unknown=1", "unknown"),
        ("webhook.pod.unknown=1", "unknown"),
    ] {
        let error = helm.template(&[value.to_owned()]).await.err();
        let error = error.with_context(|| format!("{value} is accepted"))?;
        let text = format!("{error:#}");
        ensure!(text.contains(expected), "{value}: {text}");
    }
    let values = ["mode=all", "adapter.rules=rules: []"].map(str::to_owned);
    let error = helm
        .template(&values)
        .await
        .err()
        .context("rules without Prometheus")?;
    ensure!(
        format!("{error:#}").contains("needs prometheus.address"),
        "{error:#}"
    );
    Ok(())
}
