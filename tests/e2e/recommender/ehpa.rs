//! EHPAs, reconciled by the deployed recommender under the RBAC of `deploy/`, with the control
//! plane's own HPA controller.

use anyhow::{Context as _, Result, bail, ensure};
use api::ehpa::EffectiveHorizontalPodAutoscaler as Ehpa;
use api::prediction::TimeSeriesPrediction as Prediction;
use api::substitute::Substitute;
use e2e::{eventually, is_true, kubectl, object_of, plimsoll_json, shared, target, with};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler as Hpa;
use kube::Resource;
use serde_json::{Value, json};

use super::fixture::Fixture;

/// Name of the EHPAs and their workloads.
const NAME: &str = "php-apache";
/// Name of the objects that an EHPA of these tests owns.
const OWNED: &str = "ehpa-php-apache";

/// A Deployment of this size whose pods request 100 millicores each and use `cpu`.
async fn fixture(prefix: &str, replicas: usize, cpu: &str) -> Result<Fixture> {
    let fixture = super::fixture(prefix).await?;
    fixture.deploy(NAME, replicas, cpu, "50Mi").await?;
    Ok(fixture)
}

impl Fixture {
    pub(super) async fn own<K>(&self, name: &str, spec: Value) -> Result<Value>
    where
        K: Resource<DynamicType = ()>,
    {
        let annotations = json!({"plimsoll.dev/recommender": "e2e"});
        Ok(self.make_annotated::<K>(name, &annotations, spec).await?)
    }

    async fn patch_spec(&self, spec: Value) -> Result<()> {
        self.patch::<Ehpa>(NAME, json!({ "spec": spec })).await?;
        Ok(())
    }

    async fn ready(&self) -> Result<()> {
        self.when::<Ehpa>(NAME, "it is ready", |it| is_true(&it["status"], "Ready"))
            .await
            .map(drop)
    }

    async fn replicas(&self) -> Result<Value> {
        Ok(self.get::<Deployment>(NAME).await?["spec"]["replicas"].clone())
    }
}

/// The example of Crane's documentation, with `extra`.
fn documented(extra: Value) -> Value {
    let cpu = json!({"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}});
    let spec = json!({
        "scaleTargetRef": target("Deployment", NAME),

        "minReplicas": 1,
        "maxReplicas": 10,
        "scaleStrategy": "Auto",
        "metrics": [{"type": "Resource", "resource": cpu}],
        "prediction": {
            "predictionWindowSeconds": 3600,
            "predictionAlgorithm": {
                "algorithmType": "dsp", "dsp": {"sampleInterval": "60s", "historyLength": "3d"},
            },
        },
    });
    with(spec, extra)
}

fn metrics(object: &Value) -> usize {
    object["spec"]["metrics"].as_array().map_or(0, Vec::len)
}

#[tokio::test]
async fn an_ehpa_owns_an_hpa_and_a_prediction_and_leaves_the_workload_its_size() -> Result<()> {
    let fixture = fixture("ehpa", 2, "50m").await?;
    fixture.own::<Ehpa>(NAME, documented(json!({}))).await?;
    let spec = json!({"scaleTargetRef": {"kind": "Deployment"}, "maxReplicas": 10});
    let native = fixture
        .await_fields::<Hpa>(OWNED, json!({"spec": spec}))
        .await?;
    assert_eq!(metrics(&native), 1, "nothing is predicted yet");
    let owned = json!({
        "metadata": {"ownerReferences": [{"name": NAME}]},
        "spec": {"predictionMetrics": [{"resourceIdentifier": "resource.cpu"}]},
    });
    fixture.await_fields::<Prediction>(OWNED, owned).await?;
    fixture.await_event(NAME, "HPACreated").await?;
    let window = json!({"predictionWindowSeconds": 7200});
    fixture.patch_spec(json!({"prediction": window})).await?;
    let longer = json!({"spec": window});
    fixture.await_fields::<Prediction>(OWNED, longer).await?;

    let predicted = json!({"predictionMetrics": [{
        "resourceIdentifier": "resource.cpu", "ready": true, "prediction": [{"samples": [{"value": "1", "timestamp": 1}]}],
    }]});
    // From now on another recommender forecasts this one.
    let elsewhere = json!({"plimsoll.dev/recommender": "another"});
    fixture.annotate::<Prediction>(OWNED, elsewhere).await?;
    let native = eventually("it scales in advance", async || {
        fixture
            .patch_status::<Prediction>(OWNED, &predicted)
            .await?;
        let native = fixture.get::<Hpa>(OWNED).await?;
        ensure!(metrics(&native) == 2, "{native:#}");
        Ok(native)
    })
    .await?;
    let external = &native["spec"]["metrics"][1]["external"];
    assert_eq!(external["metric"]["name"], "crane_autoscaling_prediction");
    let half_of_request = &external["target"]["averageValue"];
    assert_eq!(half_of_request, "50m");

    let behavior = json!({"scaleDown": {"stabilizationWindowSeconds": 60}});
    let change = json!({"behavior": behavior, "maxReplicas": 12, "prediction": null});
    fixture.patch_spec(change).await?;
    let changed =
        json!({"maxReplicas": 12, "metrics": [{"type": "Resource"}, null], "behavior": behavior});
    fixture
        .await_fields::<Hpa>(OWNED, json!({"spec": changed}))
        .await?;
    fixture.gone::<Prediction>(OWNED).await?;
    fixture.ready().await?;

    fixture.delete::<Ehpa>(NAME).await?;
    fixture.gone::<Hpa>(OWNED).await?;
    assert_eq!(fixture.replicas().await?, 2);
    Ok(())
}

/// `plimsoll explain` shows the status that the recommender and the HPA controller have written.
async fn explained_as_a_preview(fixture: &Fixture) -> Result<()> {
    let kubeconfig = shared().await?.kubeconfig();
    let explain = format!("explain deploy/php-apache -n {}", fixture.namespace);
    let explained = plimsoll_json(&kubeconfig, &explain).await?;
    let (replicas, first) = (&explained["replicas"], &explained["waits"][0]);
    ensure!(first["reason"] == "DryRun", "{explained:#}");
    ensure!(replicas["current"] == 2, "{explained:#}");
    ensure!(replicas["desired"].as_i64() > Some(2), "{explained:#}");
    ensure!(explained["hpa"] == OWNED, "{explained:#}");
    let cpu = &explained["metrics"][0];
    ensure!(
        cpu["target"] == "50%" && cpu["current"].is_string(),
        "{explained:#}"
    );
    Ok(())
}

#[tokio::test]
async fn a_preview_reports_its_plan_and_acts_only_once_it_is_enabled() -> Result<()> {
    let fixture = fixture("preview", 2, "200m").await?;
    let spec = documented(json!({"scaleStrategy": "Preview", "prediction": null}));
    fixture.own::<Ehpa>(NAME, spec).await?;
    let wants_more = |it: &Value| it["status"]["expectReplicas"].as_i64() > Some(2);
    fixture
        .when::<Ehpa>(NAME, "it says that more are needed", wants_more)
        .await?;
    assert_eq!(fixture.replicas().await?, 2, "nothing was done");
    explained_as_a_preview(&fixture).await?;
    let real = json!({
        "spec": {"replicas": 2}, "status": {"labelSelector": "app=php-apache"},
    });
    fixture.await_fields::<Substitute>(OWNED, real).await?;

    fixture.patch_spec(json!({"specificReplicas": 3})).await?;
    let requested = json!({"spec": {"replicas": 3}});
    fixture.await_fields::<Deployment>(NAME, requested).await?;

    fixture.patch_spec(json!({"scaleStrategy": "Auto"})).await?;
    let real = json!({"spec": {"scaleTargetRef": {"kind": "Deployment"}}});
    fixture.await_fields::<Hpa>(OWNED, real).await?;
    fixture.gone::<Substitute>(OWNED).await?;
    let grows = |it: &Value| it["spec"]["replicas"].as_i64() > Some(3);
    fixture.when::<Deployment>(NAME, "it grows", grows).await?;
    Ok(())
}

/// The name and uid of the EHPA that adopted a native autoscaler.
fn adopter(native: &Value) -> Option<&str> {
    native["metadata"]["annotations"]["plimsoll.dev/adopted-by"].as_str()
}

/// A native autoscaler of the Deployment, as a user makes it.
fn by_hand() -> Value {
    json!({
        "scaleTargetRef": target("Deployment", NAME), "minReplicas": 6, "maxReplicas": 7,
    })
}

#[tokio::test]
async fn an_autoscaler_that_is_there_is_adopted_and_restored_and_the_workload_keeps_its_size()
-> Result<()> {
    let fixture = fixture("adopt", 6, "50m").await?;
    let first = fixture.own::<Hpa>("mine", by_hand()).await?;
    let spec = documented(json!({"prediction": null}));
    fixture.own::<Ehpa>(NAME, spec).await?;
    let is_adopted =
        |it: &Value| adopter(it).is_some_and(|adopter| adopter.starts_with("php-apache/"));
    let native = fixture
        .when::<Hpa>("mine", "it is adopted", is_adopted)
        .await?;
    assert_eq!(native["spec"]["minReplicas"], 1);
    assert_eq!(native["spec"]["maxReplicas"], 10);
    assert_eq!(native["metadata"]["ownerReferences"], Value::Null);
    fixture.await_event(NAME, "HPAAdopted").await?;
    fixture.ready().await?;
    let second = fixture.api::<Hpa>().get_opt(OWNED).await?;
    assert!(second.is_none(), "there is no second one");
    // Its pods use what is wanted of them.
    let counted = |it: &Value| it["status"]["currentMetrics"].is_array();
    fixture
        .when::<Hpa>("mine", "it has looked at the pods", counted)
        .await?;
    assert_eq!(fixture.replicas().await?, 6);

    fixture.delete::<Ehpa>(NAME).await?;
    let is_first = |it: &Value| it["spec"] == first["spec"] && adopter(it).is_none();
    let native = fixture
        .when::<Hpa>("mine", "it has its first specification", is_first)
        .await?;
    for field in ["uid", "annotations"] {
        assert_eq!(native["metadata"][field], first["metadata"][field]);
    }
    fixture.await_event("mine", "HPARestored").await?;
    assert_eq!(fixture.replicas().await?, 6);
    Ok(())
}

#[tokio::test]
async fn an_autoscaler_that_comes_later_takes_the_place_of_the_one_that_was_made() -> Result<()> {
    let fixture = fixture("later", 6, "50m").await?;
    let spec = documented(json!({"prediction": null}));
    fixture.own::<Ehpa>(NAME, spec).await?;
    fixture.await_fields::<Hpa>(OWNED, json!({})).await?;
    fixture.own::<Hpa>("mine", by_hand()).await?;
    fixture.gone::<Hpa>(OWNED).await?;
    let is_adopted = |it: &Value| adopter(it).is_some();
    fixture
        .when::<Hpa>("mine", "it is adopted", is_adopted)
        .await?;
    fixture.ready().await
}

/// Allows the service account `author` these verbs, with a role of this name.
async fn allow_author(namespace: &str, role: &str, verbs: &str, resource: &str) -> Result<()> {
    for create in [
        format!("role {role} --verb={verbs} --resource={resource}"),
        format!("rolebinding {role} --role={role} --serviceaccount={namespace}:author"),
    ] {
        kubectl(&format!("-n {namespace} create {create}")).await?;
    }
    Ok(())
}

#[tokio::test]
async fn specific_replicas_are_for_authors_who_may_scale_the_workload() -> Result<()> {
    let fixture = fixture("author", 2, "50m").await?;
    let namespace = &fixture.namespace;
    let author = format!("--as=system:serviceaccount:{namespace}:author");
    let resource = "effectivehorizontalpodautoscalers";
    allow_author(namespace, "author", "get,create,patch,update", resource).await?;
    let spec =
        documented(json!({"scaleStrategy": "Preview", "prediction": null, "maxReplicas": 9}));
    let object = object_of::<Ehpa>(json!({
        // Another recommender's, so that none scales.
        "metadata": {"name": "mine", "namespace": namespace, "annotations": {"plimsoll.dev/recommender": "none"}},
        "spec": spec,
    }));
    let file = tempfile::NamedTempFile::new()?;
    std::fs::write(&file, object.to_string())?;
    let create = format!("create -f {} {author}", file.path().display());
    eventually("the rights are there", async || kubectl(&create).await).await?;

    let scale = async |replicas: u32| {
        let patch = json!({"spec": {"specificReplicas": replicas}});
        let patch = format!("patch ehpa mine --type=merge -p {patch}");
        kubectl(&format!("-n {namespace} {patch} {author}")).await
    };
    // Each time another number, since only changes are checked.
    let mut replicas = 10..;
    eventually("the policy is in force", async || {
        let Err(error) = scale(replicas.next().context("endless")?).await else {
            bail!("it was let through")
        };
        let why = "its author needs the right to update deployments/scale";
        ensure!(error.to_string().contains(why), "{error}");
        Ok(())
    })
    .await?;
    // Everything else is the author's.
    kubectl(&format!("-n {namespace} label ehpa mine team=a {author}")).await?;

    allow_author(namespace, "scaler", "update", "deployments/scale").await?;
    let ask = async || scale(3).await;
    eventually("who may scale may ask for it", ask)
        .await
        .map(drop)
}
