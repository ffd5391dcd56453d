//! Pods on platforms that choose their user, and on the network of their node.

use anyhow::{Context as _, Result, ensure};
use e2e::deployment::SYSTEM;
use e2e::helm::{Helm, RELEASE};
use e2e::repository;
use serde_json::{Value, json};

use super::{objects, rendered};

const ALL: [&str; 3] = ["mode=all", "crds.install=false", "extender.enabled=true"];

fn pod_spec(object: &Value) -> Option<&Value> {
    match object["kind"].as_str()? {
        "Pod" => Some(&object["spec"]),
        "Deployment" => Some(&object["spec"]["template"]["spec"]),
        _ => None,
    }
}

#[tokio::test]
async fn no_pod_chooses_its_user_on_openshift() -> Result<()> {
    let helm = Helm::find().await?;
    let file = repository().join("deploy/chart/values-openshift.yaml");
    let file = file.to_str().context("the path is text")?;
    let mut arguments = vec!["template", RELEASE, "--namespace", SYSTEM, "--values", file];
    arguments.extend(ALL.iter().flat_map(|value| ["--set", *value]));
    let objects = objects(&helm.run(&arguments).await?)?;
    let specs: Vec<&Value> = objects.values().filter_map(pod_spec).collect();
    assert_eq!(specs.len(), 6, "five programs and the test");
    for spec in specs {
        let expected = json!({"runAsNonRoot": true, "seccompProfile": {"type": "RuntimeDefault"}});
        assert_eq!(spec["securityContext"], expected);
        for container in spec["containers"].as_array().context("containers")? {
            ensure!(container["securityContext"]["runAsUser"].is_null());
        }
    }
    Ok(())
}

async fn deployment(program: &str, values: &[&str]) -> Result<Value> {
    let objects = rendered(&[&ALL, values].concat()).await?;
    let name = format!("\"Deployment\" \"{SYSTEM}\" \"plimsoll-{program}\"");
    Ok(objects[&name].clone())
}

#[tokio::test]
async fn pods_on_the_network_of_the_node_replace_each_other() -> Result<()> {
    let strategy = json!({"rollingUpdate": {"maxUnavailable": 1, "maxSurge": 0}});
    for (program, flag, other) in [
        ("webhook", "--port=7443", 8000),
        ("adapter", "--secure-port=7443", 6443),
    ] {
        let value = |name: &str| format!("{program}.{name}");
        let on_node = value("pod.hostNetwork=true");
        let moved = deployment(program, &[&on_node, &value("port=7443")]).await?;
        assert_eq!(moved["spec"]["strategy"], strategy, "{program}");
        let container = &moved["spec"]["template"]["spec"]["containers"][0];
        assert_eq!(container["ports"][0]["containerPort"], 7443, "{program}");
        let flags = container["args"].as_array().context("flags")?;
        ensure!(flags.contains(&json!(flag)), "{flags:?}");

        let own = value("updateStrategy.type=Recreate");
        let own = deployment(program, &[&on_node, &own]).await?;
        assert_eq!(own["spec"]["strategy"], json!({"type": "Recreate"}));
        let container = &own["spec"]["template"]["spec"]["containers"][0];
        assert_eq!(container["ports"][0]["containerPort"], other, "{program}");
    }
    Ok(())
}

#[tokio::test]
async fn nodes_of_a_program_come_before_the_global_ones() -> Result<()> {
    let values = [
        "global.nodeSelector.disk=hdd",
        "webhook.pod.nodeSelector.disk=ssd",
    ];
    let objects = rendered(&[&ALL[..], &values].concat()).await?;
    let disk = |object| Some((object, &pod_spec(object)?["nodeSelector"]["disk"]));
    let disks: Vec<(&Value, &Value)> = objects.values().filter_map(disk).collect();
    assert_eq!(disks.len(), 6, "five programs and the test");
    for (object, disk) in disks {
        let name = &object["metadata"]["name"];
        let expected = if name == "plimsoll-webhook" {
            "ssd"
        } else {
            "hdd"
        };
        assert_eq!(disk, expected, "{name}");
    }
    Ok(())
}
