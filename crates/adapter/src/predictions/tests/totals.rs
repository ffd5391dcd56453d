//! Predicted totals of workloads.

use super::*;

const METRIC: &str = "crane_autoscaling_prediction";

fn check_prediction(selector: &str, found: &[&str]) {
    let found = Ok(Some(found.iter().map(|&value| value.to_owned()).collect()));
    assert_eq!(external(shop(), METRIC, selector), found, "{selector}");
}

fn check_no_prediction(selector: &str, why: &str) {
    let why = Err(format!(
        "the server could not find the metric {METRIC}: {why}"
    ));
    assert_eq!(external(shop(), METRIC, selector), why, "{selector}");
}

#[test]
fn predicted_totals_are_exact_to_a_thousandth() {
    check_prediction(&format!("{OF_WEB}resource.cpu"), &["2900m"]);
    check_prediction(&format!("{OF_WEB}pods.rps"), &["0"]);
}

#[test]
fn a_selector_matches_the_labels_of_series() {
    check_prediction("targetKind=Deployment,targetName=web", &["0", "2900m"]);
    for selector in [
        "targetName in (web,api),resourceIdentifier=resource.cpu",
        "targetName notin (old),resourceIdentifier!=pods.rps",
    ] {
        check_prediction(selector, &["2900m"]);
    }
    let none = "there is no TimeSeriesPrediction that matches the selector";
    for selector in [
        &format!("{OF_WEB}resource.memory"),
        "targetKind=StatefulSet,targetName=web",
        "targetKind=Deployment,targetName=web,targetNamespace=bank",
    ] {
        check_no_prediction(selector, none);
    }
}

#[test]
fn an_expired_prediction_is_an_error_with_its_age_and_never_left_out_of_a_sum() {
    let why = "resource.cpu of Deployment shop/old: the TimeSeriesPrediction ended its last whole window 3600s ago, limit 300s";
    check_no_prediction("targetKind=Deployment,targetName=old", why);
    check_no_prediction("", why);
}

#[test]
fn the_prediction_of_an_ehpa_precedes_others() {
    let mut view = shop();
    let mut other = prediction("a", "web", &[("resource.cpu", 7.0)], 0);
    other.labels = Labels::default();
    view.predicted_metrics.apply(Arc::new(other));
    let found = external(view, METRIC, &format!("{OF_WEB}resource.cpu"));
    assert_eq!(found, Ok(Some(vec!["2900m".to_owned()])));
}

#[test]
fn totals_of_workloads_in_other_namespaces_are_not_served() {
    let mut view = shop();
    let mut spy = prediction("spy", "web", &[("resource.cpu", 7.0)], 0);
    spy.key.namespace = "bank".to_owned();
    view.predicted_metrics.apply(Arc::new(spy));
    let selector = format!("{OF_WEB}resource.cpu");
    let request = ExternalMetricRequest::new("bank", METRIC, &selector);
    assert!(matches!(
        wait(expected(view).external(&request, &Flow::default(), now())),
        Err(StatusError::NotFound(_))
    ));
}

#[test]
fn pod_shares_of_workloads_in_other_namespaces_are_not_served() {
    let mut view = shop();
    let mut spy = prediction("spy", "web", &[("resource.cpu", 7.0)], 0);
    spy.target.namespace = "bank".to_owned();
    view.predicted_metrics.apply(Arc::new(spy));
    let selector = "autoscaling.crane.io/effective-hpa-uid=spy";
    let all = ObjectSelector::Labels(Selector::everything());
    let found = custom(view, "crane_pod_cpu_usage", "pods", all, selector);
    let why = "the server could not find the metric crane_pod_cpu_usage: \
               there is no TimeSeriesPrediction of resource.cpu that matches the selector";
    assert_eq!(found, Err(why.to_owned()));
}

#[test]
fn other_metrics_are_not_served() {
    assert_eq!(external(shop(), "http_requests", ""), Ok(None));
    let all = ObjectSelector::Labels(Selector::everything());
    let of_pods = custom(shop(), "http_requests", "pods", all, "");
    let web = ObjectSelector::Name("web".to_owned());
    let of_service = custom(shop(), "crane_pod_cpu_usage", "services", web, "");
    assert_eq!((of_pods, of_service), (Ok(None), Ok(None)));
}
