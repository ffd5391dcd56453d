//! `plimsoll scan` with the workloads of a cluster and their usage in a real Prometheus.

use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use api::ehpa::EffectiveHorizontalPodAutoscaler as Ehpa;
use api::vpa::VerticalPodAutoscaler as Vpa;
use e2e::remote_write::Receiver;
use e2e::{
    Namespace, another_with_prometheus, eventually, free_address, plimsoll, plimsoll_prints,
    process, requests, target,
};
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use k8s_openapi::api::core::v1::{Service, ServiceAccount};
use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt as _;
use sandbox::Sandbox;
use serde_json::{Value, json};

use super::cli_dashboard::Dashboard;

const STEP: i64 = 60;
const DAY: i64 = 86_400;

async fn pod_of(own: &Namespace, app: &str) -> Result<String> {
    eventually("the workload has a pod", async || {
        let pods = own.pods_of(app).await?;
        Ok(pods.first().context("no pod")?.name_any())
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn workloads_are_scanned_with_the_usage_of_their_present_and_past_pods() -> Result<()> {
    let sandbox = another_with_prometheus("scan").await?;
    let own = Namespace::new(sandbox.client().await?, "scan").await?;
    arrange(&sandbox, &own).await?;
    let namespace = own.namespace.as_str();
    let url = sandbox.prometheus_url().context("a Prometheus")?;
    let authority = sandbox.authority();
    let (address, file) = ("--prometheus-address", "--prometheus-ca-file");
    let prometheus = format!("{address} {url} {file} {}", authority.display());
    let source = format!("scan {prometheus} -n {namespace}");
    let arguments = format!("{source} -o json --fail-on critical");
    let output = plimsoll(&sandbox.kubeconfig(), &arguments).await?;
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(3), "{errors}");
    check_containers(&serde_json::from_slice(&output.stdout)?, namespace)?;
    check_nodes(&sandbox, &source).await?;
    check_dashboard(&sandbox, &own, &prometheus).await?;
    check_discovery(&sandbox, &own).await?;
    check_failures(&sandbox, &own, &source).await?;
    sandbox.down().await
}

/// The dashboard shows the usage of three days, and its forecast.
async fn check_dashboard(sandbox: &Sandbox, own: &Namespace, prometheus: &str) -> Result<()> {
    let of = target("Deployment", "large");
    own.make::<Vpa>("large", json!({"targetRef": of})).await?;
    let spec = json!({"scaleTargetRef": of, "minReplicas": 1, "maxReplicas": 2});
    own.make::<Ehpa>("large", spec).await?;
    let dashboard = Dashboard::start(&sandbox.kubeconfig(), prometheus).await?;
    let namespace = &own.namespace;
    for (kind, expected) in [
        ("vpa", ["CPU of container app", "Memory of container app"]),
        ("ehpa", ["</span> 99 %", "</span> pods with usage"]),
    ] {
        let page = dashboard
            .page(&format!("/{kind}/{namespace}/large"))
            .await?;
        for text in expected {
            assert!(page.contains(text), "{text} is not in {page}");
        }
    }
    Ok(())
}

/// Three workloads with usage; an HPA scales one of them by the utilization of its CPU.
async fn arrange(sandbox: &Sandbox, own: &Namespace) -> Result<()> {
    for (name, resources) in [
        ("large", requests("2", "2Gi")),
        ("small", requests("1", "300Mi")),
        ("scaled", requests("2", "2Gi")),
    ] {
        own.deploy(name, 1, &resources, &json!({})).await?;
    }
    let target = json!({"type": "Utilization", "averageUtilization": 60});
    let hpa = json!({
        "maxReplicas": 1,
        "scaleTargetRef": e2e::target("Deployment", "scaled"),
        "metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": target}}],
    });
    own.make::<HorizontalPodAutoscaler>("by-cpu", hpa).await?;
    let prometheus = Receiver::of(sandbox)?;
    let now = Timestamp::now().as_second() / STEP * STEP;
    let namespace = own.namespace.as_str();
    let gib = f64::from(1 << 30);
    let [large, small, scaled] = [
        pod_of(own, "large").await?,
        pod_of(own, "small").await?,
        pod_of(own, "scaled").await?,
    ];
    for (pod, usage, days) in [
        (large.as_str(), [0.1, 0.2 * gib], [1, 0]),
        (small.as_str(), [0.9, 0.5 * gib], [2, 0]),
        (scaled.as_str(), [0.1, 0.2 * gib], [2, 0]),
        // Two more days, by a pod that is gone, with more CPU usage than the present one.
        ("large-7d9f5c6b8-x2vq4", [0.5, 0.1 * gib], [3, 1]),
        // No workload has this name.
        ("other-7d9f5c6b8-x2vq4", [0.5, 0.1 * gib], [1, 0]),
    ] {
        let ([cores, bytes], [from, to]) = (usage, days.map(|days| now - days * DAY));
        let times = (from..=to).step_by(STEP as usize);
        let samples = times.map(|at| (at, cores * (at - from) as f64, bytes));
        prometheus.write_usage([namespace, pod], samples).await?;
    }
    Ok(())
}

fn check_containers(found: &Value, namespace: &str) -> Result<()> {
    let containers = found["containers"].as_array().context("containers")?;
    let of = |name: &str| {
        let named = |it: &&Value| it["workload"] == format!("deployment/{name}");
        let container = containers.iter().find(named);
        container.with_context(|| format!("{name} of {found:#}"))
    };
    assert_eq!(containers.len(), 3, "{found:#}");
    let (large, small, scaled) = (of("large")?, of("small")?, of("scaled")?);
    assert_eq!(small["severity"], "critical", "{small:#}");
    assert_eq!(large["severity"], "warning", "{large:#}");
    assert_eq!(
        (&large["pods"], &large["namespace"]),
        (&json!(1), &json!(namespace))
    );
    assert!(large["hours"].as_f64() > Some(71.0), "{large:#}");
    let millicores = |container: &Value, field: &str| -> Result<i64> {
        let text = container["cpu"][field].as_str().context("a quantity")?;
        Ok(text.parse::<model::Quantity>()?.milli_value())
    };
    let highest = millicores(large, "highestUsage")?;
    assert!(
        (495..=505).contains(&highest),
        "the past pod counts: {large:#}"
    );
    let recommended = millicores(large, "recommended")?;
    assert!((100..1000).contains(&recommended), "{large:#}");
    assert!(large["savingsPerMonth"].as_f64() > Some(0.0), "{large:#}");
    // The HPA would add pods if the CPU request was smaller. Memory may be.
    let (cpu, memory) = (&scaled["cpu"], &scaled["memory"]);
    assert_eq!(cpu["recommended"], Value::Null, "{scaled:#}");
    assert_eq!(cpu["reason"], "HPA by-cpu scales by its utilization");
    assert_eq!(memory["severity"], "warning", "{scaled:#}");
    Ok(())
}

/// The pods of two workloads are on the nodes, all of which are idle by a limit that they do not
/// reach.
async fn check_nodes(sandbox: &Sandbox, source: &str) -> Result<()> {
    let scanned = async |more: &str| -> Result<Value> {
        let scan = format!("{source} -o json --replicas {more}");
        let printed = plimsoll_prints(&sandbox.kubeconfig(), &scan).await?;
        Ok(serde_json::from_str(&printed)?)
    };
    let none = scanned("").await?;
    let nodes = &none["nodes"];
    let total = nodes["total"].as_u64().context("nodes")?;
    let busy = |nodes: &Value| -> u64 {
        let idle = nodes["idle"].as_array().into_iter().flatten();
        idle.filter_map(|node| node["pods"].as_u64()).sum()
    };
    ensure!(total > 0 && busy(nodes) == 0, "{nodes:#}");
    let all = scanned("--idle-node-cpu-requests=100").await?;
    let nodes = &all["nodes"];
    let idle = nodes["idle"].as_array().context("idle nodes")?;
    ensure!(idle.len() as u64 == total && busy(nodes) >= 2, "{nodes:#}");
    Ok(())
}

/// Without an address, the Service is found by its labels in a namespace of monitoring, and asked
/// through the API server. It has no endpoints here: the API server allows none on the loopback
/// interface.
async fn check_discovery(sandbox: &Sandbox, own: &Namespace) -> Result<()> {
    let kubeconfig = sandbox.kubeconfig();
    let arguments = format!("scan -n {}", own.namespace);
    let none = "no Service of Prometheus, Thanos, Mimir or VictoriaMetrics";
    fails(&kubeconfig, &arguments, 1, &[none]).await?;
    let create = async |namespace: &Namespace, name: &str| {
        let metadata = json!({"name": name, "labels": {"app": "prometheus-server"}});
        let spec = json!({"ports": [{"name": "http", "port": 80}], "selector": {"app": "none"}});
        let service = json!({"metadata": metadata, "spec": spec});
        namespace.create::<Service>(service).await
    };
    // Each tenant may set the labels.
    create(own, "tenant").await?;
    let tenant = format!("{}/tenant", own.namespace);
    let expected = [tenant.as_str(), "set --prometheus-service"];
    fails(&kubeconfig, &arguments, 1, &expected).await?;
    let named = format!("{arguments} --prometheus-service {tenant}");
    let system = Namespace::of(own.client.clone(), "kube-system");
    create(&system, "first").await?;
    for (arguments, service) in [(&named, &*tenant), (&arguments, "kube-system/first:80")] {
        let expected = [service, "no endpoints available for service"];
        eventually("the Service has no endpoints", async || {
            fails(&kubeconfig, arguments, 1, &expected).await
        })
        .await?;
    }
    create(&system, "second").await?;
    let expected = [
        "kube-system/first:80",
        "kube-system/second:80",
        "set --prometheus-service",
    ];
    fails(&kubeconfig, &arguments, 1, &expected).await
}

/// Runs the command and checks its exit code and the one sentence of its error.
async fn fails(kubeconfig: &Path, arguments: &str, code: i32, texts: &[&str]) -> Result<()> {
    let output = plimsoll(kubeconfig, arguments).await?;
    let errors = String::from_utf8(output.stderr)?;
    let status = output.status;
    ensure!(status.code() == Some(code), "{status:?}: {errors}");
    let is_complete = texts.iter().all(|text| errors.contains(text));
    ensure!(errors.lines().count() == 1 && is_complete, "{errors}");
    Ok(())
}

async fn check_failures(sandbox: &Sandbox, own: &Namespace, source: &str) -> Result<()> {
    let kubeconfig = sandbox.kubeconfig();
    let namespace = own.namespace.as_str();
    let unused = format!("--prometheus-address http://{}", free_address()?);
    let unused = format!("scan {unused} -n {namespace}");
    let unreachable = ["Prometheus cannot be reached"];
    fails(&kubeconfig, &unused, 5, &unreachable).await?;
    let none = format!("{source} -l app=none");
    fails(&kubeconfig, &none, 1, &["no pods of workloads match"]).await?;

    // An account without any rights.
    let account = json!({"metadata": {"name": "norights"}});
    own.create::<ServiceAccount>(account).await?;
    let file = process::account_file(sandbox, namespace, "norights").await?;
    fails(&file, source, 1, &["forbidden", "norights"]).await
}
