//! The recommended requests of a VPA object as YAML to copy, the steps to them, and the forecasts of an EHPA.

use std::collections::BTreeMap;

use maud::{Markup, html};
use plot::bars;
use serde::Deserialize;
use serde_json::json;

use crate::explain::{Forecast, Recommended, STEPS};
use crate::json::items;
use crate::output::{Document, numbers};
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

/// The table of steps as bars: from the usage of a container to its request.
pub(super) fn steps(document: &mut Document) -> Markup {
    document.tables.retain(|table| table.title != STEPS);
    let steps: Vec<Step> = items(&document.data["steps"])
        .filter_map(|step| Step::deserialize(step).ok())
        .collect();
    let of_request = |one: &Step, other: &Step| {
        (&one.container, &one.resource) == (&other.container, &other.resource)
    };
    html! {
        @if !steps.is_empty() { h2 { (STEPS) } }
        div.pair { @for steps in steps.chunk_by(of_request) {
            @let most = steps.iter().filter_map(|step| step.amount).fold(f64::MIN_POSITIVE, f64::max);
            div {
                h3 { (steps[0].container) ", " (steps[0].resource) }
                table.costs { tbody { @for step in steps {
                    tr { td { (step.name) } td {
                        @if let Some(amount) = step.amount {
                            (bars(&format!("{}: {}", step.name, step.value), &[("advice", 0.0, amount.max(0.0) / most)]))
                            (if step.resource == "memory" { numbers::memory(amount) } else { numbers::cpu(amount) })
                        } @else { (step.value) }
                    } }
                } } }
            }
        } }
    }
}

/// A step as in `explain -o json`.
#[derive(Deserialize)]
struct Step {
    container: String,
    resource: String,
    #[serde(rename = "step")]
    name: String,
    value: String,
    /// Millicores or MiB.
    amount: Option<f64>,
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
    use crate::output::Table;

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
    fn steps_are_bars_of_the_largest_amount() {
        let step = |name: &str, value: &str, amount: Option<f64>| {
            json!({
                "container": "app", "resource": "memory", "step": name, "value": value, "amount": amount,
            })
        };
        let list = [
            step("<b>percentile", "104857600 bytes", Some(100.0)),
            step("chance-of-failure", "0.95", None),
            step("as a quantity", "200Mi", Some(200.0)),
        ];
        let mut document = Document::titled("web");
        document.data = json!({"steps": list});
        document.tables.push(Table::of(STEPS, "step", &list));
        let html = steps(&mut document).into_string();
        assert!(document.tables.is_empty());
        for part in [
            "<h3>app, memory</h3>",
            "aria-label=\"&lt;b&gt;percentile: 104857600 bytes\"><g class=\"advice\"><rect class=\"mark\" x=\"0%\" width=\"50%\"",
            "<td>chance-of-failure</td><td>0.95</td>",
            "width=\"100%\" y=\"0\"",
        ] {
            assert!(html.contains(part), "{part} is not in {html}");
        }
        let none = steps(&mut Document::titled("web")).into_string();
        assert_eq!(none, "<div class=\"pair\"></div>");
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
