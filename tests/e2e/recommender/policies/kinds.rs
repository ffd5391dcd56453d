//! Policies that the API server accepts and refuses.

use anyhow::{Context as _, Result, ensure};
use api::sizing_policy::{ClusterSizingPolicy, SizingPolicy};
use e2e::{Namespace, dry_run, object_of, shared};
use kube::{Error, Resource};
use serde_json::{Value, json};

/// Creates a policy in a dry run, for a recommender that does not run.
async fn create<K>(namespace: &Namespace, name: &str, spec: &Value) -> kube::Result<Value>
where
    K: Resource<DynamicType = ()>,
{
    let object = object_of::<K>(json!({"metadata": {"name": name}, "spec": spec}));
    let object = serde_json::from_value(object).map_err(Error::SerdeError)?;
    let made = namespace.api::<K>().create(&dry_run(), &object).await?;
    serde_json::to_value(made).map_err(Error::SerdeError)
}

/// A namespace of the test's own, and the objects of none.
async fn both() -> Result<(Namespace, Namespace)> {
    let client = shared().await?.client().await?;
    let own = Namespace::new(client.clone(), "kinds").await?;
    Ok((own, Namespace::cluster(client)))
}

fn expression(operator: &str, values: &[&str]) -> Value {
    json!({"selector": {"matchExpressions": [{"key": "tier", "operator": operator, "values": values}]}})
}

fn sizing(policy: &str, settings: &Value) -> Value {
    json!({"sizing": {"policy": policy, "settings": settings}})
}

#[tokio::test]
async fn what_makes_sense_is_accepted_and_off_unless_it_says_otherwise() -> Result<()> {
    let (own, cluster) = both().await?;
    for spec in [
        json!({}),
        json!({"selector": {}}),
        json!({"selector": {"matchLabels": {"tier": "web"}}}),
        expression("In", &["web"]),
        expression("NotIn", &["web", "back"]),
        expression("Exists", &[]),
        json!({"kinds": ["CronJob", "DaemonSet", "Deployment", "Job", "ReplicaSet", "ReplicationController", "StatefulSet"]}),
        json!({"kinds": ["Deployment", "Rollout.argoproj.io", "CloneSet.apps.kruise.io"]}),
        json!({"updateMode": "InPlaceOrRecreate", "minReplicas": 1, "evictAfterOOMSeconds": 60}),
        json!({"evictionRequirements": [{"resources": ["cpu"], "changeRequirement": "TargetHigherThanRequests"}]}),
        json!({"resourcePolicy": {"containerPolicies": [{"containerName": "*", "mode": "Off"}]}}),
        json!({"resourcePolicy": {"containerPolicies": [{"containerName": "app", "minAllowed": {"cpu": "50m", "memory": 5}}]}}),
        json!({"startupBoost": {"cpu": {"type": "Factor", "factor": 2}}}),
        json!({"sizing": {}}),
        json!({"sizing": {"caution": "high"}}),
        json!({"sizing": {"policy": "plimsoll", "caution": "2.5"}}),
        json!({"limitMode": "cpu=none,memory=request-plus:200Mi"}),
        sizing(
            "vpa",
            &json!({"cpu-percentile": "p95", "memory-upper-bound-percentile": "1", "margin-fraction": "0.1"}),
        ),
        sizing("vpa", &json!({})),
        sizing("crane", &json!({"cpu-request-percentile": "0.95"})),
        sizing("autopilot-ml", &json!({"overrun-weight": "2"})),
        json!({"recommender": "frugal"}),
    ] {
        let mut expected = spec.clone();
        if spec["updateMode"].is_null() {
            expected["updateMode"] = "Off".into();
        }
        let made = create::<SizingPolicy>(&own, "web", &spec).await?;
        assert_eq!(made["spec"], expected);
        let made = create::<ClusterSizingPolicy>(&cluster, "web", &spec).await?;
        assert_eq!(made["spec"], expected);
    }
    create::<SizingPolicy>(&own, &"a".repeat(63), &json!({})).await?;
    let namespaces = json!({"namespaceSelector": {"matchLabels": {"team": "a"}}});
    let made = create::<ClusterSizingPolicy>(&cluster, "web", &namespaces).await?;
    let selector = &made["spec"]["namespaceSelector"];
    assert_eq!(*selector, namespaces["namespaceSelector"]);
    Ok(())
}

#[tokio::test]
async fn what_makes_no_sense_is_refused_and_the_field_is_named() -> Result<()> {
    let (own, cluster) = both().await?;
    let values = "values are required when operator is In or NotIn and forbidden otherwise";
    let names = "settings have names of lower-case letters, digits and hyphens";
    let rows = json!([
        [{"selector": "tier=web"}, "spec.selector"],
        [expression("In", &[]), values],
        [expression("Exists", &["web"]), values],
        [expression("Like", &["web"]), "spec.selector.matchExpressions[0].operator: Unsupported value: \"Like\""],
        [{"kinds": []}, "spec.kinds: Invalid value"],
        [{"kinds": ["Pod"]}, "spec.kinds[0]: Invalid value: \"Pod\""],
        [{"kinds": ["rollouts.argoproj.io"]}, "spec.kinds[0]: Invalid value: \"rollouts.argoproj.io\""],
        [{"kinds": ["Job", "Job"]}, "spec.kinds[1]: Duplicate value: \"Job\""],
        [{"updateMode": "Auto"}, "spec.updateMode: Unsupported value: \"Auto\""],
        [{"updateMode": "Sometimes"}, "\"Off\", \"Initial\", \"Recreate\", \"InPlaceOrRecreate\", \"InPlace\""],
        [{"minReplicas": 0}, "spec.minReplicas"],
        [{"evictAfterOOMSeconds": 0}, "spec.evictAfterOOMSeconds"],
        [{"resourcePolicy": {"containerPolicies": [{"containerName": "*", "mode": "On"}]}},
            "spec.resourcePolicy.containerPolicies[0].mode: Unsupported value: \"On\""],
        [{"resourcePolicy": {"containerPolicies": [{"containerName": "*", "maxAllowed": {"cpu": "much"}}]}},
            "spec.resourcePolicy.containerPolicies[0].maxAllowed.cpu"],
        [{"startupBoost": {"cpu": {"type": "Factor"}}}, "factor is required when type is Factor"],
        [{"sizing": {"caution": "11"}}, "spec.sizing.caution"],
        [{"sizing": {"caution": 2}}, "spec.sizing.caution"],
        [{"sizing": {"policy": "vpa", "caution": "low"}}, "only the policy plimsoll has a caution"],
        [sizing("plimsoll", &json!({"caution": "low"})), "caution is a field of sizing"],
        [{"limitMode": "twice"}, "spec.limitMode: Invalid value"],
        [sizing("vpa", &json!({"cpu-half-life": "1h"})), "no settings but margin-fraction and percentiles"],
        [sizing("best", &json!({})), "spec.sizing.policy: Unsupported value: \"best\""],
        [sizing("crane", &json!({"policy": "vpa"})), names],
        [sizing("crane", &json!({"CPU": "1"})), names],
        [sizing("crane", &json!({"a".repeat(57): "1"})), names],
        [sizing("vpa", &json!({"margin": "1"})), "the policy vpa has no settings"],
    ]);
    for row in rows.as_array().context("a table")? {
        let (spec, expected) = (&row[0], row[1].as_str().context("a message")?);
        let made = create::<SizingPolicy>(&own, "web", spec).await;
        refused(made, expected, spec)?;
        let made = create::<ClusterSizingPolicy>(&cluster, "web", spec).await;
        refused(made, expected, spec)?;
    }
    let made = create::<SizingPolicy>(&own, &"a".repeat(64), &json!({})).await;
    let expected = "the name has at most 63 characters";
    refused(made, expected, &json!("a long name"))?;
    // The field of the other kind is no field here.
    let foreign = create::<SizingPolicy>(&own, "web", &json!({"namespaceSelector": {}})).await?;
    let selector = &foreign["spec"]["namespaceSelector"];
    ensure!(selector.is_null(), "{foreign:#}");
    Ok(())
}

fn refused(result: Result<Value, Error>, expected: &str, spec: &Value) -> Result<()> {
    let message = match result {
        Err(Error::Api(status)) if status.code == 422 => status.message.clone(),
        other => anyhow::bail!("{spec} is not refused: {other:?}"),
    };
    ensure!(message.contains(expected), "{spec}: {message}");
    Ok(())
}
