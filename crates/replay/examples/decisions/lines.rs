//! Plots of lines with a mark at each point, as files with a legend at the right.

use maud::{PreEscaped, html};
use plot::{Layer, Mark, Plot, STYLE, Scale, Shape, round_step};

const CLASSES: [&str; 8] = ["c0", "c1", "c2", "c3", "c4", "c5", "c6", "c7"];
/// Lines with more points have no marks.
const MARKED: usize = 40;

#[derive(Clone, Debug)]
pub(crate) struct Line {
    pub(crate) name: String,
    /// Points in the order in which they are connected.
    pub(crate) points: Vec<(f64, f64)>,
}

/// An axis that spans the numbers of all lines: its name, and whether it is logarithmic.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Axis(&'static str, bool);

impl Axis {
    /// An axis on which equal distances are equal differences.
    pub(crate) fn linear(name: &'static str) -> Self {
        Self(name, false)
    }

    /// An axis on which equal distances are equal factors. Numbers up to 0 are left out.
    pub(crate) fn logarithmic(name: &'static str) -> Self {
        Self(name, true)
    }

    fn shows(self, number: f64) -> bool {
        number.is_finite() && (number > 0.0 || !self.1)
    }

    /// The ticks around numbers.
    fn scale(self, numbers: impl Iterator<Item = f64> + Clone) -> Scale {
        let low = numbers.clone().reduce(f64::min).unwrap_or(1.0);
        let high = numbers.reduce(f64::max).unwrap_or(1.0);
        let ticks: Vec<f64> = if self.1 {
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
        let first = ticks.iter().rposition(|tick| *tick <= low);
        let last = ticks.iter().position(|tick| *tick > high);
        let shown = &ticks[first.unwrap_or(0)..=last.unwrap_or(ticks.len() - 1)];
        let of: fn(f64) -> f64 = if self.1 { f64::ln } else { |number| number };
        Scale::Ticks(shown.to_vec(), of)
    }
}

/// The text of the file.
pub(crate) fn svg(title: String, x: Axis, y: Axis, mut lines: Vec<Line>) -> String {
    for line in &mut lines {
        line.points
            .retain(|point| x.shows(point.0) && y.shows(point.1));
    }
    let points = lines.iter().flat_map(|line| &line.points);
    let of_x = x.scale(points.clone().map(|point| point.0));
    let of_y = y.scale(points.map(|point| point.1));
    let layers = CLASSES.iter().cycle().zip(lines).flat_map(|(class, line)| {
        let Line { name, points } = line;
        let mark = |at: &(f64, f64)| Mark {
            at: *at,
            ..Mark::default()
        };
        let marked = points.iter().filter(|_| points.len() <= MARKED);
        let marks = Shape::Marks(marked.map(mark).collect());
        [
            Layer::new(name, class, Shape::Line(points)),
            Layer::new("", class, marks),
        ]
    });
    let plot = Plot {
        title,
        x: of_x,
        y: of_y,
        layers: layers.collect(),
    };
    let svg = html! {
        svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 840 420" {
            style { (PreEscaped(STYLE)) }
            text.label x="64" y="16" { (plot.title) }
            text x="64" y="36" { (y.0) }
            text x="580" y="410" text-anchor="end" { (x.0) }
            svg x="64" y="44" width="516" height="328" { (plot.inner(328.0)) }
            @for (index, layer) in plot.named().enumerate() {
                svg class=(layer.class) x="594" y=(44 + 18 * index) {
                    (layer.sample()) text.label x="26" y="10" { (layer.name) }
                }
            }
        }
    };
    svg.into_string() + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(points: &[(f64, f64)]) -> String {
        let line = Line {
            name: "line".to_owned(),
            points: points.to_vec(),
        };
        svg(
            "a < b".to_owned(),
            Axis::linear("x"),
            Axis::logarithmic("y"),
            vec![line],
        )
    }

    fn labels(svg: &str) -> Vec<&str> {
        let texts = svg
            .split("</text>")
            .filter_map(|text| text.rsplit_once('>'));
        texts.map(|(_, text)| text).collect()
    }

    #[test]
    fn lines_span_the_ticks_and_numbers_without_a_place_are_left_out() {
        let svg = file(&[(0.0, 1.0), (6.0, 10.0), (3.0, 0.0), (2.0, f64::NAN)]);
        assert_eq!(
            labels(&svg),
            [
                "a &lt; b", "y", "x", "1", "2", "5", "10", "20", "0", "1", "2", "3", "4", "5", "6",
                "7", "line", "\n"
            ]
        );
        // The two points that have a place: at the lower left, and at 6/7 and log 10 / log 20.
        assert!(svg.contains("d=\"M0 1000l1714 -769\""), "{svg}");
        assert_eq!(svg.matches("<circle").count(), 2);
        assert_eq!(svg, file(&[(0.0, 1.0), (6.0, 10.0)]));
    }

    #[test]
    fn many_points_have_a_line_without_marks() {
        let points: Vec<(f64, f64)> = (1..60).map(|x| (f64::from(x), f64::from(x))).collect();
        assert!(!file(&points).contains("<circle"));
    }
}
