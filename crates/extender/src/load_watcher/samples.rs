//! Windows of load from the samples of a source without history, such as metrics-server.

use std::collections::{HashMap, VecDeque};

use jiff::{SignedDuration, Timestamp};
use placement::{NodeLoad, Usage, Window, WindowLoad};

use super::Nodes;

/// Length of the history: that of the longest window.
const LENGTH: SignedDuration = SignedDuration::from_mins(15);
/// Maximum number of samples per node: one per second.
const MAX_SAMPLES: usize = 900;
/// Maximum age of a node's newest sample, compared with the newest sample of all nodes. An older
/// node is left out: the source does not measure it any more.
const MAX_LAG: SignedDuration = SignedDuration::from_mins(3);
const MAX_AHEAD: SignedDuration = SignedDuration::from_mins(1);

/// Utilization of a node at one time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct LoadSample {
    /// Time of the source.
    pub(super) at: Timestamp,
    /// Used CPU in percent of capacity.
    pub(super) cpu_percent: Option<f64>,
    /// Used memory in percent of capacity.
    pub(super) memory_percent: Option<f64>,
}

/// Samples of the last 15 minutes by node.
#[derive(Debug, Default)]
pub(super) struct SampleHistory {
    nodes: HashMap<String, VecDeque<LoadSample>>,
}

impl SampleHistory {
    /// Adds a sample that is newer than the last one of its node, and neither too old nor in the
    /// future.
    pub(super) fn add(&mut self, node: &str, sample: LoadSample, now: Timestamp) {
        let age = now.duration_since(sample.at);
        if age > LENGTH || age < -MAX_AHEAD {
            return;
        }
        let samples = match self.nodes.get_mut(node) {
            Some(samples) => samples,
            None => self.nodes.entry(node.to_owned()).or_default(),
        };
        if samples.back().is_some_and(|last| sample.at <= last.at) {
            return;
        }
        if samples.len() == MAX_SAMPLES {
            samples.pop_front();
        }
        samples.push_back(sample);
    }

    /// Removes old samples, and nodes that the cluster does not have.
    pub(super) fn prune(&mut self, nodes: &Nodes, now: Timestamp) {
        self.nodes.retain(|name, samples| {
            while let Some(first) = samples.front()
                && now.duration_since(first.at) > LENGTH
            {
                samples.pop_front();
            }
            !samples.is_empty() && nodes.contains_key(name)
        });
    }

    /// Samples by node, oldest first.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&String, &VecDeque<LoadSample>)> {
        self.nodes.iter()
    }

    /// The load of each window, which ends with the newest sample; none without samples.
    pub(super) fn windows(&self) -> Vec<(Window, WindowLoad)> {
        let newest = |samples: &VecDeque<LoadSample>| samples.back().map(|sample| sample.at);
        let Some(end) = self.nodes.values().filter_map(newest).max() else {
            return Vec::new();
        };
        let is_current = |samples: &&VecDeque<LoadSample>| {
            newest(samples).is_some_and(|newest| end.duration_since(newest) <= MAX_LAG)
        };
        let load = |window: Window| {
            let length = SignedDuration::from_mins(window.minutes());
            let nodes = self
                .nodes
                .iter()
                .filter(|(_, samples)| is_current(samples))
                .map(|(name, samples)| (name.clone(), node_load(samples, end, length)))
                .collect();
            (window, WindowLoad { end, nodes })
        };
        Window::ALL.map(load).into()
    }
}

fn node_load(samples: &VecDeque<LoadSample>, end: Timestamp, length: SignedDuration) -> NodeLoad {
    let within = || {
        let in_window = move |sample: &&LoadSample| end.duration_since(sample.at) < length;
        samples.iter().rev().take_while(in_window)
    };
    NodeLoad {
        cpu: usage(within().filter_map(|sample| sample.cpu_percent)),
        memory: usage(within().filter_map(|sample| sample.memory_percent)),
        ..NodeLoad::default()
    }
}

/// The average and the standard deviation of the population, as Prometheus' `stddev_over_time`.
fn usage(values: impl Iterator<Item = f64> + Clone) -> Option<Usage> {
    let count = values.clone().count() as f64;
    let average = values.clone().sum::<f64>() / count;
    let squares: f64 = values.map(|value| (value - average).powi(2)).sum();
    (count > 0.0).then(|| Usage {
        average_percent: average,
        deviation_percent: (squares / count).sqrt(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: i64 = 1_767_270_000;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(START + second).expect("a time")
    }

    fn sample(second: i64, cpu: f64) -> LoadSample {
        LoadSample {
            at: at(second),
            cpu_percent: Some(cpu),
            memory_percent: None,
        }
    }

    fn cpu(history: &SampleHistory, node: &str) -> [Option<(f64, f64)>; 3] {
        let windows = history.windows();
        Window::ALL.map(|window| {
            let load = windows.iter().find(|(found, _)| *found == window)?;
            let cpu = load.1.nodes.get(node)?.cpu?;
            Some((cpu.average_percent, cpu.deviation_percent))
        })
    }

    #[test]
    fn windows_have_average_and_deviation_of_their_samples() {
        let mut history = SampleHistory::default();
        for (second, percent) in [(60, 10.0), (400, 30.0), (640, 50.0), (900, 70.0)] {
            history.add("n1", sample(second, percent), at(900));
        }
        history.add("n2", sample(890, 5.0), at(900));
        let expected = [
            Some((40.0, 500_f64.sqrt())),
            Some((50.0, (800_f64 / 3.0).sqrt())),
            Some((60.0, 10.0)),
        ];
        for (found, expected) in cpu(&history, "n1").into_iter().zip(expected) {
            let (found, expected) = (found.expect("load"), expected.expect("load"));
            assert!(
                (found.0 - expected.0).abs() < 1e-9,
                "{found:?} {expected:?}"
            );
            assert!(
                (found.1 - expected.1).abs() < 1e-9,
                "{found:?} {expected:?}"
            );
        }
        assert_eq!(cpu(&history, "n2"), [Some((5.0, 0.0)); 3]);
        let ends = history.windows().into_iter().map(|(_, load)| load.end);
        assert_eq!(ends.collect::<Vec<_>>(), [at(900); 3]);
    }

    #[test]
    fn repeated_late_old_and_future_samples_are_ignored() {
        let mut history = SampleHistory::default();
        for (second, percent) in [
            (900, 10.0),
            (900, 90.0),
            (880, 90.0),
            (-1, 90.0),
            (961, 90.0),
        ] {
            history.add("n1", sample(second, percent), at(900));
        }
        assert_eq!(cpu(&history, "n1"), [Some((10.0, 0.0)); 3]);
    }

    #[test]
    fn a_node_that_is_not_measured_any_more_is_left_out() {
        let mut history = SampleHistory::default();
        history.add("lost", sample(0, 10.0), at(0));
        history.add("n1", sample(180, 20.0), at(180));
        assert!(cpu(&history, "lost")[0].is_some());
        history.add("n1", sample(181, 20.0), at(181));
        assert_eq!(cpu(&history, "lost"), [None; 3]);
        assert!(cpu(&history, "n1")[0].is_some());
    }

    #[test]
    fn old_samples_and_deleted_nodes_are_removed() {
        let mut history = SampleHistory::default();
        for second in 0..2000 {
            history.add("n1", sample(second, 10.0), at(second));
        }
        history.add("deleted", sample(1999, 10.0), at(1999));
        assert_eq!(history.nodes["n1"].len(), MAX_SAMPLES);
        let nodes = Nodes::from([("n1".to_owned(), super::super::NodeInfo::default())]);
        history.prune(&nodes, at(2500));
        assert_eq!(history.nodes.len(), 1);
        assert_eq!(history.nodes["n1"].len(), 400);
        history.prune(&nodes, at(9000));
        assert_eq!(history.windows(), []);
    }
}
