//! Wall clocks that are behind, ahead or jump, while pods are measured with the right times: no
//! history is lost, in memory or in checkpoints.

use std::sync::Arc;
use std::time::Duration;

use model::ContainerUsage;
use view::ObjectKey;

use super::fixture::{self, Cluster, MI, at, cpu_target, kill, pod, stored};
use crate::checkpoint::plan::checkpoint_action;

const MINUTE: i64 = 60;
const HOUR: i64 = 60 * MINUTE;
const DAY: i64 = 24 * HOUR;
/// By how much a clock is ahead.
const JUMPS: [i64; 10] = [
    -200 * DAY,
    -8 * DAY,
    -DAY - HOUR,
    -HOUR,
    -30,
    30,
    HOUR,
    DAY + HOUR,
    8 * DAY,
    200 * DAY,
];

/// A recommender whose clock may be wrong, and the API server that keeps what it stores.
struct Clocked {
    cluster: Cluster,
}

impl Clocked {
    /// Two days of usage of `web-1`, each half hour, of which `web-0` of an earlier version was
    /// there on the first.
    fn new() -> Self {
        Self::ahead(0)
    }

    /// The same, with all clocks ahead by this many seconds.
    fn ahead(ahead: i64) -> Self {
        let mut cluster = Cluster::web(&["web-1"]);
        let earlier = model::Labels::from_iter([("app", "web"), ("version", "1")]);
        cluster.add_pod(view::Pod {
            labels: earlier,
            ..pod("web-0", "web")
        });
        cluster.load(0);
        let mut clocked = Self { cluster };
        for second in (0..2 * DAY).step_by(1800) {
            if second == DAY {
                clocked.cluster.delete_pod("web-0");
            }
            clocked.round(second, ahead, ahead);
        }
        clocked
    }

    /// One round at a true time: with a clock and samples that are ahead by so much.
    fn round(&mut self, second: i64, clock: i64, samples: i64) {
        let running = self.cluster.view.pods.iter();
        let usage = running.map(|pod| usage(&pod.key.name, second + samples, 250));
        self.round_with(second, clock, &usage.collect::<Vec<_>>());
    }

    fn round_with(&mut self, second: i64, clock: i64, usage: &[ContainerUsage]) {
        let now = at(second + clock);
        let state = &mut self.cluster.state;
        state.load_vpas(&self.cluster.view);
        state.load_checkpoints(&self.cluster.view.checkpoints, now);
        state.load_pods(&self.cluster.view, now);
        state.begin_usage(usage, now);
        state.load_checkpoints(&self.cluster.view.checkpoints, now);
        state.take_usage(usage, now, |_, _, _| ());
        state.source_read(!usage.is_empty());
        state.round_ended(now, Duration::from_secs(second.unsigned_abs()));
        state.delete_removed_pods();
        state.collect_garbage(now);
        self.store(second + clock);
    }

    /// Stores checkpoints as the checkpoint controller does after a round.
    fn store(&mut self, second: i64) {
        let now = at(second);
        for key in self.cluster.state.checkpointed(now).unwrap_or_default() {
            for (container, status) in self.cluster.state.checkpoints(&key, now) {
                let object = ObjectKey::new("shop", format!("{}-{container}", key.name));
                let checkpoints = &mut self.cluster.view.checkpoints;
                let known = checkpoints.get(&object).map(AsRef::as_ref);
                let action =
                    checkpoint_action(&key.name, &container, &status, None, known, true, now);
                if action.is_write() {
                    checkpoints.apply(Arc::new(stored(&key.name, &container, status)));
                }
            }
        }
    }

    /// Samples that are known, and those that are stored.
    fn samples(&self, second: i64) -> (i64, i64) {
        let checkpoints = &self.cluster.view.checkpoints;
        let object = checkpoints.get(&ObjectKey::new("shop", "web-main"));
        let status = object.and_then(|object| object.status.as_ref());
        let stored = status.map_or(0, |status| status.total_samples_count);
        (self.cluster.samples(second), stored)
    }

    /// Checks that no history is lost, in memory or in checkpoints.
    #[track_caller]
    fn check_all(&self, second: i64, when: &str) {
        let (known, stored) = self.samples(second);
        assert!(known >= ALL && stored >= ALL, "{when}: {known} {stored}");
    }

    /// Checks that more is known than before the last restart.
    #[track_caller]
    fn check_more(&self, second: i64, when: &str) {
        let samples = self.samples(second);
        assert!(samples.0 > ALL, "{when}: {samples:?}");
    }

    fn restarted(self) -> Self {
        Self {
            cluster: self.cluster.new_process(),
        }
    }
}

fn usage(pod: &str, second: i64, millicores: i64) -> ContainerUsage {
    fixture::usage(pod, second, millicores, 300 * MI)
}

const ALL: i64 = 96 + 48;

#[test]
fn a_clock_that_jumps_and_comes_back_loses_no_history() {
    for jump in JUMPS {
        let mut clocked = Clocked::new();
        assert_eq!(clocked.samples(2 * DAY), (ALL, ALL));
        for (index, clock) in [0, jump, jump, 0, jump, 0, 0].into_iter().enumerate() {
            clocked.round(2 * DAY + index as i64 * MINUTE, clock, 0);
            clocked.check_all(2 * DAY + HOUR, &format!("{jump} {index}"));
        }
        let (known, stored) = clocked.samples(2 * DAY + HOUR);
        assert_eq!(
            known, stored,
            "{jump}: all is stored once the clock is right"
        );
    }
}

#[test]
fn a_clock_that_stays_wrong_for_days_loses_no_history() {
    for jump in JUMPS.into_iter().filter(|jump| jump.abs() > HOUR) {
        let mut clocked = Clocked::new();
        for second in (2 * DAY..5 * DAY).step_by(1800) {
            clocked.round(second, jump, 0);
        }
        clocked.check_all(5 * DAY, &jump.to_string());
    }
}

#[test]
fn a_jump_of_all_clocks_loses_no_history() {
    for jump in JUMPS.into_iter().filter(|jump| *jump < 100 * DAY) {
        let mut clocked = Clocked::new();
        for (index, jump) in [0, jump, jump, 0, 0].into_iter().enumerate() {
            clocked.round(2 * DAY + index as i64 * MINUTE, jump, jump);
            clocked.check_all(2 * DAY + HOUR, &format!("{jump} {index}"));
        }
        let mut after = clocked.restarted();
        after.round(2 * DAY + HOUR, 0, 0);
        after.check_more(2 * DAY + HOUR, &jump.to_string());
    }
}

#[test]
fn a_start_with_a_wrong_clock_loses_nothing_that_is_stored() {
    for jump in JUMPS {
        let mut after = Clocked::new().restarted();
        for (index, clock) in [jump, jump, jump, jump, 0, 0].into_iter().enumerate() {
            let second = 2 * DAY + index as i64 * MINUTE;
            // The source of usage is silent at first.
            let measured = [usage("web-1", second, 250)];
            after.round_with(second, clock, if index < 2 { &[] } else { &measured });
            assert!(after.samples(2 * DAY + HOUR).1 >= ALL, "{jump} {index}");
        }
        after.check_more(2 * DAY + HOUR, &jump.to_string());
    }
}

#[test]
fn replicas_with_different_clocks_lose_no_history() {
    for wrong in [-200 * DAY, -8 * DAY, -HOUR, 8 * DAY, 200 * DAY] {
        for nodes_too in [false, true] {
            if nodes_too && wrong.abs() > 100 * DAY {
                continue;
            }
            let mut leader = Clocked::new();
            for (term, clock) in (0..).zip([wrong, 0, wrong, 0]) {
                leader = leader.restarted();
                for round in 0..4 {
                    let second = 2 * DAY + (term * 4 + round) * MINUTE;
                    // The source of usage is silent at first.
                    if round == 0 {
                        leader.round_with(second, clock, &[]);
                    } else {
                        leader.round(second, clock, if nodes_too { clock } else { 0 });
                    }
                    let (_, stored) = leader.samples(2 * DAY + HOUR);
                    assert!(
                        stored >= ALL,
                        "{wrong} {nodes_too} {term} {round}: {stored}"
                    );
                }
            }
            let (known, stored) = leader.samples(2 * DAY + HOUR);
            assert_eq!(stored, known, "{wrong} {nodes_too}");
            leader.check_more(2 * DAY + HOUR, &format!("{wrong} {nodes_too}"));
        }
    }
}

#[test]
fn history_from_the_future_waits_for_usage_and_does_not_outweigh_it() {
    for ahead in [2 * DAY, 8 * DAY, 99 * DAY, 200 * DAY] {
        let mut after = Clocked::ahead(ahead).restarted();
        after.round_with(2 * DAY, 0, &[]);
        // Nothing says yet whose clock is wrong.
        assert_eq!(after.samples(2 * DAY), (0, ALL), "{ahead}");
        after.round(2 * DAY + MINUTE, 0, 0);
        // Usage confirms this clock.
        assert_eq!(
            after.samples(2 * DAY + MINUTE),
            (ALL + 1, ALL + 1),
            "{ahead}"
        );
        for second in (2 * DAY + HOUR..4 * DAY).step_by(1800) {
            after.round_with(second, 0, &[usage("web-1", second, 1000)]);
        }
        let cpu = cpu_target(&after.cluster.decide_status(4 * DAY));
        assert!(
            cpu.as_ref().is_some_and(|cpu| cpu.starts_with('1')),
            "{ahead}: {cpu:?}"
        );
    }
}

#[test]
fn a_kill_counts_though_history_was_stored_in_the_future() {
    let mut after = Clocked::ahead(8 * DAY).restarted();
    after.round(2 * DAY, 0, 0);
    after.round(2 * DAY + MINUTE, 0, 0);
    let counts = after.cluster.kill("web-1", 2 * DAY + 2 * MINUTE);
    assert_eq!(counts.accepted, 1);
}

#[test]
fn a_silent_source_of_usage_speaks_against_no_clock() {
    let mut clocked = Clocked::new();
    for second in (2 * DAY..2 * DAY + 3 * HOUR).step_by(60) {
        clocked.round_with(second, 0, &[]);
        assert!(
            clocked.cluster.state.checkpointed(at(second)).is_some(),
            "{second}"
        );
    }
    for (index, jump) in (0..).zip(JUMPS.into_iter().filter(|jump| jump.abs() > HOUR)) {
        let second = 2 * DAY + (180 + index) * MINUTE;
        clocked.round_with(second, jump, &[]);
        // The steady clock speaks against it.
        assert_eq!(
            clocked.cluster.state.checkpointed(at(second + jump)),
            None,
            "{jump}"
        );
    }
    clocked.round(2 * DAY + 4 * HOUR, 0, 0);
    assert_eq!(clocked.samples(2 * DAY + 4 * HOUR), (ALL + 1, ALL + 1));
}

#[test]
fn history_still_ends_when_its_time_has_come() {
    let mut clocked = Clocked::new();
    for second in (2 * DAY..10 * DAY).step_by(1800) {
        clocked.round(second, 0, 0);
    }
    // The earlier version was measured last eight days ago.
    assert_eq!(clocked.samples(10 * DAY).0, 10 * 48);
}

#[test]
fn the_minimum_does_not_wait_for_a_clock_that_was_ahead() {
    for ahead in [DAY, 8 * DAY, 200 * DAY] {
        let mut cluster = Cluster::web(&[]);
        cluster.add_pod(pod("web-1", "web"));
        cluster.load(ahead);
        cluster.load(1);
        let is_written = |second| {
            let status = cluster.state.decide(at(second)).remove(0).status;
            status.recommendation.is_some()
        };
        assert_eq!([60, 61].map(is_written), [false, true], "{ahead}");
    }
}

#[test]
fn a_kill_counts_with_a_clock_that_is_ahead() {
    for ahead in [HOUR, DAY, 8 * DAY, 200 * DAY] {
        let mut clocked = Clocked::new();
        let Cluster { view, state } = &mut clocked.cluster;
        let (kill, now) = (kill("web-1", 2 * DAY), at(2 * DAY + ahead));
        let mut counts = crate::recommender_state::OomKillCounts::default();
        assert!(state.add_oom_kill(&kill, view, now, &mut counts), "{ahead}");
    }
}

#[test]
fn the_series_of_one_pod_do_not_decide_about_the_clock() {
    let mut cluster = Cluster::web(&["web-1", "web-2", "web-3"]);
    let made_up = (0..10_000).map(|number| {
        let mut usage = fixture::usage("web-1", -2 * HOUR, 250, 100 * MI);
        usage.container.container = format!("c{number}");
        usage
    });
    let others = ["web-2", "web-3"].map(|pod| fixture::usage(pod, 60, 250, 100 * MI));
    let usage: Vec<_> = made_up.chain(others).collect();
    cluster.state.begin_usage(&usage, at(60));
    assert!(cluster.state.checkpointed(at(60)).is_some());
}
