//! Fixture: an EHPA, its workload and the objects that belong to it.

use std::sync::Arc;

use api::condition::ConditionStatus;
use api::ehpa::{self, EffectiveHorizontalPodAutoscaler, METRICS_PREDICTABLE};
use api::prediction::{self, PredictionMetric, TimeSeriesPrediction};
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use model::{Cpu, Labels, Memory};
use serde_json::{Value, json};
use view::{Container, ObjectKey, Phase, Pod, Resources, Stripped, Vpa};

use crate::ehpa::history_queries::Rules;
use crate::ehpa::plan::{Desired, Plan, plan};
use crate::ehpa::status::status;
use crate::ehpa::{Observed, Propagation, TargetScale};

/// An EHPA whose target has three replicas of a pod with two containers.
pub(super) struct Fixture {
    pub(super) object: EffectiveHorizontalPodAutoscaler,
    pub(super) target: Result<TargetScale, String>,
    pub(super) pods: Vec<Arc<Pod>>,
    pub(super) ready_seconds: Option<u32>,
    pub(super) hpas: Vec<Arc<Stripped<HorizontalPodAutoscaler>>>,
    pub(super) vpas: Vec<Arc<Vpa>>,
    pub(super) older_ehpa: Option<&'static str>,
    pub(super) prediction: Option<TimeSeriesPrediction>,
    pub(super) propagation: Propagation,
    pub(super) rules: Rules,
}

impl Fixture {
    /// The example of the documentation, with `extra` in its spec.
    pub(super) fn new(extra: &Value) -> Self {
        let mut object = json!({
            "apiVersion": "autoscaling.crane.io/v1alpha1",
            "kind": "EffectiveHorizontalPodAutoscaler",
            "metadata": {"name": "php-apache", "namespace": "shop", "uid": "u1", "labels": {"team": "a", "other": "b"}},
            "spec": {
                "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "php-apache"},
                "minReplicas": 1,
                "maxReplicas": 10,
                "metrics": [cpu(50)],
                "prediction": {
                    "predictionWindowSeconds": 3600,
                    "predictionAlgorithm": {
                        "algorithmType": "dsp", "dsp": {"sampleInterval": "60s", "historyLength": "3d"},
                    },
                },
            },
        });
        set_fields(&mut object["spec"], extra);
        Self {
            object: ehpa::parse(object).expect("an EHPA"),
            target: Ok(TargetScale {
                spec_replicas: 3,
                status_replicas: 3,
                selector: "run=php-apache".to_owned(),
            }),
            pods: ["one", "two"]
                .map(|name| Arc::new(pod(name, Phase::Running)))
                .to_vec(),
            ready_seconds: None,
            hpas: Vec::new(),
            vpas: Vec::new(),
            older_ehpa: None,
            prediction: None,
            propagation: Propagation::default(),
            rules: Rules::default(),
        }
    }

    pub(super) fn example() -> Self {
        Self::new(&json!({}))
    }

    /// The same, where this older EHPA has the same workload.
    pub(super) fn younger(extra: &Value) -> Self {
        Self {
            older_ehpa: Some("a"),
            ..Self::new(extra)
        }
    }

    pub(super) fn replicas(mut self, spec_replicas: i32) -> Self {
        self.target = self.target.map(|target| TargetScale {
            spec_replicas,
            ..target
        });
        self
    }

    pub(super) fn annotated(mut self, key: &str, value: &str) -> Self {
        let annotations = self.object.metadata.annotations.get_or_insert_default();
        annotations.insert(key.to_owned(), value.to_owned());
        self
    }

    /// A prediction whose metrics are ready or not, with this number of series.
    pub(super) fn predicted(mut self, metrics: &[(&str, bool, usize)]) -> Self {
        let metric = |(identifier, ready, series): &(&str, bool, usize)| {
            let series = vec![json!({"samples": [{"value": "1.00000", "timestamp": 0}]}); *series];
            json!({"resourceIdentifier": identifier, "ready": ready, "prediction": series})
        };
        let object = json!({
            "apiVersion": "prediction.crane.io/v1alpha1",
            "kind": "TimeSeriesPrediction",
            "metadata": {"name": "ehpa-php-apache", "namespace": "shop", "ownerReferences": owner("u1")},
            "spec": {
                "targetRef": {"kind": "Deployment", "name": "php-apache"},
                "predictionWindowSeconds": 3600, "predictionMetrics": [],
            },
            "status": {
                "predictionMetrics": metrics.iter().map(metric).collect::<Vec<_>>(),
                "conditions": [{
                    "type": "Ready", "status": "True", "reason": "PredictSucceed", "message": "",
                    "lastTransitionTime": "2026-01-01T00:00:00Z",
                }],
            },
        });
        self.prediction = Some(prediction::parse(object).expect("a prediction"));
        self
    }

    pub(super) fn hpa(mut self, object: Value) -> Self {
        let object: HorizontalPodAutoscaler = serde_json::from_value(object).expect("an HPA");
        let key = ObjectKey::new("shop", object.metadata.name.clone().unwrap_or_default());
        self.hpas.push(Arc::new(Stripped { key, object }));
        self
    }

    pub(super) fn vpa(mut self, object: &Value) -> Self {
        let object = api::vpa::parse(object.clone()).expect("a VPA");
        self.vpas.push(Arc::new(Vpa::from_k8s(object)));
        self
    }

    pub(super) fn observed(&self) -> Observed<'_> {
        Observed {
            object: &self.object,
            target: self.target.as_ref().map_err(String::as_str),
            pods: &self.pods,
            ready_seconds: self.ready_seconds,
            vpas: &self.vpas,
            hpas: &self.hpas,
            older_ehpa: self.older_ehpa,
            prediction: self.prediction.as_ref(),
            substitute: None,
            propagation: &self.propagation,
            rules: &self.rules,
            now: "2026-01-01T00:00:10Z".parse().expect("a time"),
        }
    }

    pub(super) fn plan(&self) -> Plan {
        plan(&self.observed())
    }

    /// The message of the condition about metrics that cannot be predicted.
    pub(super) fn unpredictable(&self, plan: &Plan) -> Option<String> {
        let status = status(&self.observed(), &plan.problems, false);
        let mut conditions = status.conditions.into_iter();
        let condition = conditions.find(|condition| condition.kind == METRICS_PREDICTABLE)?;
        assert_eq!(condition.status, ConditionStatus::False);
        Some(condition.message)
    }
}

pub(super) fn predicted_metrics(plan: &Plan) -> &[PredictionMetric] {
    match &plan.prediction {
        Desired::Apply(prediction) => &prediction.spec.prediction_metrics,
        _ => &[],
    }
}

pub(super) fn owner(uid: &str) -> Value {
    json!([{
        "apiVersion": "autoscaling.crane.io/v1alpha1", "kind": "EffectiveHorizontalPodAutoscaler", "name": "php-apache",
        "uid": uid, "controller": true, "blockOwnerDeletion": true,
    }])
}

pub(in crate::ehpa) fn resource(name: &str, target: &Value) -> Value {
    json!({"type": "Resource", "resource": {"name": name, "target": target}})
}

/// CPU at this percentage of the request.
pub(in crate::ehpa) fn cpu(percent: i32) -> Value {
    resource(
        "cpu",
        &json!({"type": "Utilization", "averageUtilization": percent}),
    )
}

/// A target of this amount per pod.
pub(super) fn average(value: &str) -> Value {
    json!({"type": "AverageValue", "averageValue": value})
}

pub(super) fn by_day() -> Value {
    json!({"name": "day", "start": "0 9 * * *", "end": "0 18 * * *", "targetReplicas": 80})
}

pub(in crate::ehpa) fn pod(name: &str, phase: Phase) -> Pod {
    let container = |name: &str, cpu, memory| Container {
        name: name.to_owned(),
        requests: Resources {
            cpu: Some(Cpu::from_millicores(cpu)),
            memory: Some(Memory::from_bytes(memory)),
        },
        limits: Resources::default(),
        status: None,
    };
    Pod {
        key: ObjectKey::new("shop", name),
        uid: name.to_owned(),
        labels: Labels::default(),
        phase,
        owner: None,
        started_at: None,
        containers: vec![
            container("app", 200, 1 << 20),
            container("sidecar", 51, 1 << 19),
        ],
        init_containers: Vec::new(),
        sidecars: Vec::new(),
        resources: None,
        memory_cgroup: view::MemoryCgroup::default(),
        placement: None,
        running: None,
        ready_after_seconds: None,
    }
}

/// An HPA of the same workload.
pub(in crate::ehpa) fn existing_hpa(name: &str, extra: &Value) -> Value {
    let mut object = json!({
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": name, "namespace": "shop"},
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "php-apache"},
            "maxReplicas": 20,
        },
    });
    set_fields(&mut object["metadata"], extra);
    object
}

pub(super) fn created_hpa() -> Value {
    existing_hpa("ehpa-php-apache", &json!({"ownerReferences": owner("u1")}))
}

fn set_fields(object: &mut Value, fields: &Value) {
    for (key, value) in fields.as_object().into_iter().flatten() {
        object[key] = value.clone();
    }
}

pub(super) fn json_of<T: serde::Serialize>(object: &T) -> Value {
    serde_json::to_value(object).expect("objects are JSON")
}

pub(super) fn planned_hpa(plan: &Plan) -> Value {
    json_of(plan.hpa.as_ref().expect("an HPA"))
}

pub(super) fn planned_metrics(plan: &Plan) -> Value {
    planned_hpa(plan)["spec"]["metrics"].clone()
}

pub(super) fn metric_count(plan: &Plan) -> Option<usize> {
    planned_metrics(plan).as_array().map(Vec::len)
}

pub(super) fn hpa_name(plan: &Plan) -> Option<&str> {
    plan.hpa.as_ref()?.metadata.name.as_deref()
}

pub(super) fn external(name: &str, identifier: &str, average: &str) -> Value {
    let labels = json!({
        "targetKind": "Deployment", "targetName": "php-apache", "targetNamespace": "shop", "resourceIdentifier": identifier,
    });
    json!({
        "type": "External",
        "external": {
            "metric": {"name": name, "selector": {"matchLabels": labels}},
            "target": self::average(average),
        },
    })
}

pub(super) fn reasons(plan: &Plan) -> Vec<&'static str> {
    plan.problems.iter().map(|problem| problem.reason).collect()
}
