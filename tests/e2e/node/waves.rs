//! Waves of new requests through pods that run, and a recommendation that is rolled back.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use api::rollback::{ROLLED_BACK, Rollback, WAVE_QUERY};
use api::vpa::VerticalPodAutoscaler as Vpa;
use e2e::eventually;
use serde_json::{Value, json};

use super::cgroups::{Applied, all_have, check};
use super::fixture::{Fixture, all_hold, amount, or_skip, pod_of, resources, run_on, runs};

const REPLICAS: usize = 6;
/// The time for which a pod must be well before others follow, but for the kubelet's delay.
const PROVEN_AFTER: Duration = Duration::from_secs(55);

/// Deploys pods whose program holds 60 MiB.
async fn deploy(cluster: &Fixture, name: &str) -> Result<()> {
    let size = resources(["20m", "100Mi"], ["40m", "100Mi"]);
    let pod = pod_of(&["--memory-mib=60"], &size);
    cluster.deploy(name, REPLICAS, &pod).await?;
    all_hold(cluster, name, 60).await
}

#[tokio::test]
async fn requests_that_kill_stop_at_the_first_pod_and_are_taken_back() -> Result<()> {
    let cluster = or_skip!(Fixture::new("rollback"));
    deploy(&cluster, "web").await?;
    let before = runs(&cluster, "web").await?;
    cluster
        .size_to("web", "Recreate", &amount(["20m", "30Mi"]))
        .await?;
    let began = Instant::now();
    let annotation = |vpa: &Value| vpa["metadata"]["annotations"][ROLLED_BACK].clone();
    let vpa = cluster
        .when::<Vpa>("web", "it is rolled back", |vpa| {
            annotation(vpa).is_string()
        })
        .await?;
    eprintln!("rolled back after {:?}", began.elapsed());
    let text = annotation(&vpa);
    let rollback: Rollback = serde_json::from_str(text.as_str().unwrap_or_default())?;
    let problem = "1 of 1 pods with the new requests fail";
    ensure!(rollback.problem.starts_with(problem), "{rollback:?}");
    cluster
        .await_event("web", "RecommendationRolledBack")
        .await?;
    all_have(&cluster, "web", Applied::of(20, 40, 100)).await?;
    eprintln!("put back after {:?}", began.elapsed());
    cluster.all_available("web", REPLICAS).await?;
    let after = runs(&cluster, "web").await?;
    let kept = after.iter().filter(|run| before.contains(run)).count();
    ensure!(kept == REPLICAS - 1, "{before:?} {after:?}");

    // Another recommendation ends it.
    cluster.recommend("web", &amount(["20m", "90Mi"])).await?;
    cluster
        .when::<Vpa>("web", "it is not rolled back", |vpa| {
            annotation(vpa).is_null()
        })
        .await
        .map(drop)
}

#[tokio::test]
async fn requests_that_do_no_harm_reach_all_pods_in_waves() -> Result<()> {
    let cluster = or_skip!(Fixture::new("waves"));
    deploy(&cluster, "web").await?;
    let before = runs(&cluster, "web").await?;
    cluster
        .size_to("web", "InPlaceOrRecreate", &amount(["30m", "120Mi"]))
        .await?;
    let large = Applied::of(30, 60, 120);
    let count = async || -> Result<usize> {
        let pods = cluster.pods_of("web").await?;
        Ok(pods
            .iter()
            .filter(|pod| check(&cluster, pod, large).is_ok())
            .count())
    };
    eventually("one pod has the new requests", async || {
        let changed = count().await?;
        ensure!(changed == 1, "{changed}");
        Ok(())
    })
    .await?;
    let began = Instant::now();
    all_have(&cluster, "web", large).await?;
    let took = began.elapsed();
    eprintln!("all pods {took:?} after the first one");
    // Three after the first minute, two after the second one.
    ensure!(took >= 2 * PROVEN_AFTER, "{took:?}");
    let vpa = cluster.get::<Vpa>("web").await?;
    ensure!(
        vpa["metadata"]["annotations"][ROLLED_BACK] == json!(null),
        "{vpa:#}"
    );
    run_on(&cluster, "web", &before).await
}

/// Runs pods that use 100 millicores, gives them a CPU limit of 20, and returns the reason for which that was
/// rolled back. Then a size that is large enough reaches all of them.
async fn rolled_back(cluster: &Fixture, name: &str, query: Option<&str>) -> Result<String> {
    let size = resources(["100m", "50Mi"], ["200m", "50Mi"]);
    let pod = pod_of(&["--cpu-millicores=100"], &size);
    cluster.deploy(name, 4, &pod).await?;
    let scraped = json!({"prometheus.io/scrape": "true"});
    cluster.annotate_pods(name, &scraped).await?;
    let before = runs(cluster, name).await?;
    let too_small = amount(["10m", "50Mi"]);
    cluster.size_to(name, "Off", &too_small).await?;
    let annotations = json!({WAVE_QUERY: query});
    cluster.annotate::<Vpa>(name, annotations).await?;
    let mode = json!({"spec": {"updatePolicy": {"updateMode": "InPlaceOrRecreate"}}});
    cluster.patch::<Vpa>(name, mode).await?;
    let began = Instant::now();
    let annotation = |vpa: &Value| vpa["metadata"]["annotations"][ROLLED_BACK].clone();
    let is_rolled_back = |vpa: &Value| annotation(vpa).is_string();
    let vpa = cluster
        .when::<Vpa>(name, "it is rolled back", is_rolled_back)
        .await?;
    eprintln!("{name}: rolled back after {:?}", began.elapsed());
    let text = annotation(&vpa);
    let rollback: Rollback = serde_json::from_str(text.as_str().unwrap_or_default())?;
    all_have(cluster, name, Applied::of(100, 200, 50)).await?;
    eprintln!("{name}: put back after {:?}", began.elapsed());
    cluster.recommend(name, &amount(["150m", "60Mi"])).await?;
    let sized = all_have(cluster, name, Applied::of(150, 300, 60)).await;
    if sized.is_err() {
        eprintln!("{:#}", cluster.get::<Vpa>(name).await?);
    }
    sized?;
    eprintln!("{name}: sized after {:?}", began.elapsed());
    run_on(cluster, name, &before).await?;
    Ok(rollback.problem)
}

#[tokio::test]
async fn requests_that_throttle_or_slow_pods_down_are_taken_back() -> Result<()> {
    let cluster = or_skip!(Fixture::measured("slow"));
    let problem = rolled_back(&cluster, "throttled", None).await?;
    ensure!(
        problem.contains("of its CPU periods are throttled"),
        "{problem}"
    );
    eprintln!("{problem}");
    let query = "max by (pod) (quantile_over_time(0.5, load_work_seconds[20s]))";
    let problem = rolled_back(&cluster, "slow", Some(query)).await?;
    eprintln!("{problem}");
    ensure!(
        problem.contains("its value of plimsoll.dev/wave-query"),
        "{problem}"
    );
    ensure!(problem.starts_with("1 of 1 pods"), "{problem}");
    Ok(())
}
