//! A workload moves from upstream's VPA itself to the suite and back, by the commands of
//! `plimsoll migrate vpa --plan`; objects of Goldilocks become a policy meanwhile, and come back.

use anyhow::{Context as _, Result, ensure};
use api::checkpoint::VerticalPodAutoscalerCheckpoint as VpaCheckpoint;
use api::sizing_policy::SizingPolicy;
use api::vpa::VerticalPodAutoscaler as Vpa;
use e2e::{MigrationPlan, Turns, eventually, install_upstream_vpa, real_node, target};
use k8s_openapi::api::admissionregistration::v1::MutatingWebhookConfiguration;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt;
use sandbox::Sandbox;
use serde_json::json;

use super::fixture::{Amount, Fixture, or_skip, pod_of};

static CLUSTER: Turns<Sandbox> = Turns::new();
const WEB: &str = "web";
const REPLICAS: usize = 2;
/// Memory that each pod holds: more than the least that a recommender gives.
const HELD_MIB: i64 = 400;

struct Web(Fixture);

e2e::deref_to_namespace!(Web, 0);

impl Web {
    /// Two pods that request too little, and a VPA object that replaces them.
    async fn start(cluster: Fixture) -> Result<Self> {
        let held = format!("--memory-mib={HELD_MIB}");
        let pod = pod_of(
            &[&held],
            &json!({"requests": {"cpu": "10m", "memory": "20Mi"}}),
        );
        cluster.deploy(WEB, REPLICAS, &pod).await?;
        let policy = json!({"containerName": "*"});
        cluster.autoscale(WEB, "Recreate", policy).await?;
        Ok(Self(cluster))
    }

    async fn target_mib(&self) -> Result<i64> {
        Ok(self.0.recommended(WEB, "target").await?.memory >> 20)
    }

    /// Waits until the pods are available and request what they hold. None of them is the `old` one.
    async fn are_sized(&self, old: Option<&Pod>) -> Result<()> {
        eventually("the pods request what they hold", async || {
            let pods = self.pods_of(WEB).await?;
            ensure!(pods.len() == REPLICAS, "{} pods", pods.len());
            for pod in &pods {
                ensure!(
                    Some(pod.uid()) != old.map(ResourceExt::uid),
                    "it still runs"
                );
                let memory = Amount::in_effect(pod)?.memory >> 20;
                ensure!(
                    memory >= HELD_MIB,
                    "{} requests {memory} MiB",
                    pod.name_any()
                );
            }
            Ok(())
        })
        .await?;
        self.0.all_available(WEB, REPLICAS).await
    }

    /// A pod that ends is replaced by one of the right size.
    async fn sizes_new_pods(&self) -> Result<()> {
        let old = self.0.pod(WEB).await?;
        self.delete::<Pod>(&old.name_any()).await?;
        self.are_sized(Some(&old)).await
    }

    /// The webhook of this Service sizes new pods, and a recommender writes its history from now on.
    async fn is_run_by(&self, service: &str) -> Result<()> {
        let now = Timestamp::now();
        let cluster = e2e::Namespace::cluster(self.client.clone());
        eventually(&format!("the webhook is {service}"), async || {
            let found = cluster
                .get::<MutatingWebhookConfiguration>("vpa-webhook-config")
                .await?;
            let found = &found["webhooks"][0]["clientConfig"]["service"];
            let named =
                [&found["namespace"], &found["name"]].map(|it| it.as_str().unwrap_or_default());
            ensure!(named.join("/") == service, "{found}");
            Ok(())
        })
        .await?;
        eventually("the checkpoint is written", async || {
            let checkpoints = self.list::<VpaCheckpoint>().await?;
            let written =
                checkpoints.first().context("no checkpoint")?["status"]["lastUpdateTime"].clone();
            let written: Timestamp = written.as_str().context("it has no time")?.parse()?;
            ensure!(written > now, "the last one is of {written}");
            Ok(())
        })
        .await?;
        self.sizes_new_pods().await
    }
}

impl Web {
    /// The plan for a product, with images of this machine in place of the user's registry.
    async fn plan(&self, product: &str) -> Result<MigrationPlan> {
        let words = vec![("REGISTRY/plimsoll", "ghcr.io/plimsoll".to_owned())];
        MigrationPlan::of(self.0.sandbox(), product, words).await
    }

    async fn objects_of_goldilocks_become_a_policy_and_back(&self) -> Result<()> {
        const IDLE: &str = "idle";
        let made = "goldilocks-idle";
        self.deploy(IDLE, 0, &json!({}), &json!({})).await?;
        let labels = json!({"source": "goldilocks", "creator": "Fairwinds"});
        let spec = json!({
            "targetRef": target("Deployment", IDLE), "updatePolicy": {"updateMode": "Off"},
        });
        let vpa = json!({"metadata": {"name": made, "labels": labels}, "spec": spec});
        self.create::<Vpa>(vpa).await?;
        let plan = self.plan("goldilocks").await?;
        for step in &plan.steps {
            plan.run(step).await?;
        }
        let is_off = json!({"spec": {"updateMode": "Off"}});
        self.await_fields::<SizingPolicy>("from-goldilocks", is_off)
            .await?;
        let of_policy = "plimsoll-deployment-idle";
        self.when::<Vpa>(of_policy, "the policy makes it", |_| true)
            .await?;
        self.gone::<Vpa>(made).await?;
        for step in plan.steps.iter().rev() {
            plan.revert(step).await?;
        }
        self.get::<Vpa>(made).await?;
        self.gone::<SizingPolicy>("from-goldilocks").await
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_workload_moves_from_upstreams_vpa_and_back_by_the_steps_of_the_plan() -> Result<()> {
    let cluster = or_skip!(Fixture::on(&CLUSTER, async || {
        let sandbox = real_node("upstream-vpa").await?;
        install_upstream_vpa(&sandbox).await?;
        Ok(sandbox)
    }));
    let web = Web::start(cluster).await?;
    web.are_sized(None).await?;
    let theirs = "kube-system/vpa-webhook";
    web.is_run_by(theirs).await?;

    let plan = web.plan("vpa").await?;
    let before = web.target_mib().await?;
    for step in &plan.steps {
        plan.run(step).await?;
        web.sizes_new_pods().await?;
        let target = web.target_mib().await?;
        let jump = (target - before).abs();
        ensure!(
            jump * 10 <= before,
            "from {before} to {target} MiB: {}",
            step["title"]
        );
    }
    web.is_run_by("plimsoll-system/vpa-webhook").await?;
    web.objects_of_goldilocks_become_a_policy_and_back().await?;

    for step in plan.steps.iter().rev() {
        plan.revert(step).await?;
    }
    web.is_run_by(theirs).await
}
