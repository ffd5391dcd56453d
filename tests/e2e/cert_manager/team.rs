//! A namespace with a workload that a VPA object sizes, and one that an EHPA scales.

use anyhow::{Context as _, Result, ensure};
use api::ehpa::EffectiveHorizontalPodAutoscaler as Ehpa;
use api::vpa::VerticalPodAutoscaler as Vpa;
use e2e::{Namespace, PATIENCE, dry_run, eventually, requests, target, usage, workload};
use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::api::core::v1::Pod;
use kube::Client;
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::ehpa::cron_schedules::{spec, utc, window};
use crate::feed_certificates::subscribe;

/// The smallest recommendation; pods request less.
const SIZE: &str = "25m";

pub(super) struct Team(Namespace);

impl Team {
    pub(super) async fn new(client: Client) -> Result<Self> {
        let own = Namespace::new(client, "team").await?;
        let resources = requests("10m", "10Mi");
        own.create::<ReplicaSet>(workload("web", 2, &resources, &json!({})))
            .await?;
        let vpa = json!({
            "targetRef": target("ReplicaSet", "web"), "updatePolicy": {"updateMode": "Recreate"},
        });
        own.make::<Vpa>("web", vpa).await?;
        let (resources, used) = (requests("100m", "10Mi"), usage("20m", "10Mi"));
        own.deploy("shop", 1, &resources, &used).await?;
        let open = window(&utc().checked_add(k8s_openapi::jiff::ToSpan::hours(10))?)?;
        let ehpa = spec("shop", "Auto", &open);
        own.make::<Ehpa>("shop", ehpa).await?;
        Ok(Self(own))
    }

    /// Waits until the pods have their size, which the webhook writes.
    pub(super) async fn is_sized(&self) -> Result<()> {
        eventually("both pods have the target", async || {
            let pods = self.0.pods_of("web").await?;
            let sized = pods.iter().filter(|pod| cpu(pod).as_deref() == Some(SIZE));
            let (sized, all) = (sized.count(), pods.len());
            ensure!((sized, all) == (2, 2), "{sized} of {all}");
            Ok(())
        })
        .await
    }

    /// Waits until the HPA has read the metric, and the workload has its replicas.
    pub(super) async fn is_scaled(&self) -> Result<()> {
        let has_six = |it: &Value| it["spec"]["replicas"] == 6;
        let what = "the window raises it";
        self.0.when::<Deployment>("shop", what, has_six).await?;
        Ok(())
    }

    /// Reads the metric of the EHPA through the API server.
    pub(super) async fn reads_the_metric(&self) -> Result<()> {
        let namespace = &self.0.namespace;
        let selector = format!(
            "targetKind%3DDeployment%2CtargetName%3Dshop%2CtargetNamespace%3D{namespace}%2CresourceIdentifier%3Dcron"
        );
        let path = format!(
            "/apis/external.metrics.k8s.io/v1beta1/namespaces/{namespace}/crane_autoscaling_cron?labelSelector={selector}"
        );
        let request = http::Request::get(path).body(Vec::new())?;
        let list: Value = self.0.client.request(request).await.context("the metric")?;
        ensure!(list["items"][0]["value"] == "6", "{list}");
        Ok(())
    }

    /// Reads the recommendation from the feed with the present certificate of the updater.
    pub(super) async fn reads_the_feed(&self) -> Result<()> {
        let vpa = self.0.get::<Vpa>("web").await?;
        let uid = vpa["metadata"]["uid"].as_str().context("a UID")?;
        let mut values = subscribe(&self.0.client).await?;
        let has_it = values.wait_for(|values| values.get(uid).is_some());
        timeout(PATIENCE, has_it).await.context("no value")??;
        Ok(())
    }

    /// Creates a pod of the workload by a dry run, which the webhook sizes.
    pub(super) async fn creates_a_sized_pod(&self) -> Result<()> {
        let set = self.0.get::<ReplicaSet>("web").await?;
        let (mut pod, owner) = (set["spec"]["template"].clone(), &set["metadata"]);
        pod["metadata"]["generateName"] = "web-".into();
        pod["metadata"]["ownerReferences"] = json!([{
            "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": owner["name"], "uid": owner["uid"],
            "controller": true,
        }]);
        let pod: Pod = serde_json::from_value(pod)?;
        let created = self.0.typed::<Pod>().create(&dry_run(), &pod).await?;
        let cpu = cpu(&created);
        ensure!(cpu.as_deref() == Some(SIZE), "the pod requests {cpu:?}");
        Ok(())
    }
}

fn cpu(pod: &Pod) -> Option<String> {
    let container = pod.spec.as_ref()?.containers.first()?;
    let requests = container.resources.as_ref()?.requests.as_ref()?;
    Some(requests.get("cpu")?.0.clone())
}
