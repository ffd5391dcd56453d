//! A release whose programs have rights in one namespace, with definitions of other releases.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Result, ensure};
use api::vpa::VerticalPodAutoscaler as Vpa;
use e2e::{Namespace, another, eventually, requested, requests, target, workload};
use k8s_openapi::api::admissionregistration::v1::MutatingWebhookConfiguration;
use k8s_openapi::api::apps::v1::ReplicaSet;
use k8s_openapi::api::authorization::v1::SubjectAccessReview;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::rbac::v1::ClusterRole;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{ListParams, LogParams};
use kube::{Api, Client, ResourceExt as _};
use serde_json::{Value, json};

use super::objects;
use super::release::is_recommended;
use e2e::deployment::SYSTEM;
use e2e::helm::Helm;

/// The definition that another release owns.
const OF_ANOTHER: &str = "verticalpodautoscalers.autoscaling.k8s.io";

/// A workload with a VPA object.
async fn sized(namespace: &Namespace) -> Result<()> {
    let web = workload("web", 2, &requests("10m", "10Mi"), &json!({}));
    namespace.create::<ReplicaSet>(web).await?;
    let spec = json!({"targetRef": target("ReplicaSet", "web"),
                      "updatePolicy": {"updateMode": "Recreate"}});
    namespace.make::<Vpa>("web", spec).await?;
    Ok(())
}

/// Whether a program may list a resource of a namespace; empty means all.
async fn may_list(
    client: &Client,
    program: &str,
    (group, resource): (&str, &str),
    namespace: &str,
) -> Result<bool> {
    let user = format!("system:serviceaccount:{SYSTEM}:plimsoll-{program}");
    let attributes =
        json!({"verb": "list", "group": group, "resource": resource, "namespace": namespace});
    let review = json!({"metadata": {}, "spec": {"user": user, "resourceAttributes": attributes}});
    let api: Api<SubjectAccessReview> = Api::all(client.clone());
    let review = serde_json::from_value(review)?;
    let reviewed = api
        .create(&kube::api::PostParams::default(), &review)
        .await?;
    Ok(reviewed.status.is_some_and(|status| status.allowed))
}

async fn check_rights(client: &Client, own: &str, other: &str) -> Result<()> {
    let roles: Api<ClusterRole> = Api::all(client.clone());
    let suite = ListParams::default().labels("app.kubernetes.io/part-of=plimsoll");
    let roles = roles.list(&suite).await?.items;
    ensure!(
        !roles.is_empty(),
        "what no namespace has is in ClusterRoles"
    );
    for role in roles {
        for rule in role.rules.iter().flatten() {
            let resources = rule.resources.iter().flatten();
            let mut read = resources
                .filter(|it| it.starts_with("pods") || it.starts_with("vertical") || *it == "*");
            let name = role.metadata.name.as_deref();
            ensure!(read.next().is_none(), "{name:?}: {rule:?}");
        }
    }
    let kinds = [
        ("", "pods"),
        ("autoscaling.k8s.io", "verticalpodautoscalers"),
    ];
    for program in ["recommender", "updater", "webhook"] {
        for kind in kinds {
            for namespace in [other, ""] {
                let is_allowed = may_list(client, program, kind, namespace).await?;
                ensure!(!is_allowed, "{program} may list {kind:?} of {namespace:?}");
            }
        }
        let is_allowed = may_list(client, program, kinds[1], own).await?;
        ensure!(is_allowed, "{program} may not list VPA objects of {own}");
    }
    Ok(())
}

/// Checks that no request of a program was refused. Two kinds are optional, and looked up once.
async fn check_logs(client: &Client) -> Result<()> {
    let pods: Api<Pod> = Api::namespaced(client.clone(), SYSTEM);
    // Helm waits for the new pods of an upgrade, and not for the end of the old ones.
    let all = eventually("two replicas of three programs", async || {
        let all = pods.list(&ListParams::default()).await?.items;
        let names: Vec<_> = all.iter().map(Pod::name_any).collect();
        ensure!(all.len() == 6, "{names:?}");
        Ok(all)
    })
    .await?;
    for pod in all {
        let name = pod.name_any();
        let log = pods.logs(&name, &LogParams::default()).await?;
        ensure!(!log.is_empty(), "{name} has a log");
        let refused = log.lines().filter(|line| line.contains("forbidden"));
        let refused: Vec<&str> = refused.collect();
        ensure!(refused.is_empty(), "{name}: {refused:#?}");
    }
    Ok(())
}

/// The UIDs and the owners of all definitions.
async fn definitions(client: &Client) -> Result<Vec<Value>> {
    let api: Api<CustomResourceDefinition> = Api::all(client.clone());
    let mut found = Vec::new();
    for definition in api::crd::all() {
        let definition = api.get(&definition.name_any()).await?;
        let owner = definition.annotations().get("meta.helm.sh/release-name");
        found.push(json!([definition.name_any(), definition.uid(), owner]));
    }
    Ok(found)
}

#[tokio::test]
async fn releases_of_two_namespaces_have_no_object_in_common() -> Result<()> {
    let helm = Helm::find().await?;
    let names = async |release: &str| {
        let scope = format!("watchNamespace={release}-apps");
        let values = [
            scope.as_str(),
            "mode=vertical",
            "crds.install=false",
            "recommender.sizingPolicies=true",
            "recommender.capToSchedulable={nodes}",
            "recommender.capacityFrom={karpenter,cluster-autoscaler}",
            "updater.rollingUpdates=true",
            "webhook.nodeGroups=true",
        ];
        let rendered = helm.template_in(release, &values).await?;
        let owner = format!(r#""ownerClusterRole":"plimsoll-webhook-{release}"}}"#);
        ensure!(rendered.contains(&owner), "{rendered}");
        let objects = objects(&rendered)?;
        check_bindings(&objects)?;
        Ok(objects.into_keys().collect::<BTreeSet<_>>())
    };
    let [first, second] = [names("first").await?, names("second").await?];
    let common: Vec<_> = first.intersection(&second).collect();
    ensure!(common.is_empty(), "{common:?}");
    Ok(())
}

fn check_bindings(objects: &BTreeMap<String, Value>) -> Result<()> {
    let bindings = objects.values().filter(|it| !it["roleRef"].is_null());
    for binding in bindings {
        let (role, namespace) = (&binding["roleRef"], &binding["metadata"]["namespace"]);
        let key = format!("{} {namespace} {}", role["kind"], role["name"]);
        ensure!(objects.contains_key(&key), "{binding:#}");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_release_in_one_namespace_needs_no_right_in_others() -> Result<()> {
    let sandbox = another("chart-namespace").await?;
    let client = sandbox.client().await?;
    let own = Namespace::new(client.clone(), "own").await?;
    let other = Namespace::new(client.clone(), "other").await?;
    let owner =
        json!({"meta.helm.sh/release-name": "vpa", "meta.helm.sh/release-namespace": "vpa"});
    let owner = json!({"metadata": {"annotations": owner}});
    Namespace::cluster(client.clone())
        .patch::<CustomResourceDefinition>(OF_ANOTHER, owner)
        .await?;
    let before = definitions(&client).await?;

    let helm = Helm::find().await?.with(&sandbox.kubeconfig());
    let scope = format!("watchNamespace={}", own.namespace);
    let values = [
        scope.as_str(),
        "rbac.aggregate=false",
        "recommender.pod.extraArgs[0]=--recommender-interval=1s",
    ];
    helm.upgrade(&client, &values).await?;
    sized(&own).await?;
    sized(&other).await?;
    is_recommended(&own).await?;

    let policies = json!([{"name": "all", "namespace": own.namespace, "spec": {}}]);
    let policies = format!("policies={policies}");
    let conditions = json!([{"name": "named", "expression": "request.namespace != ''"}]);
    let match_conditions = format!("webhook.matchConditions={conditions}");
    let vertical = [
        "mode=vertical",
        "recommender.sizingPolicies=true",
        policies.as_str(),
        "updater.settlingTime=0s",
        "webhook.port=9443",
        "webhook.reinvocationPolicy=IfNeeded",
        match_conditions.as_str(),
    ];
    let vertical = [&values[..], &vertical].concat();
    helm.upgrade(&client, &vertical).await?;
    own.deploy("api", 0, &json!({}), &json!({})).await?;
    eventually("both pods have the target", async || {
        let pods = own.pods_of("web").await?;
        let found: Vec<_> = pods.iter().map(|pod| requested(pod, "cpu")).collect();
        ensure!(found == [Some("25m"); 2], "{found:?}");
        Ok(())
    })
    .await?;
    own.when::<Vpa>("plimsoll-deployment-api", "the policy makes it", |_| true)
        .await?;
    let cluster = Namespace::cluster(client.clone());
    let registration = cluster
        .get::<MutatingWebhookConfiguration>("vpa-webhook-config")
        .await?;
    let webhook = &registration["webhooks"][0];
    let only = json!([{"key": "kubernetes.io/metadata.name", "operator": "In", "values": [own.namespace]}]);
    assert_eq!(webhook["namespaceSelector"]["matchExpressions"], only);
    assert_eq!(webhook["matchConditions"], conditions);
    assert_eq!(webhook["reinvocationPolicy"], "IfNeeded");
    let status = other.get::<Vpa>("web").await?["status"].take();
    ensure!(status.is_null(), "another namespace: {status:#}");
    check_rights(&client, &own.namespace, &other.namespace).await?;
    check_logs(&client).await?;

    helm.uninstall().await?;
    assert_eq!(definitions(&client).await?, before, "others' definitions");
    sandbox.down().await
}
