//! Requests against a cluster of a few objects.

mod cron_schedules;
mod feed_values;
mod idle_schedules;
mod pod_cpu;
mod totals;

use std::sync::Arc;
use std::time::Instant;

use api::ehpa::{CronSpec, HolidaysError};
use feed::client::{LeaderState, Received};
use feed::{Forecast, ForecastSeries, MetricForecast, Subscription};
use jiff::{SignedDuration, Timestamp};
use kube::Client;
use model::{Labels, Selector, WorkloadRef};
use runtime::ApiServerClock;
use serde_json::{Value, json};
use testing::refusal;
use tokio::sync::watch;
use view::{
    Controller, CronSchedule, Freshness, LabelledPod, MANAGED_BY, ObjectKey, Phase,
    PredictedMetric, Prediction, Resource, View, WellKnown,
};

use super::Predictions;
use super::scale::ScaleClient;
use crate::flow_limiter::Flow;
use crate::request::{
    CustomMetricRequest, ExternalMetricRequest, GroupResource, ObjectSelector, StatusError,
};

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

/// A prediction of a Deployment for two hours from `ago` seconds before now, with a window of one
/// hour.
fn prediction(name: &str, target: &str, metrics: &[(&str, f64)], ago: i64) -> Prediction {
    let start = now().as_second() - ago;
    let times = (0..=120).map(|minute| start + minute * 60);
    let metric = |(identifier, value): &(&str, f64)| PredictedMetric {
        identifier: (*identifier).into(),
        ready: true,
        series: vec![times.clone().map(|time| (time, *value)).collect()],
    };
    let labels = [MANAGED_BY, ("autoscaling.crane.io/effective-hpa-uid", name)];
    Prediction {
        key: ObjectKey::new("shop", name),
        uid: name.to_owned(),
        controller_uid: Some(name.to_owned()),
        labels: Labels::from_iter(labels),
        target: workload("Deployment", target),
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

fn schedule(name: &str, kind: &str, crons: Vec<CronSpec>, has_metrics: bool) -> CronSchedule {
    CronSchedule {
        key: ObjectKey::new("shop", name),
        uid: name.to_owned(),
        created_at: Some(now()),
        is_terminating: false,
        target: workload(kind, name),
        min_replicas: 2,
        crons,
        holidays: Ok(Vec::new()),
        has_metrics,
    }
}

fn pod(name: &str, app: &str, phase: Phase, is_terminating: bool) -> LabelledPod {
    let labels = Labels::from_iter([("app", app)]);
    LabelledPod {
        key: ObjectKey::new("shop", name),
        labels,
        phase,
        is_terminating,
    }
}

/// A cluster with a Deployment `web` of 5 replicas.
fn shop() -> View {
    let mut view = View::default();
    let deployment = Controller {
        key: ObjectKey::new("shop", "web"),
        labels: Labels::default(),
        selector: Ok(Selector::match_labels([("app", "web")])),
        owner: None,
        replicas: Some(5),
        min_ready: std::time::Duration::ZERO,
        template: view::PodTemplate::default(),
    };
    view.controllers_mut(WellKnown::Deployment)
        .apply(Arc::new(deployment));
    let web = [("resource.cpu", 2.9), ("pods.rps", 0.0004)];
    let old = [("resource.cpu", 1.0)];
    for (name, metrics, ago) in [("web", &web[..], 0), ("old", &old, 7200)] {
        view.predicted_metrics
            .apply(Arc::new(prediction(name, name, metrics, ago)));
    }
    for (name, app, phase, is_terminating) in [
        ("web-1", "web", Phase::Running, false),
        ("web-2", "web", Phase::Running, false),
        ("web-3", "web", Phase::Running, true),
        ("web-4", "web", Phase::Pending, false),
        ("api-1", "api", Phase::Running, false),
    ] {
        view.labelled_pods
            .apply(Arc::new(pod(name, app, phase, is_terminating)));
    }
    view
}

fn expected(view: View) -> Predictions {
    let (_, view) = watch::channel(view);
    Predictions::new(view)
}

fn wait<T>(answer: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    runtime.block_on(answer)
}

/// The desired and the current replicas of a workload.
fn scale(name: &str, desired: i32, current: i32) -> (u16, Value) {
    let metadata = json!({"name": name, "namespace": "shop"});
    (
        200,
        json!({"metadata": metadata, "spec": {"replicas": desired}, "status": {"replicas": current}}),
    )
}

/// The replicas of a Deployment whose name contains them.
fn sized(path: &str) -> Option<(u16, Value)> {
    let name = path
        .strip_prefix("/apis/apps/v1/namespaces/shop/deployments/")?
        .strip_suffix("/scale")?;
    let (desired, current) = name.strip_prefix("size-")?.split_once('-')?;
    Some(scale(name, desired.parse().ok()?, current.parse().ok()?))
}

/// An API server in which the Deployment `web` and the Rollout `web` have eight replicas, and the
/// Deployment `size-10-11` should have ten and has eleven, and so on.
fn api_server() -> Client {
    testing::api_server(async |request| match request.uri().path() {
        "/apis/argoproj.io/v1alpha1" => {
            let list = json!({
                "kind": "APIResourceList", "groupVersion": "argoproj.io/v1alpha1",
                "resources": [{"name": "rollouts", "singularName": "", "namespaced": true, "kind": "Rollout", "verbs": []}],
            });
            (200, list)
        }
        "/apis/apps/v1/namespaces/shop/deployments/web/scale"
        | "/apis/argoproj.io/v1alpha1/namespaces/shop/rollouts/web/scale" => scale("web", 8, 8),
        path => sized(path).unwrap_or_else(|| refusal(404, "it does not exist")),
    })
}

/// The values without labels, or the message of the error.
fn external(view: View, metric: &str, selector: &str) -> Result<Option<Vec<String>>, String> {
    let request = ExternalMetricRequest::new("shop", metric, selector);
    let values = wait(async {
        let predictions = Predictions {
            sizes: Some(ScaleClient::new(api_server())),
            ..expected(view)
        };
        predictions
            .external(&request, &Flow::default(), now())
            .await
    });
    let values = values.map_err(|refusal| refusal.to_string())?;
    Ok(values.map(|values| values.iter().map(|value| value.value.to_string()).collect()))
}

type Shares = Option<Vec<(String, String)>>;

fn custom(
    view: View,
    metric: &str,
    resource: &str,
    objects: ObjectSelector,
    selector: &str,
) -> Result<Shares, String> {
    let resource = GroupResource {
        group: String::new(),
        resource: resource.to_owned(),
    };
    let request = CustomMetricRequest {
        namespace: Some("shop".to_owned()),
        resource,
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
