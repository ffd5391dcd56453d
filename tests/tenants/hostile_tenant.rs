//! A tenant that creates the largest, most numerous and slowest objects that the API server admits,
//! at once.

use std::time::Duration;

use anyhow::Result;
use api::ehpa::EffectiveHorizontalPodAutoscaler;
use api::prediction::TimeSeriesPrediction;
use api::sizing_policy::SizingPolicy;
use api::vpa::VerticalPodAutoscaler;
use e2e::{Namespace, create, namespace};
use futures::{StreamExt as _, stream};
use k8s_openapi::api::batch::v1::CronJob;
use k8s_openapi::api::core::v1::Pod;
use kube::Resource;
use sandbox::Sandbox;
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::measured_tenant::tenant_client;

/// Requests under way at once while objects are made, and while metrics are asked for.
const PARALLEL: usize = 16;
/// Between two questions of one client.
const PAUSE: Duration = Duration::from_millis(10);

pub(crate) struct Hostile {
    own: Namespace,
}

impl Hostile {
    pub(crate) async fn new(sandbox: &Sandbox) -> Result<Self> {
        let namespace = namespace(&sandbox.client().await?, "hostile").await?;
        let client = tenant_client(sandbox, &namespace).await?;
        let own = Namespace::of(client, &namespace);
        Ok(Self { own })
    }

    /// Makes all objects. The API server may refuse some by their schema, which is printed.
    pub(crate) async fn make(&self) -> Result<()> {
        self.many::<CronJob>("fat CronJobs of 1.4 MB", 200, &|_| fat_cron_job())
            .await;
        let kind = "windows of a week at steps of a second";
        self.many::<TimeSeriesPrediction>(kind, 20, &|_| long_forecast())
            .await;
        self.many::<TimeSeriesPrediction>("expensive expressions", 5, &|_| expensive_forecast())
            .await;
        self.many::<TimeSeriesPrediction>("300,000 DSP estimators", 2, &|_| many_estimators())
            .await;
        self.many::<TimeSeriesPrediction>("annotations of 250 kB", 20, &|_| {
            annotated(long_forecast())
        })
        .await;
        self.many::<EffectiveHorizontalPodAutoscaler>("annotations of 250 kB", 20, &|_| {
            annotated(scaler())
        })
        .await;
        self.many::<VerticalPodAutoscaler>("targets of missing kinds", 1000, &missing_target)
            .await;
        self.many::<VerticalPodAutoscaler>("windows on days that never come", 1000, &never_open)
            .await;
        self.many::<VerticalPodAutoscaler>("annotations of 250 kB", 100, &|number| {
            annotated(missing_target(number))
        })
        .await;
        self.many::<SizingPolicy>("annotations of 250 kB", 20, &|_| {
            annotated(json!({"spec": {}}))
        })
        .await;
        self.all_pods().await?;
        self.many::<Pod>("container names of their own", 300, &short_lived_pod)
            .await;
        Ok(())
    }

    /// A `CronJob` that never runs, and a VPA of all pods with its labels.
    async fn all_pods(&self) -> Result<()> {
        let mut cron_job = json!({"metadata": {"name": "all"}, "spec": fat_cron_job()["spec"]});
        let template = &mut cron_job["spec"]["jobTemplate"]["spec"]["template"];
        template["metadata"] = json!({"labels": {"app": "all"}});
        template["spec"]["containers"][0]["env"] = json!([]);
        create(&self.own.typed::<CronJob>(), cron_job).await?;
        let target = json!({"apiVersion": "batch/v1", "kind": "CronJob", "name": "all"});
        self.many::<VerticalPodAutoscaler>(
            "all pods",
            1,
            &|_| json!({"spec": {"targetRef": target}}),
        )
        .await;
        Ok(())
    }

    async fn many<K: Resource<DynamicType = ()>>(
        &self,
        what: &str,
        count: usize,
        object: &dyn Fn(usize) -> Value,
    ) {
        let made: Vec<Result<(), String>> = stream::iter(0..count)
            .map(|number| {
                let mut object = object(number);
                object["metadata"]["generateName"] = json!("hostile-");
                async move {
                    let made = self.own.create::<K>(object).await;
                    made.map(drop).map_err(|error| error.to_string())
                }
            })
            .buffer_unordered(PARALLEL)
            .collect()
            .await;
        let refused: Vec<&String> = made.iter().filter_map(|made| made.as_ref().err()).collect();
        let why = refused
            .first()
            .map(|why| format!(", {} refused: {:.200}", refused.len(), why))
            .unwrap_or_default();
        println!(
            "  {} {} with {what}{why}",
            count - refused.len(),
            K::plural(&())
        );
    }

    /// Asks for metrics without an end while something else is done.
    pub(crate) async fn while_asking<T>(&self, work: impl Future<Output = Result<T>>) -> Result<T> {
        let asking = stream::iter(0..usize::MAX)
            .map(|number| self.ask(number))
            .buffer_unordered(PARALLEL);
        let asking = asking.for_each(async |()| {});
        tokio::select! {
            result = work => result,
            () = asking => anyhow::bail!("questions ended"),
        }
    }

    /// A question that was not asked before, for answers that are large or slow. A refusal is an
    /// answer, too.
    async fn ask(&self, number: usize) {
        let metric = ["queue_depth", "slow"][number % 2];
        let path = format!(
            "/apis/external.metrics.k8s.io/v1beta1/namespaces/{}/{metric}",
            self.own.namespace
        );
        if let Ok(request) =
            http::Request::get(format!("{path}?labelSelector=q!%3D{number}")).body(Vec::new())
        {
            let _ = self.own.client.request::<Value>(request).await;
        }
        sleep(PAUSE).await;
    }
}

fn annotated(mut object: Value) -> Value {
    for name in [
        "plimsoll.dev/forecast",
        "plimsoll.dev/forecast-quantile",
        "plimsoll.dev/sizing-policy",
    ] {
        object["metadata"]["annotations"][name] = json!("x".repeat(80_000));
    }
    object
}

fn fat_cron_job() -> Value {
    let variable = json!({"name": "FAT", "value": "x".repeat(1_400_000)});
    let containers = json!([{"name": "app", "image": "example.com/app", "env": [variable]}]);
    let template = json!({"spec": {"restartPolicy": "Never", "containers": containers}});
    json!({"spec": {"schedule": "0 0 1 1 *", "suspend": true, "jobTemplate": {"spec": {"template": template}}}})
}

fn forecast(metrics: &Value, seconds: i64) -> Value {
    let target = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"});
    json!({"spec": {"targetRef": target, "predictionWindowSeconds": seconds, "predictionMetrics": metrics}})
}

fn long_forecast() -> Value {
    let algorithm = json!({"algorithmType": "percentile", "percentile": {
        "sampleInterval": "1s", "aggregated": false,
        "histogram": {"halfLife": "24h", "bucketSize": "0.1", "maxValue": "100", "firstBucketSize": "0.1"},
    }});
    let metrics: Vec<Value> = (0..100)
        .map(|number| {
            json!({
                "resourceIdentifier": format!("cpu-{number}"), "type": "ResourceQuery", "resourceQuery": "cpu",
                "algorithm": algorithm,
            })
        })
        .collect();
    forecast(&json!(metrics), 604_800)
}

fn expensive_forecast() -> Value {
    let metrics: Vec<Value> = (0..100)
        .map(|number| {
            json!({
                "resourceIdentifier": format!("slow-{number}"), "type": "ExpressionQuery",
                "expressionQuery": {"expression": format!("sum(sum_over_time((vector({number}))[6h:1s]))")},
                "algorithm": {"algorithmType": "dsp", "dsp": {"sampleInterval": "60s", "historyLength": "14d"}},
            })
        })
        .collect();
    forecast(&json!(metrics), 3600)
}

fn many_estimators() -> Value {
    let estimators = json!({"fft": vec![json!({}); 300_000]});
    let algorithm = json!({"algorithmType": "dsp", "dsp": {
        "sampleInterval": "60s", "historyLength": "14d", "estimators": estimators,
    }});
    let metric = json!({
        "resourceIdentifier": "hour", "type": "ResourceQuery", "resourceQuery": "cpu", "algorithm": algorithm,
    });
    let mut object = forecast(&json!([metric]), 3600);
    object["metadata"]["annotations"]["plimsoll.dev/forecast"] = json!("crane");
    object
}

fn scaler() -> Value {
    json!({"spec": {
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
        "minReplicas": 1, "maxReplicas": 10, "scaleStrategy": "Auto",
        "prediction": {"predictionWindowSeconds": 3600, "predictionAlgorithm": {"algorithmType": "dsp"}},
        "metrics": [{"type": "Resource", "resource": {
            "name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50},
        }}],
    }})
}

fn missing_target(number: usize) -> Value {
    let target = json!({
        "apiVersion": format!("missing-{number}.example.com/v1"), "kind": "Missing", "name": format!("web-{number}"),
    });
    json!({"spec": {"targetRef": target}})
}

fn never_open(number: usize) -> Value {
    let (minute, hour) = (number % 60, number / 60 % 24);
    let mut object = missing_target(0);
    let window = format!("{minute} {hour} 31 2,4,6,9,11 *; for=1h");
    object["metadata"]["annotations"]["plimsoll.dev/maintenance-window"] = json!(window);
    object
}

fn short_lived_pod(number: usize) -> Value {
    let usage = json!({"kwok.x-k8s.io/usage-cpu": "10m", "kwok.x-k8s.io/usage-memory": "10Mi"});
    let name = format!("container-{number}");
    json!({
        "metadata": {"labels": {"app": "all"}, "annotations": usage},
        "spec": {"containers": [{"name": name, "image": "example.com/app"}]},
    })
}
