//! Peers against recorded answers of the programs that they stand for.

use jiff::{SignedDuration, Timestamp};
use model::ResourceList;
use replay::peers::{AnnotatedPolicy, Vpa};
use replay::{MIB, Policy, Resource};
use serde_json::Value;
use sizing::{Config, MemoryRules, Percentiles, container_minimum};
use testing::vectors::each_case;

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn float(value: &Value) -> f64 {
    value.as_f64().expect("a number")
}

fn int(value: &Value) -> i64 {
    value.as_i64().expect("a whole number")
}

fn time(value: &Value) -> Timestamp {
    value.as_str().expect("a text").parse().expect("a time")
}

/// The settings of a recorded run for one of several containers, whose minimum is its share of the pod's.
fn config(flags: &Value, containers: usize) -> Config {
    let percentiles = |resource: &str| {
        let of = |name: &str| float(&flags[format!("{name}_{resource}_percentile")]);
        Percentiles {
            target: of("target"),
            lower_bound: of("lower_bound"),
            upper_bound: of("upper_bound"),
        }
    };
    let config = Config {
        margin_fraction: float(&flags["recommendation_margin_fraction"]),
        pod_min_cpu_millicores: float(&flags["pod_min_cpu_millicores"]),
        pod_min_memory_mib: float(&flags["pod_min_memory_mb"]),
        cpu_percentiles: percentiles("cpu"),
        memory_percentiles: percentiles("memory"),
        cpu_confidence_interval_ns: int(&flags["confidence_interval_cpu_ns"]),
        memory_confidence_interval_ns: int(&flags["confidence_interval_memory_ns"]),
        cpu_half_life_ns: int(&flags["cpu_half_life_ns"]),
        memory_half_life_ns: int(&flags["memory_half_life_ns"]),
        memory: MemoryRules {
            interval_ns: int(&flags["memory_aggregation_interval_ns"]),
            interval_count: int(&flags["memory_aggregation_interval_count"]),
            oom_bump_up_ratio: float(&flags["oom_bump_up_ratio"]),
            oom_min_bump_up_bytes: float(&flags["oom_min_bump_up_bytes"]),
        },
        ..Config::default()
    };
    let minimum = container_minimum(&config, containers);
    Config {
        pod_min_cpu_millicores: Resource::Cpu.amount(minimum),
        pod_min_memory_mib: Resource::Memory.amount(minimum),
        ..config
    }
}

/// A recorded run of upstream's recommender, for one container and resource.
struct Run<'a> {
    case: &'a Value,
    container: &'a str,
    resource: Resource,
    /// Names of the resource, and of the list of its samples.
    names: [&'static str; 2],
    /// Recorded amounts per amount in a replay.
    unit: f64,
}

impl<'a> Run<'a> {
    fn new(case: &'a Value, container: &'a str, resource: Resource) -> Self {
        let (names, unit) = match resource {
            Resource::Cpu => (["cpu", "cpu_millicores"], 1.0),
            Resource::Memory => (["memory", "memory_bytes"], MIB),
        };
        Self {
            case,
            container,
            resource,
            names,
            unit,
        }
    }

    fn ops(&self) -> impl Iterator<Item = &'a Value> {
        list(&self.case["ops"])
    }

    /// Whether the input is what a series can be: that of one pod that keeps running, from an empty
    /// history. Memory samples of 0 are left out: production does not forget the peak of their window.
    fn is_series(&self) -> bool {
        let is_of = |op: &&Value| op["container"] == self.container;
        let mut with_input = self.ops().filter(is_of).filter(|op| op["pod"].is_string());
        let pod = with_input.next().map(|op| &op["pod"]);
        let is_known = |op: &Value| match op["op"].as_str() {
            Some("pod") => op["phase"] == "Running",
            Some("delete_pod") => Some(&op["pod"]) != pod,
            Some("checkpoint") => !is_of(&op),
            Some("samples") if is_of(&op) && self.resource == Resource::Memory => {
                list(&op[self.names[1]]).all(|bytes| *bytes != 0)
            }
            _ => true,
        };
        with_input.all(|op| Some(&op["pod"]) == pod)
            && self.case["config"]["gate_per_vpa_config"] == false
            && self.ops().all(is_known)
    }

    /// Whether each memory sample comes with a CPU sample, as in a replay: the number of CPU samples
    /// is the confidence in the bounds.
    fn is_paired(&self) -> bool {
        let lengths =
            |op: &Value| ["cpu_millicores", "memory_bytes"].map(|it| list(&op[it]).count());
        let mut lengths = self.ops().map(lengths);
        lengths.all(|[cpu, memory]| cpu == memory)
    }

    /// Compares every recommendation, and returns their number.
    fn check(&self, containers: usize) -> usize {
        let config = config(&self.case["config"], containers);
        let mut peer = Vpa::with(self.resource, config);
        let mut compared = 0;
        for op in self.ops() {
            let is_of = op["container"] == self.container;
            match op["op"].as_str() {
                Some("samples") if is_of => {
                    for (index, usage) in (0..).zip(list(&op[self.names[1]])) {
                        let after = SignedDuration::from_nanos(int(&op["step_ns"]) * index);
                        peer.observe(0, time(&op["start"]) + after, float(usage) / self.unit);
                    }
                }
                Some("oom") if is_of && self.resource == Resource::Memory => {
                    peer.oom(time(&op["start"]), float(&op["request_bytes"]) / MIB);
                }
                Some("recommend") => {
                    let expected = &op["expect"]["amounts"][self.container];
                    compared += usize::from(self.compare(&mut peer, time(&op["start"]), expected));
                }
                _ => {}
            }
        }
        compared
    }

    fn compare(&self, peer: &mut Vpa, now: Timestamp, expected: &Value) -> bool {
        let expected = |amounts: &str| expected[amounts][self.names[0]].as_i64();
        let Some(target) = expected("target") else {
            return false;
        };
        let recorded = |amount: f64| Some((amount * self.unit) as i64);
        let found = peer.recommend(now, 0.0).and_then(recorded);
        assert_eq!(found, Some(target), "{:?} at {now}", self.resource);
        if self.resource == Resource::Cpu || self.is_paired() {
            let estimate = peer.estimate();
            for (ours, theirs) in [
                (estimate.lower_bound, "lowerBound"),
                (estimate.upper_bound, "upperBound"),
            ] {
                let ours = recorded(self.resource.amount(ours));
                assert_eq!(ours, expected(theirs), "{:?} at {now}", self.resource);
            }
        }
        true
    }
}

/// Compares the peer with all recorded runs of a kind that are a series, at least this many.
fn check_vpa(kind: &str, least: usize) {
    let mut compared = 0;
    each_case(kind, |_, case: Value| {
        let expected = list(&case["ops"]).filter_map(|op| op["expect"]["amounts"].as_object());
        let mut containers: Vec<&String> = expected.flat_map(serde_json::Map::keys).collect();
        containers.sort_unstable();
        containers.dedup();
        for container in &containers {
            for resource in [Resource::Cpu, Resource::Memory] {
                let run = Run::new(&case, container, resource);
                if run.is_series() {
                    compared += run.check(containers.len());
                }
            }
        }
    });
    assert!(compared >= least || !is_shipped(), "{kind}: {compared}");
}

#[test]
fn the_vpa_recommends_as_upstream() {
    check_vpa("vpa/recommend_documented", 20);
    check_vpa("vpa/recommend", 54);
    check_vpa("vpa/recommend_short", 92);
    check_vpa("vpa/recommend_oom", 34);
}

/// The peer's recommendation after these samples, one a minute, in millicores or MiB.
fn crane(config: &Value, resource: Resource, samples: &Value) -> Option<f64> {
    let settings = config.as_object().into_iter().flatten();
    let settings = settings.map(|(key, value)| (key.as_str(), value.as_str().expect("a text")));
    let settings: Vec<_> = [("policy", "crane")].into_iter().chain(settings).collect();
    let mut peer = AnnotatedPolicy::new(resource, &settings).expect("settings of Crane");
    let unit = match resource {
        Resource::Cpu => 1000.0,
        Resource::Memory => 1.0 / MIB,
    };
    let mut now: Timestamp = "2026-01-01T00:00:00Z".parse().expect("a time");
    for usage in list(samples).flat_map(list) {
        peer.observe(0, now, float(usage) * unit);
        now += SignedDuration::from_mins(1);
    }
    peer.recommend(now, 0.0)
}

/// Compares the cases that say something about one container and resource alone: without OOM records
/// and without a list of sizes of both resources.
///
/// CPU samples are whole millicores here, as the metrics API has them. The recorded ones have tenths,
/// which do not change a percentile in buckets of a tenth of a core.
#[test]
fn crane_recommends_as_upstream() {
    let mut compared = 0;
    each_case("crane/resource", |_, case: Value| {
        let config = &case["config"];
        if config.get("specification").is_some() || list(&case["oom_records"]).next().is_some() {
            return;
        }
        let pod = &case["expect"]["recommended_info"]["spec"]["template"]["spec"];
        for container in list(&pod["containers"]) {
            let history = &case["history"][container["name"].as_str().expect("a name")];
            let requests = container["resources"]["requests"].clone();
            let requests: ResourceList = serde_json::from_value(requests).unwrap_or_default();
            if let Some(expected) = requests.cpu().filter(|_| !history["cpu"].is_null()) {
                let found = crane(config, Resource::Cpu, &history["cpu"]).map(|it| it as i64);
                assert_eq!(found, Some(expected.millicores()), "{config}");
                compared += 1;
            }
            if let Some(expected) = requests.memory().filter(|_| !history["memory"].is_null()) {
                let found = crane(config, Resource::Memory, &history["memory"]);
                let found = found.map(|it| (it * MIB) as i64);
                assert_eq!(found, Some(expected.bytes()), "{config}");
                compared += 1;
            }
        }
    });
    assert!(compared >= 46 || !is_shipped(), "{compared}");
}

/// Whether the recordings are those of the repository.
fn is_shipped() -> bool {
    std::env::var_os("PLIMSOLL_VECTORS").is_none()
}
