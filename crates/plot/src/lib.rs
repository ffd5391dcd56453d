//! Plots as SVG: lines, areas and marks on two axes, and bars. The text depends on the numbers alone.
//!
//! Places on the x axis are shares of the width, so a plot fills the width that it is given, and texts keep
//! their size. Colours are those of [`STYLE`], for light and for dark screens.

mod axis;
#[cfg(test)]
mod tests;

use std::fmt::Write as _;

use maud::{Markup, html};

use axis::Axis;
pub use axis::{Scale, Unit, round_step};

/// Colours of all pages and plots, and the classes of plots.
pub const STYLE: &str = include_str!("style.css");

/// Height in a page, in pixels.
const HEIGHT: f64 = 180.0;
/// Width and height of paths, which are stretched to the plot.
const PATHS: (f64, f64) = (2000.0, 1000.0);
/// Least distance of labels of marks in pixels, if the marks are nearer than this share of the width.
const LABEL: f64 = 15.0;
const NEAR: f64 = 0.3;

#[derive(Clone, Debug)]
pub struct Plot {
    pub title: String,
    pub x: Scale,
    pub y: Scale,
    pub layers: Vec<Layer>,
}

/// A shape with the class of its colour. One without a name is not in the legend.
#[derive(Clone, Debug)]
pub struct Layer {
    pub name: String,
    pub class: &'static str,
    pub shape: Shape,
}

#[derive(Clone, Debug)]
pub enum Shape {
    /// Points in the order in which they are connected.
    Line(Vec<(f64, f64)>),
    /// Corners of an area.
    Area(Vec<(f64, f64)>),
    Marks(Vec<Mark>),
}

#[derive(Clone, Debug, Default)]
pub struct Mark {
    pub at: (f64, f64),
    /// Text of the mark under the pointer.
    pub title: String,
    /// Text next to the mark.
    pub label: String,
}

impl Layer {
    pub fn new(name: impl Into<String>, class: &'static str, shape: Shape) -> Self {
        let name = name.into();
        Self { name, class, shape }
    }

    fn points(&self) -> Vec<(f64, f64)> {
        match &self.shape {
            Shape::Line(points) | Shape::Area(points) => points.clone(),
            Shape::Marks(marks) => marks.iter().map(|mark| mark.at).collect(),
        }
    }

    /// The sample in the legend.
    pub fn sample(&self) -> Markup {
        match self.shape {
            Shape::Line(_) => html! { path.line d="M0 6h20" {} },
            Shape::Area(_) => html! { rect.area y="1" width="20" height="10" {} },
            Shape::Marks(_) => html! { circle.mark cx="10" cy="6" r="4" {} },
        }
    }
}

impl Plot {
    /// The plot for a page, with title and legend.
    pub fn figure(&self) -> Markup {
        html! {
            figure {
                figcaption {
                    b { (self.title) }
                    @for layer in self.named() {
                        span.item { span class=(layer.class) { svg width="22" height="12" aria-hidden="true" { (layer.sample()) } } " " (layer.name) } " "
                    }
                }
                svg width="100%" height=(HEIGHT + 24.0) role="img" aria-label=(self.title) { (self.inner(HEIGHT)) }
            }
        }
    }

    /// The layers of the legend.
    pub fn named(&self) -> impl Iterator<Item = &Layer> {
        self.layers.iter().filter(|layer| !layer.name.is_empty())
    }

    /// Ticks and shapes on `height` pixels, and the labels around them.
    pub fn inner(&self, height: f64) -> Markup {
        let points: Vec<(f64, f64)> = self.layers.iter().flat_map(Layer::points).collect();
        let x = Axis::new(&self.x, points.iter().map(|point| point.0));
        let y = Axis::new(&self.y, points.iter().map(|point| point.1));
        let place = |point: &(f64, f64), size: (f64, f64)| {
            let (x, y) = (x.share(point.0), y.share(point.1));
            (size.0 * x, size.1 * (1.0 - y))
        };
        let path = |points: &[(f64, f64)]| path(points.iter().map(|point| place(point, PATHS)));
        html! {
            @for (tick, label) in &y.ticks {
                @let at = rounded(height * (1.0 - y.share(*tick)));
                line.grid x2="100%" y1=(at) y2=(at) {}
                text x="-6" y=(at + 4.0) text-anchor="end" { (label) }
            }
            @for (tick, label) in &x.ticks {
                @let at = percent(x.share(*tick));
                line.grid x1=(at) x2=(at) y2=(height) {}
                text x=(at) y=(height + 16.0) text-anchor="middle" { (label) }
            }
            svg viewBox={ "0 0 " (PATHS.0) " " (PATHS.1) } preserveAspectRatio="none" width="100%" height=(height) aria-hidden="true" {
                @for layer in &self.layers {
                    @match &layer.shape {
                        Shape::Line(points) => { g class=(layer.class) { path.line d=(path(points)) {} } }
                        Shape::Area(points) => { g class=(layer.class) { path.area d={ (path(points)) "z" } {} } }
                        Shape::Marks(_) => {}
                    }
                }
            }
            (marks(&self.layers, |at| place(at, (1.0, height))))
        }
    }
}

/// Marks with their labels. Those near each other keep their distance.
fn marks(layers: &[Layer], place: impl Fn(&(f64, f64)) -> (f64, f64)) -> Markup {
    let marks = layers.iter().flat_map(|layer| match &layer.shape {
        Shape::Marks(marks) => marks.iter().map(|it| (layer.class, it)).collect(),
        Shape::Line(_) | Shape::Area(_) => Vec::new(),
    });
    let places = marks.map(|(class, mark)| (place(&mark.at), class, mark));
    let mut places: Vec<((f64, f64), &str, &Mark)> = places.collect();
    places.sort_by(|one, other| one.0.1.total_cmp(&other.0.1));
    let mut lines: Vec<(f64, f64)> = Vec::new();
    for ((x, y), ..) in &places {
        let near = lines.iter().filter(|line| (line.0 - x).abs() < NEAR);
        let last = near.map(|line| line.1).fold(f64::MIN, f64::max);
        lines.push((*x, (y + 4.0).max(last + LABEL)));
    }
    html! {
        @for (((x, y), class, mark), (_, line)) in places.iter().zip(&lines) {
            g class=(class) { circle.mark cx=(percent(*x)) cy=(rounded(*y)) r="4" { title { (mark.title) } } }
            @let (distance, anchor) = if *x > 0.6 { (-9, "end") } else { (9, "start") };
            @if !mark.label.is_empty() {
                text.label x=(percent(*x)) y=(rounded(*line)) dx=(distance) text-anchor=(anchor) { (mark.label) }
            }
        }
    }
}

/// Bars over each other, with the class of each and its begin and end as shares of the width.
pub fn bars(label: &str, bars: &[(&str, f64, f64)]) -> Markup {
    html! {
        svg width="100%" height="14" role="img" aria-label=(label) {
            @for (index, (class, begin, end)) in bars.iter().enumerate() {
                g class=(class) {
                    rect.mark x=(percent(*begin)) width=(percent((end - begin).max(0.003))) y=(2 * index) height=(14 - 4 * index) {}
                }
            }
        }
    }
}

fn percent(share: f64) -> String {
    format!("{}%", rounded(100.0 * share))
}

/// The number with at most two digits after the point.
fn rounded(number: f64) -> f64 {
    (100.0 * number).round() / 100.0 + 0.0
}

/// The path from the first place through the others, in whole units.
fn path(places: impl Iterator<Item = (f64, f64)>) -> String {
    let (mut path, mut last) = (String::new(), None);
    for (x, y) in places {
        let (x, y) = (x.round() as i64, y.round() as i64);
        let _ = match last.replace((x, y)) {
            None => write!(path, "M{x} {y}"),
            Some((old, same)) if y == same => write!(path, "h{}", x - old),
            Some((old_x, old_y)) => write!(path, "l{} {}", x - old_x, y - old_y),
        };
    }
    path
}
