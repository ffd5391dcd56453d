//! A recommender of one namespace, with no more rights than a Role of that namespace: the rights of
//! `deploy/` without those that are cluster-wide.

use anyhow::{Result, ensure};
use api::sizing_policy::SizingPolicy;
use api::vpa::VerticalPodAutoscaler as Vpa;
use e2e::manifests::{objects_in, rules_of};
use e2e::process::account_file;
use e2e::{apply_objects, eventually, kubectl, namespace, repository, shared};
use k8s_openapi::api::rbac::v1::PolicyRule;
use serde_json::{Value, json};

use super::ONE;
use super::fixture::{PolicyFixture, start};

const ACCOUNT: &str = "recommender";
/// Resources that a Role cannot grant.
const OUTSIDE: [&str; 4] = [
    "namespaces",
    "nodes",
    "clustersizingpolicies",
    "clustersizingpolicies/status",
];

#[tokio::test]
async fn in_one_namespace_a_role_is_enough() -> Result<()> {
    let client = shared().await?.client().await?;
    let fixture = PolicyFixture::of(client.clone(), &namespace(&client, "scoped").await?);
    let log = shared().await?.logs_dir().join("recommender-scoped.log");
    grant(&fixture.namespace).await?;
    // The API server takes a moment to know of it.
    let account = format!("--as=system:serviceaccount:{}:{ACCOUNT}", fixture.namespace);
    let may_it = format!("-n {} auth can-i list pods {account}", fixture.namespace);
    let ask = async || kubectl(&may_it).await;
    eventually("the rights are granted", ask).await?;
    let account = account_file(shared().await?, &fixture.namespace, ACCOUNT).await?;
    let only = format!("--vpa-object-namespace={}", fixture.namespace);
    let _recommender = start(&account, &["--recommender-name=e2e", &only], &log)?;
    fixture.deploy("one", "web").await?;
    let mine = fixture.by_hand("mine", "two").await?;
    fixture.deploy("two", "web").await?;
    fixture.policy("web", json!({})).await?;
    fixture.counts("web", [2, 1, 1, 0]).await?;
    fixture.await_event("web", "AutoscalersWritten").await?;
    let initial = json!({"spec": {"updateMode": "Initial"}});
    fixture.patch::<SizingPolicy>("web", initial).await?;
    let is_changed = |object: &Value| {
        object["spec"]["updatePolicy"]["updateMode"] == "Initial"
            && object["status"]["conditions"].is_array()
    };
    fixture
        .when::<Vpa>(ONE, "it is changed, and has its status", is_changed)
        .await?;
    let none = json!({"spec": {"selector": {"matchLabels": {"tier": "none"}}}});
    fixture.patch::<SizingPolicy>("web", none).await?;
    fixture.await_names(&["mine"]).await?;
    fixture.counts("web", [0, 0, 0, 0]).await?;
    assert_eq!(fixture.get::<Vpa>("mine").await?, mine);
    let log = std::fs::read_to_string(log)?;
    ensure!(!log.to_lowercase().contains("forbidden"), "{log}");
    Ok(())
}

/// An account that has the Role and nothing else.
async fn grant(namespace: &str) -> Result<()> {
    let reference =
        json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": ACCOUNT});
    let subject = json!({"kind": "ServiceAccount", "name": ACCOUNT, "namespace": namespace});
    let metadata = json!({"name": ACCOUNT, "namespace": namespace});
    let rbac = "rbac.authorization.k8s.io/v1";
    let objects = json!({"apiVersion": "v1", "kind": "List", "items": [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata},
        {"apiVersion": rbac, "kind": "Role", "metadata": metadata, "rules": rules()?},
        {"apiVersion": rbac, "kind": "RoleBinding", "metadata": metadata, "roleRef": reference, "subjects": [subject]},
    ]});
    apply_objects(shared().await?, &objects.to_string()).await
}

fn rules() -> Result<Vec<PolicyRule>> {
    let deploy = repository().join("deploy");
    let mut objects = objects_in(&deploy.join("base/recommender/rbac.yaml"))?;
    objects.extend(objects_in(
        &deploy.join("components/sizing-policies/rbac.yaml"),
    )?);
    objects.retain(|object| object["kind"] == "ClusterRole");
    let mut rules = rules_of(&objects)?;
    ensure!(!rules.is_empty(), "deploy/ has no ClusterRole");
    for rule in &mut rules {
        rule.resources
            .get_or_insert_default()
            .retain(|resource| !OUTSIDE.contains(&resource.as_str()));
    }
    rules.retain(|rule| {
        rule.resources
            .as_ref()
            .is_some_and(|resources| !resources.is_empty())
    });
    Ok(rules)
}
