//! The recommender, deployed from `deploy/`, against real workloads with known usage.

mod ehpa;
mod failures;
mod feed;
mod fixture;
mod hpa;
mod jobs;
mod many_objects;
mod metrics;
mod node_capacity;
mod own_rules;
mod policies;
mod schedulable;
mod shards;

use anyhow::{Context as _, Result, bail, ensure};
use api::vpa::VerticalPodAutoscaler as Vpa;
use e2e::deployment::{self, RECOMMENDER};
use e2e::{
    PATIENCE, create, eventually_within, is_established, kubectl, plimsoll_json, shared, target,
};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Api;
use kube::api::{ApiResource, DynamicObject, GroupVersionKind, Patch, PatchParams};
use model::ContainerRecommendation;
use sandbox::Sandbox;
use serde_json::{Value, json};
use tokio::sync::OnceCell;

use fixture::{Fixture, WITHOUT_PODS, conditions, first_container};

/// 240m lies in the bucket of CPU from 236m to 258m, with room above for what measuring adds, and a
/// margin of 15 % makes that 296m.
const CPU_OF_240M: &str = "296m";
/// 300Mi lies in the bucket of memory that ends at 330659541 bytes, and a margin of 15 % makes that
/// 380258472.
const MEMORY_OF_300MI: &str = "380258472";
/// 960Mi lies in the bucket of memory that ends at 1016281388 bytes, and a margin of 15 % makes
/// that 1168723596.
const MEMORY_OF_960MI: &str = "1168723596";
/// 400Mi lies in the bucket of memory that ends at 445019988 bytes, and a margin of 15 % makes that
/// 511772986.
const MEMORY_OF_400MI: &str = "511772986";

const PROVIDED: [&str; 4] = ["RecommendationProvided", "True", "", ""];

/// Deploys the recommender and waits until all its replicas are ready.
async fn deploy(sandbox: &Sandbox) -> Result<()> {
    deployment::deploy(sandbox, "tests/e2e/recommender", RECOMMENDER.labels).await
}

/// A namespace of this test's own in the shared sandbox, where the recommender runs.
async fn fixture(prefix: &str) -> Result<Fixture> {
    static DEPLOYED: OnceCell<()> = OnceCell::const_new();
    let sandbox = shared().await?;
    DEPLOYED.get_or_try_init(|| deploy(sandbox)).await?;
    Fixture::new(sandbox.client().await?, prefix).await
}

/// A namespace that several tests share, with three pods of a Deployment `web` that no test may
/// change. Only the first test has to wait until metrics-server knows them. The histories of other
/// sizing methods begin here, too.
async fn shared_room() -> Result<Fixture> {
    static NAMESPACE: OnceCell<String> = OnceCell::const_new();
    let make = async || {
        let fixture = fixture("shop").await?;
        fixture.deploy("web", 3, "240m", "300Mi").await?;
        own_rules::begin(&fixture).await?;
        anyhow::Ok(fixture.namespace.clone())
    };
    let namespace = NAMESPACE.get_or_try_init(make).await?;
    Ok(Fixture::of(shared().await?.client().await?, namespace))
}

#[tokio::test]
async fn a_workload_gets_what_the_formulas_make_of_its_usage() -> Result<()> {
    let fixture = shared_room().await?;
    let off = json!({"updatePolicy": {"updateMode": "Off"}});
    fixture.autoscale_with("sized", "web", off).await?;
    // The first sample alone gives no confidence, and so an upper bound without limit.
    let is_confident = |object: &Value| {
        let container = first_container(object);
        container["target"]["cpu"] == CPU_OF_240M
            && container["upperBound"]["cpu"] != "100G"
            && conditions(object) == [PROVIDED]
    };
    let object = fixture
        .when::<Vpa>("sized", "it rests on more than one sample", is_confident)
        .await?;

    let container = first_container(&object);
    assert_eq!(container["containerName"], "app");
    let expected = json!({"cpu": CPU_OF_240M, "memory": MEMORY_OF_300MI});
    assert_eq!(container["target"], expected);
    assert_eq!(container["uncappedTarget"], expected);
    bounds_follow_from_one_confidence(container)?;
    assert!(object["status"]["conditions"][0]["lastTransitionTime"].is_string());
    assert_eq!(object["status"]["observedGeneration"], 1);

    explained_by_steps(&fixture, "sized", CPU_OF_240M).await?;
    let get = format!("-n {} get vpa sized --no-headers", fixture.namespace);
    let row = kubectl(&get).await?;
    let columns: Vec<&str> = row.split_whitespace().take(5).collect();
    let expected = ["sized", "Off", CPU_OF_240M, MEMORY_OF_300MI, "True"];
    assert_eq!(columns, expected, "{row}");
    Ok(())
}

/// The steps that `plimsoll explain` reads from the checkpoint; fails without a checkpoint.
async fn steps(fixture: &Fixture, name: &str) -> Result<Vec<Value>> {
    let kubeconfig = shared().await?.kubeconfig();
    let explain = format!("explain vpa/{name} -n {}", fixture.namespace);
    let explained = plimsoll_json(&kubeconfig, &explain).await?;
    Ok(explained["steps"].as_array().context("steps")?.clone())
}

/// The steps from the checkpoint, which comes later, end at this CPU.
async fn explained_by_steps(fixture: &Fixture, name: &str, cpu: &str) -> Result<()> {
    eventually_within(PATIENCE, "the steps end at the target", async || {
        let steps = steps(fixture, name).await?;
        let last = steps.iter().rfind(|step| step["resource"] == "cpu");
        let last = last.context("no steps of CPU")?;
        let is_computed = last["step"] != "in the status, with samples that are not stored yet";
        ensure!(is_computed && last["value"] == cpu, "{steps:#?}");
        Ok(())
    })
    .await
}

/// All samples are alike, so both bounds are the target times a factor of the confidence alone: 1 +
/// 1/c above and (1 + 0.001/c)^-2 below, which is not below the minimum of 250Mi.
fn bounds_follow_from_one_confidence(container: &Value) -> Result<()> {
    let it: ContainerRecommendation = serde_json::from_value(container.clone())?;
    let memory = [&it.lower_bound, &it.target, &it.upper_bound].map(model::ResourceList::memory);
    let [Some(lower), Some(middle), Some(upper)] = memory else {
        bail!("no memory in {container}")
    };
    let [lower, middle, upper] = [lower, middle, upper].map(|memory| memory.bytes() as f64);
    let confidence: f64 = (upper / middle - 1.0).recip();
    ensure!(
        confidence > 0.0 && confidence < 1.0,
        "confidence {confidence} of a short history"
    );
    let expected = (middle * (1.0 + 0.001 / confidence).powi(-2)).max(262_144_000.0);
    ensure!(
        (lower - expected).abs() < 2.0 + expected * 1e-6,
        "lower bound {lower}, expected {expected}"
    );
    let (Some(middle), Some(upper)) = (it.target.cpu(), it.upper_bound.cpu()) else {
        bail!("no CPU in {container}")
    };
    let expected = middle.millicores() as f64 * (1.0 + confidence.recip());
    let upper = upper.millicores() as f64;
    // Usage of CPU is a rate between two looks, whose times are not exact: the 95th percentile may
    // lie a bucket higher.
    let fits = upper > expected - 2.0 && upper < expected * 1.06 + 2.0;
    ensure!(fits, "upper bound of CPU {upper}, expected {expected}");
    Ok(())
}

#[tokio::test]
async fn targets_that_cannot_be_used_are_reported_as_upstream_does() -> Result<()> {
    let fixture = shared_room().await?;
    fixture.deploy("idle", 0, "240m", "300Mi").await?;
    let child = fixture.child_of("web").await?;
    let missing = format!(
        "Cannot read targetRef. Reason: Deployment {}/gone does not exist",
        fixture.namespace
    );
    let not_topmost = format!(
        "The target apps/v1.ReplicaSet/{child} has a parent controller but it should point to a topmost well-known or \
         scalable controller"
    );
    let unknown_kind = "Cannot read targetRef. Reason: unhandled targetRef example.com/v1 / Nothing / x, last error no \
                        matches for kind \"Nothing\" in group \"example.com\"";
    fixture.autoscale("idle", "idle").await?;
    fixture.autoscale("missing", "gone").await?;
    let nothing = json!({"apiVersion": "example.com/v1", "kind": "Nothing", "name": "x"});
    let child = target("ReplicaSet", &child);
    for (name, target) in [("child", child), ("unknown", nothing)] {
        fixture.autoscale_any(name, &target, json!({})).await?;
    }
    for (name, message) in [
        ("missing", missing.as_str()),
        ("child", &not_topmost),
        ("unknown", unknown_kind),
    ] {
        fixture.is_unsupported(name, message).await?;
    }
    fixture.await_conditions("idle", &WITHOUT_PODS).await
}

#[tokio::test]
async fn a_target_that_comes_to_life_is_taken_up() -> Result<()> {
    let fixture = fixture("later").await?;
    fixture.autoscale("web", "web").await?;
    let missing = format!(
        "Cannot read targetRef. Reason: Deployment {}/web does not exist",
        fixture.namespace
    );
    fixture.is_unsupported("web", &missing).await?;
    fixture.deploy("web", 1, "240m", "300Mi").await?;
    fixture.await_conditions("web", &[PROVIDED]).await?;
    fixture.targets("web", "cpu", CPU_OF_240M).await?;
    Ok(())
}

#[tokio::test]
async fn two_objects_on_one_target_are_both_served_and_a_broken_third_stops_neither() -> Result<()>
{
    let fixture = shared_room().await?;
    // The definition accepts this: it matches the pattern of quantities, but is no quantity.
    let broken = json!({"resourcePolicy": {"containerPolicies": [{"containerName": "*", "minAllowed": {"cpu": "1e1.5"}}]}});
    fixture.autoscale_with("broken", "web", broken).await?;
    for name in ["first", "second"] {
        fixture.autoscale(name, "web").await?;
    }
    for name in ["first", "second"] {
        fixture.targets(name, "cpu", CPU_OF_240M).await?;
        fixture.await_conditions(name, &[PROVIDED]).await?;
    }
    Ok(())
}

#[tokio::test]
async fn a_changed_policy_is_taken_up_with_its_generation() -> Result<()> {
    let fixture = shared_room().await?;
    fixture.autoscale("policy", "web").await?;
    fixture.targets("policy", "cpu", CPU_OF_240M).await?;
    let policy = json!({"containerName": "app", "maxAllowed": {"cpu": "100m"}, "minAllowed": {"memory": "1Gi"}});
    let change = |policy| json!({"spec": {"resourcePolicy": {"containerPolicies": [policy]}}});
    fixture.patch::<Vpa>("policy", change(policy)).await?;
    let object = fixture.targets("policy", "cpu", "100m").await?;
    assert_eq!(first_container(&object)["target"]["memory"], "1Gi");
    let expected = json!({"cpu": CPU_OF_240M, "memory": MEMORY_OF_300MI});
    assert_eq!(first_container(&object)["uncappedTarget"], expected);
    assert_eq!(object["status"]["observedGeneration"], 2);
    let off = json!({"containerName": "*", "mode": "Off"});
    fixture.patch::<Vpa>("policy", change(off)).await?;
    fixture
        .await_conditions("policy", &[["RecommendationProvided", "False", "", ""]])
        .await
}

#[tokio::test]
async fn objects_of_another_recommender_are_left_alone() -> Result<()> {
    let fixture = shared_room().await?;
    for (name, recommenders) in [
        ("named", json!([{"name": "another"}])),
        ("unnamed", json!([])),
    ] {
        let extra = json!({"recommenders": recommenders});
        fixture.autoscale_with(name, "web", extra).await?;
    }
    fixture.autoscale("ours", "web").await?;
    fixture.targets("ours", "cpu", CPU_OF_240M).await?;
    for name in ["named", "unnamed"] {
        let status = fixture.get::<Vpa>(name).await?["status"].take();
        assert_eq!(status, Value::Null, "{name}");
    }
    Ok(())
}

#[tokio::test]
async fn an_eviction_under_memory_pressure_raises_memory() -> Result<()> {
    let fixture = fixture("evicted").await?;
    fixture.deploy("web", 1, "240m", "300Mi").await?;
    fixture.autoscale("web", "web").await?;
    fixture.targets("web", "memory", MEMORY_OF_300MI).await?;
    fixture
        .report_eviction("web", "app,side", "800Mi,1Gi")
        .await?;
    // A fifth more than the usage of 800Mi.
    fixture.targets("web", "memory", MEMORY_OF_960MI).await?;
    Ok(())
}

#[tokio::test]
async fn a_target_of_any_kind_with_a_scale_is_followed() -> Result<()> {
    let fixture = shared_room().await?;
    let kind = scalable_kind(&fixture).await?;
    let webs: Api<DynamicObject> =
        Api::namespaced_with(fixture.client.clone(), &fixture.namespace, &kind);
    let web = |name| json!({"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": name}, "spec": {"replicas": 1}});
    let autoscale = async |name| {
        let target = json!({"apiVersion": kind.api_version, "kind": kind.kind, "name": name});
        fixture.autoscale_any(name, &target, json!({})).await
    };
    create(&webs, web("mute")).await?;
    autoscale("mute").await?;
    let message = format!(
        "Cannot read targetRef. Reason: unhandled targetRef {} / {} / mute, last error resource {}/mute has an empty \
         selector for scale sub-resource",
        kind.api_version, kind.kind, fixture.namespace
    );
    fixture.is_unsupported("mute", &message).await?;

    // Answers are kept for minutes, so the object with a selector is another one.
    create(&webs, web("whole")).await?;
    let selector = Patch::Merge(json!({"status": {"replicas": 1, "selector": "app in (web)"}}));
    webs.patch_status("whole", &PatchParams::default(), &selector)
        .await?;
    autoscale("whole").await?;
    fixture.targets("whole", "cpu", CPU_OF_240M).await?;
    fixture.await_conditions("whole", &[PROVIDED]).await
}

/// A kind of this namespace's own that has a scale subresource.
async fn scalable_kind(fixture: &Fixture) -> Result<ApiResource> {
    let scale = json!({
        "specReplicasPath": ".spec.replicas",
        "statusReplicasPath": ".status.replicas",
        "labelSelectorPath": ".status.selector",
    });
    custom_kind(fixture, "Web", json!({"status": {}, "scale": scale})).await
}

/// A kind of this namespace's own.
async fn custom_kind(fixture: &Fixture, kind: &str, subresources: Value) -> Result<ApiResource> {
    let group = format!("{}.example.com", fixture.namespace);
    let kind = ApiResource::from_gvk(&GroupVersionKind::gvk(&group, "v1", kind));
    let name = format!("{}.{group}", kind.plural);
    let free_form = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let schema = json!({"type": "object", "properties": {"spec": free_form, "status": free_form}});
    let definition = json!({
        "metadata": {"name": name},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"kind": kind.kind, "plural": kind.plural},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": schema},
                "subresources": subresources,
            }],
        },
    });
    let definitions: Api<CustomResourceDefinition> = Api::all(fixture.client.clone());
    create(&definitions, definition).await?;
    is_established(&definitions, &name).await?;
    Ok(kind)
}
