//! Whole questions against a cluster of a few objects.

mod idle_schedules;

use std::sync::Arc;
use std::time::{Duration, Instant};

use api::ehpa::{CronSpec, HolidaysError};
use feed::client::{LeaderState, Received};
use feed::{Forecast, ForecastSeries, MetricForecast, Subscription};
use jiff::{SignedDuration, Timestamp};
use kube::Client;
use kube::client::Body;
use model::{Labels, Selector, WorkloadRef};
use runtime::ApiServerClock;
use serde_json::{Value, json};
use tokio::sync::watch;
use view::{
    Controller, Freshness, LabelledPod, MANAGED_BY, ObjectKey, Phase, PredictedMetric, Prediction,
    Resource, Timetable, View, WellKnown,
};

use super::Predictions;
use crate::flow::Flow;
use crate::request::{CustomMetricRequest, ExternalMetricRequest, GroupResource, ObjectSelector};
use crate::status_error::StatusError;

/// A Wednesday.
const NOW: &str = "2026-01-07T12:00:00Z";
const OF_WEB: &str =
    "targetKind=Deployment,targetName=web,targetNamespace=shop,resourceIdentifier=";

fn now() -> Timestamp {
    NOW.parse().expect("a time")
}

fn workload(kind: &str, name: &str) -> WorkloadRef {
    WorkloadRef {
        api_version: "apps/v1".to_owned(),
        kind: kind.to_owned(),
        namespace: "shop".to_owned(),
        name: name.to_owned(),
    }
}

/// A prediction of two hours from `ago` seconds before now, for a window of one.
fn prediction(name: &str, target: WorkloadRef, metrics: &[(&str, f64)], ago: i64) -> Prediction {
    let start = now().as_second() - ago;
    let samples = |value: f64| {
        vec![
            (0..=120)
                .map(|minute| (start + minute * 60, value))
                .collect(),
        ]
    };
    let metric = |(identifier, value): &(&str, f64)| PredictedMetric {
        identifier: (*identifier).into(),
        ready: true,
        series: samples(*value),
    };
    let labels = [MANAGED_BY, ("autoscaling.crane.io/effective-hpa-uid", name)];
    Prediction {
        key: ObjectKey::new("shop", name),
        uid: name.to_owned(),
        controller_uid: Some(name.to_owned()),
        labels: Labels::from_iter(labels),
        target,
        window_seconds: 3600,
        metrics: metrics.iter().map(metric).collect(),
    }
}

fn cron(start: &str, end: &str, target_replicas: i32) -> CronSpec {
    CronSpec {
        start: start.to_owned(),
        end: end.to_owned(),
        target_replicas,
        ..CronSpec::default()
    }
}

fn timetable(name: &str, kind: &str, crons: Vec<CronSpec>, has_metrics: bool) -> Timetable {
    Timetable {
        key: ObjectKey::new("shop", name),
        uid: name.to_owned(),
        created_at: Some(now()),
        is_leaving: false,
        target: workload(kind, name),
        min_replicas: 2,
        crons,
        holidays: Ok(Vec::new()),
        has_metrics,
    }
}

fn pod(name: &str, app: &str, phase: Phase, is_leaving: bool) -> LabelledPod {
    let labels = Labels::from_iter([("app", app)]);
    LabelledPod {
        key: ObjectKey::new("shop", name),
        labels,
        phase,
        is_leaving,
    }
}

/// A shop with a Deployment `web` of 5 replicas.
fn shop() -> View {
    let mut view = View::default();
    let deployment = Controller {
        key: ObjectKey::new("shop", "web"),
        labels: Labels::default(),
        selector: Ok(Selector::match_labels([("app", "web")])),
        owner: None,
        replicas: Some(5),
    };
    view.controllers_mut(WellKnown::Deployment)
        .apply(Arc::new(deployment));
    let web = workload("Deployment", "web");
    view.expected.apply(Arc::new(prediction(
        "web",
        web,
        &[("resource.cpu", 2.9), ("pods.rps", 0.0004)],
        0,
    )));
    view.expected.apply(Arc::new(prediction(
        "old",
        workload("Deployment", "old"),
        &[("resource.cpu", 1.0)],
        7200,
    )));
    for (name, app, phase, is_leaving) in [
        ("web-1", "web", Phase::Running, false),
        ("web-2", "web", Phase::Running, false),
        ("web-3", "web", Phase::Running, true),
        ("web-4", "web", Phase::Pending, false),
        ("api-1", "api", Phase::Running, false),
    ] {
        view.labelled_pods
            .apply(Arc::new(pod(name, app, phase, is_leaving)));
    }
    view
}

/// What a recommender tells of an object, from now on every minute, and whether it is heard.
fn from_feed(uid: &str, values: Vec<f64>, reason: &str, is_heard: bool) -> Subscription<Forecast> {
    let is_ready = !values.is_empty();
    let series = ForecastSeries {
        first_second: now().as_second(),
        step_seconds: 60,
        values,
        ..ForecastSeries::default()
    };
    let metric = MetricForecast {
        identifier: "resource.cpu".to_owned(),
        is_ready,
        reason: reason.to_owned(),
        series: if is_ready { vec![series] } else { Vec::new() },
        ..MetricForecast::default()
    };
    let value = Arc::new(Forecast {
        uid: uid.to_owned(),
        metrics: vec![metric],
        ..Forecast::default()
    });
    let feed = Received {
        value,
        term: 1,
        revision: 1,
        changed_at: now(),
    };
    let stale_since = (!is_heard).then(Instant::now);
    Subscription::from_leaders(vec![LeaderState {
        values: [(uid.to_owned(), feed)].into(),
        stale_since,
    }])
}

fn check_feed(name: &str, told: Subscription<Forecast>, found: Result<&str, &str>) {
    let selector =
        format!("targetKind=Deployment,targetName={name},resourceIdentifier=resource.cpu");
    let selector = selector.parse().expect("a selector");
    let request = ExternalMetricRequest {
        namespace: "shop".to_owned(),
        metric: "crane_autoscaling_prediction".to_owned(),
        selector,
    };
    let answer = wait(
        expected(shop())
            .with_feed(Some(watch::channel(told).1))
            .external(&request, &Flow::default(), now()),
    );
    let answer = answer.map(|values| {
        values
            .expect("it is ours")
            .iter()
            .map(|value| value.value.to_string())
            .collect()
    });
    let found = found.map(str::to_owned).map_err(|why| {
        StatusError::NotFound(format!(
            "the server could not find the metric crane_autoscaling_prediction: resource.cpu of Deployment shop/{name}: {why}"
        ))
    });
    assert_eq!(answer, found);
}

#[test]
fn windows_and_forecasts_go_by_the_api_servers_time_and_watches_by_our_own() {
    let clock = ApiServerClock::default();
    let hours = |hours| now() + SignedDuration::from_hours(hours);
    let answer = |metric: &str, own: Timestamp| {
        let mut view = shop();
        let window = cron("0 11 * * *", "0 13 * * *", 7);
        view.timetables
            .apply(Arc::new(timetable("web", "Deployment", vec![window], true)));
        let stale_since = Some(own - SignedDuration::from_mins(4));
        for resource in [Resource::EffectiveAutoscalers, Resource::Predictions] {
            view.set_freshness(
                resource,
                Freshness {
                    synced: true,
                    stale_since,
                    ..Freshness::default()
                },
            );
        }
        let expected = expected(view).with_clock(clock.clone());
        let selector = format!(
            "{OF_WEB}{}",
            if metric.ends_with("cron") {
                "cron"
            } else {
                "resource.cpu"
            }
        );
        let selector = selector.parse().expect("a selector");
        let request = ExternalMetricRequest {
            namespace: "shop".to_owned(),
            metric: metric.to_owned(),
            selector,
        };
        let values = wait(expected.external(&request, &Flow::default(), own));
        values
            .ok()
            .map(|values| values.expect("it is ours")[0].value.to_string())
    };
    let both = |own| {
        ["crane_autoscaling_cron", "crane_autoscaling_prediction"].map(|metric| answer(metric, own))
    };
    let right = [Some("7".to_owned()), Some("2900m".to_owned())];
    assert_eq!(both(now()), right);
    assert_eq!(
        both(hours(5)),
        [Some("2".to_owned()), None],
        "nothing is snapshot of the API server's time"
    );
    for ahead in [-5, 5, 24 * 200] {
        clock.observe(now().into(), hours(ahead).into(), Instant::now());
        assert_eq!(both(hours(ahead)), right, "{ahead}");
    }
}

#[test]
fn what_the_recommender_tells_comes_before_what_it_wrote_while_it_is_heard_and_good() {
    check_feed(
        "web",
        from_feed("web", vec![4.5; 121], "", true),
        Ok("4500m"),
    );
    check_feed(
        "web",
        from_feed("web", vec![4.5; 121], "", false),
        Ok("2900m"),
    );
    check_feed(
        "web",
        from_feed("another", vec![4.5; 121], "", true),
        Ok("2900m"),
    );
    check_feed(
        "web",
        from_feed("web", vec![], "too little history", true),
        Ok("2900m"),
    );
    check_feed(
        "old",
        from_feed("old", vec![4.5; 121], "", true),
        Ok("4500m"),
    );
    let why = "the TimeSeriesPrediction is not ready: too little history";
    check_feed(
        "old",
        from_feed("old", vec![], "too little history", true),
        Err(why),
    );
    let why = "the TimeSeriesPrediction ended its last whole window 3600s ago, limit 300s";
    check_feed("old", from_feed("old", vec![4.5; 121], "", false), Err(why));
}

fn expected(view: View) -> Predictions {
    let (_, view) = watch::channel(view);
    Predictions::new(view, Duration::from_mins(5))
}

fn wait<T>(answer: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    runtime.block_on(answer)
}

/// Both sizes of a workload.
fn scale(name: &str, wanted: i32, there: i32) -> (u16, Value) {
    let metadata = json!({"name": name, "namespace": "shop"});
    (
        200,
        json!({"metadata": metadata, "spec": {"replicas": wanted}, "status": {"replicas": there}}),
    )
}

/// The sizes of a Deployment that is called after them.
fn sized(path: &str) -> Option<(u16, Value)> {
    let name = path
        .strip_prefix("/apis/apps/v1/namespaces/shop/deployments/")?
        .strip_suffix("/scale")?;
    let (wanted, there) = name.strip_prefix("size-")?.split_once('-')?;
    Some(scale(name, wanted.parse().ok()?, there.parse().ok()?))
}

/// Says that the Deployment `web` and the Rollout `web` of the shop have eight replicas by now,
/// that the Deployment `size-10-11` should have ten and has eleven, and so on, and knows nothing
/// else.
fn api_server() -> Client {
    let answer = async |request: http::Request<Body>| {
        let (code, body) = match request.uri().path() {
            "/apis/argoproj.io/v1alpha1" => (
                200,
                json!({
                    "kind": "APIResourceList", "groupVersion": "argoproj.io/v1alpha1",
                    "resources": [{"name": "rollouts", "singularName": "", "namespaced": true, "kind": "Rollout", "verbs": []}],
                }),
            ),
            "/apis/apps/v1/namespaces/shop/deployments/web/scale"
            | "/apis/argoproj.io/v1alpha1/namespaces/shop/rollouts/web/scale" => scale("web", 8, 8),
            path => sized(path).unwrap_or_else(|| {
                (404, json!({"kind": "Status", "status": "Failure", "message": "it is not there", "code": 404}))
            }),
        };
        let response = http::Response::builder()
            .status(code)
            .body(Body::from(body.to_string().into_bytes()));
        Ok::<_, std::convert::Infallible>(response.expect("a response"))
    };
    Client::new(tower::service_fn(answer), "default")
}

/// The value, labels left out, or the text of the refusal.
fn external(view: View, metric: &str, selector: &str) -> Result<Option<Vec<String>>, String> {
    let selector = selector.parse().expect("a selector");
    let request = ExternalMetricRequest {
        namespace: "shop".to_owned(),
        metric: metric.to_owned(),
        selector,
    };
    let values = wait(async {
        expected(view)
            .with_scale_client(api_server())
            .external(&request, &Flow::default(), now())
            .await
    });
    let values = values.map_err(|refusal| refusal.to_string())?;
    Ok(values.map(|values| values.iter().map(|value| value.value.to_string()).collect()))
}

fn check_prediction(selector: &str, found: &[&str]) {
    let found = Ok(Some(found.iter().map(|&value| value.to_owned()).collect()));
    assert_eq!(
        external(shop(), "crane_autoscaling_prediction", selector),
        found,
        "{selector}"
    );
}

fn check_no_prediction(selector: &str, why: &str) {
    let why = Err(format!(
        "the server could not find the metric crane_autoscaling_prediction: {why}"
    ));
    assert_eq!(
        external(shop(), "crane_autoscaling_prediction", selector),
        why,
        "{selector}"
    );
}

#[test]
fn predicted_totals_are_exact_to_a_thousandth() {
    check_prediction(&format!("{OF_WEB}resource.cpu"), &["2900m"]);
    check_prediction(&format!("{OF_WEB}pods.rps"), &["0"]);
}

#[test]
fn a_selector_means_series_as_selectors_do() {
    check_prediction("targetKind=Deployment,targetName=web", &["0", "2900m"]);
    check_prediction(
        "targetName in (web,api),resourceIdentifier=resource.cpu",
        &["2900m"],
    );
    check_prediction(
        "targetName notin (old),resourceIdentifier!=pods.rps",
        &["2900m"],
    );
    let none = "there is no TimeSeriesPrediction that matches the selector";
    check_no_prediction(&format!("{OF_WEB}resource.memory"), none);
    check_no_prediction("targetKind=StatefulSet,targetName=web", none);
    check_no_prediction(
        "targetKind=Deployment,targetName=web,targetNamespace=bank",
        none,
    );
}

#[test]
fn a_stale_prediction_is_refused_with_its_age_and_never_left_out_of_a_sum() {
    let why = "resource.cpu of Deployment shop/old: the TimeSeriesPrediction ended its last whole window 3600s ago, limit 300s";
    check_no_prediction("targetKind=Deployment,targetName=old", why);
    check_no_prediction("", why);
}

#[test]
fn what_an_effective_autoscaler_made_comes_before_what_others_did() {
    let mut view = shop();
    let mut other = prediction(
        "a",
        workload("Deployment", "web"),
        &[("resource.cpu", 7.0)],
        0,
    );
    other.labels = Labels::default();
    view.expected.apply(Arc::new(other));
    let found = external(
        view,
        "crane_autoscaling_prediction",
        &format!("{OF_WEB}resource.cpu"),
    );
    assert_eq!(found, Ok(Some(vec!["2900m".to_owned()])));
}

#[test]
fn nothing_is_told_of_workloads_in_other_namespaces() {
    let mut view = shop();
    let mut spy = prediction(
        "spy",
        workload("Deployment", "web"),
        &[("resource.cpu", 7.0)],
        0,
    );
    spy.key.namespace = "bank".to_owned();
    view.expected.apply(Arc::new(spy));
    let selector = format!("{OF_WEB}resource.cpu").parse().expect("a selector");
    let request = ExternalMetricRequest {
        namespace: "bank".to_owned(),
        metric: "crane_autoscaling_prediction".to_owned(),
        selector,
    };
    assert!(matches!(
        wait(expected(view).external(&request, &Flow::default(), now())),
        Err(StatusError::NotFound(_))
    ));
}

#[test]
fn nothing_is_shared_out_of_workloads_in_other_namespaces() {
    let mut view = shop();
    let bank = WorkloadRef {
        namespace: "bank".to_owned(),
        ..workload("Deployment", "web")
    };
    view.expected.apply(Arc::new(prediction(
        "spy",
        bank,
        &[("resource.cpu", 7.0)],
        0,
    )));
    let selector = "autoscaling.crane.io/effective-hpa-uid=spy";
    let found = custom(
        view,
        "crane_pod_cpu_usage",
        "pods",
        ObjectSelector::Labels(Selector::everything()),
        selector,
    );
    let why = "there is no TimeSeriesPrediction of resource.cpu that matches the selector";
    assert_eq!(
        found,
        Err(format!(
            "the server could not find the metric crane_pod_cpu_usage: {why}"
        ))
    );
}

#[test]
fn other_metrics_are_left_to_others() {
    assert_eq!(external(shop(), "http_requests", ""), Ok(None));
    assert_eq!(
        custom(
            shop(),
            "http_requests",
            "pods",
            ObjectSelector::Labels(Selector::everything()),
            ""
        ),
        Ok(None)
    );
    assert_eq!(
        custom(
            shop(),
            "crane_pod_cpu_usage",
            "services",
            ObjectSelector::Name("web".to_owned()),
            ""
        ),
        Ok(None)
    );
}

fn check_cron(timetables: Vec<Timetable>, selector: &str, found: Result<&[&str], &str>) {
    let mut view = shop();
    for timetable in timetables {
        view.timetables.apply(Arc::new(timetable));
    }
    let found = found
        .map(|values| Some(values.iter().map(|&value| value.to_owned()).collect()))
        .map_err(|why| {
            format!("the server could not find the metric crane_autoscaling_cron: {why}")
        });
    assert_eq!(
        external(view, "crane_autoscaling_cron", selector),
        found,
        "{selector}"
    );
}

#[test]
fn windows_ask_for_replicas() {
    let selector = format!("{OF_WEB}cron");
    let (open, open_too) = (
        cron("0 9 * * *", "0 17 * * *", 8),
        cron("0 10 * * *", "0 14 * * *", 6),
    );
    let over_midnight = cron("0 22 * * *", "0 13 * * *", 7);
    let (closed, low) = (
        cron("0 13 * * *", "0 17 * * *", 9),
        cron("0 9 * * *", "0 17 * * *", 1),
    );
    let web = |crons: Vec<CronSpec>, has_metrics| {
        vec![timetable("web", "Deployment", crons, has_metrics)]
    };
    check_cron(
        web(vec![open.clone(), open_too, closed.clone()], true),
        &selector,
        Ok(&["8"]),
    );
    check_cron(web(vec![over_midnight], true), &selector, Ok(&["7"]));
    check_cron(web(vec![low], true), &selector, Ok(&["2"]));
    check_cron(web(vec![closed.clone()], true), &selector, Ok(&["2"]));
    // The watch has not seen yet that somebody made eight of five.
    check_cron(web(vec![closed.clone()], false), &selector, Ok(&["8"]));
    check_cron(
        web(vec![closed.clone(), open.clone()], false),
        &selector,
        Ok(&["8"]),
    );
    let none =
        Err("there is no EffectiveHorizontalPodAutoscaler with crons that matches the selector");
    check_cron(web(vec![], true), &selector, none);
    check_cron(vec![], &selector, none);
}

#[test]
fn of_several_autoscalers_of_a_workload_the_oldest_is_asked() {
    let selector = format!("{OF_WEB}cron");
    let (open, closed) = (
        cron("0 9 * * *", "0 17 * * *", 8),
        cron("0 13 * * *", "0 17 * * *", 9),
    );
    let made = |name: &str, ago: i64, cron: Option<&CronSpec>, has_metrics: bool| Timetable {
        key: ObjectKey::new("shop", name),
        created_at: now().checked_sub(SignedDuration::from_secs(ago)).ok(),
        ..timetable(
            "web",
            "Deployment",
            cron.cloned().into_iter().collect(),
            has_metrics,
        )
    };
    let elder = || made("z", 60, Some(&closed), true);
    check_cron(
        vec![elder(), made("a", 30, Some(&open), true)],
        &selector,
        Ok(&["2"]),
    );
    check_cron(
        vec![elder(), made("a", 60, Some(&open), true)],
        &selector,
        Ok(&["8"]),
    );
    check_cron(
        vec![elder(), made("a", 30, Some(&closed), false)],
        &selector,
        Ok(&["2"]),
    );
    let leaving = Timetable {
        is_leaving: true,
        ..elder()
    };
    check_cron(
        vec![leaving.clone(), made("a", 30, Some(&open), true)],
        &selector,
        Ok(&["8"]),
    );
    let none =
        Err("there is no EffectiveHorizontalPodAutoscaler with crons that matches the selector");
    check_cron(vec![leaving], &selector, none);
    check_cron(
        vec![made("z", 60, None, true), made("a", 30, Some(&open), true)],
        &selector,
        none,
    );
}

#[test]
fn of_several_predictions_of_a_workload_that_of_the_oldest_autoscaler_is_asked() {
    for (identifier, expected) in [("resource.cpu", "2900m"), ("external.more", "5")] {
        let mut view = shop();
        for (name, seconds) in [("a", 1), ("web", 0)] {
            let created_at = now().checked_add(SignedDuration::from_secs(seconds)).ok();
            let key = ObjectKey::new("shop", name);
            let uid = name.to_owned();
            let object = Timetable {
                key,
                uid,
                created_at,
                ..timetable("web", "Deployment", vec![], true)
            };
            view.timetables.apply(Arc::new(object));
        }
        // Nobody else has the second one.
        let values = [("resource.cpu", 90.0), ("external.more", 5.0)];
        view.expected.apply(Arc::new(prediction(
            "a",
            workload("Deployment", "web"),
            &values,
            0,
        )));
        let found = external(
            view,
            "crane_autoscaling_prediction",
            &format!("{OF_WEB}{identifier}"),
        );
        assert_eq!(found, Ok(Some(vec![expected.to_owned()])), "{identifier}");
    }
}

#[test]
fn no_window_opens_on_a_holiday() {
    let selector = format!("{OF_WEB}cron");
    let on = |crons: Vec<CronSpec>, holidays| Timetable {
        holidays,
        ..timetable("web", "Deployment", crons, true)
    };
    let (open, over_midnight) = (
        cron("0 9 * * *", "0 17 * * *", 8),
        cron("0 22 * * *", "0 13 * * *", 7),
    );
    let today = || Ok(vec!["2026-01-07".parse().expect("a date")]);
    check_cron(vec![on(vec![open.clone()], today())], &selector, Ok(&["2"]));
    check_cron(
        vec![on(vec![over_midnight], today())],
        &selector,
        Ok(&["7"]),
    );
    check_cron(
        vec![on(vec![open], Err(HolidaysError::Date("soon".to_owned())))],
        &selector,
        Ok(&["8"]),
    );
}

#[test]
fn windows_that_cannot_be_understood_and_workloads_that_cannot_be_seen_are_refused() {
    let selector = |kind: &str, name: &str| {
        format!("targetKind={kind},targetName={name},resourceIdentifier=cron")
    };
    let (closed, odd) = (
        cron("0 13 * * *", "0 17 * * *", 9),
        cron("0 9 * * *", "0 17 * *", 8),
    );
    check_cron(
        vec![timetable(
            "web",
            "Deployment",
            vec![closed.clone(), odd],
            true,
        )],
        &selector("Deployment", "web"),
        Err("crons[1] of shop/web: end: there must be five fields, not 4"),
    );
    check_cron(
        vec![timetable("web", "StatefulSet", vec![closed.clone()], false)],
        &selector("StatefulSet", "web"),
        Err("no window is open, StatefulSet shop/web keeps its replicas: it is not there"),
    );
    let mut rollout = timetable("web", "Rollout", vec![closed.clone()], false);
    rollout.target.api_version = "argoproj.io/v1alpha1".to_owned();
    check_cron(vec![rollout], &selector("Rollout", "web"), Ok(&["8"]));
    check_cron(
        vec![timetable("gone", "Deployment", vec![closed], false)],
        &selector("Deployment", "gone"),
        Err("no window is open, Deployment shop/gone keeps its replicas: it is not there"),
    );
}

type Shares = Option<Vec<(String, String)>>;

fn custom(
    view: View,
    metric: &str,
    resource: &str,
    objects: ObjectSelector,
    selector: &str,
) -> Result<Shares, String> {
    let request = CustomMetricRequest {
        namespace: Some("shop".to_owned()),
        resource: GroupResource {
            group: String::new(),
            resource: resource.to_owned(),
        },
        objects,
        metric: metric.to_owned(),
        metric_selector: selector.parse().expect("a selector"),
    };
    let values = expected(view)
        .custom(&request, now())
        .map_err(|refusal| refusal.to_string())?;
    Ok(values.map(|values| {
        values
            .into_iter()
            .map(|value| (value.object.name, value.value.to_string()))
            .collect()
    }))
}

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
    let asked = format!("{objects:?} {selector}");
    assert_eq!(
        custom(shop(), "crane_pod_cpu_usage", "pods", objects, selector),
        found,
        "{asked}"
    );
}

#[test]
fn predicted_cpu_is_shared_out_among_the_pods_that_run() {
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
    view.expected.apply(Arc::new(old));
    let named = ObjectSelector::Name("web-2".to_owned());
    let found = custom(
        view,
        "crane_pod_cpu_usage",
        "pods",
        named,
        &format!("{uid}=old"),
    );
    let why = "the pods of Deployment shop/old are not snapshot: select them by labels";
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
