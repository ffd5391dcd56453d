//! Windows of samples of metrics-server, staleness, bad values and restarts, on a paused clock.

use std::fs;
use std::time::Duration;

use placement::Window;

use crate::fixture::{Cluster, pass};

const GIB: i64 = 1 << 30;

/// Alternates between 20 and 30 % of CPU.
fn wave(number: i64) -> (i64, i64) {
    (800 + number % 2 * 400, 2 * GIB)
}

/// Rises from 1 % of CPU.
fn rise(number: i64) -> (i64, i64) {
    (40 + number, GIB)
}

fn broken(number: i64) -> (i64, i64) {
    (9000 + number, 9 * GIB)
}

fn constant(_: i64) -> (i64, i64) {
    (1000, GIB)
}

const FRESH: [(&str, u16); 3] = [
    ("/watcher", 200),
    ("/watcher/n1", 200),
    ("/watcher/health", 200),
];
const STALE: [(&str, u16); 3] = [
    ("/watcher", 404),
    ("/watcher/n1", 404),
    ("/watcher/health", 503),
];

#[tokio::test(start_paused = true)]
async fn windows_are_served_as_documented_until_they_are_stale() {
    let cluster = Cluster::new();
    let watcher = cluster.start(None, None, u32::MAX);
    pass(Duration::from_secs(20)).await;
    for (path, status) in STALE {
        assert_eq!(watcher.get(path).await.0, status, "before metrics: {path}");
    }
    assert_eq!(watcher.readiness.missing(), Vec::<String>::new());
    let reason = "the metrics API is not available: no endpoints";
    assert!(watcher.readiness.report().contains(reason));
    assert_eq!(
        watcher
            .metric("plimsoll_load_watcher_newest_sample_age_seconds")
            .as_deref(),
        Some("inf")
    );

    cluster.set_usage(Some(&[("n1", wave), ("n2", wave), ("unknown", wave)]));
    pass(Duration::from_mins(16)).await;
    let golden = include_str!("golden/watcher.json").trim_end();
    assert_eq!(watcher.get("/watcher").await, (200, golden.to_owned()));
    let golden = include_str!("golden/watcher-n1-5m.json").trim_end();
    for path in ["/watcher/n1?window=5m", "/watcher?host=n1&window=5m"] {
        assert_eq!(watcher.get(path).await, (200, golden.to_owned()), "{path}");
    }
    let snapshot = watcher.snapshots.borrow().clone();
    let fresh = snapshot.fresh(
        Window::Fifteen,
        cluster.now(),
        jiff::SignedDuration::from_mins(1),
    );
    let (_, load) = fresh.as_ref().expect("load").node("n1").expect("a node");
    assert_eq!(
        load.cpu
            .map(|cpu| (cpu.average_percent, cpu.deviation_percent)),
        Some((25.0, 5.0))
    );

    cluster.set_usage(None);
    pass(Duration::from_secs(280)).await;
    for (path, status) in FRESH {
        assert_eq!(watcher.get(path).await.0, status, "old metrics: {path}");
    }
    pass(Duration::from_secs(40)).await;
    for (path, status) in STALE {
        assert_eq!(watcher.get(path).await.0, status, "stale metrics: {path}");
    }
    let metric = |name: &str| watcher.metric(&format!("plimsoll_load_watcher_{name}"));
    assert_eq!(metric("nodes_without_load").as_deref(), Some("2"));
    assert_eq!(metric("nodes").as_deref(), Some("2"));
    let age: f64 = metric("newest_sample_age_seconds")
        .expect("an age")
        .parse()
        .expect("a number");
    assert!((300.0..340.0).contains(&age), "{age}");

    cluster.set_usage(Some(&[("n1", wave), ("n2", wave)]));
    pass(Duration::from_secs(20)).await;
    for (path, status) in FRESH {
        assert_eq!(watcher.get(path).await.0, status, "again: {path}");
    }
}

#[tokio::test(start_paused = true)]
async fn bad_values_are_left_out_and_counted() {
    let cluster = Cluster::new();
    let watcher = cluster.start(None, None, 10);
    let bad = |window: &str, defect: &str| {
        let labels = format!("{{defect=\"{defect}\",window=\"{window}\"}}");
        watcher.metric(&format!("plimsoll_load_watcher_bad_values{labels}"))
    };
    let check = async |expected: &[(&str, u16)], without: &str| {
        for (path, status) in expected {
            assert_eq!(watcher.get(path).await.0, *status, "{path}");
        }
        let name = "plimsoll_load_watcher_nodes_without_load";
        assert_eq!(watcher.metric(name).as_deref(), Some(without));
    };
    cluster.set_usage(Some(&[("n1", rise), ("n2", broken)]));
    pass(Duration::from_mins(1)).await;
    check(&[("/watcher/n1", 200), ("/watcher/n2", 404)], "1").await;
    for window in ["15m", "10m", "5m"] {
        assert_eq!(
            bad(window, "out_of_range").as_deref(),
            Some("2"),
            "{window}"
        );
        assert_eq!(bad(window, "missing").as_deref(), Some("1"), "{window}");
    }
    // The bad samples leave the windows.
    cluster.set_usage(Some(&[("n1", rise), ("n2", rise)]));
    pass(Duration::from_mins(17)).await;
    check(&[("/watcher/n1", 200), ("/watcher/n2", 200)], "0").await;
    assert_eq!(bad("15m", "out_of_range"), None);

    // Memory of `rise` does not change.
    assert_eq!(bad("5m", "frozen").as_deref(), Some("2"));
    cluster.set_usage(Some(&[("n1", rise), ("n2", constant)]));
    pass(Duration::from_mins(20)).await;
    check(&[("/watcher/n1", 200), ("/watcher/n2", 404)], "1").await;
    let (_, text) = watcher.get("/watcher/n1").await;
    assert!(!text.contains("Memory") && text.contains("CPU"), "{text}");
}

#[tokio::test(start_paused = true)]
async fn a_restarted_replica_continues_with_its_cache() {
    let cluster = Cluster::new();
    let folder = tempfile::tempdir().expect("a folder");
    let cache = || Some(folder.path().to_owned());
    cluster.set_usage(Some(&[("n1", wave), ("n2", rise)]));
    let watcher = cluster.start(cache(), None, u32::MAX);
    pass(Duration::from_mins(16)).await;
    let before = watcher.get("/watcher").await;
    assert_eq!(before.0, 200);
    let file = folder.path().join("load-replica-0.json");
    assert!(file.exists());
    let writes = "plimsoll_load_watcher_cache_writes_total{result=\"success\"}";
    let count: u32 = watcher
        .metric(writes)
        .expect("writes")
        .parse()
        .expect("a number");
    assert!(
        (28..=33).contains(&count),
        "one write per 30 s, not {count}"
    );
    drop(watcher);

    cluster.set_usage(None);
    let watcher = cluster.start(cache(), None, u32::MAX);
    pass(Duration::from_secs(20)).await;
    let after = watcher.get("/watcher").await;
    assert_eq!(after.0, 200);
    let average = |text: &str| -> f64 {
        let document: serde_json::Value = serde_json::from_str(text).expect("JSON");
        let metrics = &document["data"]["NodeMetricsMap"]["n2"]["metrics"];
        metrics[0]["value"].as_f64().expect("a number")
    };
    // CPU of `rise`: the last write may lack the last two samples.
    let (before, after) = (average(&before.1), average(&after.1));
    assert!((before - after).abs() < 0.1, "{before} {after}");
    pass(Duration::from_mins(6)).await;
    assert_eq!(watcher.get("/watcher").await.0, 404, "the cache is stale");
    drop(watcher);

    // The samples are older than the longest window.
    pass(Duration::from_mins(16)).await;
    let watcher = cluster.start(cache(), None, u32::MAX);
    pass(Duration::from_secs(20)).await;
    assert_eq!(watcher.get("/watcher").await.0, 404);
    drop(watcher);

    fs::write(&file, "{\"version\":").expect("written");
    cluster.set_usage(Some(&[("n1", wave)]));
    let watcher = cluster.start(cache(), None, u32::MAX);
    pass(Duration::from_secs(50)).await;
    assert_eq!(watcher.get("/watcher/n1").await.0, 200, "a damaged cache");
    assert!(folder.path().join("load-replica-0.json.damaged").exists());
    assert!(file.exists(), "a new cache");
}
