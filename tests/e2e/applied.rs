//! The condition `Applied`: the updater's reasons on their way over the feed into the status of VPA
//! objects.

use anyhow::{Context as _, Result, ensure};
use api::vpa::{APPLIED, VerticalPodAutoscaler as Vpa};
use e2e::deployment::{SUITE, SYSTEM, deploy, system};
use e2e::{
    Namespace, another, closed_window, condition, create, eventually, kubectl_in, kubernetes_minor,
    message_of, plimsoll_json, plimsoll_prints, requests, target, workload,
};
use k8s_openapi::api::apps::v1::ReplicaSet;
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler as Hpa;
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::Api;
use kube::api::DeleteParams;
use sandbox::{Component, Sandbox};
use serde_json::{Value, json};

const SWITCH: &str = "plimsoll-stop";

/// Waits until the condition has this status and reason. Returns its message.
async fn applied(own: &Namespace, name: &str, expected: [&str; 2]) -> Result<String> {
    let [status, reason] = expected;
    let is_so = |vpa: &Value| {
        condition(&vpa["status"], APPLIED)
            .is_some_and(|it| it["status"] == status && it["reason"] == reason)
    };
    let what = format!("{APPLIED} is {expected:?}");
    let vpa = own.when::<Vpa>(name, &what, is_so).await?;
    Ok(message_of(&vpa["status"], APPLIED).to_owned())
}

/// A workload of two pods that request too little, and its VPA object.
struct Sized<'a> {
    name: &'a str,
    replicas: usize,
    mode: &'a str,
    /// Annotations of the VPA object.
    annotations: Value,
    /// Refusal of resizes by the kubelet.
    resize: Option<&'a str>,
    /// Requests of a pod as a whole.
    of_pod: Option<Value>,
}

impl<'a> Sized<'a> {
    fn new(name: &'a str, mode: &'a str) -> Self {
        Self {
            name,
            replicas: 2,
            mode,
            annotations: json!({}),
            resize: None,
            of_pod: None,
        }
    }

    async fn create(self, own: &Namespace) -> Result<()> {
        let on_pods = self
            .resize
            .map(|answer| json!({"sandbox.plimsoll.dev/resize": answer}));
        let resources = requests("10m", "10Mi");
        let mut set = workload(self.name, self.replicas, &resources, &json!(on_pods));
        if let Some(requests) = self.of_pod {
            set["spec"]["template"]["spec"]["resources"] = json!({"requests": requests});
        }
        own.create::<ReplicaSet>(set).await?;
        let spec = json!({
            "targetRef": target("ReplicaSet", self.name),
            "updatePolicy": {"updateMode": self.mode},
        });
        own.make_annotated::<Vpa>(self.name, &self.annotations, spec)
            .await?;
        Ok(())
    }
}

/// An HPA that scales the workload of this name by its CPU utilization.
async fn scale_by_cpu(own: &Namespace, name: &str) -> Result<()> {
    let goal = json!({"type": "Utilization", "averageUtilization": 60});
    let spec = json!({
        "minReplicas": 2, "maxReplicas": 3, "scaleTargetRef": target("ReplicaSet", name),
        "metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": goal}}],
    });
    own.make::<Hpa>(name, spec).await?;
    Ok(())
}

/// Checks that `plimsoll explain` of a VPA object says this.
async fn explains(sandbox: &Sandbox, own: &Namespace, name: &str, words: &[&str]) -> Result<()> {
    let explain = format!("explain vpa/{name} -n {}", own.namespace);
    let explained = plimsoll_prints(&sandbox.kubeconfig(), &explain).await?;
    for word in words {
        ensure!(explained.contains(word), "{word:?} is not in {explained}");
    }
    Ok(())
}

/// `plimsoll check` of the running suite, which lacks the adapter on purpose.
async fn check_finds_no_fault(sandbox: &Sandbox) -> Result<()> {
    eventually("check finds no fault", async || {
        let found = plimsoll_json(&sandbox.kubeconfig(), "check").await?;
        let checks = found["checks"].as_array().context("checks")?;
        let errors = checks.iter().filter(|check| check["status"] == "error");
        let errors: Vec<&Value> = errors.collect();
        ensure!(errors.is_empty(), "{errors:#?}");
        for id in [
            "webhook-ca-bundle",
            "lease-vpa-updater",
            "certificate-vpa-tls-certs",
        ] {
            let is_ok = |check: &&Value| check["id"] == id && check["status"] == "ok";
            ensure!(checks.iter().any(|check| is_ok(&check)), "{id}: {found:#}");
        }
        Ok(())
    })
    .await
}

/// Workloads in different states of application.
async fn arrange(own: &Namespace) -> Result<()> {
    let window = json!({"plimsoll.dev/maintenance-window": closed_window()?});
    let recreate = |name| Sized::new(name, "Recreate");
    let in_place = |name, answer| Sized {
        resize: Some(answer),
        ..Sized::new(name, "InPlace")
    };
    scale_by_cpu(own, "scaled").await?;
    for sized in [
        recreate("held"),
        Sized {
            replicas: 1,
            ..recreate("single")
        },
        recreate("free"),
        Sized {
            of_pod: Some(json!({"cpu": "11m", "memory": "11Mi"})),
            ..recreate("enclosed")
        },
        in_place("large", "Infeasible"),
        in_place("waits", "Deferred"),
        Sized {
            annotations: window,
            ..recreate("by-day")
        },
        recreate("scaled"),
    ] {
        sized.create(own).await?;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_condition_says_why_pods_do_not_have_the_recommended_requests() -> Result<()> {
    let sandbox = another("applied").await?;
    let client = sandbox.client().await?;
    let own = Namespace::new(client.clone(), "applied").await?;
    let budget = json!({
        "metadata": {"name": "held"},
        "spec": {"maxUnavailable": 0, "selector": {"matchLabels": {"app": "held"}}},
    });
    own.create::<PodDisruptionBudget>(budget).await?;
    deploy(&sandbox, "tests/e2e/applied", SUITE).await?;
    arrange(&own).await?;

    // The API server of Kubernetes 1.33 drops the requests of pods as a whole.
    let enclosed = if kubernetes_minor()? >= 34 {
        let words =
            "2: the webhook leaves the requests as written: the pod as a whole may not have more";
        ("enclosed", ["False", "PodResources"], words)
    } else {
        ("enclosed", ["True", "Applied"], "No pod of 2")
    };
    for (name, expected, words) in [
        (
            "held",
            ["False", "DisruptionBudget"],
            "2 of 2 pods need other requests; 2: a PodDisruptionBudget allows no disruption",
        ),
        ("single", ["False", "TooFewReplicas"], "1 of 1 pods"),
        ("free", ["True", "Applied"], "No pod of 2"),
        enclosed,
        (
            "large",
            ["False", "ResizeInfeasible"],
            "2: the node is too small",
        ),
        (
            "waits",
            ["False", "ResizePending"],
            "the kubelet has not completed",
        ),
        ("by-day", ["False", "OutsideWindow"], "window is closed"),
        ("scaled", ["True", "Applied"], "No pod of 2"),
    ] {
        let message = applied(&own, name, expected).await?;
        ensure!(message.contains(words), "{name}: {message}");
        explains(&sandbox, &own, name, &[expected[1], words]).await?;
    }
    explains(&sandbox, &own, "scaled", &["ConflictsWithHPA"]).await?;

    check_finds_no_fault(&sandbox).await?;

    let switches: Api<ConfigMap> = system(&client).typed();
    create(&switches, json!({"metadata": {"name": SWITCH}})).await?;
    applied(&own, "held", ["False", "Stopped"]).await?;
    applied(&own, "free", ["True", "Applied"]).await?;
    explains(&sandbox, &own, "held", &["The stop switch exists"]).await?;
    switches.delete(SWITCH, &DeleteParams::default()).await?;
    applied(&own, "held", ["False", "DisruptionBudget"]).await?;

    let scale = async |replicas| {
        let scale = format!("-n {SYSTEM} scale deployment plimsoll-webhook --replicas={replicas}");
        kubectl_in(&sandbox, &scale).await.map(drop)
    };
    scale(0).await?;
    applied(&own, "held", ["False", "WebhookUnavailable"]).await?;
    let words = ["WebhookUnavailable", "does not renew its Lease"];
    explains(&sandbox, &own, "held", &words).await?;
    scale(2).await?;
    applied(&own, "held", ["False", "DisruptionBudget"]).await?;

    sandbox.stop(Component::MetricsServer).await?;
    applied(&own, "held", ["False", "RecommendationFrozen"]).await?;
    let words = ["RecommendationFrozen", "SourceStale"];
    explains(&sandbox, &own, "held", &words).await?;

    // The updater leaves pods alone in this mode.
    let off = json!({"spec": {"updatePolicy": {"updateMode": "Off"}}});
    own.patch::<Vpa>("held", off).await?;
    let has_none = |vpa: &Value| condition(&vpa["status"], APPLIED).is_none();
    own.when::<Vpa>("held", "the condition is gone", has_none)
        .await?;
    sandbox.down().await
}
