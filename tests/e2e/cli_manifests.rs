//! Manifests of `plimsoll manifests` on the API server and in Kustomize.

use std::fmt::Write as _;
use std::fs;

use anyhow::{Context as _, Result};
use e2e::{Namespace, kubectl, object_of, plimsoll, plimsoll_prints, shared, workload};
use k8s_openapi::api::apps::v1::Deployment;
use serde_json::{Value, json};

/// Two days of usage far below the requests of `deployment/web`, and of an unknown kind.
fn recording(namespace: &str) -> String {
    let mut text =
        "time,namespace,workload,container,cpu,memory,cpu_request,memory_request,cpu_limit\n"
            .to_owned();
    for workload in ["deployment/web", "rollout/api"] {
        for slot in 0..2 * 288 {
            let time = 300 * slot;
            let _ = writeln!(text, "{time},{namespace},{workload},app,100m,100Mi,1,2Gi,2");
        }
    }
    text
}

#[tokio::test]
async fn manifests_change_requests_and_limits_and_nothing_else() -> Result<()> {
    let sandbox = shared().await?;
    let own = Namespace::new(sandbox.client().await?, "manifests").await?;
    let resources = json!({"requests": {"cpu": "1", "memory": "2Gi"}, "limits": {"cpu": "2"}});
    let deployment = workload("web", 1, &resources, &json!({}));
    let before = own.create::<Deployment>(deployment.clone()).await?;

    let folder = sandbox.logs_dir().join(&own.namespace);
    fs::create_dir_all(&folder)?;
    let usage = folder.join("usage.csv");
    fs::write(&usage, recording(&own.namespace))?;
    let manifests = format!("manifests {} -n {}", usage.display(), own.namespace);

    let patch = plimsoll(&sandbox.kubeconfig(), &format!("{manifests} --patch")).await?;
    assert_eq!(patch.status.code(), Some(4), "the unknown kind is left out");
    let errors = String::from_utf8(patch.stderr)?;
    assert!(
        errors.contains("/rollout/api: its pod template"),
        "{errors}"
    );
    let file = folder.join("patch.yaml");
    fs::write(&file, &patch.stdout)?;
    kubectl(&format!(
        "apply --server-side --force-conflicts --field-manager=gitops -f {}",
        file.display()
    ))
    .await?;
    let after = own.get::<Deployment>("web").await?;
    let container = |object: &Value| object["spec"]["template"]["spec"]["containers"][0].clone();
    let found = container(&after)["resources"].clone();
    assert_eq!(found["requests"]["memory"], "250Mi", "{found}");
    let millicores = |list: &str| -> Result<i64> {
        let text = found[list]["cpu"].as_str().context("a quantity")?;
        Ok(text.parse::<model::Quantity>()?.milli_value())
    };
    assert_eq!(millicores("limits")?, 2 * millicores("requests")?);
    assert!(millicores("requests")? < 500, "{found}");
    let without = |object: &Value| {
        let mut spec = object["spec"].clone();
        spec["template"]["spec"]["containers"][0]["resources"] = Value::Null;
        spec
    };
    assert_eq!(without(&after), without(&before));

    let component = plimsoll(&sandbox.kubeconfig(), &format!("{manifests} --kustomize")).await?;
    let part = folder.join("sizes");
    fs::create_dir_all(&part)?;
    fs::write(part.join("kustomization.yaml"), &component.stdout)?;
    let mut base = object_of::<Deployment>(deployment);
    base["metadata"]["namespace"] = json!(own.namespace);
    fs::write(folder.join("web.json"), base.to_string())?;
    let kustomization = "resources: [web.json]\ncomponents: [sizes]\n";
    fs::write(folder.join("kustomization.yaml"), kustomization)?;
    let built = kubectl(&format!("kustomize {}", folder.display())).await?;
    assert!(built.contains("memory: 250Mi"), "{built}");

    let values = format!("{manifests} --helm-values");
    let values = plimsoll_prints(&sandbox.kubeconfig(), &values).await?;
    assert!(
        values.contains("web:\n    app:\n      resources:"),
        "{values}"
    );
    Ok(())
}
