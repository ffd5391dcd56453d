//! Simulated work of a kubelet: resizes and their refusal, OOM kills, crash loops, and usage.

mod resizes;

use std::collections::BTreeMap;

use anyhow::{Context as _, Result, ensure};
use e2e::{Namespace, PATIENCE, eventually, follow, is_ready, requests, shared, workload};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ContainerStatus, Pod};
use kube::api::{Patch, PatchParams};
use kube::runtime::watcher::Event;
use kube::{Api, ResourceExt as _};
use sandbox::{Replay, Trace};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

/// A running pod of its own namespace.
struct Subject(Namespace);

impl Subject {
    async fn new(prefix: &str, annotations: Value) -> Result<Self> {
        Self::sized(prefix, annotations, requests("100m", "100Mi")).await
    }

    /// The same with these resources of its first container.
    async fn sized(prefix: &str, annotations: Value, resources: Value) -> Result<Self> {
        let client = shared().await?.client().await?;
        let subject = Self(Namespace::new(client, prefix).await?);
        let pod = json!({
            "metadata": {"name": "subject", "annotations": annotations, "labels": {"app": "subject"}},
            "spec": {"containers": [
                {"name": "first", "image": "registry.example/first", "resources": resources},
                {"name": "second", "image": "registry.example/second"},
            ]},
        });
        // A new namespace has no service account for its pods yet.
        let make = async || Ok(subject.0.create::<Pod>(pod.clone()).await?);
        eventually("the pod is created", make).await?;
        subject.until("the pod is ready", is_ready).await?;
        Ok(subject)
    }

    fn pods(&self) -> Api<Pod> {
        self.0.typed()
    }

    async fn now(&self) -> kube::Result<Pod> {
        self.pods().get("subject").await
    }

    async fn until(&self, what: &str, holds: impl Fn(&Pod) -> bool) -> Result<Pod> {
        eventually(what, async || {
            let pod = self.now().await?;
            ensure!(holds(&pod), "{:?}", pod.status);
            Ok(pod)
        })
        .await
    }

    async fn annotate(&self, annotations: Value) -> Result<()> {
        self.0.annotate_pods("subject", &annotations).await?;
        Ok(())
    }

    async fn resize(&self, cpu: &str, memory: &str) -> Result<()> {
        self.resize_to(requests(cpu, memory)).await
    }

    async fn resize_to(&self, resources: Value) -> Result<()> {
        let container = json!({"name": "first", "resources": resources});
        let patch = Patch::Strategic(json!({"spec": {"containers": [container]}}));
        self.pods()
            .patch_subresource("resize", "subject", &PatchParams::default(), &patch)
            .await?;
        Ok(())
    }
}

fn container<'a>(pod: &'a Pod, name: &str) -> &'a ContainerStatus {
    let statuses = pod.status.iter().flat_map(|it| &it.container_statuses);
    let mut own = statuses.flatten().filter(|status| status.name == name);
    own.next().expect("every container has a status")
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

/// A namespace with a Deployment of one pod with these annotations, and that pod once it is ready.
async fn times_of(prefix: &str, annotations: Value) -> Result<(Namespace, Vec<Pod>)> {
    let own = Namespace::new(shared().await?.client().await?, prefix).await?;
    let mut deployment = workload("web", 1, &json!({}), &annotations);
    deployment["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] = json!(60);
    own.create::<Deployment>(deployment).await?;
    let pods = eventually("the pod is ready", async || {
        let pods = own.pods_of("web").await?;
        ensure!(pods.len() == 1 && pods.iter().all(is_ready), "{pods:?}");
        Ok(pods)
    });
    let pods = pods.await?;
    Ok((own, pods))
}

/// Seconds between the creation of a pod and the start of its container, and from there until it was
/// ready.
fn delays(pod: &Pod) -> Option<[i64; 2]> {
    let created = pod.metadata.creation_timestamp.as_ref()?.0;
    let statuses = pod.status.as_ref()?.container_statuses.as_ref()?;
    let running = statuses.first()?.state.as_ref()?.running.as_ref()?;
    let started = running.started_at.as_ref()?.0;
    let conditions = pod.status.as_ref()?.conditions.as_ref()?;
    let ready = conditions.iter().find(|it| it.type_ == "Ready")?;
    let ready = ready.last_transition_time.as_ref()?.0;
    Some([
        started.as_second() - created.as_second(),
        ready.as_second() - started.as_second(),
    ])
}

#[tokio::test]
async fn containers_start_and_are_ready_after_the_times_that_are_asked_for() -> Result<()> {
    let annotations = json!({
        "sandbox.plimsoll.dev/start-after": "3s", "sandbox.plimsoll.dev/ready-after": "2s",
    });
    let (_own, pods) = times_of("slow", annotations).await?;
    let [start, ready] = delays(&pods[0]).context("it has started")?;
    // Times are whole seconds.
    assert!(start >= 2 && ready >= 1, "{start} s, {ready} s");
    Ok(())
}

#[tokio::test]
async fn a_pod_that_ends_slowly_runs_beside_its_replacement() -> Result<()> {
    let annotations = json!({"sandbox.plimsoll.dev/stop-after": "5s"});
    let (own, pods) = times_of("ending", annotations).await?;
    let old = pods[0].name_any();
    own.delete::<Pod>(&old).await?;
    eventually("its replacement is ready beside it", async || {
        let pods = own.pods_of("web").await?;
        let is_ending = |pod: &&Pod| pod.metadata.deletion_timestamp.is_some();
        ensure!(pods.iter().any(|pod| pod.name_any() == old), "it is gone");
        let mut others = pods.iter().filter(|pod| !is_ending(pod));
        ensure!(others.any(is_ready), "{pods:?}");
        Ok(())
    })
    .await?;
    own.gone::<Pod>(&old).await
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
    let _watch = follow(subject.pods(), move |event| {
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
    let last = container(&subject.now().await?, "first")
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
async fn a_container_is_killed_while_its_limit_is_below_its_need() -> Result<()> {
    let size = |memory: &str| {
        let amounts = json!({"cpu": "100m", "memory": memory});
        json!({"requests": amounts, "limits": amounts})
    };
    let subject = Subject::sized("need", json!({}), size("100Mi")).await?;
    let need = json!({
        "sandbox.plimsoll.dev/needs-memory": (150 << 20).to_string(),
        "sandbox.plimsoll.dev/container": "first",
        "sandbox.plimsoll.dev/back-off": "100ms",
    });
    subject.annotate(need).await?;
    let is_killed = |pod: &Pod| container(pod, "first").restart_count > 1;
    subject.until("it was killed twice", is_killed).await?;
    subject.resize_to(size("0.2G")).await?;
    let has_room = |pod: &Pod| is_ready(pod) && actual(pod) == request("100m", "200M");
    let restarts = |pod: &Pod| container(pod, "first").restart_count;
    let before = subject.until("it runs with room", has_room).await?;
    // One more kill for another reason: in between there was none.
    let kills = json!({"sandbox.plimsoll.dev/oom-kills": (restarts(&before) + 1).to_string()});
    subject.annotate(kills).await?;
    let is_over = |pod: &Pod| is_ready(pod) && restarts(pod) > restarts(&before);
    let after = subject.until("it was killed again", is_over).await?;
    assert_eq!(restarts(&after), restarts(&before) + 1);
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
    subject.until("it runs", is_ready).await.map(drop)
}

/// Usage of each container by metrics.k8s.io, in millicores and bytes.
async fn usage(namespace: &Namespace) -> Result<BTreeMap<String, (f64, f64)>> {
    let (client, namespace) = (&namespace.client, &namespace.namespace);
    let path = format!("/apis/metrics.k8s.io/v1beta1/namespaces/{namespace}/pods/subject");
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
    let subject = Subject::new("usage", e2e::usage("250m", "300Mi")).await?;
    let shows = async |millicores: f64, bytes: f64| {
        eventually("metrics.k8s.io shows the usage", async || {
            let usage = usage(&subject.0).await?;
            ensure!(usage.len() == 2, "{usage:?}");
            // CPU is a rate between two rounds, whose times are taken a little apart from the
            // values.
            let fits = |(cpu, memory): &(f64, f64)| {
                (cpu / millicores - 1.0).abs() < 0.05 && (memory - bytes).abs() < 1.0
            };
            ensure!(usage.values().all(fits), "{usage:?}");
            Ok(())
        })
        .await
    };
    shows(250.0, 314_572_800.0).await?;
    subject.annotate(e2e::usage("900m", "1234567")).await?;
    shows(900.0, 1_234_567.0).await
}

#[tokio::test]
async fn a_trace_drives_the_pods_of_its_workload_and_those_that_come_later() -> Result<()> {
    let client = shared().await?.client().await?;
    let namespace = Namespace::new(client.clone(), "play").await?;
    namespace.deploy("web", 2, &json!({}), &json!({})).await?;
    // Its last value holds for minutes, so that also a busy machine comes to it.
    let text = "unix_seconds,cpu_millicores,memory_mib\n0,100,200\n1000,150,\n2000,300,400\n300000,300,400\n";
    let trace = Trace::parse(text)?;
    let play = Replay {
        trace,
        target: "deployment/web".parse()?,
        namespace: namespace.namespace.clone(),
        speed: 1000.0,
        repeat: false,
    };
    let all_say = async |count: usize, cpu: &str, memory: &str| {
        let expected = e2e::usage(cpu, memory);
        eventually(
            &format!("{count} pods say {cpu} and {memory}"),
            async || {
                let found = namespace.pods_of("web").await?;
                let says = |pod: &&Pod| {
                    let annotations = pod.annotations();
                    let mut expected = expected.as_object().into_iter().flatten();
                    expected.all(|(key, value)| annotations.get(key).is_some_and(|it| value == it))
                };
                let (saying, all) = (found.iter().filter(says).count(), found.len());
                ensure!(saying == count && all == count, "{saying} of {all}");
                Ok(())
            },
        )
        .await
    };
    let until_all_say = async |play: Replay, count: usize, cpu: &str, memory: &str| {
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
    namespace.patch::<Deployment>("web", scaled).await?;
    let again = Replay {
        repeat: true,
        speed: 0.001,
        ..play.clone()
    };
    until_all_say(again, 3, "100m", "200Mi").await?;

    // It ends with its trace.
    let over = Replay { speed: 1e9, ..play };
    timeout(PATIENCE, over.run(client.clone(), CancellationToken::new()))
        .await
        .context("it goes on")?
}
