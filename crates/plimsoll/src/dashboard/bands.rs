//! The recommended requests of a VPA object as bars, and as YAML to copy.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use model::Quantity;
use serde_json::json;

use crate::explain::Recommended;
use crate::output::escape;

const WIDTH: f64 = 700.0;
/// An upper bound of a short history is far above the target: the picture ends there, in targets.
const MOST_TARGETS: f64 = 4.0;

pub(super) fn html(recommendations: &[Recommended]) -> String {
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
        let html = html(&[recommended("app", "200m")]);
        // 220m are 700 units: 50m are 159.1, 150m more are 477.3.
        assert!(
            html.contains("x=\"159.1\" y=\"24\" width=\"477.3\""),
            "{html}"
        );
        assert!(html.contains("x1=\"318.2\""), "{html}");
        assert!(html.contains("cpu: 100m"), "{html}");
        let far = super::html(&[recommended("app", "100")]);
        assert!(far.contains("width=\"620.5\""), "{far}");
    }

    #[test]
    fn hostile_names_are_text() {
        let html = html(&[recommended("<script>alert(1)</script>", "1")]);
        assert!(!html.contains("<script"), "{html}");
        assert!(html.contains("&lt;script&gt;"), "{html}");
    }
}
