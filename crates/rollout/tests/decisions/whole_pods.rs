//! Pods that are sized as a whole (`podPolicy`), in place of their containers.

use rollout::{ActionKind, Plan, WaveSettings};
use serde_json::{Value, json};

use super::fixture::{ACCEPTED, Fixture, requests};
use super::waves::{MINUTE, pass_time};

/// Two pods whose containers ask for CPU, with these resources of the pod. 500m and 100Mi are recommended
/// for the pod, and more for its container, which does not count.
fn fixture(mode: &str, of_container: &str, resources: &Value) -> Fixture {
    let mut fixture = Fixture::new();
    fixture.settings.in_place = true;
    fixture.workload("web", 2, &json!({"updateMode": mode, "minReplicas": 1}));
    for name in ["web-0", "web-1"] {
        fixture.pod_with("web", name, &json!({}), |pod| {
            let own = json!({"requests": {"cpu": of_container}});
            pod["spec"]["containers"] =
                json!([{"name": "app", "resources": own}, {"name": "other"}]);
            pod["spec"]["resources"] = resources.clone();
            pod["status"]["resources"] = resources.clone();
            pod["metadata"]["annotations"]["vpaObservedContainers"] = json!("app, other");
        });
    }
    fixture.edit_vpa("web", |object| {
        object["spec"]["resourcePolicy"] = json!({"podPolicy": {"mode": "Auto"}});
        let size = requests("500m", "100Mi");
        object["status"]["recommendation"]["podRecommendations"] =
            json!({"target": size, "lowerBound": size, "upperBound": size});
    });
    fixture
}

/// The patches of the resizes; `null` for an eviction.
fn patches(plan: &Plan) -> Vec<Value> {
    let actions = plan.actions.iter().map(|action| match &action.kind {
        ActionKind::Resize { patch, .. } => serde_json::to_value(patch).expect("a patch"),
        _ => Value::Null,
    });
    actions.collect()
}

fn add(path: &str, value: &Value) -> Value {
    json!({"op": "add", "path": format!("/spec/resources{path}"), "value": value})
}

#[test]
fn the_resources_of_the_pod_are_resized_and_those_of_its_containers_stay() {
    let resources = json!({"requests": requests("200m", "100Mi"), "limits": {"cpu": "400m"}});
    let mut fixture = fixture("InPlace", "100m", &resources);
    let expected = json!([
        add("/requests/cpu", &json!("500m")),
        add("/requests/memory", &json!("100Mi")),
        add("/limits/cpu", &json!("1")),
    ]);
    assert_eq!(patches(&fixture.pass()), [expected]);
}

#[test]
fn a_pod_as_recommended_stays_whatever_its_containers_have() {
    let resources = json!({"requests": requests("500m", "100Mi")});
    for mode in ["InPlaceOrRecreate", "Recreate"] {
        fixture(mode, "100m", &resources).check_idle(mode);
    }
}

#[test]
fn the_pod_has_at_least_what_its_containers_ask_for() {
    let wide = json!({"requests": requests("2", "100Mi")});
    let plan = fixture("InPlace", "800m", &wide).pass();
    let expected = json!([
        add("/requests/cpu", &json!("800m")),
        add("/requests/memory", &json!("100Mi")),
    ]);
    assert_eq!(patches(&plan), [expected]);
    let least = json!({"requests": requests("800m", "100Mi")});
    fixture("InPlaceOrRecreate", "800m", &least).check_idle("at what its containers ask for");
}

/// The kubelet reports the limit of the pod as the request of a container that has none.
#[test]
fn reports_about_containers_do_not_raise_the_pod() {
    let resources = json!({"requests": requests("500m", "100Mi"), "limits": {"cpu": "2"}});
    let mut fixture = fixture("InPlaceOrRecreate", "100m", &resources);
    for name in ["web-0", "web-1"] {
        fixture.pod_with("web", name, &json!({}), |pod| {
            pod["spec"]["containers"] = json!([{"name": "app"}, {"name": "other"}]);
            pod["spec"]["resources"] = resources.clone();
            let of = |name: &str| {
                json!({
                    "name": name, "image": "a", "imageID": "", "ready": true, "restartCount": 0,
                    "state": {"running": {}}, "resources": {"requests": {"cpu": "2"}},
                })
            };
            pod["status"]["containerStatuses"] = json!([of("app"), of("other")]);
            // With the overhead of a runtime, and rounded.
            pod["status"]["resources"] = json!({"requests": requests("750m", "99Mi")});
        });
    }
    fixture.check_idle("at its target");
}

/// One pod of twelve gets its size in a wave, and the others wait for the minute after it.
#[test]
fn waves_see_resizes_of_whole_pods() {
    let resources = json!({"requests": requests("200m", "100Mi")});
    let mut fixture = fixture("InPlaceOrRecreate", "100m", &resources);
    fixture.settings.waves = Some(WaveSettings::default());
    fixture.settings.eviction_tolerance = 1.0;
    fixture.edit_replica_set("web", |set| set.replicas = Some(12));
    let place = |fixture: &mut Fixture, name: &str, cpu: &str| {
        fixture.pod_with("web", name, &json!({}), |pod| {
            pod["spec"]["resources"] = json!({"requests": requests(cpu, "100Mi")});
        });
    };
    for number in 0..12 {
        place(&mut fixture, &format!("web-{number}"), "200m");
    }
    fixture.pass();
    pass_time(&mut fixture, MINUTE * 60);
    let plan = fixture.pass();
    assert_eq!(plan.actions.len(), 1);
    fixture.report(&plan, &ACCEPTED);
    let first = plan.actions[0].pod.name.clone();
    place(&mut fixture, &first, "500m");
    fixture.check_idle("the first is not proven");
    pass_time(&mut fixture, MINUTE * 2);
    assert_eq!(fixture.pass().actions.len(), 3);
}

#[test]
fn a_pod_without_resources_of_its_own_gets_some() {
    let plan = fixture("InPlace", "100m", &Value::Null).pass();
    let expected = json!([
        add("", &json!({})),
        add("/requests", &json!({})),
        add("/requests/cpu", &json!("500m")),
        add("/requests/memory", &json!("100Mi")),
    ]);
    assert_eq!(patches(&plan), [expected]);
    let plan = fixture("Recreate", "100m", &Value::Null).pass();
    assert_eq!(patches(&plan), [Value::Null]);
}

#[test]
fn a_pod_that_was_oom_killed_is_resized_as_a_whole() {
    let resources = json!({"requests": requests("500m", "50Mi"), "limits": {"memory": "50Mi"}});
    let mut fixture = fixture("InPlaceOrRecreate", "100m", &resources);
    let ended = fixture.now.wall - std::time::Duration::from_secs(30);
    let began = ended - std::time::Duration::from_secs(30);
    fixture.pod_with("web", "web-1", &json!({}), |pod| {
        let killed = json!({"terminated": {
            "reason": "OOMKilled", "exitCode": 137,
            "startedAt": began.to_string(), "finishedAt": ended.to_string(),
        }});
        let status = |name: &str, last: Value| {
            json!({
                "name": name, "image": "a", "imageID": "", "ready": true, "restartCount": 1,
                "state": {"running": {}}, "lastState": last,
            })
        };
        pod["spec"]["containers"] = json!([{"name": "app"}, {"name": "other"}]);
        pod["spec"]["resources"] = resources.clone();
        pod["status"]["resources"] = resources.clone();
        pod["status"]["containerStatuses"] =
            json!([status("app", json!({})), status("other", killed)]);
    });
    let plan = fixture.pass();
    let first = plan.actions.first().expect("an action");
    assert_eq!(first.pod.name, "web-1");
    let kill = first.oom_kill.as_ref().expect("for its kill");
    assert_eq!(
        (&*kill.container, kill.request.clone()),
        ("", "50Mi".parse().ok())
    );
    let expected = json!([
        add("/requests/cpu", &json!("500m")),
        add("/requests/memory", &json!("100Mi")),
        add("/limits/memory", &json!("100Mi")),
    ]);
    assert_eq!(patches(&plan)[0], expected);
}
