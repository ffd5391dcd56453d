//! Simulated work of a kubelet: resizes and their refusal, OOM kills, crash loops, and usage.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use e2e::{eventually, follow, namespace, shared};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ContainerStatus, Pod, PodCondition};
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use kube::runtime::watcher::Event;
use kube::{Api, Client, ResourceExt as _};
use sandbox::{Columns, Play, Trace};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

const PATIENCE: Duration = Duration::from_mins(2);
/// Two rounds of metrics-server, and some air.
const METRICS_PATIENCE: Duration = Duration::from_mins(3);

/// A running pod of its own namespace.
struct Subject {
    client: Client,
    pods: Api<Pod>,
    namespace: String,
}

impl Subject {
    async fn new(prefix: &str, annotations: Value) -> Result<Self> {
        let client = shared().await?.client().await?;
        let namespace = namespace(&client, prefix).await?;
        let pods = Api::<Pod>::namespaced(client.clone(), &namespace);
        let subject = Self {
            client,
            pods,
            namespace,
        };
        let pod: Pod = serde_json::from_value(json!({
            "metadata": {"name": "subject", "annotations": annotations, "labels": {"app": "subject"}},
            "spec": {"containers": [
                {"name": "first", "image": "registry.example/first", "resources": resources("100m", "100Mi")},
                {"name": "second", "image": "registry.example/second"},
            ]},
        }))?;
        // A new namespace has no service account for its pods yet.
        eventually("the pod is created", PATIENCE, async || {
            Ok(subject.pods.create(&PostParams::default(), &pod).await?)
        })
        .await?;
        subject
            .until("the pod is ready", |pod| {
                condition(pod, "Ready").is_some_and(|ready| ready.status == "True")
            })
            .await?;
        Ok(subject)
    }

    async fn until(&self, what: &str, holds: impl Fn(&Pod) -> bool) -> Result<Pod> {
        eventually(what, PATIENCE, async || {
            let pod = self.pods.get("subject").await?;
            ensure!(holds(&pod), "{:?}", pod.status);
            Ok(pod)
        })
        .await
    }

    async fn annotate(&self, annotations: Value) -> Result<()> {
        let patch = json!({"metadata": {"annotations": annotations}});
        self.pods
            .patch("subject", &PatchParams::default(), &Patch::Merge(patch))
            .await?;
        Ok(())
    }

    async fn resize(&self, cpu: &str, memory: &str) -> Result<()> {
        let patch = json!({"spec": {"containers": [{"name": "first", "resources": resources(cpu, memory)}]}});
        self.pods
            .patch_subresource(
                "resize",
                "subject",
                &PatchParams::default(),
                &Patch::Strategic(patch),
            )
            .await?;
        Ok(())
    }
}

fn resources(cpu: &str, memory: &str) -> Value {
    json!({"requests": {"cpu": cpu, "memory": memory}})
}

fn container<'a>(pod: &'a Pod, name: &str) -> &'a ContainerStatus {
    let statuses = pod
        .status
        .as_ref()
        .and_then(|status| status.container_statuses.as_ref());
    statuses
        .and_then(|statuses| statuses.iter().find(|status| status.name == name))
        .expect("every container has a status")
}

fn condition<'a>(pod: &'a Pod, kind: &str) -> Option<&'a PodCondition> {
    pod.status
        .as_ref()?
        .conditions
        .as_ref()?
        .iter()
        .find(|condition| condition.type_ == kind)
}

/// CPU and memory request that the first container really has.
fn actual(pod: &Pod) -> (String, String) {
    let status = container(pod, "first");
    let requests = status
        .resources
        .as_ref()
        .and_then(|resources| resources.requests.clone())
        .unwrap_or_default();
    assert_eq!(
        status.allocated_resources.clone().unwrap_or_default(),
        requests
    );
    (requests["cpu"].0.clone(), requests["memory"].0.clone())
}

fn request(cpu: &str, memory: &str) -> (String, String) {
    (cpu.to_owned(), memory.to_owned())
}

#[tokio::test]
async fn a_resize_is_visible_in_the_status_and_touches_nothing_else() -> Result<()> {
    let subject = Subject::new("resize", json!({})).await?;
    let before = subject.pods.get("subject").await?;
    assert_eq!(actual(&before), request("100m", "100Mi"));
    subject.resize("250m", "300Mi").await?;
    let is_observed = |pod: &Pod| {
        pod.status
            .as_ref()
            .and_then(|status| status.observed_generation)
            == pod.metadata.generation
    };
    let is_done = |pod: &Pod| actual(pod) == request("250m", "300Mi") && is_observed(pod);
    let after = subject.until("the resize is carried out", is_done).await?;
    assert_eq!(container(&after, "second"), container(&before, "second"));
    let without_resources = |pod: &Pod| ContainerStatus {
        resources: None,
        allocated_resources: None,
        ..container(pod, "first").clone()
    };
    assert_eq!(without_resources(&after), without_resources(&before));
    Ok(())
}

#[tokio::test]
async fn a_refused_resize_says_deferred_or_infeasible_until_it_is_let_through() -> Result<()> {
    let subject =
        Subject::new("refuse", json!({"sandbox.plimsoll.dev/resize": "Deferred"})).await?;
    subject.resize("250m", "300Mi").await?;
    let refused = |pod: &Pod, reason: &str| {
        condition(pod, "PodResizePending").is_some_and(|pending| {
            let current = pending.observed_generation == pod.metadata.generation;
            current && pending.status == "True" && pending.reason.as_deref() == Some(reason)
        })
    };
    let deferred = subject
        .until("the resize is deferred", |pod| refused(pod, "Deferred"))
        .await?;
    assert_eq!(actual(&deferred), request("100m", "100Mi"));
    subject
        .annotate(json!({"sandbox.plimsoll.dev/resize": "Infeasible"}))
        .await?;
    let infeasible = subject
        .until("the resize is infeasible", |pod| refused(pod, "Infeasible"))
        .await?;
    assert_eq!(actual(&infeasible), request("100m", "100Mi"));
    subject
        .annotate(json!({"sandbox.plimsoll.dev/resize": null}))
        .await?;
    let done = subject
        .until("the resize is carried out", |pod| {
            actual(pod) == request("250m", "300Mi")
        })
        .await?;
    assert!(condition(&done, "PodResizePending").is_none());
    Ok(())
}

#[tokio::test]
async fn a_resize_taken_back_is_no_longer_pending() -> Result<()> {
    let subject =
        Subject::new("undo", json!({"sandbox.plimsoll.dev/resize": "Infeasible"})).await?;
    subject.resize("250m", "300Mi").await?;
    subject
        .until("the resize is refused", |pod| {
            condition(pod, "PodResizePending").is_some()
        })
        .await?;
    subject.resize("100m", "100Mi").await?;
    subject
        .until("nothing is pending", |pod| {
            condition(pod, "PodResizePending").is_none()
        })
        .await
        .map(drop)
}

/// One step of a restart: state, reason of the last end, restarts, readiness.
fn step(pod: &Pod) -> (String, Option<String>, i32, bool) {
    let status = container(pod, "first");
    let state = status.state.clone().unwrap_or_default();
    let running = state.running.map(|_| "running".to_owned());
    let ended = state.terminated.and_then(|terminated| terminated.reason);
    let state = running
        .or(ended)
        .or(state.waiting.and_then(|waiting| waiting.reason))
        .unwrap_or_default();
    let last = status
        .last_state
        .clone()
        .and_then(|last| last.terminated)
        .and_then(|terminated| terminated.reason);
    (state, last, status.restart_count, status.ready)
}

#[tokio::test]
async fn an_oom_kill_has_its_three_steps_and_spares_the_other_container() -> Result<()> {
    let annotations = json!({"sandbox.plimsoll.dev/back-off": "500ms", "sandbox.plimsoll.dev/container": "first"});
    let subject = Subject::new("oom", annotations).await?;
    let (sender, mut seen) = watch::channel(Vec::new());
    let _watch = follow(subject.pods.clone(), move |event| {
        if let Event::InitApply(pod) | Event::Apply(pod) = event {
            sender.send_modify(|steps| {
                steps.push((step(&pod), container(&pod, "second").restart_count));
                steps.dedup();
            });
        }
    });
    timeout(PATIENCE, seen.wait_for(|steps| !steps.is_empty()))
        .await
        .context("the pod is there")??;
    subject
        .annotate(json!({"sandbox.plimsoll.dev/oom-kills": "2"}))
        .await?;
    let end = ("running".to_owned(), Some("OOMKilled".to_owned()), 2, true);
    let is_over = |steps: &Vec<_>| steps.last().is_some_and(|(step, _)| *step == end);
    let is_in_time = timeout(PATIENCE, seen.wait_for(is_over))
        .await
        .is_ok_and(|ended| ended.is_ok());
    ensure!(is_in_time, "it only came to {:?}", seen.borrow());
    let (steps, of_the_other): (Vec<_>, Vec<i32>) = seen.borrow().iter().cloned().unzip();
    assert!(
        of_the_other.iter().all(|restarts| *restarts == 0),
        "{of_the_other:?}"
    );
    let killed = |last: Option<&str>, restarts| {
        (
            "OOMKilled".to_owned(),
            last.map(str::to_owned),
            restarts,
            false,
        )
    };
    let waiting = |restarts| {
        (
            "CrashLoopBackOff".to_owned(),
            Some("OOMKilled".to_owned()),
            restarts,
            false,
        )
    };
    let expected = [
        ("running".to_owned(), None, 0, true),
        killed(None, 0),
        waiting(0),
        ("running".to_owned(), Some("OOMKilled".to_owned()), 1, true),
        killed(Some("OOMKilled"), 1),
        waiting(1),
        end,
    ];
    assert_eq!(steps, expected);
    let last = container(&subject.pods.get("subject").await?, "first")
        .last_state
        .clone()
        .unwrap_or_default();
    assert_eq!(
        last.terminated.map(|terminated| terminated.exit_code),
        Some(137)
    );
    Ok(())
}

#[tokio::test]
async fn a_crash_loop_goes_on_until_its_annotation_is_removed() -> Result<()> {
    let annotations = json!({
        "sandbox.plimsoll.dev/crash-loop": "true",
        "sandbox.plimsoll.dev/crash-after": "100ms",
        "sandbox.plimsoll.dev/back-off": "100ms",
    });
    let subject = Subject::new("crash", annotations).await?;
    let pod = subject
        .until("it has crashed three times", |pod| {
            container(pod, "first").restart_count >= 3
        })
        .await?;
    let last = container(&pod, "first")
        .last_state
        .clone()
        .and_then(|last| last.terminated)
        .context("it ended before")?;
    assert_eq!((last.exit_code, last.reason.as_deref()), (1, Some("Error")));
    subject
        .annotate(json!({"sandbox.plimsoll.dev/crash-loop": null}))
        .await?;
    subject
        .until("it runs", |pod| {
            condition(pod, "Ready").is_some_and(|ready| ready.status == "True")
        })
        .await
        .map(drop)
}

/// Usage of each container by metrics.k8s.io, in millicores and bytes.
async fn usage(
    client: &Client,
    namespace: &str,
    pod: &str,
) -> Result<BTreeMap<String, (f64, f64)>> {
    let path = format!("/apis/metrics.k8s.io/v1beta1/namespaces/{namespace}/pods/{pod}");
    let metrics: Value = client
        .request(http::Request::get(path).body(Vec::new())?)
        .await?;
    let containers = metrics["containers"].as_array().context("no containers")?;
    containers
        .iter()
        .map(|container| {
            let name = container["name"].as_str().context("no name")?.to_owned();
            let number = |resource: &str, units: &[(&str, f64)]| {
                let text = container["usage"][resource]
                    .as_str()
                    .with_context(|| format!("no {resource}"))?;
                let (unit, factor) = units
                    .iter()
                    .find(|(unit, _)| text.ends_with(unit))
                    .context("unit")?;
                anyhow::Ok(text.trim_end_matches(unit).parse::<f64>()? * factor)
            };
            let cpu = number("cpu", &[("n", 1e-6), ("u", 1e-3), ("m", 1.0), ("", 1e3)])?;
            let memory = number("memory", &[("Ki", 1024.0), ("Mi", 1_048_576.0), ("", 1.0)])?;
            Ok((name, (cpu, memory)))
        })
        .collect()
}

#[tokio::test]
async fn metrics_follow_the_annotations() -> Result<()> {
    let annotations =
        json!({"kwok.x-k8s.io/usage-cpu": "250m", "kwok.x-k8s.io/usage-memory": "300Mi"});
    let subject = Subject::new("usage", annotations).await?;
    let shows = async |millicores: f64, bytes: f64| {
        eventually(
            "metrics.k8s.io shows the usage",
            METRICS_PATIENCE,
            async || {
                let usage = usage(&subject.client, &subject.namespace, "subject").await?;
                ensure!(usage.len() == 2, "{usage:?}");
                // CPU is a rate between two rounds, whose times are taken a little apart from the
                // values.
                let fits = |(cpu, memory): &(f64, f64)| {
                    (cpu / millicores - 1.0).abs() < 0.05 && (memory - bytes).abs() < 1.0
                };
                ensure!(usage.values().all(fits), "{usage:?}");
                Ok(())
            },
        )
        .await
    };
    shows(250.0, 314_572_800.0).await?;
    subject
        .annotate(
            json!({"kwok.x-k8s.io/usage-cpu": "900m", "kwok.x-k8s.io/usage-memory": "1234567"}),
        )
        .await?;
    shows(900.0, 1_234_567.0).await
}

#[tokio::test]
async fn a_trace_drives_the_pods_of_its_workload_and_those_that_come_later() -> Result<()> {
    let client = shared().await?.client().await?;
    let namespace = namespace(&client, "play").await?;
    let deployments = Api::<Deployment>::namespaced(client.clone(), &namespace);
    let pods = Api::<Pod>::namespaced(client.clone(), &namespace);
    let labels = json!({"app": "web"});
    let deployment: Deployment = serde_json::from_value(json!({
        "metadata": {"name": "web"},
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": [{"name": "web", "image": "registry.example/web"}]},
            },
        },
    }))?;
    deployments
        .create(&PostParams::default(), &deployment)
        .await?;
    // Its last value holds for minutes, so that also a busy machine comes to it.
    let text = "unix_seconds,cpu_millicores,memory_mib\n0,100,200\n1000,150,\n2000,300,400\n300000,300,400\n";
    let trace = Trace::parse(text, &Columns::default())?;
    let play = Play {
        trace,
        target: "deployment/web".parse()?,
        namespace,
        speed: 1000.0,
        repeat: false,
    };
    let all_say = async |count: usize, cpu: &str, memory: &str| {
        eventually(
            &format!("{count} pods say {cpu} and {memory}"),
            PATIENCE,
            async || {
                let found = pods.list(&ListParams::default()).await?;
                let says = |pod: &Pod, key: &str, value: &str| {
                    pod.annotations()
                        .get(key)
                        .is_some_and(|found| found == value)
                };
                let fits = |pod: &&Pod| {
                    says(pod, "kwok.x-k8s.io/usage-cpu", cpu)
                        && says(pod, "kwok.x-k8s.io/usage-memory", memory)
                };
                let saying = found.items.iter().filter(fits).count();
                ensure!(
                    saying == count && found.items.len() == count,
                    "{saying} of {}",
                    found.items.len()
                );
                Ok(())
            },
        )
        .await
    };
    let until_all_say = async |play: Play, count: usize, cpu: &str, memory: &str| {
        let cancel = CancellationToken::new();
        let playing = play.run(client.clone(), cancel.clone());
        let watching = async {
            let seen = all_say(count, cpu, memory).await;
            cancel.cancel();
            seen
        };
        tokio::try_join!(playing, watching).map(drop)
    };
    until_all_say(play.clone(), 2, "300m", "400Mi").await?;

    let scaled = json!({"spec": {"replicas": 3}});
    deployments
        .patch("web", &PatchParams::default(), &Patch::Merge(scaled))
        .await?;
    until_all_say(
        Play {
            repeat: true,
            speed: 0.001,
            ..play.clone()
        },
        3,
        "100m",
        "200Mi",
    )
    .await?;

    // It ends with its trace.
    let over = Play { speed: 1e9, ..play };
    timeout(PATIENCE, over.run(client.clone(), CancellationToken::new()))
        .await
        .context("it goes on")?
}
