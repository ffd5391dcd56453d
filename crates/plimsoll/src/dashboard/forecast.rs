//! Forecasts of an EHPA as plots: the samples of its `TimeSeriesPrediction`, and the value that the
//! HPA reads.

use crate::explain::Forecast;
use crate::plot::{Line, Plot};

/// Longest distance of samples that makes a plot, in seconds.
const MAX_STEP: i64 = 86_400;

pub(super) fn html(forecasts: &[Forecast]) -> String {
    let plots: String = forecasts.iter().filter_map(plot).collect();
    if plots.is_empty() {
        return plots;
    }
    format!("<h2>Forecasts of the workload</h2>\n{plots}")
}

fn plot(forecast: &Forecast) -> Option<String> {
    let [(start, _), (second, _), ..] = forecast.samples[..] else {
        return None;
    };
    let step = (second - start).clamp(1, MAX_STEP);
    let amounts: Vec<f64> = forecast.samples.iter().map(|(_, amount)| *amount).collect();
    let mut lines = vec![Line::new("forecast", "advice", amounts)];
    if let Some(maximum) = forecast.maximum {
        let slots = (i64::from(forecast.window_seconds) / step + 1).max(2);
        let slots = usize::try_from(slots).unwrap_or(2);
        let slots = slots.min(forecast.samples.len());
        let name = "largest value of the window: the HPA reads it";
        lines.push(Line::new(name, "request", vec![maximum; slots]));
    }
    let plot = Plot::new(start, step, lines);
    let name = &forecast.name;
    let description = format!("Forecast of {name} for {} samples", forecast.samples.len());
    Some(plot.figure(name, &description))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_window_is_a_line_over_its_samples() {
        let forecast = Forecast {
            name: "<cpu>".to_owned(),
            samples: (0..10).map(|slot| (300 * slot, slot as f64)).collect(),
            window_seconds: 600,
            maximum: Some(2.0),
        };
        let html = html(std::slice::from_ref(&forecast));
        assert!(html.contains("<h3>&lt;cpu&gt;</h3>"), "{html}");
        // Three of ten slots: two ninths of the width.
        let line = html.split("class=\"request\" d=\"").nth(1).expect("a line");
        let line = line.split('"').next().expect("a path");
        assert!(
            line.starts_with("M56.0 ") && line.contains("L263.6 "),
            "{line}"
        );
        let short = Forecast {
            samples: vec![(0, 1.0)],
            ..forecast
        };
        assert_eq!(super::html(&[short]), "");
    }
}
