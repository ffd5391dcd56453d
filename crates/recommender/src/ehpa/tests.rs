//! From example objects to what is made of them, against golden JSON.

use std::sync::Arc;

use api::condition::Holds;
use api::effective_hpa::{self, EffectiveHorizontalPodAutoscaler};
use api::prediction::{self, TimeSeriesPrediction};
use cluster::{Container, ObjectKey, Phase, Pod, Resources, Whole};
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use model::{Cpu, Labels, Memory};
use serde_json::{Value, json};

use super::plan::{Plan, Wish, plan};
use super::status::status;
use super::{Propagation, Seen, Target};

/// Everything that belongs to one object, with a target of three replicas of a pod with two containers.
struct Stage {
    object: EffectiveHorizontalPodAutoscaler,
    target: Result<Target, String>,
    pods: Vec<Arc<Pod>>,
    autoscalers: Vec<Arc<Whole<HorizontalPodAutoscaler>>>,
    elder: Option<&'static str>,
    prediction: Option<TimeSeriesPrediction>,
    propagation: Propagation,
}

impl Stage {
    /// The example of the documentation, with `extra` in its spec.
    fn new(extra: &Value) -> Self {
        let mut object = json!({
            "apiVersion": "autoscaling.crane.io/v1alpha1",
            "kind": "EffectiveHorizontalPodAutoscaler",
            "metadata": {"name": "php-apache", "namespace": "shop", "uid": "u1", "labels": {"team": "a", "other": "b"}},
            "spec": {
                "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "php-apache"},
                "minReplicas": 1,
                "maxReplicas": 10,
                "metrics": [resource("cpu", &json!({"type": "Utilization", "averageUtilization": 50}))],
                "prediction": {
                    "predictionWindowSeconds": 3600,
                    "predictionAlgorithm": {
                        "algorithmType": "dsp", "dsp": {"sampleInterval": "60s", "historyLength": "3d"},
                    },
                },
            },
        });
        for (key, value) in extra.as_object().into_iter().flatten() {
            object["spec"][key] = value.clone();
        }
        Self {
            object: effective_hpa::parse(object).expect("an effective autoscaler"),
            target: Ok(Target { spec_replicas: 3, status_replicas: 3, selector: "run=php-apache".to_owned() }),
            pods: ["one", "two"].map(|name| Arc::new(pod(name, Phase::Running))).to_vec(),
            autoscalers: Vec::new(),
            elder: None,
            prediction: None,
            propagation: Propagation::default(),
        }
    }

    fn replicas(mut self, spec_replicas: i32) -> Self {
        self.target = self.target.map(|target| Target { spec_replicas, ..target });
        self
    }

    fn annotated(mut self, key: &str, value: &str) -> Self {
        self.object.metadata.annotations.get_or_insert_default().insert(key.to_owned(), value.to_owned());
        self
    }

    /// A prediction of which these metrics are ready or not, with so many series.
    fn predicted(mut self, metrics: &[(&str, bool, usize)]) -> Self {
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

    fn autoscaler(mut self, object: Value) -> Self {
        let object: HorizontalPodAutoscaler = serde_json::from_value(object).expect("an autoscaler");
        let key = ObjectKey::new("shop", object.metadata.name.clone().unwrap_or_default());
        self.autoscalers.push(Arc::new(Whole { key, object }));
        self
    }

    fn seen(&self) -> Seen<'_> {
        Seen {
            object: &self.object,
            target: self.target.as_ref().map_err(String::as_str),
            pods: &self.pods,
            autoscalers: &self.autoscalers,
            elder: self.elder,
            prediction: self.prediction.as_ref(),
            substitute: None,
            propagation: &self.propagation,
            now: "2026-01-01T00:00:10Z".parse().expect("a time"),
        }
    }

    fn plan(&self) -> Plan {
        plan(&self.seen())
    }
}

fn owner(uid: &str) -> Value {
    json!([{
        "apiVersion": "autoscaling.crane.io/v1alpha1", "kind": "EffectiveHorizontalPodAutoscaler", "name": "php-apache",
        "uid": uid, "controller": true, "blockOwnerDeletion": true,
    }])
}

fn resource(name: &str, target: &Value) -> Value {
    json!({"type": "Resource", "resource": {"name": name, "target": target}})
}

fn pod(name: &str, phase: Phase) -> Pod {
    let container = |name: &str, cpu, memory| Container {
        name: name.to_owned(),
        requests: Resources { cpu: Some(Cpu::from_millicores(cpu)), memory: Some(Memory::from_bytes(memory)) },
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
        containers: vec![container("app", 200, 1 << 20), container("sidecar", 51, 1 << 19)],
        init_containers: Vec::new(),
        placement: None,
        running: None,
    }
}

/// A native autoscaler of the same workload.
fn native(name: &str, extra: &Value) -> Value {
    let mut object = json!({
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": name, "namespace": "shop"},
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "php-apache"},
            "maxReplicas": 20,
        },
    });
    for (key, value) in extra.as_object().into_iter().flatten() {
        object["metadata"][key] = value.clone();
    }
    object
}

fn json_of<T: serde::Serialize>(object: &T) -> Value {
    serde_json::to_value(object).expect("objects are JSON")
}

fn autoscaler(plan: &Plan) -> Value {
    json_of(plan.autoscaler.as_ref().expect("an autoscaler"))
}

fn external(name: &str, identifier: &str, average: &str) -> Value {
    let labels = json!({
        "targetKind": "Deployment", "targetName": "php-apache", "targetNamespace": "shop", "resourceIdentifier": identifier,
    });
    json!({
        "type": "External",
        "external": {
            "metric": {"name": name, "selector": {"matchLabels": labels}},
            "target": {"type": "AverageValue", "averageValue": average},
        },
    })
}

fn reasons(plan: &Plan) -> Vec<&'static str> {
    plan.problems.iter().map(|problem| problem.reason).collect()
}

#[test]
fn the_example_of_the_documentation_makes_an_autoscaler_and_a_prediction() {
    let plan = Stage::new(&json!({})).plan();
    let golden: Value = serde_json::from_str(include_str!("tests/documented.json")).expect("golden JSON");
    assert_eq!(autoscaler(&plan), golden["autoscaler"]);
    let Wish::Have(prediction) = &plan.prediction else { panic!("{:?}", plan.prediction) };
    assert_eq!(json_of(&**prediction), golden["prediction"]);
    assert_eq!((plan.substitute, plan.scale_to, plan.problems, plan.adopts), (Wish::Leave, None, vec![], false));
}

#[test]
fn a_metric_is_scaled_by_in_advance_only_while_it_is_predicted_by_one_series() {
    let cpu = resource("cpu", &json!({"type": "Utilization", "averageUtilization": 50}));
    // Half of 251 millicores, cut.
    let predicted = external("crane_autoscaling_prediction", "resource.cpu", "125m");
    let check = |metrics: &[(&str, bool, usize)], expected: &[&Value]| {
        let plan = Stage::new(&json!({})).predicted(metrics).plan();
        assert_eq!(autoscaler(&plan)["spec"]["metrics"], json!(expected), "{metrics:?}");
    };
    check(&[], &[&cpu]);
    check(&[("resource.cpu", true, 1)], &[&cpu, &predicted]);
    check(&[("resource.cpu", false, 1)], &[&cpu]);
    check(&[("resource.cpu", true, 2)], &[&cpu]);
    check(&[("resource.memory", true, 1)], &[&cpu]);
}

#[test]
fn what_was_expected_stays_while_it_cannot_be_had_so_that_nothing_is_scaled_down_for_want_of_it() {
    let expected = Stage::new(&json!({})).predicted(&[("resource.cpu", true, 1)]).plan();
    let check = |stage: Stage, metrics: usize| {
        let plan = stage.autoscaler(autoscaler(&expected)).plan();
        assert_eq!(autoscaler(&plan)["spec"]["metrics"].as_array().map(Vec::len), Some(metrics));
    };
    let stage = || Stage::new(&json!({}));
    check(stage().predicted(&[("resource.cpu", true, 1)]), 2);
    check(stage().predicted(&[("resource.cpu", false, 1)]), 2);
    check(stage().predicted(&[("resource.cpu", false, 0)]), 2);
    check(stage().predicted(&[]), 2);
    check(stage(), 2);
    check(stage().predicted(&[("resource.cpu", true, 2)]), 1);
    check(Stage::new(&json!({"prediction": null})), 1);

    // Nothing follows from its history, or nobody can read that, since then.
    let unready = |since: &str, message: &str| {
        let mut stage = stage().predicted(&[("resource.cpu", false, 0)]);
        let status = stage.prediction.as_mut().and_then(|prediction| prediction.status.as_mut()).expect("a status");
        status.conditions[0].status = Holds::False;
        message.clone_into(&mut status.conditions[0].message);
        status.conditions[0].last_transition_time = Time(since.parse().expect("a time"));
        stage
    };
    let little = "not all metric predicted: resource.cpu: too little history: there is 1h of it, and 2d is needed";
    check(unready("2025-12-31T23:00:11Z", little), 2);
    check(unready("2025-12-31T23:00:09Z", little), 1);
    let unread = "not all metric predicted: resource.cpu: the history cannot be read: Prometheus does not answer";
    check(unready("2025-12-01T00:00:00Z", unread), 2);
}

#[test]
fn each_kind_of_metric_has_its_identifier_its_query_and_its_amount_per_pod() {
    let average = |value: &str| json!({"type": "AverageValue", "averageValue": value});
    let metrics = json!([
        resource("memory", &json!({"type": "Utilization", "averageUtilization": 80})),
        resource("cpu", &average("300m")),
        {"type": "ContainerResource", "containerResource": {
            "name": "cpu", "container": "app", "target": {"type": "Utilization", "averageUtilization": 25},
        }},
        {"type": "Pods", "pods": {
            "metric": {"name": "http_requests", "selector": {"matchLabels": {"path": "a\"b"}, "matchExpressions": [
                {"key": "verb", "operator": "In", "values": ["GET", "a.b"]}, {"key": "code", "operator": "NotIn", "values": ["500"]},
                {"key": "host", "operator": "Exists"}, {"key": "test", "operator": "DoesNotExist"},
            ]}}, "target": average("10"),
        }},
        {"type": "Pods", "pods": {"metric": {"name": "http_requests"}, "target": average("20")}},
        {"type": "External", "external": {"metric": {"name": "queue"}, "target": {"type": "Value", "value": "7"}}},
        {"type": "Object", "object": {
            "describedObject": {"kind": "Service", "name": "s"}, "metric": {"name": "m"}, "target": average("1"),
        }},
    ]);
    let all = ["resource.memory", "resource.cpu", "container-resource.cpu", "pods.http_requests", "external.queue"];
    let ready = all.map(|identifier| (identifier, true, 1));
    let stage = Stage::new(&json!({ "metrics": metrics }))
        .annotated("metric-query.autoscaling.crane.io/external.queue", "sum(queue_length)")
        .predicted(&ready);
    let plan = stage.plan();
    let added: Vec<_> = autoscaler(&plan)["spec"]["metrics"].as_array().expect("metrics")[7..].to_vec();
    let predicted = |identifier, average| external("crane_autoscaling_prediction", identifier, average);
    assert_eq!(
        added,
        [
            // 80 % of 1.5 MiB, in thousandths of a byte.
            predicted("resource.memory", "1258291200m"),
            predicted("resource.cpu", "300m"),
            predicted("container-resource.cpu", "50m"),
            predicted("pods.http_requests", "10"),
        ]
    );
    assert_eq!(reasons(&plan), ["PredictionWithoutTarget"], "a Value cannot be divided by");
    let Wish::Have(prediction) = &plan.prediction else { panic!("{:?}", plan.prediction) };
    let metrics = prediction.spec.prediction_metrics.iter();
    let queries: Vec<_> = metrics
        .map(|metric| {
            let expression = metric.expression_query.as_ref().map(|query| query.expression.as_str());
            (metric.resource_identifier.as_str(), metric.resource_query.as_deref(), expression)
        })
        .collect();
    let pods = r#"namespace="shop",pod=~"php-apache-[a-z0-9]+-[a-z0-9]{5}""#;
    let selected = r#"path="a\"b",verb=~"GET|a\\.b",code!~"500",host!="",test="""#;
    let requests = format!("sum(http_requests{{{selected},{pods}}})");
    let cpu = format!(r#"sum(irate(container_cpu_usage_seconds_total{{{pods},container="app"}}[3m]))"#);
    assert_eq!(
        queries,
        [
            ("resource.memory", Some("memory"), None),
            ("resource.cpu", Some("cpu"), None),
            ("container-resource.cpu", None, Some(cpu.as_str())),
            ("pods.http_requests", None, Some(requests.as_str())),
            ("external.queue", None, Some("sum(queue_length)")),
        ]
    );
}

#[test]
fn without_pods_to_ask_what_was_wanted_before_still_is() {
    let ready = [("resource.cpu", true, 1)];
    let mut stage = Stage::new(&json!({})).predicted(&ready);
    let before = stage.plan();
    stage.pods = vec![Arc::new(pod("one", Phase::Pending))];
    let plan = stage.plan();
    assert_eq!(autoscaler(&plan)["spec"]["metrics"].as_array().map(Vec::len), Some(1));
    assert_eq!(reasons(&plan), ["PredictionWithoutTarget"]);
    let stage = stage.autoscaler(autoscaler(&before));
    assert_eq!(autoscaler(&stage.plan()), autoscaler(&before));
}

#[test]
fn crons_are_one_metric_and_one_that_is_not_understood_is_said_to_be() {
    let crons = |timezone: &str, second: &str| {
        json!({"metrics": [], "crons": [
            {"name": "day", "timezone": timezone, "start": "0 9 ? * *", "end": "0 18 * * *", "targetReplicas": 80},
            {"name": second, "timezone": timezone, "start": "0 9 ? * *", "end": "0 18 * * *", "targetReplicas": 10},
        ]})
    };
    let check = |extra: &Value, metrics: &Value, problem: &str| {
        let plan = Stage::new(extra).plan();
        assert_eq!(autoscaler(&plan)["spec"]["metrics"], *metrics, "{extra}");
        assert_eq!(plan.prediction, Wish::Leave);
        let messages: Vec<_> = plan.problems.iter().map(|problem| problem.message.as_str()).collect();
        assert_eq!(messages.join(""), problem);
    };
    let metric = json!([external("crane_autoscaling_cron", "cron", "1")]);
    check(&crons("Local", "night"), &metric, "");
    let zone = "crons[0] (day): timezone: the time zone \"Mars/Olympus\" is not known";
    check(&crons("Mars/Olympus", "night"), &Value::Null, zone);
    let twice = "crons[1] (DAY): another one has the same name, but for its case, and the same times";
    check(&crons("UTC", "DAY"), &Value::Null, twice);

    // A mistake in windows that are scaled by takes nothing away.
    let own = autoscaler(&Stage::new(&crons("UTC", "night")).plan());
    let plan = Stage::new(&crons("Mars/Olympus", "night")).autoscaler(own.clone()).plan();
    assert_eq!((&autoscaler(&plan)["spec"]["metrics"], reasons(&plan)), (&metric, vec!["InvalidCron"]));
    let plan = Stage::new(&json!({"metrics": []})).autoscaler(own).plan();
    assert_eq!((&autoscaler(&plan)["spec"]["metrics"], reasons(&plan)), (&Value::Null, vec![]));
}

#[test]
fn holidays_that_are_not_understood_are_said_to_be_and_windows_open_without_them() {
    let crons = json!([{"name": "day", "start": "0 9 * * *", "end": "0 18 * * *", "targetReplicas": 80}]);
    let mut stage = Stage::new(&json!({"metrics": [], "crons": crons}));
    for (holidays, expected) in [("2026-12-25", vec![]), ("Christmas", vec!["InvalidHolidays"])] {
        let annotations = stage.object.metadata.annotations.get_or_insert_default();
        annotations.insert("plimsoll.dev/holidays".to_owned(), holidays.to_owned());
        let plan = stage.plan();
        assert_eq!(reasons(&plan), expected);
        assert_eq!(autoscaler(&plan)["spec"]["metrics"], json!([external("crane_autoscaling_cron", "cron", "1")]));
    }
}

#[test]
fn a_preview_scales_a_substitute_of_the_workloads_real_size() {
    let stage = Stage::new(&json!({"scaleStrategy": "Preview", "specificReplicas": 5}));
    let plan = stage.plan();
    let target =
        json!({"apiVersion": "autoscaling.crane.io/v1alpha1", "kind": "Substitute", "name": "ehpa-php-apache"});
    assert_eq!(autoscaler(&plan)["spec"]["scaleTargetRef"], target);
    let Wish::Have(substitute) = &plan.substitute else { panic!("{:?}", plan.substitute) };
    let substitute = json_of(&**substitute);
    assert_eq!(substitute["spec"]["replicas"], 3);
    assert_eq!(substitute["spec"]["substituteTargetRef"]["name"], "php-apache");
    assert_eq!(substitute["status"], json!({"labelSelector": "run=php-apache", "replicas": 3}));
    assert_eq!(plan.scale_to, Some(5));
}

#[test]
fn replicas_by_hand_are_for_previews_and_work_again_after_zero() {
    let check = |strategy: &str, wanted: i32, replicas: i32, expected: Option<i32>| {
        let stage = Stage::new(&json!({"scaleStrategy": strategy, "specificReplicas": wanted}));
        assert_eq!(stage.replicas(replicas).plan().scale_to, expected, "{strategy}: {wanted} of {replicas}");
    };
    check("Preview", 5, 3, Some(5));
    check("Preview", 3, 3, None);
    check("Preview", 0, 3, Some(0));
    check("Preview", 5, 0, Some(5));
    check("Auto", 5, 3, None);
}

#[test]
fn a_workload_without_replicas_or_scale_is_left_alone() {
    let plan = Stage::new(&json!({})).replicas(0).plan();
    assert_eq!((plan.autoscaler.is_none(), reasons(&plan)), (true, vec!["ScalingDisabled"]));
    let plan = Stage::new(&json!({"minReplicas": 0})).replicas(0).plan();
    assert_eq!((plan.autoscaler.is_some(), reasons(&plan)), (true, vec![]));
    let mut stage = Stage::new(&json!({}));
    stage.target = Err("deployments.apps \"php-apache\" not found".to_owned());
    let plan = stage.plan();
    assert_eq!((plan.prediction.clone(), reasons(&plan)), (Wish::Leave, vec!["FailedGetScale"]));
}

#[test]
fn an_autoscaler_of_the_same_workload_is_taken_over_only_if_nobody_else_minds() {
    let controlled = json!({"ownerReferences": owner("u2")});
    let mine = native("mine", &json!({}));
    let plan = Stage::new(&json!({})).autoscaler(mine.clone()).plan();
    assert_eq!((autoscaler(&plan)["metadata"]["name"].as_str(), plan.adopts), (Some("mine"), true));
    for (strategy, autoscalers) in [
        ("Preview", vec![mine.clone()]),
        ("Auto", vec![mine.clone(), native("other", &json!({}))]),
        ("Auto", vec![native("theirs", &controlled)]),
    ] {
        let stage = Stage::new(&json!({"scaleStrategy": strategy}));
        let plan = autoscalers.into_iter().fold(stage, Stage::autoscaler).plan();
        let seen = (plan.autoscaler.is_none(), plan.substitute.clone(), reasons(&plan));
        assert_eq!(seen, (true, Wish::Leave, vec!["FailedReconcileHPA"]), "{strategy}");
    }
    // Once it is its own it is found under whatever name, next to any other.
    let own = native("mine", &json!({"ownerReferences": owner("u1")}));
    let plan = Stage::new(&json!({})).autoscaler(native("later", &json!({}))).autoscaler(own).plan();
    assert_eq!((autoscaler(&plan)["metadata"]["name"].as_str(), plan.adopts), (Some("mine"), false));
    // The name may be taken by an autoscaler of another workload.
    let mut taken = native("ehpa-php-apache", &json!({}));
    taken["spec"]["scaleTargetRef"]["name"] = json!("else");
    let plan = Stage::new(&json!({})).autoscaler(taken).plan();
    assert_eq!((plan.autoscaler.is_none(), reasons(&plan)), (true, vec!["FailedReconcileHPA"]));
}

#[test]
fn what_is_no_longer_wanted_is_removed_and_what_is_named_is_passed_on() {
    let mut stage = Stage::new(&json!({"prediction": null})).predicted(&[]);
    assert_eq!(stage.plan().prediction, Wish::Remove);
    stage.prediction = None;
    assert_eq!(stage.plan().prediction, Wish::Leave);
    stage.propagation.labels = vec!["team".to_owned()];
    stage.propagation.annotation_prefixes = vec!["example.com/".to_owned()];
    let plan = stage.annotated("example.com/owner", "me").annotated("example.org/owner", "you").plan();
    let metadata = &autoscaler(&plan)["metadata"];
    assert_eq!((metadata["labels"]["team"].as_str(), metadata["labels"]["other"].as_str()), (Some("a"), None));
    assert_eq!(metadata["annotations"], json!({"example.com/owner": "me"}));
}

#[test]
fn the_status_is_that_of_the_autoscaler_and_of_the_prediction() {
    let mut own = native("ehpa-php-apache", &json!({"ownerReferences": owner("u1")}));
    own["status"] = json!({
        "currentReplicas": 3, "desiredReplicas": 6, "lastScaleTime": "2026-01-01T00:00:05Z",
        "conditions": [
            {"type": "ScalingActive", "status": "True", "reason": "ValidMetricFound", "message": "fine"},
            {"type": "Unheard", "status": "True", "reason": "Of", "message": ""},
        ],
    });
    let stage = Stage::new(&json!({})).autoscaler(own).predicted(&[("resource.cpu", true, 1)]);
    let seen = stage.seen();
    let found = json_of(&status(&seen, &[], false));
    let condition = |kind: &str, reason: &str, message: &str| {
        json!({
            "type": kind, "status": "True", "reason": reason, "message": message,
            "lastTransitionTime": "2026-01-01T00:00:10Z",
        })
    };
    assert_eq!(
        found,
        json!({
            "expectReplicas": 6, "currentReplicas": 3, "lastScaleTime": "2026-01-01T00:00:05Z",
            "conditions": [
                condition("Ready", "EffectiveHorizontalPodAutoscalerReady", "Effective HPA is ready"),
                condition("PredictionReady", "PredictSucceed", ""),
                condition("ScalingActive", "ValidMetricFound", "fine"),
            ],
        })
    );
    // What a condition was about may go, and it goes with it.
    let mut later = Stage::new(&json!({"prediction": null}));
    later.object.status = Some(serde_json::from_value(found).expect("a status"));
    let kinds: Vec<_> =
        status(&later.seen(), &[], true).conditions.into_iter().map(|condition| condition.kind).collect();
    assert_eq!(kinds, ["Ready"]);
    assert_eq!(json_of(&status(&later.seen(), &[], true))["lastScaleTime"], "2026-01-01T00:00:10Z");
}

#[test]
fn of_objects_for_the_same_workload_only_the_oldest_gets_an_autoscaler() {
    let object = |name: &str, created: &str, api_version: &str| {
        let mut object = Stage::new(&json!({})).object;
        object.metadata.name = Some(name.to_owned());
        object.metadata.creation_timestamp = serde_json::from_value(json!(created)).expect("a time");
        api_version.clone_into(&mut object.spec.scale_target_ref.api_version);
        object
    };
    let objects = [
        object("b", "2026-01-01T00:00:00Z", "apps/v1"),
        object("a", "2026-01-01T00:00:00Z", "apps/v1beta2"),
        object("aa", "2026-01-01T00:00:01Z", "apps/v1"),
        object("c", "2026-01-02T00:00:00Z", "other/v1"),
    ];
    let eldest = super::adopt::eldest(objects.iter());
    let elders = objects.each_ref().map(|object| super::adopt::elder_of(object, &eldest));
    assert_eq!(elders, [Some("a"), None, Some("a"), None]);

    let mut stage = Stage::new(&json!({}));
    stage.elder = Some("a");
    let plan = stage.plan();
    assert_eq!((plan.autoscaler.as_ref(), reasons(&plan)), (None, vec!["FailedReconcileHPA"]));
    let own = native("ehpa-php-apache", &json!({"ownerReferences": owner("u1")}));
    assert!(stage.autoscaler(own).plan().autoscaler.is_some(), "what it has it keeps");
}
