//! Arrivals and departures of pods.

use crate::bootstrap::split_mix;

/// Mean time between arrival and departure in seconds: three days.
const MEAN_PRESENCE: f64 = 3.0 * 86_400.0;
/// Mean time between departure and arrival in seconds: six hours.
const MEAN_ABSENCE: f64 = 6.0 * 3600.0;
/// All pods arrive in the first day.
const FIRST_ARRIVALS: i64 = 86_400;

/// Arrival or departure of a pod at the start of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct LifeEvent {
    pub(crate) slot: usize,
    /// Whether the pod arrives; departures of a slot come first.
    pub(crate) arrives: bool,
    pub(crate) pod: usize,
}

/// Arrivals and departures in order. Each pod arrives in the first day, at a uniform time. Presence
/// and absence have exponential lengths of three days and six hours on average, at least a slot.
pub(crate) fn life_cycle(pods: usize, slots: usize, step: i64, seed: u64) -> Vec<LifeEvent> {
    let mut state = seed;
    let mut uniform = || (split_mix(&mut state) >> 11) as f64 / (1_u64 << 53) as f64;
    let step = step as f64;
    let mut events = Vec::new();
    for pod in 0..pods {
        let mut slot = (uniform() * FIRST_ARRIVALS as f64 / step) as usize;
        let mut arrives = true;
        while slot < slots {
            events.push(LifeEvent { slot, arrives, pod });
            let mean = if arrives { MEAN_PRESENCE } else { MEAN_ABSENCE };
            let seconds = -mean * (1.0 - uniform()).ln();
            slot += ((seconds / step).round() as usize).max(1);
            arrives = !arrives;
        }
    }
    events.sort_unstable();
    events
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pods_arrive_and_depart_in_turn() {
        let (pods, slots) = (50, 17_280);
        let events = life_cycle(pods, slots, 300, 7);
        assert!(events.is_sorted());
        assert_eq!(events, life_cycle(pods, slots, 300, 7));
        assert_ne!(events, life_cycle(pods, slots, 300, 8));
        for pod in 0..pods {
            let mut of_pod = events.iter().filter(|event| event.pod == pod);
            let first = of_pod.next().expect("an arrival");
            assert!(first.arrives && first.slot < 288, "{first:?}");
            let mut last = first;
            for event in of_pod {
                assert!(event.slot > last.slot && event.arrives != last.arrives);
                last = event;
            }
        }
        // 60 days of 3.25 days each, twice.
        let mean = events.len() as f64 / pods as f64;
        assert!((30.0..45.0).contains(&mean), "{mean}");
    }
}
