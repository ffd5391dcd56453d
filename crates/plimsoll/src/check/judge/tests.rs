//! One fault per case in a cluster without faults.

mod certificates_and_webhook;
mod fixture;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::Value;
use view::{AutoscalerRole, OtherAutoscaler};

use super::*;
use crate::check::Form;
use crate::check::facts::{OtherDeployment, StopFact};
use crate::check::finding::{Status, Unread, unread};
use crate::json::tests::parse;
use fixture::{api_service, deployment, healthy, lease, name, time};

const METRICS_SERVER: &str = "v1beta1.metrics.k8s.io";
const EXTERNAL: &str = "v1beta1.external.metrics.k8s.io";

/// Expects these findings besides passed checks, as `STATUS ID: PART OF THE MESSAGE`.
#[track_caller]
fn check_in(extent: Extent, plant: impl FnOnce(&mut Facts), expected: &[&str]) {
    let mut facts = healthy();
    plant(&mut facts);
    let findings = judge(&facts, extent).into_iter();
    let found: Vec<_> = findings.filter(|one| one.status != Status::Ok).collect();
    assert_eq!(found.len(), expected.len(), "{found:#?}");
    for (finding, expected) in found.iter().zip(expected) {
        let (named, message) = expected.split_once(": ").expect("a message");
        assert_eq!(
            format!("{:?} {}", finding.status, finding.id),
            named,
            "{found:#?}"
        );
        assert!(finding.message.contains(message), "{finding:#?}\n{message}");
        let has_hint = finding.status >= Status::Warning;
        assert_eq!(!finding.hint.is_empty(), has_hint, "{finding:#?}");
    }
}

#[track_caller]
fn check(plant: impl FnOnce(&mut Facts), expected: &str) {
    check_in(Extent::Installed, plant, &[expected]);
}

/// Adds an `APIService`, or puts it in the place of the one with its name.
fn set_api(facts: &mut Facts, api: &str, service: &str, available: &str) {
    let services = facts.api_services.as_mut().expect("APIServices");
    services.retain(|one| one.metadata.name.as_deref() != Some(api));
    services.push(parse(api_service(api, service, available)));
}

fn add_other(facts: &mut Facts, image: &str, replicas: i32) {
    let others = facts.others.as_mut().expect("Deployments");
    others.push(OtherDeployment {
        name: name("other", image),
        image: image.to_owned(),
        replicas,
    });
}

#[test]
fn a_healthy_cluster_has_no_finding() {
    check_in(Extent::Installed, |_| {}, &[]);
    let findings = judge(&healthy(), Extent::Installed);
    let unique: std::collections::BTreeSet<_> = findings.iter().map(|one| &one.id).collect();
    assert_eq!(unique.len(), findings.len(), "{findings:#?}");
}

#[test]
fn faults_of_the_api_server_and_clocks_are_named() {
    let old = |facts: &mut Facts| {
        facts.version.minor = "32".to_owned();
        facts.version.git_version = "v1.32.2".to_owned();
    };
    check(old, "Warning api-server-version: v1.32.2");
    let ahead = |facts: &mut Facts| facts.local_time = time("2026-11-01T12:02:00Z");
    check(ahead, "Warning clock-offset: 120 s");
}

#[test]
fn faults_of_metrics_are_named() {
    let gone = |facts: &mut Facts| {
        let services = facts.api_services.as_mut().expect("APIServices");
        services.retain(|one| one.metadata.name.as_deref() != Some(METRICS_SERVER));
    };
    check(gone, "Error metrics-server-available: no APIService");
    let down = |facts: &mut Facts| {
        set_api(facts, METRICS_SERVER, "kube-system/metrics-server", "False");
    };
    check(down, "Error metrics-server-available: MissingEndpoints");
    let some = |facts: &mut Facts| facts.measured_nodes = Ok(2);
    check(some, "Warning node-metrics: 2 of 3 nodes");
    let none = |facts: &mut Facts| facts.measured_nodes = Ok(0);
    check(none, "Error node-metrics: 0 of 3 nodes");
    for (available, status) in [("True", "Warning"), ("False", "Error")] {
        let service = "keda/keda-operator-metrics-apiserver";
        let keda = |facts: &mut Facts| set_api(facts, EXTERNAL, service, available);
        check(
            keda,
            &format!("{status} external-metrics-v1beta1: {service} (KEDA)"),
        );
    }
    let series = |facts: &mut Facts| {
        facts.prometheus.as_mut().expect("Prometheus").series = Ok(vec![1, 0, 0]);
    };
    let missing = "Error prometheus-series: container_memory_working_set_bytes, kube_pod_labels";
    check(series, missing);
    let refusal = |facts: &mut Facts| {
        let clusters = "Prometheus has several clusters: cluster is \"eu\", \"us\"";
        facts.prometheus.as_mut().expect("Prometheus").refusal = Some(clusters.to_owned());
    };
    check(
        refusal,
        "Error prometheus-series: cluster is \"eu\", \"us\"",
    );
}

#[test]
fn faults_of_definitions_are_named() {
    let check = |plant: fn(&mut Vec<CustomResourceDefinition>), message: &str| {
        let plant = |facts: &mut Facts| plant(facts.definitions.as_mut().expect("definitions"));
        let id = "definition-verticalpodautoscalers.autoscaling.k8s.io";
        check(plant, &format!("Error {id}: {message}"));
    };
    check(|definitions| drop(definitions.remove(0)), "missing");
    check(
        |definitions| {
            let versions = definitions[0].spec.versions.iter_mut();
            versions.for_each(|version| version.served = false);
        },
        "version v1 is not served",
    );
    check(
        |definitions| remove_field(definitions, "updatePolicy"),
        "version v1 has no field spec.updatePolicy",
    );
}

#[test]
fn the_definition_of_upstream_is_up_to_date() {
    let plant = |facts: &mut Facts| {
        let definitions = facts.definitions.as_mut().expect("definitions");
        remove_field(definitions, "resourcePolicy/properties/podPolicy");
    };
    check_in(Extent::Installed, plant, &[]);
}

/// Removes a field of the specification from the first definition.
fn remove_field(definitions: &mut [CustomResourceDefinition], field: &str) {
    let mut definition = serde_json::to_value(&definitions[0]).expect("JSON");
    let versions = definition["spec"]["versions"].as_array_mut();
    for version in versions.expect("versions") {
        let path = format!("/schema/openAPIV3Schema/properties/spec/properties/{field}");
        let (parent, name) = path.rsplit_once('/').expect("a path");
        let fields = version.pointer_mut(parent).and_then(Value::as_object_mut);
        let removed = fields.expect("fields").remove(name);
        assert!(removed.is_some(), "{field}");
    }
    definitions[0] = parse(definition);
}

#[test]
fn faults_of_the_programs_are_named() {
    let updater = |tag: &'static str, ready: i32| {
        move |facts: &mut Facts| {
            let deployments = facts.deployments.as_mut().expect("Deployments");
            deployments.retain(|one| one.metadata.name.as_deref() != Some("plimsoll-updater"));
            deployments.push(parse(deployment("updater", tag, ready)));
        }
    };
    check(updater("1", 0), "Error replicas-plimsoll-updater: 0 of 2");
    check(updater("1", 1), "Warning replicas-plimsoll-updater: 1 of 2");
    check(updater("2", 2), "Warning one-version: plimsoll-updater 2");
    let without = |names: &'static [&str]| {
        move |facts: &mut Facts| {
            let deployments = facts.deployments.as_mut().expect("Deployments");
            deployments.retain(|one| {
                let name = one.metadata.name.as_deref().unwrap_or_default();
                !names.iter().any(|gone| name.ends_with(gone))
            });
        }
    };
    check(
        without(&["recommender"]),
        "Error programs-installed: recommender",
    );
    check(
        without(&["webhook"]),
        "Error programs-installed: no Deployment of webhook",
    );
    let all_but_one = without(&["updater", "webhook", "adapter"]);
    check_in(Extent::Installed, all_but_one, &[]);
    let with_lease = |index: usize, lease: Option<Value>| {
        move |facts: &mut Facts| facts.leases[index].1 = Ok(lease.map(parse))
    };
    let leader = |lease: Option<Value>, message: &str| {
        let expected = format!("Error lease-vpa-recommender-lease: {message}");
        check(with_lease(0, lease), &expected);
    };
    let stale = lease("a_1", "2026-11-01T11:59:00.000000Z");
    leader(None, "missing");
    leader(Some(stale.clone()), "60 s ago");
    leader(Some(lease("", "2026-11-01T11:59:50.000000Z")), "no holder");
    check_in(Extent::Installed, with_lease(1, Some(stale)), &[]);
    let stop = |facts: &mut Facts| {
        facts.stop.1 = Ok(Some(StopFact {
            since: Some(time("2026-11-01T11:00:00Z")),
            reason: Some("upgrade".to_owned()),
        }));
    };
    check(
        stop,
        "Warning stop-switch: since 2026-11-01T11:00:00Z: upgrade",
    );
}

#[test]
fn a_second_scheduler_is_not_newer_than_the_api_server_and_at_most_one_minor_older() {
    let scheduler = |tag: &'static str, ready: i32| {
        move |facts: &mut Facts| {
            let deployments = facts.deployments.as_mut().expect("Deployments");
            deployments.push(parse(deployment("scheduler", tag, ready)));
        }
    };
    for tag in ["v1.36.4", "v1.35.0"] {
        check_in(Extent::Installed, scheduler(tag, 2), &[]);
    }
    for tag in ["v1.37.0", "v1.34.9"] {
        let message = format!("Warning scheduler-version: kube-scheduler is {tag}");
        check(scheduler(tag, 2), &message);
    }
    check(
        scheduler("latest", 2),
        "Skipped scheduler-version: is not a version",
    );
    let down = "Error replicas-plimsoll-scheduler: 0 of 2";
    check(scheduler("v1.36.4", 0), down);
}

#[test]
fn what_cannot_be_read_is_skipped_with_the_reason() {
    let unread = || Unread::new("you have no right to read Deployments");
    let plant = |facts: &mut Facts| facts.deployments = Err(unread());
    check(plant, "Skipped programs-installed: no right");
    let plant = |facts: &mut Facts| facts.certificates[0].chain = Err(unread());
    let expected = [
        "Skipped certificate-vpa-tls-certs: no right",
        "Skipped webhook-ca-bundle: no right",
    ];
    check_in(Extent::Installed, plant, &expected);
}

#[test]
fn a_version_that_another_provider_leaves_out_is_no_fault() {
    let plant = |facts: &mut Facts| {
        let services = facts.api_services.as_mut().expect("APIServices");
        services.retain(|one| !kube::ResourceExt::name_any(one).ends_with("custom.metrics.k8s.io"));
        set_api(
            facts,
            "v1beta1.custom.metrics.k8s.io",
            "monitoring/other",
            "True",
        );
    };
    check(
        plant,
        "Warning custom-metrics-v1beta1: the Service monitoring/other",
    );
}

#[test]
fn an_api_that_the_values_leave_out_is_no_fault_while_the_adapter_serves_another() {
    let without = |facts: &mut Facts, ending: &str| {
        let services = facts.api_services.as_mut().expect("APIServices");
        services.retain(|one| !kube::ResourceExt::name_any(one).ends_with(ending));
    };
    let plant = |facts: &mut Facts| without(facts, ".custom.metrics.k8s.io");
    check_in(Extent::Installed, plant, &[]);
    let plant = |facts: &mut Facts| {
        without(facts, ".custom.metrics.k8s.io");
        without(facts, ".external.metrics.k8s.io");
    };
    let apis = [
        "custom-metrics-v1beta1",
        "custom-metrics-v1beta2",
        "external-metrics-v1beta1",
    ];
    let expected = apis.map(|api| format!("Error {api}: is missing"));
    check_in(
        Extent::Installed,
        plant,
        &expected.each_ref().map(String::as_str),
    );
}

#[test]
fn a_request_that_fails_is_an_error_and_a_kind_that_is_missing_is_not() {
    let answer = |code| {
        kube::core::Status::failure("down", "")
            .with_code(code)
            .boxed()
    };
    for (code, expected) in [
        (
            404,
            "Skipped programs-installed: the cluster has no Deployments",
        ),
        (429, "Skipped programs-installed: down"),
        (
            503,
            "Error programs-installed: cannot read Deployments: down",
        ),
    ] {
        let unread = unread("Deployments")(kube::Error::Api(answer(code)));
        check(
            |facts: &mut Facts| facts.deployments = Err(unread),
            expected,
        );
    }
}

#[test]
fn missing_rights_are_named_with_their_commands() {
    let right = "list verticalpodautoscalers.autoscaling.k8s.io (status, explain, scan)";
    let plant = |facts: &mut Facts| facts.rights[0].1 = Ok(false);
    check(plant, &format!("Warning rights-to-use: {right}"));
    let plant = |facts: &mut Facts| {
        facts.api_services = Ok(Vec::new());
        set_api(facts, METRICS_SERVER, "kube-system/metrics-server", "True");
        let rights = INSTALL.of_cluster.iter().chain(INSTALL.own);
        facts.rights = rights.map(|right| (*right, Ok(true))).collect();
        facts.rights[0].1 = Ok(false);
    };
    let right = "Error rights-to-install: create namespaces (installation)";
    check_in(Extent::Before, plant, &[right]);
}

#[test]
fn before_an_installation_only_conflicts_count() {
    let plant = |facts: &mut Facts| {
        facts.deployments = Ok(Vec::new());
        facts.leases.clear();
        facts.definitions = Ok(Vec::new());
        facts.webhooks = Ok(Vec::new());
        facts.api_services = Ok(Vec::new());
        set_api(facts, METRICS_SERVER, "kube-system/metrics-server", "True");
        set_api(facts, EXTERNAL, "keda/keda", "True");
        add_other(facts, "keda", 1);
    };
    let expected = [
        "Warning external-metrics-v1beta1: would take it over",
        "Warning keda: other/keda",
    ];
    check_in(Extent::Before, plant, &expected);
}

#[test]
fn other_autoscalers_are_named_unless_they_are_scaled_to_zero() {
    let other =
        |image: &'static str, replicas| move |facts: &mut Facts| add_other(facts, image, replicas);
    check(
        other("vpa-updater", 1),
        "Error other-vpa: other/vpa-updater",
    );
    check(other("craned", 1), "Error crane: other/craned");
    check(
        other("goldilocks", 1),
        "Warning goldilocks: other/goldilocks",
    );
    let sign = |facts: &mut Facts| {
        facts.signs = Ok(vec![OtherAutoscaler {
            role: AutoscalerRole::Updater,
            sign: "the Lease a/vpa-updater of b".to_owned(),
        }]);
    };
    check(sign, "Error other-vpa: the Lease a/vpa-updater of b");
    check_in(Extent::Installed, other("vpa-updater", 0), &[]);
    check_in(Extent::Installed, other("keda", 1), &[]);
}

#[test]
fn faults_of_objects_are_a_warning_with_the_first_of_them() {
    let sentences = (0..7).map(|number| format!("VerticalPodAutoscaler shop/{number}: slip"));
    let sentences: Vec<String> = sentences.collect();
    for part in [
        "shop/0: slip, VerticalPodAutoscaler",
        "shop/4: slip and 2 more",
    ] {
        let plant =
            |facts: &mut Facts| facts.objects.as_mut().unwrap().unit_slips = sentences.clone();
        check(plant, &format!("Warning units: {part}"));
        let plant = |facts: &mut Facts| {
            facts.objects.as_mut().unwrap().missing_history = sentences.clone();
        };
        check(plant, &format!("Warning history: {part}"));
        let plant = |facts: &mut Facts| facts.objects.as_mut().unwrap().unread = sentences.clone();
        check(plant, &format!("Warning policies: {part}"));
        let plant = |facts: &mut Facts| {
            facts.objects.as_mut().unwrap().whole_pods = sentences.clone();
            facts.version.minor = "33".to_owned();
        };
        check(plant, &format!("Warning whole-pods: {part}"));
        let plant = |facts: &mut Facts| {
            facts.objects.as_mut().unwrap().whole_pods = sentences.clone();
            facts.version.minor = "34+".to_owned();
        };
        check_in(Extent::Installed, plant, &[]);
    }
}

#[test]
fn findings_have_three_forms() {
    let mut facts = healthy();
    set_api(&mut facts, EXTERNAL, "keda/keda-metrics", "True");
    add_other(&mut facts, "vpa-updater", 1);
    let findings = judge(&facts, Extent::Installed);
    for (form, ending) in [
        (Form::Table, "txt"),
        (Form::Json, "json"),
        (Form::Short, "short.txt"),
    ] {
        let answers = crate::cluster::Answers::one(findings.clone());
        let text = crate::check::output::render(&answers, form);
        crate::output::tests::golden::check(&format!("check.{ending}"), &text);
    }
}
