//! Plots of amounts over time as inline SVG.

use std::fmt::Write as _;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use replay::plot::{label, path, round_step};
use replay::{Grid, Series};

use crate::output::escape;

const WIDTH: f64 = 1000.0;
const HEIGHT: f64 = 240.0;
const LEFT: f64 = 56.0;
const RIGHT: f64 = 990.0;
const TOP: f64 = 30.0;
const BOTTOM: f64 = 214.0;
/// Maximum number of points of a line; the largest of the slots between counts.
const POINTS: usize = 600;
const DAY: i64 = 86_400;
/// Distances of round times in seconds.
const INTERVALS: [i64; 5] = [60, 600, 1_800, 3_600, 6 * 3_600];

/// Lines over the same slots.
pub(crate) struct Plot {
    /// Start in seconds since 1970.
    pub(crate) start: i64,
    /// Length of a slot in seconds.
    pub(crate) step: i64,
    pub(crate) lines: Vec<Line>,
    /// Slots that are marked as OOM kills.
    pub(crate) kills: Vec<usize>,
}

pub(crate) struct Line {
    name: &'static str,
    class: &'static str,
    pub(crate) first_slot: usize,
    amounts: Vec<f64>,
}

impl Line {
    /// A line with a class of the page's style.
    pub(crate) fn new(name: &'static str, class: &'static str, amounts: Vec<f64>) -> Self {
        Self {
            name,
            class,
            first_slot: 0,
            amounts,
        }
    }
}

impl Plot {
    pub(crate) fn new(start: i64, step: i64, lines: Vec<Line>) -> Self {
        Self {
            start,
            step,
            lines,
            kills: Vec::new(),
        }
    }

    pub(crate) fn figure(&self, title: &str, description: &str) -> String {
        format!(
            "<h3>{}</h3>\n<div class=\"wide\" tabindex=\"0\" role=\"region\" aria-label=\"{}\">{}</div>\n",
            escape(title),
            escape(description),
            self.svg(description)
        )
    }

    fn slots(&self) -> usize {
        let lines = self.lines.iter();
        let ends = lines.map(|line| line.first_slot + line.amounts.len());
        ends.max().unwrap_or(0)
    }

    fn x(&self, slot: f64) -> f64 {
        LEFT + (RIGHT - LEFT) * slot / (self.slots().max(2) - 1) as f64
    }

    pub(crate) fn svg(&self, description: &str) -> String {
        let amounts = self.lines.iter().flat_map(|line| &line.amounts);
        let highest = amounts.copied().fold(0.0, f64::max);
        let step = round_step(highest / 4.0);
        // The first tick above all amounts.
        let top = (highest / step).ceil().max(1.0) * step;
        let y = |amount: f64| BOTTOM - (BOTTOM - TOP) * (amount / top).min(1.0);
        let mut svg = format!(
            "<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{}\">\n",
            escape(description)
        );
        let mut tick = 0.0;
        while tick <= top {
            let at = y(tick);
            let label = label(tick);
            let _ = writeln!(
                svg,
                "<path class=\"grid\" d=\"M{LEFT} {at:.1}H{RIGHT}\"/><text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{label}</text>",
                LEFT - 6.0,
                at + 4.0
            );
            tick += step;
        }
        self.add_times(&mut svg);
        let mut legend = LEFT;
        for line in &self.lines {
            let Line { name, class, .. } = line;
            let _ = writeln!(
                svg,
                "<path class=\"{class}\" d=\"{}\"/>\n\
                 <path class=\"{class}\" d=\"M{legend:.1} 12h20\"/><text x=\"{:.1}\" y=\"16\">{name}</text>",
                self.path(line, y),
                legend + 26.0
            );
            legend += 48.0 + 7.0 * name.len() as f64;
        }
        for slot in &self.kills {
            let _ = writeln!(
                svg,
                "<circle class=\"oom\" cx=\"{:.1}\" cy=\"{TOP}\" r=\"4\"><title>usage at the limit: OOM kill</title></circle>",
                self.x(*slot as f64)
            );
        }
        svg + "</svg>\n"
    }

    /// Lines at midnight with dates, for less than two days at round times (UTC).
    fn add_times(&self, svg: &mut String) {
        let end = self.start + self.step * self.slots() as i64;
        let span = end - self.start;
        let (every, form) = if span < 2 * DAY {
            let fits = |interval: &&i64| span / **interval <= 10;
            let interval = INTERVALS.iter().find(fits);
            (interval.copied().unwrap_or(DAY), "%H:%M")
        } else {
            ((span / DAY / 10).max(1) * DAY, "%b %-d")
        };
        let first = if every < DAY { every } else { DAY };
        let mut time = (self.start + first - 1).div_euclid(first) * first;
        while time < end {
            let x = self.x((time - self.start) as f64 / self.step as f64);
            let text = Timestamp::from_second(time).unwrap_or_default();
            let text = text.to_zoned(TimeZone::UTC).strftime(form);
            let _ = writeln!(
                svg,
                "<path class=\"grid\" d=\"M{x:.1} {TOP}V{BOTTOM}\"/><text x=\"{x:.1}\" y=\"{:.1}\">{text}</text>",
                BOTTOM + 16.0
            );
            time += every;
        }
    }

    fn path(&self, line: &Line, y: impl Fn(f64) -> f64) -> String {
        let slots_per_point = line.amounts.len().div_ceil(POINTS).max(1);
        let points = line.amounts.chunks(slots_per_point).enumerate();
        path(points.map(|(index, slots)| {
            let slot = line.first_slot + index * slots_per_point;
            let amount = slots.iter().copied().fold(0.0, f64::max);
            (self.x(slot as f64), y(amount))
        }))
    }
}

/// Usage of the pods of a container.
pub(crate) struct PerSlot {
    pub(crate) grid: Grid,
    /// Highest usage of a pod.
    pub(crate) highest: Vec<f64>,
    pub(crate) sums: Vec<f64>,
    pub(crate) counts: Vec<u32>,
}

impl PerSlot {
    /// Usage of pods with the same length of slots.
    pub(crate) fn of(pods: &[Series]) -> Self {
        let grid = Grid::of(pods).unwrap_or_default();
        let mut per_slot = Self {
            highest: vec![0.0; grid.slots],
            sums: vec![0.0; grid.slots],
            counts: vec![0; grid.slots],
            grid,
        };
        for (pod, offset) in pods.iter().zip(&per_slot.grid.offsets) {
            for (slot, amount) in (*offset..).zip(&pod.usage) {
                per_slot.highest[slot] = per_slot.highest[slot].max(*amount);
                per_slot.sums[slot] += amount;
                per_slot.counts[slot] += 1;
            }
        }
        per_slot
    }

    /// The highest usage of a pod, the mean one if wanted, and constant amounts by name and class.
    pub(crate) fn plot(
        self,
        with_mean: bool,
        constants: &[(&'static str, &'static str, Option<f64>)],
    ) -> Plot {
        let slots = self.highest.len();
        let mut lines = vec![Line::new("highest usage of a pod", "usage", self.highest)];
        if with_mean {
            let sums = self.sums.iter().zip(&self.counts);
            let means = sums.map(|(sum, count)| sum / f64::from((*count).max(1)));
            lines.push(Line::new("mean usage", "mean", means.collect()));
        }
        for &(name, class, amount) in constants {
            lines.extend(amount.map(|amount| Line::new(name, class, vec![amount; slots])));
        }
        Plot::new(self.grid.start, self.grid.step, lines)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_have_round_ticks() {
        for (least, expected) in [
            (0.0, 1.0),
            (0.3, 0.5),
            (1.0, 1.0),
            (37.0, 50.0),
            (501.0, 1000.0),
        ] {
            assert!((round_step(least) - expected).abs() < 1e-9, "{least}");
        }
    }

    #[test]
    fn a_plot_names_its_lines_and_escapes_its_description() {
        let plot = Plot {
            start: 0,
            step: 3600,
            lines: vec![Line::new("request", "request", vec![1.0, 3.0, 2.0])],
            kills: vec![1],
        };
        let svg = plot.svg("CPU of <b>");
        assert!(svg.contains("aria-label=\"CPU of &lt;b&gt;\""));
        assert!(svg.contains(">request</text>") && svg.contains("OOM kill"));
        assert!(
            svg.contains(">00:30</text>") && svg.contains(">02:30</text>"),
            "{svg}"
        );
        let days = Plot {
            step: 86_400,
            ..plot
        };
        assert!(days.svg("").contains(">Jan 2</text>"));
    }
}
