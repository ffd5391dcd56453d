//! Pods of one workload: ready ones, and those that start.

use std::collections::VecDeque;

/// Pods of one workload. Times are seconds since 1970.
#[derive(Clone, Debug)]
pub(super) struct Pods {
    ready: i32,
    /// Time at which pods become ready, and their number; the oldest first.
    starting: VecDeque<(i64, i32)>,
}

impl Pods {
    pub(super) fn ready(ready: i32) -> Self {
        Self {
            ready,
            starting: VecDeque::new(),
        }
    }

    /// Number of ready pods at a time.
    pub(super) fn ready_at(&mut self, now: i64) -> i32 {
        while let Some((_, count)) = self.starting.pop_front_if(|(at, _)| *at <= now) {
            self.ready += count;
        }
        self.ready
    }

    pub(super) fn count(&self) -> i32 {
        self.ready + self.starting.iter().map(|(_, count)| count).sum::<i32>()
    }

    /// Adds pods that are ready at a time, or removes pods: the youngest first, as a `ReplicaSet`
    /// removes unready ones first.
    pub(super) fn scale(&mut self, replicas: i32, ready_at: i64) {
        let mut surplus = self.count() - replicas;
        if surplus < 0 {
            self.starting.push_back((ready_at, -surplus));
        }
        while surplus > 0 {
            let Some((_, count)) = self.starting.back_mut() else {
                self.ready -= surplus;
                return;
            };
            let removed = surplus.min(*count);
            *count -= removed;
            surplus -= removed;
            if *count == 0 {
                self.starting.pop_back();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pods_start_in_order_and_the_youngest_leave_first() {
        let mut pods = Pods::ready(3);
        pods.scale(5, 120);
        pods.scale(9, 180);
        for (now, ready) in [(119, 3), (120, 5), (179, 5)] {
            assert_eq!((pods.ready_at(now), pods.count()), (ready, 9), "{now}");
        }
        pods.scale(6, 240);
        assert_eq!((pods.ready_at(180), pods.count()), (6, 6));
        pods.scale(7, 300);
        pods.scale(2, 300);
        assert_eq!((pods.ready_at(300), pods.count()), (2, 2));
    }
}
