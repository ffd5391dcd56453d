//! Objects of a namespace as JSON, so that they may have any shape.

use anyhow::{Context as _, Result, ensure};
use api::substitute::Substitute;
use api::vpa::VerticalPodAutoscaler as Vpa;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::jiff::tz::TimeZone;
use k8s_openapi::jiff::{Timestamp, ToSpan as _};
use kube::api::{
    ApiResource, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams,
};
use kube::core::NamespaceResourceScope;
use kube::{Api, Client, Error, Resource, ResourceExt as _};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::{eventually, namespace};

pub async fn create<K>(api: &Api<K>, object: Value) -> kube::Result<K>
where
    K: Clone + std::fmt::Debug + Serialize + DeserializeOwned,
{
    let object = serde_json::from_value(object).map_err(Error::SerdeError)?;
    api.create(&PostParams::default(), &object).await
}

/// Changes an object by a merge patch.
pub async fn patch<K>(api: &Api<K>, name: &str, patch: Value) -> kube::Result<K>
where
    K: Clone + std::fmt::Debug + DeserializeOwned,
{
    api.patch(name, &PatchParams::default(), &Patch::Merge(patch))
        .await
}

/// The parameters of a request that changes nothing.
pub fn dry_run() -> PostParams {
    PostParams {
        dry_run: true,
        ..PostParams::default()
    }
}

#[derive(Clone)]
pub struct Namespace {
    /// A client of its API server.
    pub client: Client,
    pub namespace: String,
}

/// Lets a fixture be used as the namespace that one of its fields is.
#[macro_export]
macro_rules! deref_to_namespace {
    ($fixture:ty, $field:tt) => {
        impl std::ops::Deref for $fixture {
            type Target = $crate::Namespace;

            fn deref(&self) -> &$crate::Namespace {
                &self.$field
            }
        }
    };
}

impl Namespace {
    /// A new one; its name is `prefix` and some letters.
    pub async fn new(client: Client, prefix: &str) -> Result<Self> {
        let namespace = namespace(&client, prefix).await?;
        Ok(Self { client, namespace })
    }

    /// One that exists.
    pub fn of(client: Client, namespace: &str) -> Self {
        let namespace = namespace.to_owned();
        Self { client, namespace }
    }

    pub fn cluster(client: Client) -> Self {
        Self::of(client, "")
    }

    /// Its objects of a kind, as values of a type.
    pub fn typed<K>(&self) -> Api<K>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    pub fn api<K: Resource<DynamicType = ()>>(&self) -> Api<DynamicObject> {
        let (client, kind) = (self.client.clone(), ApiResource::erase::<K>(&()));
        if self.namespace.is_empty() {
            return Api::all_with(client, &kind);
        }
        Api::namespaced_with(client, &self.namespace, &kind)
    }

    /// Creates an object, which needs no `apiVersion` and no `kind`.
    pub async fn create<K>(&self, object: Value) -> kube::Result<Value>
    where
        K: Resource<DynamicType = ()>,
    {
        json(create(&self.api::<K>(), object_of::<K>(object)).await?)
    }

    /// Creates an object with this name and `spec`.
    pub async fn make<K>(&self, name: &str, spec: Value) -> kube::Result<Value>
    where
        K: Resource<DynamicType = ()>,
    {
        self.create::<K>(json!({"metadata": {"name": name}, "spec": spec}))
            .await
    }

    pub async fn make_annotated<K>(
        &self,
        name: &str,
        annotations: &Value,
        spec: Value,
    ) -> kube::Result<Value>
    where
        K: Resource<DynamicType = ()>,
    {
        let metadata = json!({"name": name, "annotations": annotations});
        self.create::<K>(json!({"metadata": metadata, "spec": spec}))
            .await
    }

    /// Creates a Deployment: a [`workload`].
    pub async fn deploy(
        &self,
        name: &str,
        replicas: usize,
        resources: &Value,
        annotations: &Value,
    ) -> kube::Result<Value> {
        let deployment = workload(name, replicas, resources, annotations);
        self.create::<Deployment>(deployment).await
    }

    pub async fn get<K: Resource<DynamicType = ()>>(&self, name: &str) -> kube::Result<Value> {
        json(self.api::<K>().get(name).await?)
    }

    pub async fn list<K: Resource<DynamicType = ()>>(&self) -> kube::Result<Vec<Value>> {
        let list = self.api::<K>().list(&ListParams::default()).await?;
        list.items.into_iter().map(json).collect()
    }

    pub async fn patch<K>(&self, name: &str, change: Value) -> kube::Result<Value>
    where
        K: Resource<DynamicType = ()>,
    {
        json(patch(&self.api::<K>(), name, change).await?)
    }

    /// Changes the status of an object by a merge patch.
    pub async fn patch_status<K>(&self, name: &str, status: &Value) -> kube::Result<Value>
    where
        K: Resource<DynamicType = ()>,
    {
        let (api, change) = (self.api::<K>(), Patch::Merge(json!({"status": status})));
        json(
            api.patch_status(name, &PatchParams::default(), &change)
                .await?,
        )
    }

    /// Changes annotations of an object; `null` removes one.
    pub async fn annotate<K>(&self, name: &str, annotations: Value) -> kube::Result<Value>
    where
        K: Resource<DynamicType = ()>,
    {
        let change = json!({"metadata": {"annotations": annotations}});
        self.patch::<K>(name, change).await
    }

    /// Writes the recommendation for the only container of a VPA object's pods, as a recommender does.
    pub async fn write_recommendation(&self, vpa: &str, container: Value) -> kube::Result<()> {
        let recommendation = json!({"containerRecommendations": [container]});
        let status = json!({"recommendation": recommendation, "conditions": []});
        self.patch_status::<Vpa>(vpa, &status).await.map(drop)
    }

    pub async fn delete<K: Resource<DynamicType = ()>>(&self, name: &str) -> kube::Result<()> {
        let api = self.api::<K>();
        api.delete(name, &DeleteParams::default()).await.map(drop)
    }

    /// An object, once `is_so` accepts it.
    pub async fn when<K>(
        &self,
        name: &str,
        what: &str,
        is_so: impl Fn(&Value) -> bool,
    ) -> Result<Value>
    where
        K: Resource<DynamicType = ()>,
    {
        eventually(&format!("{name}: {what}"), async || {
            let object = self.get::<K>(name).await?;
            let (spec, status) = (&object["spec"], &object["status"]);
            ensure!(is_so(&object), "{spec:#} {status:#}");
            Ok(object)
        })
        .await
    }

    /// An object, once it has these fields.
    pub async fn await_fields<K>(&self, name: &str, fields: Value) -> Result<Value>
    where
        K: Resource<DynamicType = ()>,
    {
        let what = format!("the {} has {fields}", K::kind(&()));
        self.when::<K>(name, &what, |object| has_fields(object, &fields))
            .await
    }

    pub async fn gone<K: Resource<DynamicType = ()>>(&self, name: &str) -> Result<()> {
        let api = self.api::<K>();
        eventually(&format!("{} {name} is gone", K::kind(&())), async || {
            ensure!(api.get_opt(name).await?.is_none(), "it is still there");
            Ok(())
        })
        .await
    }

    /// Creates an object of a kind that programs know by its scale subresource only, with the pods of
    /// this label `app`. Returns it as target of a VPA, and the owner references of its pods.
    pub async fn scaled(&self, app: &str, replicas: usize) -> kube::Result<[Value; 2]> {
        let spec = json!({"replicas": replicas, "substituteTargetRef": target("Deployment", app)});
        let object = json!({"metadata": {"name": app}, "spec": spec});
        let object = self.create::<Substitute>(object).await?;
        let status = json!({"labelSelector": format!("app={app}"), "replicas": replicas});
        self.patch_status::<Substitute>(app, &status).await?;
        let reference = object_of::<Substitute>(json!({"name": app}));
        let owner = json!({"uid": object["metadata"]["uid"], "controller": true});
        Ok([reference.clone(), json!([with(reference, owner)])])
    }

    /// GET through the API server: `pods/NAME:PORT` or `services/NAME:PORT`.
    pub async fn proxied(&self, target: &str, path: &str) -> Result<String> {
        let uri = format!("/api/v1/namespaces/{}/{target}/proxy{path}", self.namespace);
        let request = http::Request::get(&uri).body(Vec::new())?;
        let answer = self.client.request_text(request).await;
        answer.with_context(|| format!("get {uri}"))
    }

    pub async fn pods_of(&self, app: &str) -> kube::Result<Vec<Pod>> {
        let params = ListParams::default().labels(&format!("app={app}"));
        Ok(self.typed::<Pod>().list(&params).await?.items)
    }

    /// Waits until there are no pods with these labels.
    pub async fn no_pods(&self, labels: &str) -> Result<()> {
        let params = ListParams::default().labels(labels);
        eventually(&format!("the pods {labels} are gone"), async || {
            let left = self.typed::<Pod>().list_metadata(&params).await?;
            ensure!(left.items.is_empty(), "{} are left", left.items.len());
            Ok(())
        })
        .await
    }

    /// Annotates the pods with this label `app`.
    pub async fn annotate_pods(&self, app: &str, annotations: &Value) -> kube::Result<()> {
        for pod in self.pods_of(app).await? {
            let name = pod.name_any();
            self.annotate::<Pod>(&name, annotations.clone()).await?;
        }
        Ok(())
    }

    /// Waits for an event about an object of this name.
    pub async fn await_event(&self, name: &str, reason: &str) -> Result<()> {
        eventually(&format!("{reason} of {name} is recorded"), async || {
            let events = self.list::<Event>().await?;
            let about = events.iter().filter(|it| it["regarding"]["name"] == name);
            let reasons: Vec<&Value> = about.map(|event| &event["reason"]).collect();
            ensure!(reasons.iter().any(|it| **it == reason), "only {reasons:?}");
            Ok(())
        })
        .await
    }
}

/// Whether a value has these fields, and each of its lists these first elements.
pub(crate) fn has_fields(value: &Value, expected: &Value) -> bool {
    match expected {
        Value::Object(fields) => fields
            .iter()
            .all(|(name, field)| has_fields(&value[name], field)),
        Value::Array(items) => items
            .iter()
            .enumerate()
            .all(|(index, item)| has_fields(&value[index], item)),
        _ => value == expected,
    }
}

/// The JSON at a path of the API server.
pub async fn get_json(client: &Client, path: &str) -> Result<Value> {
    let request = http::Request::get(path).body(Vec::new())?;
    let answer = client.request(request).await;
    answer.with_context(|| format!("GET {path}"))
}

fn json(object: impl Serialize) -> kube::Result<Value> {
    serde_json::to_value(object).map_err(Error::SerdeError)
}

pub fn object_of<K: Resource<DynamicType = ()>>(mut object: Value) -> Value {
    object["apiVersion"] = json!(K::api_version(&()));
    object["kind"] = json!(K::kind(&()));
    object
}

/// An object with these fields, too.
pub fn with(mut object: Value, fields: Value) -> Value {
    if let (Some(object), Value::Object(fields)) = (object.as_object_mut(), fields) {
        object.extend(fields);
    }
    object
}

/// A Deployment or `ReplicaSet` of pods with the label `app` and one container `app`.
pub fn workload(name: &str, replicas: usize, resources: &Value, annotations: &Value) -> Value {
    let labels = json!({"app": name});
    let container =
        json!({"name": "app", "image": "registry.example.com/app", "resources": resources});
    json!({
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels, "annotations": annotations},
                "spec": {"containers": [container]},
            },
        },
    })
}

/// A pod `APP-NUMBER` without a controller, which requests this CPU and ends at once.
pub fn bare_pod(app: &str, number: usize, cpu: &str) -> Value {
    let container = json!({"name": "app", "image": "registry.example.com/app", "resources": requests(cpu, "64Mi")});
    json!({
        "metadata": {"name": format!("{app}-{number}"), "labels": {"app": app}},
        "spec": {"containers": [container], "terminationGracePeriodSeconds": 0},
    })
}

/// The resources of a container that requests this.
pub fn requests(cpu: &str, memory: &str) -> Value {
    json!({"requests": {"cpu": cpu, "memory": memory}})
}

/// Annotations of a pod whose containers use this.
pub fn usage(cpu: &str, memory: &str) -> Value {
    json!({"kwok.x-k8s.io/usage-cpu": cpu, "kwok.x-k8s.io/usage-memory": memory})
}

pub fn target(kind: &str, name: &str) -> Value {
    json!({"apiVersion": "apps/v1", "kind": kind, "name": name})
}

pub fn condition<'a>(status: &'a Value, kind: &str) -> Option<&'a Value> {
    let conditions = status["conditions"].as_array()?;
    conditions.iter().find(|it| it["type"] == kind)
}

/// The message of a condition; empty without one.
pub fn message_of<'a>(status: &'a Value, kind: &str) -> &'a str {
    let condition = condition(status, kind);
    let message = condition.and_then(|condition| condition["message"].as_str());
    message.unwrap_or_default()
}

/// Whether the status has a condition of this type that is true.
pub fn is_true(status: &Value, kind: &str) -> bool {
    condition(status, kind).is_some_and(|condition| condition["status"] == "True")
}

/// A value of the annotation `plimsoll.dev/maintenance-window`: a window of an hour that was yesterday, and comes again
/// next year.
pub fn closed_window() -> Result<String> {
    let yesterday = Timestamp::now().to_zoned(TimeZone::UTC);
    let yesterday = yesterday.checked_sub(1.day())?;
    Ok(format!(
        "{} {} {} {} *; for=1h",
        yesterday.minute(),
        yesterday.hour(),
        yesterday.day(),
        yesterday.month()
    ))
}
