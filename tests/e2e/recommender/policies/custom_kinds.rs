//! A policy for workloads of another kind with a scale subresource: a custom resource of the test,
//! with pods that it owns.

use anyhow::{Context as _, Result, ensure};
use api::sizing_policy::SizingPolicy;
use api::vpa::VerticalPodAutoscaler as Vpa;
use e2e::{condition, create, eventually, kubectl, message_of, requests, usage};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use kube::api::{Api, DynamicObject, Patch, PatchParams};
use serde_json::{Value, json};

use super::super::{CPU_OF_240M, custom_kind, scalable_kind};
use super::PolicyFixture;

/// A policy for a kind and pods with the label `tier=web`, by upstream's method.
fn spec(kind: &str) -> Value {
    json!({
        "selector": {"matchLabels": {"tier": "web"}},
        "kinds": [kind],
        "sizing": {"policy": "vpa"},
    })
}

#[tokio::test]
async fn workloads_with_a_scale_subresource_are_found_by_their_pods() -> Result<()> {
    let base = super::super::fixture("custom").await?;
    let fixture = PolicyFixture::of(base.client.clone(), &base.namespace);
    let kind = scalable_kind(&base).await?;
    let plain = custom_kind(&base, "Plain", json!({"status": {}})).await?;
    let discovery = format!("get --raw /apis/{}/v1", kind.group);
    eventually("the API server serves both kinds", async || {
        let served = kubectl(&discovery).await?;
        let lists = |name: &str| served.contains(&format!("\"{name}\""));
        ensure!(lists("webs/scale") && lists("plains/status"), "{served}");
        Ok(())
    })
    .await?;
    let absent = format!("absent.{}", kind.group);
    let no_match = format!("no matches for kind \"Web\" in group \"{absent}\"");
    for (name, kind, problem) in [
        ("absent", format!("Web.{absent}"), no_match.as_str()),
        (
            "plain",
            format!("Plain.{}", plain.group),
            "it has no scale subresource",
        ),
    ] {
        fixture.policy(name, spec(&kind)).await?;
        let message = format!("{kind}: {problem}");
        let is_named = |status: &Value| {
            condition(status, "Ready").is_some_and(|it| it["reason"] == "KindUnavailable")
                && message_of(status, "Ready").ends_with(&message)
        };
        fixture.policy_when(name, is_named).await?;
    }

    let webs: Api<DynamicObject> =
        Api::namespaced_with(base.client.clone(), &base.namespace, &kind);
    let web = json!({"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": "shop"}, "spec": {"replicas": 1}});
    let owner = create(&webs, web).await?;
    let selector = Patch::Merge(json!({"status": {"replicas": 1, "selector": "app=shop"}}));
    webs.patch_status("shop", &PatchParams::default(), &selector)
        .await?;
    let web = format!("Web.{}", kind.group);
    fixture.policy("web", spec(&web)).await?;
    fixture.counts("web", [0, 0, 0, 0]).await?;
    let metadata = json!({
        "name": "shop-1",
        "labels": {"app": "shop", "tier": "web"},
        "annotations": usage("240m", "200Mi"),
        "ownerReferences": [{
            "apiVersion": kind.api_version, "kind": kind.kind, "name": "shop",
            "uid": owner.uid().context("a uid")?, "controller": true,
        }],
    });
    let container = json!({"name": "app", "image": "registry.example.com/app", "resources": requests("100m", "100Mi")});
    let pod = json!({"metadata": metadata, "spec": {"containers": [container]}});
    fixture.create::<Pod>(pod).await?;
    fixture.counts("web", [1, 1, 0, 0]).await?;
    let names = fixture.names().await?;
    let [name] = names.as_slice() else {
        anyhow::bail!("there are {names:?}");
    };
    ensure!(
        name.starts_with("plimsoll-web.") && name.ends_with("-shop"),
        "{name}"
    );
    let target = fixture.get::<Vpa>(name).await?["spec"]["targetRef"].take();
    let shop = json!({"apiVersion": kind.api_version, "kind": kind.kind, "name": "shop"});
    assert_eq!(target, shop);
    base.targets(name, "cpu", CPU_OF_240M).await?;

    // Without pods the object stays, keeps its recommendation, and follows the policy.
    fixture.delete::<Pod>("shop-1").await?;
    fixture.gone::<Pod>("shop-1").await?;
    let mode = json!({"spec": {"updateMode": "Initial"}});
    fixture.patch::<SizingPolicy>("web", mode).await?;
    let mode = json!({"spec": {"updatePolicy": {"updateMode": "Initial"}}});
    fixture.await_fields::<Vpa>(name, mode).await?;
    base.targets(name, "cpu", CPU_OF_240M).await?;
    fixture.counts("web", [1, 1, 0, 0]).await?;

    // A policy without the kind loses it.
    let kinds = json!({"spec": {"kinds": ["Deployment"]}});
    fixture.patch::<SizingPolicy>("web", kinds).await?;
    fixture.await_names(&[]).await
}
