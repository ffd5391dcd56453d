//! A cluster with 10,000 workloads, each scaled by an EHPA, and the requests of the HPA controller.

use std::sync::Arc;

use api::ehpa::CronSpec;
use jiff::Timestamp;
use model::{Labels, WorkloadRef};
use view::{
    CronSchedule, LabelledPod, MANAGED_BY, ObjectKey, Phase, PredictedMetric, Prediction, View,
};

/// The number of EHPAs.
pub(crate) const AUTOSCALERS: usize = 10_000;
const NAMESPACES: usize = 20;
const PODS: usize = 2;
/// Two windows of an hour, with a reserve for a long run.
const MINUTES: i64 = 240;

fn workload(number: usize) -> WorkloadRef {
    WorkloadRef {
        api_version: "apps/v1".to_owned(),
        kind: "Deployment".to_owned(),
        namespace: format!("team-{}", number % NAMESPACES),
        name: format!("web-{number}"),
    }
}

pub(crate) fn view(now: Timestamp) -> View {
    let mut view = View::default();
    let start = now.as_second() - 60;
    for number in 0..AUTOSCALERS {
        let target = workload(number);
        let key = ObjectKey::new(&target.namespace, format!("ehpa-{}", target.name));
        let samples = |base: f64| {
            (0..MINUTES)
                .map(|minute| (start + minute * 60, base + minute as f64 / 100.0))
                .collect()
        };
        let metric = |identifier: &str, base| PredictedMetric {
            identifier: identifier.into(),
            ready: true,
            series: vec![samples(base)],
        };
        let labels = [
            (MANAGED_BY.0, MANAGED_BY.1.to_owned()),
            (
                "autoscaling.crane.io/effective-hpa-uid",
                format!("uid-{number}"),
            ),
        ];
        view.predicted_metrics.apply(Arc::new(Prediction {
            key: key.clone(),
            uid: format!("prediction-{number}"),
            controller_uid: Some(format!("uid-{number}")),
            labels: Labels::from_iter(labels),
            target: target.clone(),
            window_seconds: 3600,
            metrics: vec![
                metric("resource.cpu", 1.5),
                metric("pods.http_requests", 100.0),
            ],
        }));
        let cron = |start: &str, end: &str| CronSpec {
            timezone: Some("Europe/Berlin".to_owned()),
            start: start.to_owned(),
            end: end.to_owned(),
            target_replicas: 12,
            ..CronSpec::default()
        };
        view.cron_schedules.apply(Arc::new(CronSchedule {
            key,
            uid: format!("uid-{number}"),
            created_at: Timestamp::from_second(start).ok(),
            is_terminating: false,
            target: target.clone(),
            min_replicas: 1,
            crons: vec![
                cron("0 8 * * 1-5", "0 18 * * 1-5"),
                cron("0 0 1 * *", "0 6 1 * *"),
            ],
            holidays: Ok(Vec::new()),
            has_metrics: true,
        }));
        for pod in 0..PODS {
            view.labelled_pods.apply(Arc::new(LabelledPod {
                key: ObjectKey::new(&target.namespace, format!("{}-5d8f-{pod}", target.name)),
                labels: Labels::from_iter([
                    ("app", target.name.clone()),
                    ("pod-template-hash", "5d8f".to_owned()),
                ]),
                phase: Phase::Running,
                is_terminating: false,
            }));
        }
    }
    view
}

/// Returns a request of the HPA controller as the API server proxies it: for a prediction,
/// predicted CPU per pod, or a cron schedule.
pub(crate) fn path(number: usize) -> String {
    let number = number % AUTOSCALERS;
    let WorkloadRef {
        namespace, name, ..
    } = workload(number);
    let external = |metric: &str, identifier: &str| {
        format!(
            "/apis/external.metrics.k8s.io/v1beta1/namespaces/{namespace}/{metric}?labelSelector=resourceIdentifier%3D{identifier}\
             %2CtargetKind%3DDeployment%2CtargetName%3D{name}%2CtargetNamespace%3D{namespace}"
        )
    };
    match number % 3 {
        0 => external("crane_autoscaling_prediction", "resource.cpu"),
        1 => external("crane_autoscaling_cron", "cron"),
        _ => format!(
            "/apis/custom.metrics.k8s.io/v1beta2/namespaces/{namespace}/pods/%2A/crane_pod_cpu_usage?labelSelector=app%3D{name}\
             &metricLabelSelector=autoscaling.crane.io%2Feffective-hpa-uid%3Duid-{number}"
        ),
    }
}
