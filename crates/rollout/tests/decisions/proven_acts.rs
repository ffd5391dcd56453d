//! OOM kills on an emulated kubelet, until the pod runs on or nothing more can be done.

mod kubelet;

use std::time::Duration;

use proptest::prelude::*;
use rollout::{ActionKind, ActionOutcome, Plan, RefutedAct, RolloutState, SkipReason};
use serde_json::{Value, json};

use super::fixture::{Fixture, boosted, evicted, only_action, reasons};
use super::oom::{killed, killed_at};
use kubelet::{Flavour, PodModel};

/// Seconds of a scenario.
const LENGTH: i64 = 3600;

#[derive(Debug, Clone)]
struct Scenario {
    mode: &'static str,
    flavour: Flavour,
    /// Memory of the pod at the start, memory that the program needs, and `maxAllowed`, in MiB.
    start: i64,
    need: i64,
    cap: i64,
    /// Growth of the program's memory in MiB a second.
    rate: i64,
    /// Whether a disruption budget allows no eviction.
    is_protected: bool,
    /// Seconds at which another replica takes the lead.
    elections: Vec<i64>,
}

impl Default for Scenario {
    fn default() -> Self {
        Self {
            mode: "InPlaceOrRecreate",
            flavour: Flavour::Real,
            start: 64,
            need: 100,
            cap: 512,
            rate: 8,
            is_protected: false,
            elections: Vec::new(),
        }
    }
}

#[derive(Debug, Default)]
struct Course {
    /// Second, kind and new memory in MiB of each act.
    acts: Vec<(i64, &'static str, i64)>,
    refuted: Vec<RefutedAct>,
    last_skips: Vec<SkipReason>,
    healed_at: Option<i64>,
    target: i64,
}

struct Run {
    scenario: Scenario,
    fixture: Fixture,
    pod: PodModel,
    target: i64,
    course: Course,
}

impl Run {
    fn new(scenario: Scenario, pod: PodModel) -> Self {
        let mut fixture = Fixture::new();
        fixture.settings.in_place = true;
        let policy = json!({"minReplicas": 1, "updateMode": scenario.mode});
        fixture.workload("web", 1, &policy);
        if scenario.is_protected {
            fixture.budget("web", 0);
        }
        let mut run = Self {
            target: pod.spec_mib,
            scenario,
            fixture,
            pod,
            course: Course::default(),
        };
        run.recommend();
        run.publish();
        run
    }

    fn recommend(&mut self) {
        let target = self.target;
        self.fixture.edit_vpa("web", |object| {
            let list = &mut object["status"]["recommendation"]["containerRecommendations"];
            for (bound, mib) in [
                ("target", target),
                ("lowerBound", target / 2),
                ("upperBound", target * 4),
            ] {
                list[0][bound] = json!({"cpu": "1", "memory": format!("{mib}Mi")});
            }
        });
    }

    /// Shows the pod to the updater and to the recommender, which answers each OOM kill.
    fn publish(&mut self) {
        let key = view::ObjectKey::new("shop", self.pod.name());
        let old = self.fixture.view.pods.get(&key).cloned();
        let pod = &self.pod;
        self.fixture
            .pod_with("web", &pod.name(), &json!({"cpu": "1"}), |object| {
                pod.write(object);
            });
        let new = self.fixture.view.pods.get(&key).expect("applied");
        let kills = view::oom_kill::oom_kills(old.as_deref(), new);
        let before = self.target;
        for kill in kills.iter().filter(|_| old.is_some()) {
            let bumped = (kill.memory.bytes() >> 20) * 6 / 5 + 1;
            self.target = self.target.max(bumped.min(self.scenario.cap));
        }
        if self.target != before {
            self.recommend();
        }
    }

    /// Another replica takes the lead. It knows what the objects show.
    fn elect(&mut self) {
        self.fixture.state = RolloutState::default();
        self.fixture.delete(&self.pod.name());
        self.publish();
    }

    fn pass(&mut self, second: i64) -> usize {
        let plan = self.fixture.pass();
        for refutation in &plan.refutations {
            if self.fixture.state.is_new_refutation(refutation) {
                self.course.refuted.push(refutation.act);
            }
        }
        self.course.last_skips = reasons(&plan);
        for action in &plan.actions {
            self.fixture.state.begin(action, self.fixture.now);
            let mut generation = None;
            if let ActionKind::Resize {
                patch, annotations, ..
            } = &action.kind
            {
                self.pod.resize(patch, annotations);
                self.course.acts.push((second, "resize", self.pod.spec_mib));
                generation = Some(self.pod.generation);
            } else {
                self.course.acts.push((second, "evict", self.target));
            }
            let outcome = ActionOutcome::Accepted { generation };
            self.fixture.state.end(action, &outcome, self.fixture.now);
            if action.kind == ActionKind::Evict {
                self.fixture.delete(&self.pod.name());
                self.pod = self.pod.replacement(self.target, second);
            }
            self.publish();
        }
        plan.actions.len()
    }

    fn run(mut self) -> Course {
        for second in 0..LENGTH {
            if self.scenario.elections.contains(&second) {
                self.elect();
            }
            if self.pod.step(second, &self.scenario) {
                self.publish();
            }
            for _ in 0..3 {
                if self.pass(second) == 0 {
                    break;
                }
            }
            let is_healed = self.pod.in_effect() >= self.scenario.need;
            self.course.healed_at = match self.course.healed_at {
                _ if !is_healed => None,
                known => known.or(Some(second)),
            };
            self.fixture.now.wall += Duration::from_secs(1);
            self.fixture.now.monotonic += Duration::from_secs(1);
        }
        self.course.target = self.target;
        self.course
    }
}

fn run(scenario: &Scenario) -> Course {
    let pod = PodModel::new(scenario.start, scenario.start, scenario.flavour);
    Run::new(scenario.clone(), pod).run()
}

#[test]
fn an_oom_kill_is_healed_by_a_resize_of_the_next_run() {
    let course = run(&Scenario::default());
    assert!(
        course.healed_at.is_some_and(|second| second < 60),
        "{course:?}"
    );
    assert!(course.target <= 144, "{course:?}");
    assert!(
        course.acts.iter().all(|(_, kind, _)| *kind == "resize"),
        "{course:?}"
    );
    assert!(course.acts.len() <= 3, "{course:?}");
}

/// The state of the first hour on a real node: another updater raised everything while the
/// container was stopped, and the pod's cgroup has 64 MiB.
#[test]
fn a_pod_whose_resize_had_no_effect_is_healed_by_a_step() {
    for mode in ["InPlaceOrRecreate", "InPlace"] {
        let scenario = Scenario {
            mode,
            ..Scenario::default()
        };
        let mut pod = PodModel::new(512, 64, Flavour::Real);
        pod.annotate("vpaInPlaceUpdated", "true");
        let course = Run::new(scenario, pod).run();
        let steps: Vec<_> = course
            .acts
            .iter()
            .map(|(_, kind, mib)| (*kind, *mib))
            .collect();
        assert_eq!(steps, [("resize", 513)], "{course:?}");
        assert_eq!(course.refuted, [RefutedAct::Resize], "{course:?}");
        assert!(
            course.healed_at.is_some_and(|second| second < 60),
            "{course:?}"
        );
        assert_eq!(course.target, 512);
    }
}

#[test]
fn a_pod_that_no_resize_helps_is_evicted() {
    let course = run(&Scenario {
        flavour: Flavour::Deaf,
        ..Scenario::default()
    });
    let kinds: Vec<_> = course.acts.iter().map(|(_, kind, _)| *kind).collect();
    assert_eq!(
        kinds.iter().filter(|kind| **kind == "evict").count(),
        1,
        "{course:?}"
    );
    assert!(kinds.len() <= 4 && course.healed_at.is_some(), "{course:?}");
    assert!(course.target <= 144, "{course:?}");
}

#[test]
fn a_pod_that_needs_more_than_the_cap_is_left_alone_and_says_so() {
    for mode in ["InPlaceOrRecreate", "InPlace", "Recreate"] {
        let course = run(&Scenario {
            mode,
            need: 10_000,
            cap: 100,
            ..Scenario::default()
        });
        assert_eq!(
            course.last_skips,
            [SkipReason::OomKilledAtTarget],
            "{mode} {course:?}"
        );
        assert!(course.acts.len() <= 6, "{mode} {course:?}");
        let last = course.acts.last().expect("an act").0;
        assert!(last < 600, "{mode} {course:?}");
    }
}

fn scenario() -> impl Strategy<Value = Scenario> {
    let mode = prop_oneof![Just("InPlaceOrRecreate"), Just("InPlace"), Just("Recreate")];
    let flavour = prop_oneof![
        Just(Flavour::Real),
        Just(Flavour::Slow),
        Just(Flavour::Deaf),
        Just(Flavour::Mended)
    ];
    let elections = proptest::collection::vec(0..LENGTH, 0..4);
    let sizes = (32i64..600, 64i64..1200, 64i64..1500, 1i64..200);
    (mode, flavour, sizes, any::<bool>(), elections).prop_map(
        |(mode, flavour, sizes, is_protected, elections)| {
            let (start, need, cap, rate) = sizes;
            Scenario {
                mode,
                flavour,
                start: start.min(cap),
                need,
                cap,
                rate,
                is_protected,
                elections,
            }
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 64, failure_persistence: None, ..ProptestConfig::default()
    })]

    /// Whatever the kubelet does: few acts, no resize twice, no act on a healed pod, and a target
    /// that follows the need of the program.
    #[test]
    fn acts_are_few_and_the_target_follows_the_need(scenario in scenario()) {
        let course = run(&scenario);
        // A bump for each factor of 1.2 up to the need, a step and an eviction at each size.
        // Where nothing takes effect and nothing is evicted, the target reaches the cap.
        let highest = if scenario.flavour == Flavour::Deaf {
            scenario.cap
        } else {
            scenario.need.min(scenario.cap)
        };
        let factor = highest as f64 / scenario.start as f64;
        let bumps = factor.ln() / 1.2f64.ln();
        let most = 3 * (bumps.max(0.0) as usize + 2 + scenario.elections.len());
        prop_assert!(course.acts.len() <= most, "{} of {most}: {course:?}", course.acts.len());
        for pair in course.acts.windows(2) {
            let [(_, before, had), (_, after, has)] = pair else { continue };
            let is_resized_again = *before == "resize" && *after == "resize";
            prop_assert!(!is_resized_again || has > had, "less memory: {course:?}");
        }
        if let Some(healed_at) = course.healed_at {
            let late = course.acts.iter().filter(|(second, ..)| *second > healed_at);
            prop_assert_eq!(late.count(), 0, "{:?}", course);
        }
        let evicts = course.acts.iter().any(|(_, kind, _)| *kind == "evict");
        prop_assert!(!evicts || scenario.mode != "InPlace");
        if scenario.flavour == Flavour::Real && scenario.elections.is_empty() {
            let highest = (scenario.need as f64 * 1.44).max(scenario.start as f64);
            prop_assert!(course.target as f64 <= highest + 1.0, "{course:?}");
            // A slow program in long back-offs takes more than an hour to reach its need.
            let is_on_its_way = course.target < scenario.need;
            let last = course.acts.last().map_or(0, |(second, ..)| *second);
            prop_assert!(
                course.healed_at.is_some() || is_on_its_way || last > LENGTH - 600,
                "{course:?}"
            );
        }
    }
}

fn with_memory(mib: &str, killed: impl Fn(&mut Value)) -> impl Fn(&mut Value) {
    move |pod| {
        killed(pod);
        let memory = format!("{mib}Mi");
        pod["spec"]["containers"][0]["resources"] =
            json!({"requests": {"cpu": "1", "memory": memory}, "limits": {"memory": memory}});
    }
}

fn fixture(mode: &str) -> Fixture {
    let mut fixture = Fixture::new();
    fixture.settings.in_place = true;
    fixture.workload("web", 1, &json!({"minReplicas": 1, "updateMode": mode}));
    fixture
}

/// In a back-off since a second before noon.
fn stopped(pod: &mut Value) {
    killed(pod);
    let status = &mut pod["status"]["containerStatuses"][0];
    status["state"] = json!({"waiting": {"reason": "CrashLoopBackOff"}});
}

#[test]
fn a_resize_waits_until_the_container_runs() {
    for mode in ["InPlaceOrRecreate", "InPlace"] {
        let mut fixture = fixture(mode);
        fixture.pod_with("web", "web-0", &json!({}), with_memory("60", stopped));
        fixture.check_skipped(SkipReason::ContainerStopped);
        fixture.pod_with("web", "web-0", &json!({}), with_memory("60", killed));
        let plan = fixture.pass();
        assert!(
            matches!(only_action(&plan).kind, ActionKind::Resize { .. }),
            "{mode}"
        );
    }
}

#[test]
fn a_pod_whose_cgroup_is_not_bounded_is_resized_at_once() {
    let mut fixture = fixture("InPlaceOrRecreate");
    fixture.pod_with("web", "web-0", &json!({}), |pod| {
        with_memory("60", stopped)(pod);
        let containers = pod["spec"]["containers"].as_array_mut().expect("a list");
        containers.push(json!({"name": "proxy"}));
    });
    let plan = fixture.pass();
    assert!(matches!(only_action(&plan).kind, ActionKind::Resize { .. }));
}

#[test]
fn a_long_back_off_ends_in_an_eviction_where_the_mode_allows_one() {
    for (mode, expected) in [("InPlaceOrRecreate", vec!["web-0"]), ("InPlace", vec![])] {
        let mut fixture = fixture(mode);
        fixture.pod_with("web", "web-0", &json!({}), with_memory("60", stopped));
        fixture.pass();
        let pass = |fixture: &mut Fixture, seconds| -> Plan {
            fixture.now.wall += Duration::from_secs(seconds);
            fixture.now.monotonic += Duration::from_secs(seconds);
            fixture.pass()
        };
        assert_eq!(pass(&mut fixture, 28).actions.len(), 0, "{mode}");
        assert_eq!(evicted(&pass(&mut fixture, 2)), expected, "{mode}");
    }
}

#[test]
fn a_boosted_pod_that_is_killed_before_it_is_ready_gets_memory() {
    for mode in ["InPlaceOrRecreate", "Recreate"] {
        let mut fixture = fixture(mode);
        fixture.settings.startup_boost = true;
        fixture.boost("web", 30);
        let with = json!({"ready": false, "cpu": "2"});
        fixture.pod_with("web", "web-0", &with, |pod| {
            boosted(pod, "1", "2026-01-01T11:59:00Z");
            killed(pod);
            pod["spec"]["containers"][0]["resources"] =
                json!({"requests": {"cpu": "2", "memory": "60Mi"}});
        });
        fixture.pass();
        fixture.now.monotonic += Duration::from_secs(2);
        let plan = fixture.pass();
        let action = only_action(&plan);
        if let ActionKind::Resize { patch, .. } = &action.kind {
            let text = serde_json::to_string(patch).expect("a patch");
            assert!(text.contains("100Mi") && !text.contains("cpu"), "{text}");
        }
    }
}

#[test]
fn a_pod_killed_after_its_last_resize_and_running_since_is_left_alone() {
    let mut fixture = fixture("InPlaceOrRecreate");
    let note = r#"{"at":"2026-01-01T11:59:40Z","act":"resize"}"#;
    fixture.pod_with("web", "web-0", &json!({}), |pod| {
        with_memory("100", |pod| {
            killed_at(pod, "2026-01-01T11:59:30Z", "2026-01-01T11:59:39Z");
        })(pod);
        pod["metadata"]["annotations"] =
            json!({"vpaInPlaceUpdated": "true", rollout::OOM_RESIZE: note});
    });
    let plan = fixture.pass();
    assert_eq!(
        (plan.actions.len(), plan.skips.len(), plan.refutations.len()),
        (0, 0, 0)
    );
}
