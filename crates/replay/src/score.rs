//! Scores of replays: waste, shortage and changes, per entity and over all.

/// Sums over the scored slots of one series.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct EntityScore {
    pub slots: f64,
    pub requested: f64,
    /// Sum of usage up to the request.
    pub used: f64,
    pub usage: f64,
    pub short_slots: f64,
    /// Sum of usage above the request.
    pub deficit: f64,
    pub days: f64,
    /// Sum over days of (mean request - 95th percentile of usage) / mean request.
    pub relative_slack: f64,
    pub ooms: f64,
    /// Days without an OOM kill.
    pub oom_free_days: f64,
    /// Days with at least three OOM kills.
    pub seriously_hit_days: f64,
    pub changes: f64,
    day: Day,
}

#[derive(Clone, Debug, Default, PartialEq)]
struct Day {
    slots: usize,
    usage: Vec<f64>,
    requested: f64,
    ooms: u32,
}

const SERIOUS: u32 = 3;

impl EntityScore {
    pub(crate) fn new(slots_per_day: usize) -> Self {
        Self {
            day: Day {
                slots: slots_per_day,
                ..Day::default()
            },
            ..Self::default()
        }
    }

    /// Adds a slot. Closes the day before, if that is complete.
    pub(crate) fn add_slot(&mut self, usage: f64, request: f64) {
        if self.day.usage.len() == self.day.slots {
            self.close_day();
        }
        self.slots += 1.0;
        self.requested += request;
        self.used += usage.min(request);
        self.usage += usage;
        self.short_slots += f64::from(u8::from(usage > request));
        self.deficit += (usage - request).max(0.0);
        self.day.usage.push(usage);
        self.day.requested += request;
    }

    pub(crate) fn add_oom(&mut self, is_scored: bool) {
        if is_scored {
            self.ooms += 1.0;
            self.day.ooms += 1;
        }
    }

    pub(crate) fn add_change(&mut self, is_scored: bool) {
        self.changes += f64::from(u8::from(is_scored));
    }

    /// Closes the last day if at least half of it was scored.
    pub(crate) fn finish(&mut self) {
        if self.day.usage.len() * 2 >= self.day.slots {
            self.close_day();
        }
        self.day = Day::default();
    }

    fn close_day(&mut self) {
        let day = &mut self.day;
        let mean = day.requested / day.usage.len() as f64;
        self.days += 1.0;
        if mean > 0.0 {
            self.relative_slack += (mean - percentile(&mut day.usage, 0.95)) / mean;
        }
        let ooms = std::mem::take(&mut day.ooms);
        day.usage.clear();
        day.requested = 0.0;
        self.oom_free_days += f64::from(u8::from(ooms == 0));
        self.seriously_hit_days += f64::from(u8::from(ooms >= SERIOUS));
    }
}

/// The percentile with linear interpolation. Reorders the values, of which there is at least one.
fn percentile(values: &mut [f64], fraction: f64) -> f64 {
    let position = fraction * (values.len() - 1) as f64;
    let (_, lower, above) = values.select_nth_unstable_by(position as usize, f64::total_cmp);
    let lower = *lower;
    let next = above.iter().copied().fold(f64::INFINITY, f64::min);
    if next.is_finite() {
        lower + (next - lower) * position.fract()
    } else {
        lower
    }
}

/// The scores of all entities as ratios.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Score {
    /// 1 - used / requested, over all entities.
    pub aggregate_slack: f64,
    /// Mean over days of (mean request - 95th percentile of usage) / mean request.
    pub relative_slack: f64,
    /// Share of slots with usage above the request.
    pub short_time: f64,
    /// Usage above the request as a share of usage.
    pub deficit: f64,
    /// OOM kills per day.
    pub ooms: f64,
    /// Share of days without an OOM kill.
    pub oom_free: f64,
    /// Share of days with at least three OOM kills.
    pub seriously_hit: f64,
    pub changes: f64,
}

impl Score {
    pub fn of<'a>(entities: impl IntoIterator<Item = &'a EntityScore>) -> Self {
        let mut sum = EntityScore::default();
        for entity in entities {
            sum.slots += entity.slots;
            sum.requested += entity.requested;
            sum.used += entity.used;
            sum.usage += entity.usage;
            sum.short_slots += entity.short_slots;
            sum.deficit += entity.deficit;
            sum.days += entity.days;
            sum.relative_slack += entity.relative_slack;
            sum.ooms += entity.ooms;
            sum.oom_free_days += entity.oom_free_days;
            sum.seriously_hit_days += entity.seriously_hit_days;
            sum.changes += entity.changes;
        }
        let ratio = |part: f64, whole: f64| if whole > 0.0 { part / whole } else { 0.0 };
        Self {
            aggregate_slack: 1.0 - ratio(sum.used, sum.requested),
            relative_slack: ratio(sum.relative_slack, sum.days),
            short_time: ratio(sum.short_slots, sum.slots),
            deficit: ratio(sum.deficit, sum.usage),
            ooms: ratio(sum.ooms, sum.days),
            oom_free: ratio(sum.oom_free_days, sum.days),
            seriously_hit: ratio(sum.seriously_hit_days, sum.days),
            changes: ratio(sum.changes, sum.days),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scores_are_ratios_of_sums() {
        let mut entity = EntityScore::new(4);
        for (usage, request) in [(1.0, 4.0), (2.0, 4.0), (3.0, 4.0), (6.0, 4.0), (1.0, 1.0)] {
            entity.add_slot(usage, request);
            entity.add_oom(usage > request);
        }
        entity.add_change(true);
        entity.add_change(false);
        entity.finish();
        let score = Score::of([&entity]);
        // The second day has one slot of four and does not count.
        let p95 = 3.0 + 0.85 * 3.0;
        for (found, expected) in [
            (score.aggregate_slack, 1.0 - 11.0 / 17.0),
            (score.relative_slack, (4.0 - p95) / 4.0),
            (score.short_time, 0.2),
            (score.deficit, 2.0 / 13.0),
            (score.ooms, 1.0),
            (score.oom_free, 0.0),
            (score.changes, 1.0),
        ] {
            assert!((found - expected).abs() < 1e-12, "{score:?}");
        }
    }
}
