//! Predicted CPU per pod.

use super::*;

fn check_pods(objects: ObjectSelector, selector: &str, found: Result<&[(&str, &str)], &str>) {
    let owned = |&(pod, value): &(&str, &str)| (pod.to_owned(), value.to_owned());
    let found = found
        .map(|shares| Some(shares.iter().map(owned).collect()))
        .map_err(|why| format!("the server could not find the metric crane_pod_cpu_usage: {why}"));
    let request = format!("{objects:?} {selector}");
    let shares = custom(shop(), "crane_pod_cpu_usage", "pods", objects, selector);
    assert_eq!(shares, found, "{request}");
}

#[test]
fn running_pods_share_the_predicted_cpu() {
    let uid = "autoscaling.crane.io/effective-hpa-uid";
    let app = |app: &str| ObjectSelector::Labels(Selector::match_labels([("app", app)]));
    let of_web = format!("{uid}=web");
    let named = |name: &str| ObjectSelector::Name(name.to_owned());
    let both = [("web-1", "1450m"), ("web-2", "1450m")];
    check_pods(app("web"), &of_web, Ok(&both));
    check_pods(named("web-2"), &of_web, Ok(&both[1..]));
    for other in ["api-1", "web-3", "web-4", "gone"] {
        let why = "it is not a running pod of Deployment shop/web";
        check_pods(named(other), &of_web, Err(why));
    }
    let mut view = shop();
    let old = prediction("old", "old", &[("resource.cpu", 1.0)], 0);
    view.predicted_metrics.apply(Arc::new(old));
    let (metric, of_old) = ("crane_pod_cpu_usage", format!("{uid}=old"));
    let found = custom(view, metric, "pods", named("web-2"), &of_old);
    let why = "the pods of Deployment shop/old are unknown: select them by labels";
    assert_eq!(
        found,
        Err(format!(
            "the server could not find the metric {metric}: {why}"
        ))
    );
    let why = "no running pod matches the selector";
    check_pods(app("mail"), &of_web, Err(why));
    let none = Err("there is no TimeSeriesPrediction of resource.cpu that matches the selector");
    check_pods(app("web"), &format!("{uid}=gone"), none);
    let several = "several TimeSeriesPredictions match the selector";
    check_pods(app("web"), "", Err(several));
    let stale = "resource.cpu of Deployment shop/old: the TimeSeriesPrediction ended its last whole window 3600s ago, limit 300s";
    check_pods(app("web"), &of_old, Err(stale));
}
