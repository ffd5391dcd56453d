//! Random histories of waves: pods that crash, recover, and become slow or fast, new leaders and clocks that
//! jump.

use std::collections::HashMap;
use std::time::Duration;

use api::rollback::WAVE_QUERY;
use proptest::prelude::*;
use rollout::{HealthMetric, HealthQuery, HealthReading, RolloutState, WaveSettings, add_reading};
use serde_json::json;
use view::{ObjectKey, Pod};

use super::fixture::{ACCEPTED, Fixture};
use super::waves::{MINUTE, backs_off, fixture, pass_time, write};

/// A step of a random history.
#[derive(Debug, Clone)]
enum Step {
    Wait(u64),
    Crash(usize),
    Recover(usize),
    /// The values of a pod by Prometheus become worse, or better.
    Slow(usize),
    Fast(usize),
    /// Whether Prometheus answers.
    Prometheus(bool),
    NewLeader,
    /// The wall clock jumps by this number of seconds.
    Jump(i64),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (1_u64..90).prop_map(Step::Wait),
        2 => (0_usize..20).prop_map(Step::Crash),
        2 => (0_usize..20).prop_map(Step::Recover),
        1 => (0_usize..20).prop_map(Step::Slow),
        2 => (0_usize..20).prop_map(Step::Fast),
        1 => any::<bool>().prop_map(Step::Prometheus),
        1 => Just(Step::NewLeader),
        1 => (-600_i64..600).prop_map(Step::Jump),
    ]
}

/// A pod, and when it got its requests.
#[derive(Debug, Clone, Copy)]
struct Known {
    has_new: bool,
    since: Duration,
    is_well: bool,
    is_slow: bool,
}

struct History {
    fixture: Fixture,
    pods: Vec<Known>,
    is_rolled_back: bool,
    has_prometheus: bool,
}

impl History {
    fn show(&mut self, index: usize) {
        let Known {
            has_new, is_well, ..
        } = self.pods[index];
        let (name, cpu) = (format!("web-{index}"), if has_new { "1" } else { "100m" });
        let ended = self.fixture.now.wall.to_string();
        self.fixture
            .pod_with("web", &name, &json!({"cpu": cpu}), |pod| {
                if !is_well {
                    backs_off(&ended, pod);
                }
            });
    }

    /// The values of all pods, read now.
    fn read(&mut self) {
        let pods = self.pods.iter().enumerate();
        let values =
            pods.map(|(index, pod)| (format!("web-{index}"), f64::from(u8::from(pod.is_slow))));
        let values: HashMap<String, f64> = values.collect();
        let reading = HealthReading {
            began: self.fixture.now.monotonic,
            values: self.has_prometheus.then_some(values),
        };
        let query = HealthQuery {
            namespace: "shop".to_owned(),
            metric: HealthMetric::Expression("slow".to_owned()),
        };
        add_reading(&mut self.fixture.health, query, reading);
    }

    /// Whether a pod has proven its requests. A slow one may have, unless pods with the former requests are well
    /// and none of these is slow.
    fn has_proven(&self, pod: &Known) -> bool {
        let reads_health = self
            .fixture
            .settings
            .waves
            .is_some_and(|it| it.reads_health);
        let mut others = self.pods.iter().filter(|it| !it.has_new && it.is_well);
        let is_comparable = others.clone().next().is_some() && others.all(|it| !it.is_slow);
        let is_healthy = self.has_prometheus && !(pod.is_slow && is_comparable);
        pod.has_new
            && pod.is_well
            && self.fixture.now.monotonic >= pod.since + MINUTE
            && (!reads_health || is_healthy)
    }

    /// A pass whose acts have their effect at once, and the bounds that hold after it.
    fn pass(&mut self) {
        self.read();
        let proven = self.pods.iter().map(|pod| self.has_proven(pod));
        let proven: Vec<bool> = proven.collect();
        let plan = self.fixture.pass();
        self.fixture.report(&plan, &ACCEPTED);
        if plan.rollbacks.iter().any(|it| it.rollback.is_some()) {
            assert_eq!(plan.actions, [], "a wave goes on after a failed gate");
            write(&mut self.fixture, &plan);
            self.is_rolled_back = true;
            return;
        }
        for action in &plan.actions {
            let index: usize = action.pod.name[4..].parse().expect("a number");
            self.pods[index].has_new = !self.is_rolled_back;
            self.pods[index].since = self.fixture.now.monotonic;
            self.show(index);
        }
        let now = self.fixture.now.monotonic;
        let pods = self.pods.iter().zip(&proven);
        // One that fails for ten minutes does not count any more.
        let unproven = pods.filter(|(pod, is_proven)| {
            pod.has_new && !**is_proven && now < pod.since + MINUTE * 10
        });
        if !plan.actions.is_empty() && !self.is_rolled_back {
            let proven = proven.iter().filter(|it| **it).count();
            assert!(unproven.count() <= (3 * proven).max(1), "{:?}", self.pods);
        }
    }

    fn after(&mut self, step: &Step) {
        match *step {
            Step::Wait(seconds) => pass_time(&mut self.fixture, Duration::from_secs(seconds)),
            Step::Crash(index) | Step::Recover(index) => {
                let index = index % self.pods.len();
                self.pods[index].is_well = matches!(step, Step::Recover(_));
                self.show(index);
            }
            Step::Slow(index) | Step::Fast(index) => {
                let index = index % self.pods.len();
                self.pods[index].is_slow = matches!(step, Step::Slow(_));
            }
            Step::Prometheus(answers) => self.has_prometheus = answers,
            Step::NewLeader => self.fixture.state = RolloutState::default(),
            Step::Jump(seconds) => {
                self.fixture.now.wall += jiff::SignedDuration::from_secs(seconds);
            }
        }
        self.pass();
    }

    fn asks_for(&self, index: usize) -> Option<model::Cpu> {
        let key = ObjectKey::new("shop", format!("web-{index}"));
        let pod: &Pod = self.fixture.view.pods.get(&key)?;
        pod.containers[0].requests.cpu
    }
}

proptest! {
    #[test]
    fn no_history_breaks_the_bounds_of_a_wave(
        count in 4_usize..20,
        reads_health: bool,
        steps in prop::collection::vec(step(), 1..60),
    ) {
        let policy = json!({"updateMode": "InPlaceOrRecreate"});
        let pod = Known { has_new: false, since: Duration::ZERO, is_well: true, is_slow: false };
        let mut fixture = fixture(i32::try_from(count).expect("few"), &policy);
        fixture.annotate("web", WAVE_QUERY, "slow");
        fixture.settings.waves = Some(WaveSettings { reads_health, ..WaveSettings::default() });
        let mut history = History {
            fixture,
            pods: vec![pod; count],
            is_rolled_back: false,
            has_prometheus: true,
        };
        history.pass();
        for step in &steps {
            history.after(step);
        }
        // Each change can be put back.
        if history.is_rolled_back {
            history.fixture.now.wall = "2026-01-01T13:00:00Z".parse().expect("a time");
            for _ in 0..count {
                for index in 0..count {
                    history.pods[index].is_well = true;
                    history.show(index);
                }
                pass_time(&mut history.fixture, MINUTE);
                history.pass();
            }
            for index in 0..count {
                prop_assert_eq!(history.asks_for(index), Some(model::Cpu::from_millicores(100)));
            }
        }
    }
}
