//! EHPAs, reconciled by the deployed recommender under the RBAC of `deploy/`, with the control
//! plane's own HPA controller.

use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::{Context as _, Result, bail, ensure};
use api::ehpa::EffectiveHorizontalPodAutoscaler;
use api::prediction::TimeSeriesPrediction;
use api::substitute::Substitute;
use e2e::{eventually, kubectl};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use k8s_openapi::api::events::v1::Event;
use kube::api::{
    ApiResource, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams,
};
use kube::{Api, Resource};
use serde_json::{Value, json};

use super::fixture::{Fixture, PATIENCE};

/// Name of the objects that an EHPA of these tests owns.
const OWNED: &str = "ehpa-php-apache";

struct EhpaFixture(Fixture);

impl EhpaFixture {
    /// A Deployment of this size whose pods request 100 millicores each and use `cpu`.
    async fn new(prefix: &str, replicas: u32, cpu: &str) -> Result<Self> {
        let fixture = super::fixture(prefix).await?;
        fixture.deploy("php-apache", replicas, cpu, "50Mi").await?;
        Ok(Self(fixture))
    }

    fn api<K: Resource<DynamicType = ()>>(&self) -> Api<DynamicObject> {
        Api::namespaced_with(
            self.0.client.clone(),
            &self.0.namespace,
            &ApiResource::erase::<K>(&()),
        )
    }

    async fn create<K: Resource<DynamicType = ()>>(&self, name: &str, spec: &Value) -> Result<()> {
        let object = json!({
            "apiVersion": K::api_version(&()), "kind": K::kind(&()),
            "metadata": {"name": name, "annotations": {"plimsoll.dev/recommender": "e2e"}},
            "spec": spec,
        });
        self.api::<K>()
            .create(&PostParams::default(), &serde_json::from_value(object)?)
            .await?;
        Ok(())
    }

    async fn patch_spec(&self, spec: Value) -> Result<()> {
        let patch = Patch::Merge(json!({ "spec": spec }));
        self.api::<EffectiveHorizontalPodAutoscaler>()
            .patch("php-apache", &PatchParams::default(), &patch)
            .await?;
        Ok(())
    }

    /// An object once it is as it should be.
    async fn when<K>(&self, name: &str, what: &str, is_so: impl Fn(&Value) -> bool) -> Result<Value>
    where
        K: Resource<DynamicType = ()>,
    {
        let api = self.api::<K>();
        eventually(what, PATIENCE, async || {
            let object = serde_json::to_value(api.get(name).await?)?;
            ensure!(is_so(&object), "{object:#}");
            Ok(object)
        })
        .await
    }

    async fn gone<K: Resource<DynamicType = ()>>(&self, name: &str) -> Result<()> {
        let api = self.api::<K>();
        eventually("it is gone", PATIENCE, async || {
            ensure!(
                api.get_opt(name).await?.is_none(),
                "{} {name} is still there",
                K::kind(&())
            );
            Ok(())
        })
        .await
    }

    async fn replicas(&self) -> Result<i32> {
        let deployments: Api<Deployment> =
            Api::namespaced(self.0.client.clone(), &self.0.namespace);
        deployments
            .get("php-apache")
            .await?
            .spec
            .replicas
            .context("a Deployment has replicas")
    }

    async fn await_event(&self, reason: &str) -> Result<()> {
        let events: Api<Event> = Api::namespaced(self.0.client.clone(), &self.0.namespace);
        eventually("an event is recorded", PATIENCE, async || {
            let all = events.list(&ListParams::default()).await?;
            let reasons: Vec<_> = all
                .items
                .into_iter()
                .filter_map(|event| event.reason)
                .collect();
            ensure!(
                reasons.iter().any(|found| found == reason),
                "{reason} is not among {reasons:?}"
            );
            Ok(())
        })
        .await
    }
}

/// The example of Crane's documentation, with `extra`.
fn documented(extra: &Value) -> Value {
    let cpu = json!({"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}});
    let mut spec = json!({
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "php-apache"},
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
    for (key, value) in extra.as_object().into_iter().flatten() {
        spec[key] = value.clone();
    }
    spec
}

fn is_ready(object: &Value) -> bool {
    let conditions = object["status"]["conditions"].as_array();
    conditions
        .into_iter()
        .flatten()
        .any(|condition| condition["type"] == "Ready" && condition["status"] == "True")
}

fn metrics(object: &Value) -> usize {
    object["spec"]["metrics"].as_array().map_or(0, Vec::len)
}

#[tokio::test]
async fn an_ehpa_owns_an_hpa_and_a_prediction_and_leaves_the_workload_its_size() -> Result<()> {
    let fixture = EhpaFixture::new("ehpa", 2, "50m").await?;
    fixture
        .create::<EffectiveHorizontalPodAutoscaler>("php-apache", &documented(&json!({})))
        .await?;
    let native = fixture
        .when::<HorizontalPodAutoscaler>(OWNED, "a native autoscaler is made", |_| true)
        .await?;
    assert_eq!(native["spec"]["scaleTargetRef"]["kind"], "Deployment");
    assert_eq!(
        (&native["spec"]["maxReplicas"], metrics(&native)),
        (&json!(10), 1),
        "nothing is predicted yet"
    );
    let prediction = fixture
        .when::<TimeSeriesPrediction>(OWNED, "a prediction is made", |_| true)
        .await?;
    assert_eq!(
        prediction["spec"]["predictionMetrics"][0]["resourceIdentifier"],
        "resource.cpu"
    );
    assert_eq!(
        prediction["metadata"]["ownerReferences"][0]["name"],
        "php-apache"
    );
    fixture.await_event("HPACreated").await?;

    let predicted = json!({"status": {"predictionMetrics": [{
        "resourceIdentifier": "resource.cpu", "ready": true, "prediction": [{"samples": [{"value": "1", "timestamp": 1}]}],
    }]}});
    // From now on another recommender forecasts this one.
    let elsewhere = json!({"metadata": {"annotations": {"plimsoll.dev/recommender": "another"}}});
    let api = fixture.api::<TimeSeriesPrediction>();
    api.patch(OWNED, &PatchParams::default(), &Patch::Merge(&elsewhere))
        .await?;
    let native = eventually("it scales in advance", PATIENCE, async || {
        api.patch_status(OWNED, &PatchParams::default(), &Patch::Merge(&predicted))
            .await?;
        let native =
            serde_json::to_value(fixture.api::<HorizontalPodAutoscaler>().get(OWNED).await?)?;
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
        .when::<HorizontalPodAutoscaler>(OWNED, "what changes is passed on", is_changed)
        .await?;
    assert_eq!(
        native["spec"]["behavior"]["scaleDown"]["stabilizationWindowSeconds"],
        60
    );
    fixture.gone::<TimeSeriesPrediction>(OWNED).await?;
    fixture
        .when::<EffectiveHorizontalPodAutoscaler>("php-apache", "it is ready", is_ready)
        .await?;

    fixture
        .api::<EffectiveHorizontalPodAutoscaler>()
        .delete("php-apache", &DeleteParams::default())
        .await?;
    fixture.gone::<HorizontalPodAutoscaler>(OWNED).await?;
    assert_eq!(fixture.replicas().await?, 2);
    Ok(())
}

#[tokio::test]
async fn a_preview_reports_its_plan_and_acts_only_once_it_is_enabled() -> Result<()> {
    let fixture = EhpaFixture::new("preview", 2, "200m").await?;
    let spec = documented(&json!({"scaleStrategy": "Preview", "prediction": null}));
    fixture
        .create::<EffectiveHorizontalPodAutoscaler>("php-apache", &spec)
        .await?;
    let wants_more = |it: &Value| {
        it["status"]["expectReplicas"]
            .as_i64()
            .is_some_and(|replicas| replicas > 2)
    };
    fixture
        .when::<EffectiveHorizontalPodAutoscaler>(
            "php-apache",
            "it says that more are needed",
            wants_more,
        )
        .await?;
    assert_eq!(fixture.replicas().await?, 2, "nothing was done");
    let is_real = |it: &Value| {
        it["spec"]["replicas"] == 2 && it["status"]["labelSelector"] == "app=php-apache"
    };
    fixture
        .when::<Substitute>(OWNED, "the substitute has the real size", is_real)
        .await?;

    fixture.patch_spec(json!({"specificReplicas": 3})).await?;
    fixture
        .when::<Deployment>("php-apache", "it has the requested replicas", |it| {
            it["spec"]["replicas"] == 3
        })
        .await?;

    fixture.patch_spec(json!({"scaleStrategy": "Auto"})).await?;
    let is_real = |it: &Value| it["spec"]["scaleTargetRef"]["kind"] == "Deployment";
    fixture
        .when::<HorizontalPodAutoscaler>(OWNED, "the workload is scaled itself", is_real)
        .await?;
    fixture.gone::<Substitute>(OWNED).await?;
    let grows = |it: &Value| {
        it["spec"]["replicas"]
            .as_i64()
            .is_some_and(|replicas| replicas > 3)
    };
    fixture
        .when::<Deployment>("php-apache", "it grows", grows)
        .await?;
    Ok(())
}

/// The name and uid of the EHPA that adopted a native autoscaler.
fn adopter(native: &Value) -> Option<&str> {
    native["metadata"]["annotations"]["plimsoll.dev/adopted-by"].as_str()
}

/// A native autoscaler of the Deployment, as a user makes it.
fn by_hand() -> Value {
    json!({
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "php-apache"},
        "minReplicas": 6, "maxReplicas": 7,
    })
}

#[tokio::test]
async fn an_autoscaler_that_is_there_is_adopted_and_restored_and_the_workload_keeps_its_size()
-> Result<()> {
    let fixture = EhpaFixture::new("adopt", 6, "50m").await?;
    fixture
        .create::<HorizontalPodAutoscaler>("mine", &by_hand())
        .await?;
    let first = serde_json::to_value(fixture.api::<HorizontalPodAutoscaler>().get("mine").await?)?;
    let spec = documented(&json!({"prediction": null}));
    fixture
        .create::<EffectiveHorizontalPodAutoscaler>("php-apache", &spec)
        .await?;
    let is_adopted =
        |it: &Value| adopter(it).is_some_and(|adopter| adopter.starts_with("php-apache/"));
    let native = fixture
        .when::<HorizontalPodAutoscaler>("mine", "it is adopted", is_adopted)
        .await?;
    assert_eq!(
        (
            &native["spec"]["minReplicas"],
            &native["spec"]["maxReplicas"]
        ),
        (&json!(1), &json!(10))
    );
    assert_eq!(native["metadata"]["ownerReferences"], Value::Null);
    fixture.await_event("HPAAdopted").await?;
    fixture
        .when::<EffectiveHorizontalPodAutoscaler>("php-apache", "it is ready", is_ready)
        .await?;
    assert!(
        fixture
            .api::<HorizontalPodAutoscaler>()
            .get_opt(OWNED)
            .await?
            .is_none(),
        "there is no second one"
    );
    // Its pods use what is wanted of them.
    let counted = |it: &Value| it["status"]["currentMetrics"].is_array();
    fixture
        .when::<HorizontalPodAutoscaler>("mine", "it has looked at the pods", counted)
        .await?;
    assert_eq!(fixture.replicas().await?, 6);

    fixture
        .api::<EffectiveHorizontalPodAutoscaler>()
        .delete("php-apache", &DeleteParams::default())
        .await?;
    let is_first = |it: &Value| it["spec"] == first["spec"] && adopter(it).is_none();
    let native = fixture
        .when::<HorizontalPodAutoscaler>("mine", "it has its first specification", is_first)
        .await?;
    assert_eq!(native["metadata"]["uid"], first["metadata"]["uid"]);
    assert_eq!(
        native["metadata"]["annotations"],
        first["metadata"]["annotations"]
    );
    fixture.await_event("HPARestored").await?;
    assert_eq!(fixture.replicas().await?, 6);
    Ok(())
}

#[tokio::test]
async fn an_autoscaler_that_comes_later_takes_the_place_of_the_one_that_was_made() -> Result<()> {
    let fixture = EhpaFixture::new("later", 6, "50m").await?;
    let spec = documented(&json!({"prediction": null}));
    fixture
        .create::<EffectiveHorizontalPodAutoscaler>("php-apache", &spec)
        .await?;
    fixture
        .when::<HorizontalPodAutoscaler>(OWNED, "a native autoscaler is made", |_| true)
        .await?;
    fixture
        .create::<HorizontalPodAutoscaler>("mine", &by_hand())
        .await?;
    fixture.gone::<HorizontalPodAutoscaler>(OWNED).await?;
    let is_adopted = |it: &Value| adopter(it).is_some();
    fixture
        .when::<HorizontalPodAutoscaler>("mine", "it is adopted", is_adopted)
        .await?;
    fixture
        .when::<EffectiveHorizontalPodAutoscaler>("php-apache", "it is ready", is_ready)
        .await?;
    Ok(())
}

/// Allows the service account `author` these verbs, with a role of this name.
async fn allow_author(namespace: &str, role: &str, verbs: &str, resource: &str) -> Result<()> {
    let resource = format!("--resource={resource}");
    kubectl(&["-n", namespace, "create", "role", role, verbs, &resource]).await?;
    let subject = format!("--serviceaccount={namespace}:author");
    let of_role = format!("--role={role}");
    kubectl(&[
        "-n",
        namespace,
        "create",
        "rolebinding",
        role,
        &of_role,
        &subject,
    ])
    .await?;
    Ok(())
}

#[tokio::test]
async fn specific_replicas_are_for_authors_who_may_scale_the_workload() -> Result<()> {
    let fixture = EhpaFixture::new("author", 2, "50m").await?;
    let namespace = &fixture.0.namespace;
    let author = format!("--as=system:serviceaccount:{namespace}:author");
    let verbs = "--verb=get,create,patch,update";
    allow_author(
        namespace,
        "author",
        verbs,
        "effectivehorizontalpodautoscalers",
    )
    .await?;
    let spec =
        documented(&json!({"scaleStrategy": "Preview", "prediction": null, "maxReplicas": 9}));
    let object = json!({
        "apiVersion": EffectiveHorizontalPodAutoscaler::api_version(&()),
        "kind": EffectiveHorizontalPodAutoscaler::kind(&()),
        // Another recommender's, so that none scales.
        "metadata": {"name": "mine", "namespace": namespace, "annotations": {"plimsoll.dev/recommender": "none"}},
        "spec": spec,
    });
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("object.json");
    std::fs::write(&file, object.to_string())?;
    let file = file.to_str().context("the path is text")?;
    eventually("the rights are there", PATIENCE, async || {
        kubectl(&["create", "-f", file, &author]).await
    })
    .await?;

    let patch = |replicas: u32| format!(r#"{{"spec": {{"specificReplicas": {replicas}}}}}"#);
    let scale = async |replicas: u32| {
        let patch = patch(replicas);
        kubectl(&[
            "-n",
            namespace,
            "patch",
            "ehpa",
            "mine",
            "--type=merge",
            "-p",
            &patch,
            &author,
        ])
        .await
    };
    // Each time another number, since only changes are checked.
    let replicas = AtomicU32::new(10);
    eventually("the policy is in force", PATIENCE, async || {
        let Err(error) = scale(replicas.fetch_add(1, Ordering::Relaxed)).await else {
            bail!("it was let through")
        };
        let error = error.to_string();
        ensure!(
            error.contains("its author needs the right to update deployments/scale"),
            "{error}"
        );
        Ok(())
    })
    .await?;
    // Everything else is the author's.
    let relabel = ["-n", namespace, "label", "ehpa", "mine", "team=a", &author];
    kubectl(&relabel).await?;

    allow_author(namespace, "scaler", "--verb=update", "deployments/scale").await?;
    eventually("who may scale may ask for it", PATIENCE, async || {
        scale(3).await
    })
    .await?;
    Ok(())
}
