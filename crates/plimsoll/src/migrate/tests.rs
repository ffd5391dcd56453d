//! Migrations of whole clusters as golden files, and single findings.

pub(crate) mod fixture;

use kube::api::DynamicObject;
use metric_routes::api_service::EXTERNAL;
use serde_json::{Value, json};

use super::facts::{API_SERVICE, Facts, VPA, helm_release};
use super::plan::{Migration, Verdict};
use super::{crane, goldilocks, keda, output, prometheus_adapter, vpa};
use crate::json::tests::parse;
use crate::output::Format;
use crate::output::tests::golden;
use fixture::{api_service, deployment, own};

const HELM: &str = "meta.helm.sh/release-name";
const HELM_NAMESPACE: &str = "meta.helm.sh/release-namespace";

fn check(name: &str, product: &str, migration: &Migration, unread: &[String]) {
    let document = output::check(product, migration, unread);
    golden::check_forms(&format!("migrate_{name}"), &document);
    let script = output::script(product, migration);
    golden::check(&format!("migrate_{name}_plan.txt"), &script);
}

fn vpa_object(name: &str, target: &str, mode: &str, fields: &Value) -> DynamicObject {
    let mut vpa = json!({
        "metadata": {"namespace": "shop", "name": name},
        "spec": {
            "targetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": target},
            "updatePolicy": {"updateMode": mode},
        },
    });
    for (pointer, value) in fields.as_object().into_iter().flatten() {
        let (parent, field) = pointer.rsplit_once('/').expect("a pointer");
        vpa.pointer_mut(parent).expect("a field")[field] = value.clone();
    }
    parse(vpa)
}

fn release(name: &str) -> DynamicObject {
    let annotations = json!({HELM: name, HELM_NAMESPACE: "kube-system"});
    parse(json!({"metadata": {"name": "a", "annotations": annotations}}))
}

fn definition(name: &str, stored: &[&str], installer: Option<&str>) -> DynamicObject {
    let mut definition = installer.map_or_else(|| parse(json!({"metadata": {}})), release);
    definition.metadata.name = Some(name.to_owned());
    definition.data = json!({"status": {"storedVersions": stored}});
    definition
}

fn of_vpa() -> Facts {
    let program =
        |name: &str, flags: &[&str]| deployment(&format!("kube-system/{name}"), name, flags);
    let mut updater = program("vpa-updater", &[]);
    updater.metadata.annotations = release("vpa").metadata.annotations;
    let flags = ["--v=4", "--target-cpu-percentile=0.95"];
    let recommender = program("vpa-recommender", &flags);
    let webhook = program("vpa-admission-controller", &[]);
    let custom = json!({"/spec/recommenders": [{"name": "custom"}]});
    let vpas = [
        vpa_object("web", "web", "Auto", &json!({})),
        vpa_object("web-2", "web", "Off", &json!({})),
        vpa_object("db", "db", "Initial", &custom),
    ];
    let mut facts = Facts::new([recommender, updater, webhook]).with(&VPA, vpas);
    let [vpa, checkpoint] = vpa::SOURCE.definitions else {
        panic!("definitions")
    };
    facts.definitions = vec![
        definition(vpa, &["v1"], Some("vpa")),
        definition(checkpoint, &["v1beta2", "v1"], None),
    ];
    facts
}

#[test]
fn from_vpa() {
    let mut facts = of_vpa();
    let unread = ["you have no right to read namespaces".to_owned()];
    check("vpa", "upstream's VPA", &vpa::migration(&facts), &unread);
    facts.suite = vec![own("updater")];
    let blocked = vpa::migration(&facts);
    let updater = "Deployment kube-system/vpa-updater";
    let reason = find(&blocked, Verdict::Blocked, updater);
    assert!(
        reason.contains("the updater of the suite runs too"),
        "{reason}"
    );
}

#[track_caller]
fn find(migration: &Migration, verdict: Verdict, object: &str) -> String {
    let mut items = migration.items.iter();
    let found = items.find(|item| item.verdict == verdict && item.object == object);
    let found = found.unwrap_or_else(|| panic!("{object} in {:#?}", migration.items));
    found.reason.clone()
}

#[test]
fn from_goldilocks() {
    // Labels and annotations by their names without Goldilocks' prefix.
    let prefixed = |settings: &[(&str, &str)]| -> Value {
        let settings = settings.iter();
        let settings = settings.map(|(name, it)| (format!("goldilocks.fairwinds.com/{name}"), *it));
        settings.collect()
    };
    let namespace = |name: &str, labels: &[(&str, &str)], annotations: &[(&str, &str)]| {
        let (labels, annotations) = (prefixed(labels), prefixed(annotations));
        parse(json!({"metadata": {"name": name, "labels": labels, "annotations": annotations}}))
    };
    let by = json!({"/metadata/labels": {"source": "goldilocks", "creator": "Fairwinds"}});
    let policy = r#"{"containerPolicies": [{"containerName": "*", "minAllowed": {"cpu": "50m"}}]}"#;
    let mut with_policy = by.clone();
    with_policy["/spec/resourcePolicy"] = serde_json::from_str(policy).expect("JSON");
    let auto = ("vpa-update-mode", "auto");
    let namespaces = [
        namespace(
            "shop",
            &[("enabled", "true"), auto],
            &[("vpa-resource-policy", policy), ("vpa-min-replicas", "3")],
        ),
        namespace(
            "bank",
            &[("enabled", "True"), auto],
            &[
                ("vpa-resource-policy", "no: json\nEOF\nrm -rf x"),
                ("vpa-update-mode", "off"),
                ("vpa-min-replicas", "0"),
            ],
        ),
        namespace("other", &[], &[]),
    ];
    let vpas = [
        vpa_object("goldilocks-web", "web", "Recreate", &with_policy),
        vpa_object("goldilocks-db", "db", "Off", &with_policy),
        vpa_object("goldilocks-free", "free", "Recreate", &by),
        vpa_object("own", "own", "Off", &json!({})),
    ];
    let kind = goldilocks::SOURCE.kinds.first().expect("namespaces");
    let facts = Facts::new([deployment(
        "goldilocks/goldilocks-controller",
        "goldilocks",
        &[],
    )]);
    let facts = facts.with(kind, namespaces).with(&VPA, vpas);
    let migration = goldilocks::migration(&facts);
    check("goldilocks", "Goldilocks", &migration, &[]);
}

fn scaled_object(name: &str, spec: Value) -> DynamicObject {
    let mut spec = spec;
    spec["scaleTargetRef"] = json!({"name": name});
    parse(json!({"metadata": {"namespace": "shop", "name": name}, "spec": spec}))
}

fn of_keda() -> Facts {
    let cpu = json!({"type": "cpu", "metricType": "Utilization", "metadata": {"value": "60"}});
    let memory = json!({"type": "memory", "metadata": {"type": "AverageValue", "value": "512Mi", "containerName": "app"}});
    let cron = json!({"type": "cron", "metadata": {
        "timezone": "Europe/Berlin", "start": "0 8 * * 1-5", "end": "0 18 * * 1-5", "desiredReplicas": "10"}});
    let queue = json!({"type": "rabbitmq", "metadata": {"queueName": "x\nEOF\nrm -rf ~"}});
    let [objects, jobs, ..] = keda::SOURCE.kinds else {
        panic!("kinds")
    };
    let metrics = "keda/keda-operator-metrics-apiserver";
    let rotation = ["--enable-cert-rotation=true"];
    let deployments = [
        deployment("keda/keda-operator", "kedacore/keda", &rotation),
        deployment(metrics, "kedacore/keda-metrics-apiserver", &[]),
    ];
    let behavior = json!({"scaleDown": {"stabilizationWindowSeconds": 60}});
    let web = json!({
        "minReplicaCount": 2, "maxReplicaCount": 20, "triggers": [cpu, memory, cron],
        "advanced": {
            "restoreToOriginalReplicaCount": true,
            "horizontalPodAutoscalerConfig": {"behavior": behavior},
        },
    });
    let idle = json!({"minReplicaCount": 1, "idleReplicaCount": 0, "triggers": [cpu]});
    let scaled = [
        scaled_object("web", web),
        scaled_object("queue", json!({"minReplicaCount": 1, "triggers": [queue]})),
        scaled_object("one", json!({"triggers": [cpu]})),
        scaled_object("zero", json!({"triggers": [cpu, cron]})),
        scaled_object("night", json!({"minReplicaCount": 1, "triggers": [cron]})),
        scaled_object("idle", idle),
    ];
    let job = parse(json!({"metadata": {"namespace": "shop", "name": "import"}}));
    Facts::new(deployments)
        .with(&API_SERVICE, [api_service(EXTERNAL, metrics)])
        .with(objects, scaled)
        .with(jobs, [job])
}

#[test]
fn from_keda() {
    let migration = keda::migration(&of_keda());
    check("keda", "KEDA", &migration, &[]);
    let plan = output::plan("KEDA", &migration);
    golden::check_form("migrate_keda_plan", &plan, Format::Json, "json");
    golden::check_form("migrate_keda_plan", &plan, Format::Yaml, "yaml");
}

#[test]
fn an_api_of_another_owner_is_not_moved_without_a_decision() {
    let keda = || deployment("keda/keda-operator", "kedacore/keda", &[]);
    let of = |service: &str| {
        let facts = Facts::new([keda()]).with(&API_SERVICE, [api_service(EXTERNAL, service)]);
        keda::migration(&facts)
    };
    let object = "APIService v1beta1.external.metrics.k8s.io";
    let other = of("datadog/cluster-agent");
    let reason = find(&other, Verdict::Manual, object);
    assert!(
        reason.contains("points at datadog/cluster-agent"),
        "{reason}"
    );
    let ours = of("plimsoll-system/plimsoll-adapter");
    find(&ours, Verdict::Kept, object);
    let titles: Vec<&str> = ours.steps.iter().map(|step| step.title.as_str()).collect();
    assert_eq!(titles, ["Save the objects", "Install the suite"]);
    assert!(!keda::migration(&Facts::new([keda()])).notes.is_empty());
}

#[test]
fn from_prometheus_adapter() {
    let rules = "rules:\n- seriesQuery: 'http_requests_total{namespace!=\"\",pod!=\"\"}'\n  resources: {template: <<.Resource>>}\n  metricsQuery: sum(rate(<<.Series>>{<<.LabelMatchers>>}[2m])) by (<<.GroupBy>>)\nexternalRules:\n- seriesQuery: a\n";
    let adapter = "monitoring/prometheus-adapter";
    let flags = [
        "--prometheus-url=http://prometheus.monitoring:9090",
        "--config=/etc/adapter/config.yaml",
        "--metrics-max-age=30m",
    ];
    let services = [
        api_service("v1beta1.custom.metrics.k8s.io", adapter),
        api_service("v1beta1.metrics.k8s.io", adapter),
        api_service(EXTERNAL, "keda/keda-operator-metrics-apiserver"),
    ];
    let mut facts = Facts::new([deployment(adapter, "prometheus-adapter", &flags)]);
    facts = facts.with(&API_SERVICE, services);
    facts.config_maps = vec![parse(json!({
        "metadata": {"namespace": "monitoring", "name": "adapter-config"},
        "data": {"config.yaml": rules, "other.txt": "x"},
    }))];
    let migration = prometheus_adapter::migration(&facts);
    check("prometheus-adapter", "prometheus-adapter", &migration, &[]);
}

#[test]
fn from_crane() {
    let scaler = |name: &str, crons: Value, more: Value| {
        let mut spec = json!({
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": name},
            "minReplicas": 1, "maxReplicas": 10, "crons": crons,
        });
        for (field, value) in more.as_object().into_iter().flatten() {
            spec[field] = value.clone();
        }
        parse(json!({
            "apiVersion": "autoscaling.crane.io/v1alpha1", "kind": "EffectiveHorizontalPodAutoscaler",
            "metadata": {"namespace": "shop", "name": name}, "spec": spec,
        }))
    };
    let cron = |zone: Option<&str>| json!([{"name": "a", "start": "0 8 * * *", "end": "0 9 * * *", "targetReplicas": 3, "timezone": zone}]);
    let [kind, evpa, rule, _, node, _, mutating, validating, _] = crane::SOURCE.kinds else {
        panic!("kinds")
    };
    let named =
        |name: &str| parse(json!({"metadata": {"namespace": "crane-system", "name": name}}));
    let webhook = |name: &str, service: &str| {
        parse(json!({
            "metadata": {"name": name},
            "webhooks": [{"clientConfig": {"service": {"namespace": "crane-system", "name": service}}}],
        }))
    };
    let berlin = cron(Some("Europe/Berlin"));
    let ahead = json!({"prediction": {"predictionWindowSeconds": 3600}});
    let scalers = [
        scaler("web", berlin, json!({})),
        scaler("api", cron(None), json!({})),
        scaler("ahead", json!([]), ahead),
        scaler("odd", json!([]), json!({"maxReplicas": "ten"})),
    ];
    let other = webhook("other", "cert-manager");
    let custom = api_service(
        "v1beta1.custom.metrics.k8s.io",
        "crane-system/metric-adapter",
    );
    let mut facts = Facts::new([
        deployment("crane-system/craned", "craned", &[]),
        deployment("crane-system/metric-adapter", "metric-adapter", &[]),
    ])
    .with(kind, scalers)
    .with(evpa, [named("vertical")])
    .with(rule, [named("workloads")])
    .with(node, [named("watermark")])
    .with(mutating, [webhook("craned", "craned")])
    .with(validating, [webhook("craned", "craned"), other])
    .with(&API_SERVICE, [custom]);
    let substitutes = "substitutes.autoscaling.crane.io";
    facts.definitions = vec![definition(substitutes, &["v1alpha1"], Some("crane"))];
    check("crane", "Crane", &crane::migration(&facts), &[]);
    facts.suite = vec![own("recommender")];
    let blocked = crane::migration(&facts);
    find(&blocked, Verdict::Blocked, "Deployment crane-system/craned");
}

/// Every line of a script that is no comment begins with a known program, whatever tenants wrote
/// into their objects.
#[test]
fn texts_of_objects_do_not_become_commands() {
    let hostile = "x\nrm -rf ~ #'\"$(rm)`rm`";
    let mut facts = of_keda();
    let [objects, ..] = keda::SOURCE.kinds else {
        panic!("kinds")
    };
    let trigger = json!({"type": "cron", "name": hostile, "metadata": {
        "timezone": "EOF", "start": hostile, "end": "\nEOF\nrm x", "desiredReplicas": "1"}});
    let cpu = json!({"type": "cpu", "metadata": {"value": "60"}});
    let spec = json!({"minReplicaCount": 1, "triggers": [trigger, cpu]});
    facts = facts.with(objects, [scaled_object("hostile", spec)]);
    for deployment in &mut facts.deployments {
        deployment.metadata.annotations = release(hostile).metadata.annotations;
    }
    let script = output::script("KEDA", &keda::migration(&facts));
    check_lines(&script);
    let mut facts = of_vpa();
    facts.deployments[0] = deployment("a/vpa-recommender", "vpa-recommender", &["--v\nrm x"]);
    check_lines(&output::script("VPA", &vpa::migration(&facts)));
}

fn check_lines(script: &str) {
    let mut is_input = false;
    for line in script.lines() {
        if is_input {
            is_input = line != "EOF";
            continue;
        }
        is_input = line.ends_with("<<'EOF'");
        let known = ["kubectl ", "plimsoll ", "helm ", "cat > routes.yaml", "#"];
        let is_known = line.is_empty() || known.iter().any(|start| line.starts_with(start));
        assert!(is_known, "{line:?} in\n{script}");
    }
    assert!(!is_input, "{script}");
}

#[test]
fn the_name_of_a_helm_release_cannot_be_a_command() {
    assert!(helm_release(&release("vpa-1.2")).is_some());
    for name in [
        "",
        "-A",
        "a b",
        "a;reboot",
        "$(reboot)",
        "a\nb",
        "../a",
        "'",
    ] {
        assert_eq!(helm_release(&release(name)), None, "{name}");
    }
}
