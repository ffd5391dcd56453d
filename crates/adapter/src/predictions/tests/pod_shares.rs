//! Predicted CPU per pod.

use super::*;

fn check_pods(objects: ObjectSelector, selector: &str, found: Result<&[(&str, &str)], &str>) {
    let found = found
        .map(|shares| {
            Some(
                shares
                    .iter()
                    .map(|&(pod, value)| (pod.to_owned(), value.to_owned()))
                    .collect(),
            )
        })
        .map_err(|why| format!("the server could not find the metric crane_pod_cpu_usage: {why}"));
    let request = format!("{objects:?} {selector}");
    assert_eq!(
        custom(shop(), "crane_pod_cpu_usage", "pods", objects, selector),
        found,
        "{request}"
    );
}

#[test]
fn running_pods_share_the_predicted_cpu() {
    let uid = "autoscaling.crane.io/effective-hpa-uid";
    let app = |app: &str| ObjectSelector::Labels(Selector::match_labels([("app", app)]));
    let of_web = format!("{uid}=web");
    check_pods(
        app("web"),
        &of_web,
        Ok(&[("web-1", "1450m"), ("web-2", "1450m")]),
    );
    check_pods(
        ObjectSelector::Name("web-2".to_owned()),
        &of_web,
        Ok(&[("web-2", "1450m")]),
    );
    for other in ["api-1", "web-3", "web-4", "gone"] {
        check_pods(
            ObjectSelector::Name(other.to_owned()),
            &of_web,
            Err("it is no running pod of Deployment shop/web"),
        );
    }
    let mut view = shop();
    let old = prediction(
        "old",
        workload("Deployment", "old"),
        &[("resource.cpu", 1.0)],
        0,
    );
    view.predicted_metrics.apply(Arc::new(old));
    let named = ObjectSelector::Name("web-2".to_owned());
    let found = custom(
        view,
        "crane_pod_cpu_usage",
        "pods",
        named,
        &format!("{uid}=old"),
    );
    let why = "the pods of Deployment shop/old are unknown: select them by labels";
    assert_eq!(
        found,
        Err(format!(
            "the server could not find the metric crane_pod_cpu_usage: {why}"
        ))
    );
    check_pods(
        app("mail"),
        &of_web,
        Err("no running pod matches the selector"),
    );
    let none = Err("there is no TimeSeriesPrediction of resource.cpu that matches the selector");
    check_pods(app("web"), &format!("{uid}=gone"), none);
    check_pods(
        app("web"),
        "",
        Err("several TimeSeriesPredictions match the selector"),
    );
    let stale = "resource.cpu of Deployment shop/old: the TimeSeriesPrediction ended its last whole window 3600s ago, limit 300s";
    check_pods(app("web"), &format!("{uid}=old"), Err(stale));
}
