//! Plans of `plimsoll migrate` on a real API server: their commands run, and their undo restores the
//! objects.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};
use api::ehpa::EffectiveHorizontalPodAutoscaler as Ehpa;
use api::sizing_policy::SizingPolicy;
use api::vpa::VerticalPodAutoscaler as Vpa;
use e2e::{Namespace, plimsoll, shared, workload};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{ApiResource, DynamicObject, GroupVersionKind, Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt as _};
use sandbox::Sandbox;
use serde_json::{Value, json};
use tokio::process::Command;

struct Fixture {
    sandbox: &'static Sandbox,
    own: Namespace,
    /// Folder in which the commands run.
    folder: PathBuf,
}

impl Fixture {
    async fn new(name: &str) -> Result<Self> {
        let sandbox = shared().await?;
        let own = Namespace::new(sandbox.client().await?, name).await?;
        let folder = sandbox.logs_dir().join(&own.namespace);
        std::fs::create_dir_all(&folder)?;
        Ok(Self {
            sandbox,
            own,
            folder,
        })
    }

    /// The JSON of a migration. Other tests may have programs of the suite, which block some.
    async fn migrate(&self, product: &str, mode: &str) -> Result<Value> {
        let arguments = format!("migrate {product} {mode} -o json");
        let output = plimsoll(&self.sandbox.kubeconfig(), &arguments).await?;
        ensure!(matches!(output.status.code(), Some(0 | 1)), "{output:?}");
        Ok(serde_json::from_slice(&output.stdout)?)
    }

    /// The steps that name the namespace of the test.
    async fn steps(&self, product: &str) -> Result<Vec<Value>> {
        let plan = self.migrate(product, "--plan").await?;
        let steps = plan["steps"].as_array().context("steps")?.iter();
        let is_own = |step: &&Value| {
            let text = step.to_string();
            text.contains(&self.own.namespace)
        };
        Ok(steps.filter(is_own).cloned().collect())
    }

    /// Runs the commands of a field, except those that only show objects.
    async fn run(&self, step: &Value, field: &str) -> Result<()> {
        for command in step[field].as_array().context("commands")? {
            let command = command.as_str().context("a command")?;
            // The programs do not run here, so there is no result to look at or to wait for.
            let of_result = ["kubectl get", "kubectl wait"];
            let is_of_result = of_result.iter().any(|start| command.starts_with(start));
            if !is_of_result || command.contains('>') {
                shell(self.sandbox, &self.folder, command).await?;
            }
        }
        Ok(())
    }

    /// Creates an object of a kind without a type of ours.
    async fn create(&self, kind: &str, object: Value) -> Result<()> {
        let api = dynamic(&self.own, kind);
        let object: DynamicObject = serde_json::from_value(object)?;
        api.create(&PostParams::default(), &object).await?;
        Ok(())
    }
}

fn dynamic(own: &Namespace, kind: &str) -> Api<DynamicObject> {
    let gvk = GroupVersionKind::gvk("keda.sh", "v1alpha1", kind);
    Api::namespaced_with(
        own.client.clone(),
        &own.namespace,
        &ApiResource::from_gvk(&gvk),
    )
}

async fn shell(sandbox: &Sandbox, folder: &Path, command: &str) -> Result<()> {
    let path = std::env::var("PATH").unwrap_or_default();
    let programs = sandbox.programs().display();
    let output = Command::new("sh")
        .args(["-c", command])
        .current_dir(folder)
        .env("PATH", format!("{programs}:{path}"))
        .env("KUBECACHEDIR", folder.join("kubectl-cache"))
        .env("KUBECONFIG", sandbox.kubeconfig())
        .output()
        .await?;
    let errors = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{command}: {errors}");
    Ok(())
}

async fn install_keda(own: &Namespace) -> Result<()> {
    let definitions: Api<CustomResourceDefinition> = Api::all(own.client.clone());
    for (kind, plural) in [
        ("ScaledObject", "scaledobjects"),
        ("ScaledJob", "scaledjobs"),
        ("TriggerAuthentication", "triggerauthentications"),
    ] {
        let name = format!("{plural}.keda.sh");
        let open = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
        let version = json!({"name": "v1alpha1", "served": true, "storage": true, "schema": {"openAPIV3Schema": open}});
        let definition = json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": name},
            "spec": {
                "group": "keda.sh", "scope": "Namespaced", "versions": [version],
                "names": {"kind": kind, "plural": plural, "singular": kind.to_lowercase()},
            },
        });
        let params = PatchParams::apply("e2e").force();
        definitions
            .patch(&name, &params, &Patch::Apply(definition))
            .await?;
        e2e::is_established(&definitions, &name).await?;
    }
    Ok(())
}

#[tokio::test]
async fn a_scaled_object_becomes_an_ehpa_and_back() -> Result<()> {
    let fixture = Fixture::new("migrate-keda").await?;
    install_keda(&fixture.own).await?;
    let triggers = json!([
        {"type": "cpu", "metricType": "Utilization", "metadata": {"value": "60"}},
        {"type": "cron", "metadata": {"timezone": "Europe/Berlin", "start": "0 8 * * 1-5",
                                      "end": "0 18 * * 1-5", "desiredReplicas": "10"}},
    ]);
    let object = |name: &str, triggers: &Value| {
        json!({
            "apiVersion": "keda.sh/v1alpha1", "kind": "ScaledObject", "metadata": {"name": name},
            "spec": {
                "scaleTargetRef": {"name": name}, "minReplicaCount": 2, "triggers": triggers,
                "advanced": {"restoreToOriginalReplicaCount": true},
            },
        })
    };
    let queue = json!([{"type": "kafka", "metadata": {"topic": "x"}}]);
    for object in [object("web", &triggers), object("queue", &queue)] {
        fixture.create("ScaledObject", object).await?;
    }

    let check = fixture.migrate("keda", "--check").await?;
    let objects = check["objects"].as_array().context("objects")?;
    for (name, verdict) in [("web", "changed"), ("queue", "kept")] {
        let name = format!("ScaledObject {}/{name}", fixture.own.namespace);
        let mut found = objects.iter().filter(|one| one["object"] == *name);
        let found = found.next().with_context(|| name.clone())?;
        ensure!(found["verdict"] == verdict, "{found}");
    }

    let steps = fixture.steps("keda").await?;
    let [step] = &steps[..] else {
        anyhow::bail!("{steps:#?}")
    };
    fixture.run(step, "commands").await?;
    let ehpa = fixture.own.get::<Ehpa>("web").await?;
    ensure!(ehpa["spec"]["crons"][0]["targetReplicas"] == 10, "{ehpa}");
    let scaled = dynamic(&fixture.own, "ScaledObject");
    let is_paused = async || {
        let object = scaled.get("web").await?;
        anyhow::Ok(
            object
                .annotations()
                .contains_key("autoscaling.keda.sh/paused"),
        )
    };
    ensure!(is_paused().await?);
    fixture.run(step, "undo").await?;
    ensure!(!is_paused().await?);
    let ehpas: Api<Ehpa> = fixture.own.typed();
    ensure!(ehpas.get_opt("web").await?.is_none());
    Ok(())
}

#[tokio::test]
async fn objects_of_goldilocks_become_a_sizing_policy_and_back() -> Result<()> {
    let fixture = Fixture::new("migrate-goldilocks").await?;
    let labels = json!({"source": "goldilocks", "creator": "Fairwinds"});
    let vpa = json!({
        "metadata": {"name": "goldilocks-web", "labels": labels},
        "spec": {"targetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
                 "updatePolicy": {"updateMode": "Off"}},
    });
    fixture.own.create::<Vpa>(vpa).await?;
    let steps = fixture.steps("goldilocks").await?;
    let [step] = &steps[..] else {
        anyhow::bail!("{steps:#?}")
    };
    fixture.run(step, "commands").await?;
    let policy = fixture.own.get::<SizingPolicy>("from-goldilocks").await?;
    ensure!(policy["spec"]["updateMode"] == "Off", "{policy}");
    let vpas: Api<Vpa> = fixture.own.typed();
    ensure!(vpas.get_opt("goldilocks-web").await?.is_none());
    fixture.run(step, "undo").await?;
    ensure!(vpas.get_opt("goldilocks-web").await?.is_some());
    let policies: Api<SizingPolicy> = fixture.own.typed();
    ensure!(policies.get_opt("from-goldilocks").await?.is_none());
    Ok(())
}

#[tokio::test]
async fn programs_of_upstream_are_stopped_and_started_again() -> Result<()> {
    let fixture = Fixture::new("migrate-vpa").await?;
    for image in ["vpa-recommender", "vpa-updater"] {
        let mut deployment = workload(image, 1, &json!({}), &json!({}));
        let container = &mut deployment["spec"]["template"]["spec"]["containers"][0];
        container["image"] = format!("registry.example.com/{image}:v1").into();
        fixture.own.create::<Deployment>(deployment).await?;
    }
    let steps = fixture.steps("vpa").await?;
    let replicas = async |expected: i64| {
        for image in ["vpa-recommender", "vpa-updater"] {
            let deployment = fixture.own.get::<Deployment>(image).await?;
            let found = &deployment["spec"]["replicas"];
            ensure!(*found == expected, "{image}: {found}");
        }
        anyhow::Ok(())
    };
    let titles: Vec<&str> = steps
        .iter()
        .filter_map(|step| step["title"].as_str())
        .collect();
    ensure!(
        titles == ["Stop upstream's updater", "Stop upstream's recommender"],
        "{titles:?}"
    );
    for step in &steps {
        // Other tests may have such programs in their own namespaces.
        let mut own = step.clone();
        for field in ["commands", "undo"] {
            let commands = own[field].as_array_mut().context("commands")?;
            commands.retain(|command| command.to_string().contains(&fixture.own.namespace));
        }
        fixture.run(&own, "commands").await?;
    }
    replicas(0).await?;
    for step in &steps {
        let undo = step["undo"].as_array().context("undo")?;
        let undo = undo.iter().filter_map(Value::as_str);
        for command in undo.filter(|command| command.contains(&fixture.own.namespace)) {
            shell(fixture.sandbox, &fixture.folder, command).await?;
        }
    }
    replicas(1).await
}
