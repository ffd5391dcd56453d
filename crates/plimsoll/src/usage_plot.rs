//! Plots of the usage of a container's pods over time.

use plot::{Layer, Plot, Scale, Shape, Unit};
use replay::{Grid, Series};

/// Maximum number of points of a line; the largest of the slots between counts.
const POINTS: usize = 400;

/// A plot of layers over seconds since 1970.
pub(crate) fn over_time(title: String, unit: Unit, layers: Vec<Layer>) -> Plot {
    Plot {
        title,
        x: Scale::Time,
        y: Scale::FromZero(unit),
        layers,
    }
}

/// A line of amounts in slots of `step` seconds from `start`.
pub(crate) fn line(
    name: &'static str,
    class: &'static str,
    (start, step): (i64, i64),
    amounts: &[f64],
) -> Layer {
    let points = points(start, step, amounts);
    Layer::new(name, class, Shape::Line(points))
}

fn points(start: i64, step: i64, amounts: &[f64]) -> Vec<(f64, f64)> {
    let slots = amounts.len().div_ceil(POINTS).max(1);
    let points = amounts.chunks(slots).enumerate();
    let points = points.map(|(index, amounts)| {
        let second = start + step * (index * slots) as i64;
        (second as f64, amounts.iter().copied().fold(0.0, f64::max))
    });
    points.collect()
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

    /// Usage with constant amounts by name and class, and further layers.
    pub(crate) fn plot(
        &self,
        title: String,
        unit: Unit,
        constants: &[(&'static str, &'static str, Option<f64>)],
        further: impl IntoIterator<Item = Layer>,
    ) -> Plot {
        let Grid { start, step, .. } = self.grid;
        let sums = self.sums.iter().zip(&self.counts);
        let means = sums.map(|(sum, count)| sum / f64::from((*count).max(1)));
        let means = points(start, step, &means.collect::<Vec<f64>>());
        let mut layers = Vec::new();
        let has_pods = self.counts.iter().any(|count| *count > 1);
        if has_pods {
            let mut band = points(start, step, &self.highest);
            band.extend(means.into_iter().rev());
            let name = "mean to highest usage of a pod";
            layers.push(Layer::new(name, "usage", Shape::Area(band)));
        }
        let name = if has_pods {
            "highest usage of a pod"
        } else {
            "usage"
        };
        layers.push(line(name, "usage", (start, step), &self.highest));
        let end = start + step * (self.highest.len().max(2) - 1) as i64;
        layers.extend(constants.iter().filter_map(|&(name, class, amount)| {
            let ends = [(start as f64, amount?), (end as f64, amount?)];
            Some(Layer::new(name, class, Shape::Line(ends.to_vec())))
        }));
        layers.extend(further);
        over_time(title, unit, layers)
    }
}
