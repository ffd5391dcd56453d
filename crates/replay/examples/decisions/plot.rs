//! Plots of lines as SVG. The text depends on the numbers alone, and is readable on a light and on a
//! dark background.

#[cfg(test)]
mod tests;

use std::fmt::Write as _;

use replay::plot::{label, path, round_step};

const WIDTH: f64 = 840.0;
const HEIGHT: f64 = 420.0;
/// Borders of the area of the lines.
const LEFT: f64 = 64.0;
const RIGHT: f64 = 580.0;
const TOP: f64 = 44.0;
const BOTTOM: f64 = 372.0;
const COLORS: [&str; 8] = [
    "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#8c6bb1", "#7f7f7f",
];
const STYLE: &str = "text{font:12px sans-serif;fill:#333}.grid{stroke:#8884}.line{fill:none}\
                     @media(prefers-color-scheme:dark){text{fill:#ddd}}";
/// Lines with more points have no marks.
const MARKED: usize = 40;

#[derive(Clone, Debug)]
pub(crate) struct Plot {
    pub(crate) title: String,
    pub(crate) x: Axis,
    pub(crate) y: Axis,
    pub(crate) lines: Vec<Line>,
}

/// An axis that spans the numbers of all lines.
#[derive(Clone, Debug)]
pub(crate) struct Axis {
    name: String,
    is_logarithmic: bool,
}

/// A line with a mark at each point.
#[derive(Clone, Debug)]
pub(crate) struct Line {
    pub(crate) name: String,
    /// Points in the order in which they are connected.
    pub(crate) points: Vec<(f64, f64)>,
}

impl Axis {
    /// An axis on which equal distances are equal differences.
    pub(crate) fn linear(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            is_logarithmic: false,
        }
    }

    /// An axis on which equal distances are equal factors. Numbers up to 0 are left out.
    pub(crate) fn logarithmic(name: &str) -> Self {
        Self {
            is_logarithmic: true,
            ..Self::linear(name)
        }
    }

    fn shows(&self, number: f64) -> bool {
        number.is_finite() && (number > 0.0 || !self.is_logarithmic)
    }

    /// The ticks around numbers. The first and the last are the ends of the axis.
    fn ticks(&self, numbers: impl Iterator<Item = f64> + Clone) -> Vec<f64> {
        let low = numbers.clone().reduce(f64::min).unwrap_or(1.0);
        let high = numbers.reduce(f64::max).unwrap_or(1.0);
        let candidates: Vec<f64> = if self.is_logarithmic {
            let decades = low.log10().floor() as i32 - 1..=high.log10().ceil() as i32 + 1;
            let powers = decades.map(|decade| 10_f64.powi(decade));
            powers
                .flat_map(|power| [power, 2.0 * power, 5.0 * power])
                .collect()
        } else {
            let step = round_step((high - low) / 6.0);
            let first = (low / step).floor() as i64 - 1;
            (first..first + 12).map(|tick| tick as f64 * step).collect()
        };
        let first = candidates.iter().rposition(|tick| *tick <= low);
        let last = candidates.iter().position(|tick| *tick > high);
        candidates[first.unwrap_or(0)..=last.unwrap_or(candidates.len() - 1)].to_vec()
    }

    /// The place of a number between two ends of an axis with these ticks.
    fn place(&self, number: f64, ticks: &[f64], from: f64, to: f64) -> f64 {
        let scale = if self.is_logarithmic {
            f64::ln
        } else {
            std::convert::identity
        };
        let (low, high) = (scale(ticks[0]), scale(ticks[ticks.len() - 1]));
        from + (scale(number) - low) / (high - low) * (to - from)
    }
}

fn text(x: f64, y: f64, anchor: &str, text: &str) -> String {
    let escaped = text.replace('&', "&amp;").replace('<', "&lt;");
    format!("<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{escaped}</text>\n")
}

impl Plot {
    pub(crate) fn svg(&self) -> String {
        let shown = |(x, y): &(f64, f64)| self.x.shows(*x) && self.y.shows(*y);
        let points = self.lines.iter().flat_map(|line| &line.points);
        let points = points.copied().filter(shown);
        let columns = self.x.ticks(points.clone().map(|point| point.0));
        let rows = self.y.ticks(points.map(|point| point.1));
        let at_x = |x: f64| self.x.place(x, &columns, LEFT, RIGHT);
        let at_y = |y: f64| self.y.place(y, &rows, BOTTOM, TOP);
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\">\n<style>{STYLE}</style>\n"
        );
        svg += &text(LEFT, 16.0, "start", &self.title);
        svg += &text(LEFT, TOP - 8.0, "start", &self.y.name);
        svg += &text(RIGHT, HEIGHT - 10.0, "end", &self.x.name);
        for tick in &columns {
            let x = at_x(*tick);
            let _ = writeln!(svg, "<path class=\"grid\" d=\"M{x:.1} {TOP}V{BOTTOM}\"/>");
            svg += &text(x, BOTTOM + 16.0, "middle", &label(*tick));
        }
        for tick in &rows {
            let y = at_y(*tick);
            let _ = writeln!(svg, "<path class=\"grid\" d=\"M{LEFT} {y:.1}H{RIGHT}\"/>");
            svg += &text(LEFT - 6.0, y + 4.0, "end", &label(*tick));
        }
        for (index, line) in self.lines.iter().enumerate() {
            let color = COLORS[index % COLORS.len()];
            let points = line.points.iter().filter(|point| shown(point));
            let places: Vec<(f64, f64)> = points.map(|(x, y)| (at_x(*x), at_y(*y))).collect();
            let path = path(places.iter().copied());
            let y = TOP + 12.0 + 18.0 * index as f64;
            // The line, and its sample in the legend.
            let _ = writeln!(
                svg,
                "<path class=\"line\" stroke=\"{color}\" stroke-width=\"2\" d=\"{path}M{} {}h16\"/>",
                RIGHT + 14.0,
                y - 4.0
            );
            svg += &text(RIGHT + 36.0, y, "start", &line.name);
            for (x, y) in places.iter().filter(|_| places.len() <= MARKED) {
                let _ = writeln!(
                    svg,
                    "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3\" fill=\"{color}\"/>"
                );
            }
        }
        svg + "</svg>\n"
    }
}
