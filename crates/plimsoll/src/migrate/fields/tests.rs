//! Each field of each source kind changes the output of a migration, or stays with its object.
//!
//! The paths are those of VPA 1.8, Crane 0.11, KEDA 2.17 and Goldilocks 4.13.

use kube::api::DynamicObject;
use serde_json::{Value, json};

use super::super::facts::{Facts, Kind, VPA};
use super::super::plan::Migration;
use super::super::{crane, goldilocks, keda, output, prometheus_adapter, vpa};
use super::lacking;
use crate::json::tests::parse;
use crate::migrate::tests::fixture::deployment;

type Judge = fn(&Facts) -> Migration;

/// All that the user sees of a migration.
fn output(judge: Judge, facts: &Facts) -> String {
    let migration = judge(facts);
    let objects = output::check("a product", &migration, &[]).data;
    format!("{objects:#}\n{}", output::script("a product", &migration))
}

/// The object with a field, such as `/spec/triggers/0/type`. Missing parents are objects.
fn with(base: &Value, pointer: &str, value: &Value) -> DynamicObject {
    let mut changed = base.clone();
    let mut field = &mut changed;
    for part in pointer.split('/').skip(1) {
        let part = part.replace("~1", "/");
        field = match field {
            Value::Array(items) => &mut items[part.parse::<usize>().expect("an index")],
            parent => &mut parent[part],
        };
    }
    assert_ne!(field, value, "{pointer} is no change");
    *field = value.clone();
    parse(changed)
}

fn facts(kind: &Kind, objects: impl IntoIterator<Item = DynamicObject>) -> Facts {
    Facts::new([]).with(kind, objects)
}

/// Checks that each field, by its pointer, changes what the user sees of the facts with its object.
#[track_caller]
fn check(judge: Judge, facts: impl Fn(DynamicObject) -> Facts, base: &Value, fields: &Value) {
    let before = output(judge, &facts(parse(base.clone())));
    for (pointer, value) in fields.as_object().expect("fields") {
        let changed = output(judge, &facts(with(base, pointer, value)));
        assert_ne!(changed, before, "{pointer} is neither mapped nor named");
    }
}

#[test]
fn each_field_of_a_scaled_object_is_mapped_or_named() {
    let kind = keda::SOURCE.kinds.first().expect("ScaledObjects");
    let base = json!({
        "metadata": {"namespace": "shop", "name": "web"},
        "spec": {
            "scaleTargetRef": {"name": "web"},
            "minReplicaCount": 2,
            "triggers": [
                {"type": "cpu", "metadata": {"value": "60"}},
                {"type": "cron", "metadata": {"timezone": "UTC", "start": "0 8 * * *", "end": "0 9 * * *", "desiredReplicas": "5"}},
            ],
        },
    });
    let mut fields = json!({
        "/spec/scaleTargetRef/apiVersion": "example.com/v1",
        "/spec/scaleTargetRef/kind": "StatefulSet",
        "/spec/scaleTargetRef/name": "other",
        "/spec/scaleTargetRef/envSourceContainerName": "app",
        "/spec/pollingInterval": 15,
        "/spec/initialCooldownPeriod": 60,
        "/spec/cooldownPeriod": 60,
        "/spec/idleReplicaCount": 0,
        "/spec/minReplicaCount": 3,
        "/spec/maxReplicaCount": 7,
        "/spec/advanced/restoreToOriginalReplicaCount": true,
        "/spec/advanced/horizontalPodAutoscalerConfig/name": "x",
        "/spec/advanced/scalingModifiers/formula": "a + b",
        "/spec/advanced/scalingModifiers/target": "2",
        "/spec/advanced/scalingModifiers/activationTarget": "2",
        "/spec/advanced/scalingModifiers/metricType": "AverageValue",
        "/spec/triggers/0/type": "memory",
        "/spec/triggers/0/name": "load",
        "/spec/triggers/0/useCachedMetrics": true,
        "/spec/triggers/0/metricType": "AverageValue",
        "/spec/triggers/0/metadata/type": "AverageValue",
        "/spec/triggers/0/metadata/value": "70",
        "/spec/triggers/0/metadata/activationValue": "10",
        "/spec/triggers/0/metadata/containerName": "app",
        "/spec/triggers/0/authenticationRef/name": "a",
        "/spec/triggers/0/authenticationRef/kind": "b",
        "/spec/triggers/1/name": "day",
        "/spec/triggers/1/metadata/timezone": "Asia/Tokyo",
        "/spec/triggers/1/metadata/start": "0 7 * * *",
        "/spec/triggers/1/metadata/end": "0 10 * * *",
        "/spec/triggers/1/metadata/desiredReplicas": "6",
        "/spec/triggers/1/metricType": "Value",
        "/spec/fallback/failureThreshold": 3,
        "/spec/fallback/replicas": 6,
        "/spec/fallback/behavior": "static",
        "/spec/fieldOfTheFuture": {"a": [{"b": 1}]},
        "/metadata/annotations/autoscaling.keda.sh~1paused": "true",
        "/metadata/annotations/autoscaling.keda.sh~1paused-replicas": "4",
        "/metadata/annotations/scaledobject.keda.sh~1transfer-hpa-ownership": "true",
        "/metadata/labels/team": "a",
    });
    let behavior = "/spec/advanced/horizontalPodAutoscalerConfig/behavior";
    fields[format!("{behavior}/scaleUp/policies")] =
        json!([{"type": "Pods", "value": 4, "periodSeconds": 60}]);
    fields[format!("{behavior}/scaleDown/stabilizationWindowSeconds")] = json!(60);
    let facts = |object| facts(kind, [object]);
    check(keda::migration, facts, &base, &fields);
    let pointer = "/spec/triggers/0/metadata/activationValue";
    let changed = with(&base, pointer, &json!("1"));
    let output = output(keda::migration, &facts(changed));
    let named = "the EHPA leaves out spec.triggers[0].metadata.activationValue";
    assert!(output.contains(named), "{output}");
}

#[test]
fn each_setting_of_goldilocks_is_mapped_or_named() {
    let kind = goldilocks::SOURCE.kinds.first().expect("namespaces");
    let prefix = "goldilocks.fairwinds.com";
    let enabled = json!({format!("{prefix}/enabled"): "true"});
    let base = json!({"metadata": {"name": "shop", "labels": enabled}});
    let labels = format!("/metadata/labels/{prefix}~1");
    let annotations = format!("/metadata/annotations/{prefix}~1");
    let policy = r#"{"containerPolicies": [{"containerName": "*", "mode": "Off"}]}"#;
    for place in [labels, annotations] {
        for (name, value) in [
            ("vpa-update-mode", "initial"),
            ("vpa-update-mode", "unknown"),
            ("vpa-resource-policy", policy),
            ("vpa-resource-policy", "no JSON"),
            ("vpa-min-replicas", "3"),
            ("vpa-min-replicas", "0"),
            ("exclude-containers", "sidecar"),
        ] {
            let field = json!({format!("{place}{name}"): value});
            let facts = |namespace| facts(kind, [namespace]);
            check(goldilocks::migration, facts, &base, &field);
        }
    }
    let by = json!({"source": "goldilocks", "creator": "Fairwinds"});
    let of_goldilocks = json!({
        "metadata": {"namespace": "shop", "name": "goldilocks-web", "labels": by},
        "spec": {
            "targetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
            "updatePolicy": {"updateMode": "Off"},
        },
    });
    let with_namespace = |vpa| facts(kind, [parse(base.clone())]).with(&VPA, [vpa]);
    // The policy takes the place of the object for each workload.
    let mut fields = vpa_fields();
    fields.retain(|(pointer, _)| !pointer.starts_with("/spec/targetRef"));
    fields.push(("/metadata/annotations/team", json!("a")));
    for (pointer, value) in fields {
        let field = json!({pointer: value});
        check(
            goldilocks::migration,
            with_namespace,
            &of_goldilocks,
            &field,
        );
    }
}

fn vpa_fields() -> Vec<(&'static str, Value)> {
    let policy = |field: &str, value: Value| {
        let mut policy = json!({"containerName": "app"});
        policy[field] = value;
        ("/spec/resourcePolicy/containerPolicies", json!([policy]))
    };
    let requirements =
        json!([{"resources": ["cpu"], "changeRequirement": "TargetHigherThanRequests"}]);
    let boost = json!({"type": "Factor", "factor": 2, "quantity": "1", "durationSeconds": 60});
    vec![
        ("/spec/targetRef/apiVersion", json!("example.com/v1")),
        ("/spec/targetRef/kind", json!("StatefulSet")),
        ("/spec/targetRef/name", json!("other")),
        ("/spec/updatePolicy/updateMode", json!("Initial")),
        ("/spec/updatePolicy/minReplicas", json!(3)),
        ("/spec/updatePolicy/evictAfterOOMSeconds", json!(60)),
        ("/spec/updatePolicy/evictionRequirements", requirements),
        policy("mode", json!("Off")),
        policy("minAllowed", json!({"cpu": "1"})),
        policy("maxAllowed", json!({"memory": "1Gi"})),
        policy("controlledResources", json!(["cpu"])),
        policy("controlledValues", json!("RequestsOnly")),
        policy("oomBumpUpRatio", json!("1.5")),
        policy("oomMinBumpUp", json!("100Mi")),
        policy("memoryAggregationIntervalSeconds", json!(60)),
        policy("memoryAggregationIntervalCount", json!(8)),
        policy("startupBoost", json!({"cpu": boost})),
        ("/spec/startupBoost/cpu", boost),
        ("/spec/recommenders", json!([{"name": "custom"}])),
    ]
}

#[test]
fn the_definition_has_each_field_of_a_vpa_object_and_others_are_named() {
    let base = json!({"metadata": {"namespace": "shop", "name": "web"}, "spec": {}});
    let definition = api::crd::vertical_pod_autoscaler();
    for (pointer, value) in vpa_fields() {
        let object = with(&base, pointer, &value);
        assert_eq!(lacking(&object, &definition), [""; 0], "{pointer}");
    }
    let unknown = json!({
        "/spec/fieldOfTheFuture": 1,
        "/spec/resourcePolicy/containerPolicies": [{"minAllow": {"cpu": "1"}}],
    });
    check(vpa::migration, |vpa| facts(&VPA, [vpa]), &base, &unknown);
}

#[test]
fn the_definition_has_each_field_of_an_ehpa_and_others_are_named() {
    let [kind, evpa, ..] = crane::SOURCE.kinds else {
        panic!("kinds")
    };
    let base = json!({
        "metadata": {"namespace": "shop", "name": "web"},
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
            "maxReplicas": 5,
        },
    });
    let cron = json!({"name": "a", "description": "b", "start": "0 8 * * *", "end": "0 9 * * *", "timezone": "UTC", "targetReplicas": 3});
    let dsp = json!({"sampleInterval": "60s", "historyLength": "7d", "estimators": {"fft": [{"marginFraction": "0.1"}]}});
    let percentile = json!({
        "aggregated": true, "sampleInterval": "60s", "historyLength": "7d", "marginFraction": "0.1",
        "percentile": "0.99", "histogram": {"halfLife": "24h", "bucketSize": "1", "maxValue": "100"},
    });
    let target =
        json!({"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 60}});
    let definition = api::crd::effective_horizontal_pod_autoscaler();
    let fields = json!({
        "/spec/minReplicas": 2,
        "/spec/maxReplicas": 6,
        "/spec/scaleStrategy": "Preview",
        "/spec/specificReplicas": 4,
        "/spec/metrics": [{"type": "Resource", "resource": target}],
        "/spec/behavior/scaleDown/stabilizationWindowSeconds": 60,
        "/spec/crons": [cron],
        "/spec/prediction/predictionWindowSeconds": 3600,
        "/spec/prediction/predictionAlgorithm/algorithmType": "dsp",
        "/spec/prediction/predictionAlgorithm/dsp": dsp,
        "/spec/prediction/predictionAlgorithm/percentile": percentile,
    });
    for (pointer, value) in fields.as_object().expect("fields") {
        let object = with(&base, pointer, value);
        assert_eq!(lacking(&object, &definition), [""; 0], "{pointer}");
    }
    let unknown = json!({"/spec/fieldOfTheFuture": 1});
    check(
        crane::migration,
        |ehpa| facts(kind, [ehpa]),
        &base,
        &unknown,
    );
    // Kinds without a counterpart are named as a whole.
    let empty = output(crane::migration, &facts(evpa, []));
    let found = output(crane::migration, &facts(evpa, [parse(base)]));
    assert_ne!(found, empty);
}

#[test]
fn each_flag_of_a_program_is_named() {
    let programs: [(Judge, &str); 4] = [
        (vpa::migration, "vpa-recommender"),
        (crane::migration, "craned"),
        (goldilocks::migration, "goldilocks"),
        (prometheus_adapter::migration, "prometheus-adapter"),
    ];
    for (judge, image) in programs {
        let facts = Facts::new([deployment("a/b", image, &["--flag-of-it=1"])]);
        let output = output(judge, &facts);
        assert!(output.contains("a/b: --flag-of-it=1"), "{output}");
    }
}

#[test]
fn each_field_of_a_rule_file_is_read_or_named() {
    let kind = prometheus_adapter::SOURCE.kinds.first().expect("APIs");
    let file = |text: &str| {
        let mut facts = facts(kind, []);
        let metadata = json!({"namespace": "monitoring", "name": "rules"});
        let map = json!({"metadata": metadata, "data": {"config.yaml": text}});
        facts.config_maps = vec![parse(map)];
        output(prometheus_adapter::migration, &facts)
    };
    let valid = file("rules: []");
    assert!(valid.contains("the same file"), "{valid}");
    for text in [
        "rules: []\nnew: 1",
        "rules: [{new: 1}]",
        "resourceRules: {cpu: {}}",
    ] {
        assert_ne!(file(text), valid, "{text}");
    }
}
