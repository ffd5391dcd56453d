//! The recommended requests of a VPA object as bars, and as YAML to copy.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use model::Quantity;
use serde_json::json;

use crate::explain::{Forecast, Recommended};
use crate::output::escape;
use crate::plot::{Line, Plot};

const WIDTH: f64 = 700.0;
/// An upper bound of a short history is far above the target: the picture ends there, in targets.
const MOST_TARGETS: f64 = 4.0;

pub(super) fn bands(recommendations: &[Recommended]) -> String {
    if recommendations.is_empty() {
        return String::new();
    }
    let mut html = String::from("<h2>Bounds and targets</h2>\n");
    for recommended in recommendations {
        html += &bar(recommended);
    }
    let yaml = serde_yaml_ng::to_string(&resources(recommendations)).unwrap_or_default();
    let _ = writeln!(
        html,
        "<h2>Requests as YAML</h2>\n<button class=\"copy\" type=\"button\">Copy</button>\
         <pre tabindex=\"0\">{}</pre>",
        escape(&yaml)
    );
    html
}

fn resources(recommendations: &[Recommended]) -> serde_json::Value {
    let mut containers: BTreeMap<&str, BTreeMap<&str, &str>> = BTreeMap::new();
    for recommended in recommendations {
        let requests = containers.entry(&recommended.container).or_default();
        requests.insert(&recommended.resource, &recommended.target);
    }
    let container = |(name, requests)| json!({"name": name, "resources": {"requests": requests}});
    json!({"containers": containers.into_iter().map(container).collect::<Vec<_>>()})
}

fn amount(text: Option<&String>) -> Option<f64> {
    let quantity: Quantity = text?.parse().ok()?;
    Some(quantity.milli_value() as f64)
}

fn bar(recommended: &Recommended) -> String {
    let Some(target) = amount(Some(&recommended.target)).filter(|target| *target > 0.0) else {
        return String::new();
    };
    let lower = amount(recommended.lower_bound.as_ref()).unwrap_or(target);
    let upper = amount(recommended.upper_bound.as_ref()).unwrap_or(target);
    let end = upper.clamp(target, MOST_TARGETS * target) * 1.1;
    let x = |amount: f64| (amount / end).min(1.0) * WIDTH;
    let text = |bound: &Option<String>| bound.clone().unwrap_or_else(|| "none".to_owned());
    let label = escape(&format!(
        "{} {}: target {}, lower bound {}, upper bound {}",
        recommended.container,
        recommended.resource,
        recommended.target,
        text(&recommended.lower_bound),
        text(&recommended.upper_bound),
    ));
    let (lower, upper, target) = (x(lower), x(upper), x(target));
    format!(
        "<div class=\"wide\"><svg viewBox=\"0 0 {WIDTH} 44\" role=\"img\" aria-label=\"{label}\">\
         <text x=\"0\" y=\"14\">{label}</text>\
         <line class=\"grid\" x1=\"0\" x2=\"{WIDTH}\" y1=\"32\" y2=\"32\"/>\
         <rect class=\"bar\" opacity=\".35\" x=\"{lower:.1}\" y=\"24\" width=\"{:.1}\" height=\"16\"/>\
         <line class=\"advice\" x1=\"{target:.1}\" x2=\"{target:.1}\" y1=\"20\" y2=\"44\"/></svg></div>\n",
        (upper - lower).max(1.0)
    )
}

/// Longest distance of samples that makes a plot, in seconds.
const MAX_STEP: i64 = 86_400;

pub(super) fn forecasts(forecasts: &[Forecast]) -> String {
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

    fn recommended(container: &str, upper: &str) -> Recommended {
        Recommended {
            container: container.to_owned(),
            resource: "cpu".to_owned(),
            target: "100m".to_owned(),
            lower_bound: Some("50m".to_owned()),
            upper_bound: Some(upper.to_owned()),
            uncapped_target: None,
            changed_by: None,
        }
    }

    #[test]
    fn a_bar_spans_the_bounds() {
        let html = bands(&[recommended("app", "200m")]);
        // 220m are 700 units: 50m are 159.1, 150m more are 477.3.
        assert!(
            html.contains("x=\"159.1\" y=\"24\" width=\"477.3\""),
            "{html}"
        );
        assert!(html.contains("x1=\"318.2\""), "{html}");
        assert!(html.contains("cpu: 100m"), "{html}");
        let far = bands(&[recommended("app", "100")]);
        assert!(far.contains("width=\"620.5\""), "{far}");
    }

    #[test]
    fn hostile_names_are_text() {
        let html = bands(&[recommended("<script>alert(1)</script>", "1")]);
        assert!(!html.contains("<script"), "{html}");
        assert!(html.contains("&lt;script&gt;"), "{html}");
    }

    #[test]
    fn the_window_is_a_line_over_its_samples() {
        let forecast = Forecast {
            name: "<cpu>".to_owned(),
            samples: (0..10).map(|slot| (300 * slot, slot as f64)).collect(),
            window_seconds: 600,
            maximum: Some(2.0),
        };
        let html = forecasts(std::slice::from_ref(&forecast));
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
        assert_eq!(forecasts(&[short]), "");
    }
}
