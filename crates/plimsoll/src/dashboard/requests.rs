//! The recommended requests of a VPA object as YAML to copy, and the forecasts of an EHPA.

use std::collections::BTreeMap;

use maud::{Markup, html};
use serde_json::json;

use crate::explain::{Forecast, Recommended};
use crate::usage_plot::{line, over_time};

pub(super) fn yaml(recommendations: &[Recommended]) -> Markup {
    let yaml = serde_yaml_ng::to_string(&resources(recommendations)).unwrap_or_default();
    html! {
        @if !recommendations.is_empty() {
            h2 { "Requests as YAML" }
            button.copy type="button" { "Copy" }
            pre tabindex="0" { (yaml) }
        }
    }
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

/// Longest distance of samples that makes a plot, in seconds.
const MAX_STEP: i64 = 86_400;

pub(super) fn forecasts(forecasts: &[Forecast]) -> Markup {
    let plots: Vec<Markup> = forecasts.iter().filter_map(plot).collect();
    html! {
        @if !plots.is_empty() { h2 { "Forecasts of the workload" } @for plot in plots { (plot) } }
    }
}

fn plot(forecast: &Forecast) -> Option<Markup> {
    let [(start, _), (second, _), ..] = forecast.samples[..] else {
        return None;
    };
    let step = (second - start).clamp(1, MAX_STEP);
    let amounts: Vec<f64> = forecast.samples.iter().map(|(_, amount)| *amount).collect();
    let mut layers = vec![line("forecast", "advice", (start, step), &amounts)];
    if let Some(maximum) = forecast.maximum {
        let slots = (i64::from(forecast.window_seconds) / step + 1).max(2);
        let slots = usize::try_from(slots).unwrap_or(2).min(amounts.len());
        let name = "largest value of the window: the HPA reads it";
        layers.push(line(name, "request", (start, step), &vec![maximum; slots]));
    }
    let title = format!("Forecast of {}", forecast.name);
    Some(over_time(title, plot::Unit::NUMBER, layers).figure())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hostile_names_are_text() {
        let recommended = Recommended {
            container: "<script>alert(1)</script>".to_owned(),
            resource: "cpu".to_owned(),
            target: "100m".to_owned(),
            lower_bound: None,
            upper_bound: None,
            uncapped_target: None,
            changed_by: None,
        };
        let html = yaml(&[recommended]).into_string();
        assert!(!html.contains("<script"), "{html}");
        assert!(
            html.contains("&lt;script&gt;") && html.contains("cpu: 100m"),
            "{html}"
        );
    }

    #[test]
    fn the_window_is_a_line_over_its_samples() {
        let forecast = Forecast {
            name: "<cpu>".to_owned(),
            samples: (0..10).map(|slot| (300 * slot, slot as f64)).collect(),
            window_seconds: 600,
            maximum: Some(2.0),
        };
        let html = forecasts(std::slice::from_ref(&forecast)).into_string();
        assert!(html.contains("<b>Forecast of &lt;cpu&gt;</b>"), "{html}");
        // Three of ten slots: two ninths of the width.
        assert!(
            html.contains("<g class=\"request\"><path class=\"line\" d=\"M0 800h222h222\">"),
            "{html}"
        );
        let short = Forecast {
            samples: vec![(0, 1.0)],
            ..forecast
        };
        assert_eq!(forecasts(&[short]).into_string(), "");
    }
}
