//! The third step on a real node: the kernel kills a container that needs more memory than its limit, and
//! the pod gets more memory in place.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, Result, ensure};
use api::vpa::VerticalPodAutoscaler as Vpa;
use e2e::deployment::{SUITE, SYSTEM, all_ready};
use e2e::helm::{Helm, RELEASE};
use e2e::{LOAD_IMAGE, Namespace, PATIENCE, eventually, oom_kills_of, real_node, target};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use kube::runtime::wait::await_condition;
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::observe;
use crate::oom_kill::Healed;
use crate::report;

const WORKLOAD: &str = "hungry";
/// Limit of the container, and memory that its program needs.
const LIMIT_MIB: u32 = 300;
const NEEDED_MIB: u32 = 400;
/// Time from the start of the program to the memory that it takes.
const DELAY: Duration = Duration::from_secs(8);

pub(crate) async fn watch() -> Result<Healed> {
    println!(
        "3. On a real kubelet, the kernel kills a container that needs {NEEDED_MIB} MiB and may use {LIMIT_MIB} MiB. The pod gets more memory in place.\n"
    );
    let sandbox = real_node("demo").await?;
    let helm = Helm::find().await?.with(&sandbox.kubeconfig());
    let install = ["install", RELEASE, "-n", SYSTEM, "--create-namespace"];
    helm.run(&[&install[..], &["--set", "mode=vertical"]].concat())
        .await?;
    let client = sandbox.client().await?;
    all_ready(&client, SUITE).await?;
    let shop = Namespace::new(client, "shop").await?;
    create_workload(&shop).await?;

    let pod = eventually("a pod runs", async || {
        let pods = shop.pods_of(WORKLOAD).await?;
        pods.into_iter().next().context("there is no pod")
    })
    .await?;
    let (name, uid) = (pod.name_any(), pod.uid().unwrap_or_default());
    let needed = f64::from(NEEDED_MIB) * 1024.0 * 1024.0;
    let raised = async {
        let is_raised = |object: Option<&Vpa>| {
            let found = object.and_then(observe::target);
            found.is_some_and(|target| target.memory_bytes > needed)
        };
        let raised = await_condition(shop.typed::<Vpa>(), WORKLOAD, is_raised);
        timeout(PATIENCE, raised)
            .await
            .context("a higher target")??;
        anyhow::Ok(SystemTime::now())
    };
    let larger = async {
        let is_larger = |pod: Option<&Pod>| {
            pod.and_then(observe::request)
                .is_some_and(|it| it.memory_bytes > needed)
        };
        let larger = await_condition(shop.typed::<Pod>(), &name, is_larger);
        let pod = timeout(PATIENCE, larger).await.context("a larger pod")??;
        let memory = pod.as_ref().and_then(observe::request);
        anyhow::Ok((SystemTime::now(), memory.context("a request")?.memory_bytes))
    };
    let (raised, (larger, has)) = tokio::try_join!(raised, larger)?;
    let usable = eventually("the program holds the memory", async || {
        let status = status_of(&shop, &name).await?;
        ensure!(
            status["held_mib"].as_u64() >= Some(u64::from(NEEDED_MIB)),
            "{status}"
        );
        let since = status["held_since_unix_ms"].as_u64().context("a time")?;
        Ok(UNIX_EPOCH + Duration::from_millis(since) - DELAY)
    })
    .await?;
    let kills = oom_kills_of(&uid)?;
    let killed = kills.first().context("the kernel's log has a kill")?;
    let killed = UNIX_EPOCH + Duration::from_millis(u64::try_from(*killed)?);
    let since = |time: SystemTime| time.duration_since(killed).unwrap_or_default();
    let healed = Healed {
        killed,
        memory: [f64::from(LIMIT_MIB) * 1024.0 * 1024.0, has],
        new_target: since(raised),
        larger_pod: since(larger),
        usable: Some(since(usable)),
    };
    print(&name, &healed);
    sandbox.down().await?;
    Ok(healed)
}

async fn create_workload(shop: &Namespace) -> Result<()> {
    let memory = format!("{LIMIT_MIB}Mi");
    let labels = json!({"app": WORKLOAD});
    let container = json!({
        "name": "app",
        "image": LOAD_IMAGE,
        "args": [
            format!("--memory-mib={NEEDED_MIB}"),
            format!("--memory-after-seconds={}", DELAY.as_secs()),
        ],
        "resources": {"requests": {"cpu": "10m", "memory": memory}, "limits": {"memory": memory}},
    });
    let template = json!({"metadata": {"labels": labels}, "spec": {"containers": [container]}});
    let spec = json!({"replicas": 2, "selector": {"matchLabels": labels}, "template": template});
    shop.make::<Deployment>(WORKLOAD, spec).await?;
    let policy = json!({"containerName": "*", "minAllowed": {"memory": memory}});
    let spec = json!({
        "targetRef": target("Deployment", WORKLOAD),
        "updatePolicy": {"updateMode": "InPlaceOrRecreate"},
        "resourcePolicy": {"containerPolicies": [policy]},
    });
    shop.make::<Vpa>(WORKLOAD, spec).await?;
    Ok(())
}

/// The state of the program in a pod, as it reports it.
async fn status_of(shop: &Namespace, pod: &str) -> Result<Value> {
    let status = shop.proxied(&format!("pods/{pod}:8080"), "/status").await?;
    Ok(serde_json::from_str(&status)?)
}

fn print(pod: &str, healed: &Healed) {
    let limit = report::bytes(f64::from(LIMIT_MIB) * 1024.0 * 1024.0);
    println!(
        "  {:>5.2} s  pod/{pod}: the kernel kills the container at {limit}",
        0.0
    );
    let rows = [
        (
            healed.new_target,
            "the VPA object recommends more than it needs",
        ),
        (
            healed.larger_pod,
            "the container has it, without a replacement",
        ),
    ];
    for (time, text) in rows {
        println!("  {:>5.2} s  pod/{pod}: {text}", time.as_secs_f64());
    }
    println!();
}
