//! EHPAs, reconciled by the deployed recommender under the RBAC of `deploy/`, with the control
//! plane's own HPA controller.

use anyhow::{Context as _, Result, bail, ensure};
use api::ehpa::EffectiveHorizontalPodAutoscaler as Ehpa;
use api::prediction::TimeSeriesPrediction as Prediction;
use api::substitute::Substitute;
use e2e::{eventually, is_true, kubectl, object_of, plimsoll_prints, shared, target, with};
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
    async fn own<K>(&self, name: &str, spec: Value) -> Result<Value>
    where
        K: Resource<DynamicType = ()>,
    {
        let metadata = json!({"name": name, "annotations": {"plimsoll.dev/recommender": "e2e"}});
        let object = json!({"metadata": metadata, "spec": spec});
        Ok(self.create::<K>(object).await?)
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
    let native = fixture
        .when::<Hpa>(OWNED, "a native autoscaler is made", |_| true)
        .await?;
    assert_eq!(native["spec"]["scaleTargetRef"]["kind"], "Deployment");
    assert_eq!(
        (&native["spec"]["maxReplicas"], metrics(&native)),
        (&json!(10), 1),
        "nothing is predicted yet"
    );
    let prediction = fixture
        .when::<Prediction>(OWNED, "a prediction is made", |_| true)
        .await?;
    assert_eq!(
        prediction["spec"]["predictionMetrics"][0]["resourceIdentifier"],
        "resource.cpu"
    );
    assert_eq!(prediction["metadata"]["ownerReferences"][0]["name"], NAME);
    fixture.await_event(NAME, "HPACreated").await?;
    let window = json!({"predictionWindowSeconds": 7200});
    fixture.patch_spec(json!({"prediction": window})).await?;
    let is_longer = |it: &Value| it["spec"]["predictionWindowSeconds"] == 7200;
    fixture
        .when::<Prediction>(OWNED, "the prediction follows", is_longer)
        .await?;

    let predicted = json!({"predictionMetrics": [{
        "resourceIdentifier": "resource.cpu", "ready": true, "prediction": [{"samples": [{"value": "1", "timestamp": 1}]}],
    }]});
    // From now on another recommender forecasts this one.
    let elsewhere = json!({"metadata": {"annotations": {"plimsoll.dev/recommender": "another"}}});
    fixture.patch::<Prediction>(OWNED, elsewhere).await?;
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
    assert_eq!(
        external["target"]["averageValue"], "50m",
        "half of a pod's request"
    );

    let behavior = json!({"scaleDown": {"stabilizationWindowSeconds": 60}});
    fixture
        .patch_spec(json!({"behavior": behavior, "maxReplicas": 12, "prediction": null}))
        .await?;
    let is_changed = |it: &Value| it["spec"]["maxReplicas"] == 12 && metrics(it) == 1;
    let native = fixture
        .when::<Hpa>(OWNED, "what changes is passed on", is_changed)
        .await?;
    assert_eq!(
        native["spec"]["behavior"]["scaleDown"]["stabilizationWindowSeconds"],
        60
    );
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
    let namespace = fixture.namespace.as_str();
    let arguments = [
        "explain",
        "deploy/php-apache",
        "-n",
        namespace,
        "-o",
        "json",
    ];
    let explained: Value = serde_json::from_str(&plimsoll_prints(&kubeconfig, &arguments).await?)?;
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
    let wants_more = |it: &Value| {
        it["status"]["expectReplicas"]
            .as_i64()
            .is_some_and(|replicas| replicas > 2)
    };
    fixture
        .when::<Ehpa>(NAME, "it says that more are needed", wants_more)
        .await?;
    assert_eq!(fixture.replicas().await?, 2, "nothing was done");
    explained_as_a_preview(&fixture).await?;
    let is_real = |it: &Value| {
        it["spec"]["replicas"] == 2 && it["status"]["labelSelector"] == "app=php-apache"
    };
    fixture
        .when::<Substitute>(OWNED, "the substitute has the real size", is_real)
        .await?;

    fixture.patch_spec(json!({"specificReplicas": 3})).await?;
    fixture
        .when::<Deployment>(NAME, "it has the requested replicas", |it| {
            it["spec"]["replicas"] == 3
        })
        .await?;

    fixture.patch_spec(json!({"scaleStrategy": "Auto"})).await?;
    let is_real = |it: &Value| it["spec"]["scaleTargetRef"]["kind"] == "Deployment";
    fixture
        .when::<Hpa>(OWNED, "the workload is scaled itself", is_real)
        .await?;
    fixture.gone::<Substitute>(OWNED).await?;
    let grows = |it: &Value| {
        it["spec"]["replicas"]
            .as_i64()
            .is_some_and(|replicas| replicas > 3)
    };
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
    assert_eq!(
        (
            &native["spec"]["minReplicas"],
            &native["spec"]["maxReplicas"]
        ),
        (&json!(1), &json!(10))
    );
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
    assert_eq!(native["metadata"]["uid"], first["metadata"]["uid"]);
    assert_eq!(
        native["metadata"]["annotations"],
        first["metadata"]["annotations"]
    );
    fixture.await_event("mine", "HPARestored").await?;
    assert_eq!(fixture.replicas().await?, 6);
    Ok(())
}

#[tokio::test]
async fn an_autoscaler_that_comes_later_takes_the_place_of_the_one_that_was_made() -> Result<()> {
    let fixture = fixture("later", 6, "50m").await?;
    let spec = documented(json!({"prediction": null}));
    fixture.own::<Ehpa>(NAME, spec).await?;
    fixture
        .when::<Hpa>(OWNED, "a native autoscaler is made", |_| true)
        .await?;
    fixture.own::<Hpa>("mine", by_hand()).await?;
    fixture.gone::<Hpa>(OWNED).await?;
    let is_adopted = |it: &Value| adopter(it).is_some();
    fixture
        .when::<Hpa>("mine", "it is adopted", is_adopted)
        .await?;
    fixture.ready().await?;
    Ok(())
}

/// Allows the service account `author` these verbs, with a role of this name.
async fn allow_author(namespace: &str, role: &str, verbs: &str, resource: &str) -> Result<()> {
    let create = format!("-n {namespace} create");
    kubectl(&format!(
        "{create} role {role} --verb={verbs} --resource={resource}"
    ))
    .await?;
    let subject = format!("--serviceaccount={namespace}:author");
    kubectl(&format!(
        "{create} rolebinding {role} --role={role} {subject}"
    ))
    .await?;
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
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("object.json");
    std::fs::write(&file, object.to_string())?;
    let file = file.to_str().context("the path is text")?;
    eventually("the rights are there", async || {
        kubectl(&format!("create -f {file} {author}")).await
    })
    .await?;

    let scale = async |replicas: u32| {
        let patch = json!({"spec": {"specificReplicas": replicas}});
        kubectl(&format!(
            "-n {namespace} patch ehpa mine --type=merge -p {patch} {author}"
        ))
        .await
    };
    // Each time another number, since only changes are checked.
    let mut replicas = 10..;
    eventually("the policy is in force", async || {
        let Err(error) = scale(replicas.next().context("endless")?).await else {
            bail!("it was let through")
        };
        let (error, why) = (error.to_string(), "its author needs the right to update");
        ensure!(
            error.contains(&format!("{why} deployments/scale")),
            "{error}"
        );
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
