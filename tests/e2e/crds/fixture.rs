//! A namespace for objects that are right, and some that are wrong.

use anyhow::{Context as _, Result, ensure};
use api::vpa::VerticalPodAutoscaler as Vpa;
use e2e::{Namespace, kubectl, repository, shared, target, with};
use kube::{Error, Resource};
use serde_json::{Value, json};

pub(crate) struct Fixture(Namespace);

e2e::deref_to_namespace!(Fixture, 0);

impl Fixture {
    pub(crate) async fn new() -> Result<Self> {
        let client = shared().await?.client().await?;
        Ok(Self(Namespace::new(client, "crds").await?))
    }

    /// Creates an object whose name the API server chooses.
    pub(crate) async fn make<K>(&self, spec: &Value) -> kube::Result<Value>
    where
        K: Resource<DynamicType = ()>,
    {
        let metadata = json!({"generateName": "web-"});
        self.create::<K>(json!({"metadata": metadata, "spec": spec}))
            .await
    }

    pub(super) async fn vpa(&self, spec: &Value) -> kube::Result<Value> {
        self.make::<Vpa>(spec).await
    }

    pub(crate) async fn table(&self, arguments: &str) -> Result<Vec<Vec<String>>> {
        let text = kubectl(&format!("-n {} {arguments}", self.namespace)).await?;
        let words = |line: &str| line.split_whitespace().map(str::to_owned).collect();
        Ok(text.lines().map(words).collect())
    }
}

pub(crate) fn name(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap_or_default()
}

pub(crate) fn example(file: &str) -> Result<Value> {
    let objects = repository().join("crates/api/tests/objects");
    Ok(serde_json::from_slice(&std::fs::read(objects.join(file))?)?)
}

pub(super) fn spec(extra: Value) -> Value {
    with(json!({"targetRef": target("Deployment", "web")}), extra)
}

pub(super) fn update_policy(policy: Value) -> Value {
    spec(json!({ "updatePolicy": policy }))
}

pub(super) fn container_policy(policy: Value) -> Value {
    spec(json!({"resourcePolicy": {"containerPolicies": [policy]}}))
}

pub(super) fn cpu_boost(boost: Value) -> Value {
    spec(json!({"startupBoost": {"cpu": boost}}))
}

/// The server answers with `code` and a message that holds every part of `expected`.
pub(crate) fn refused<T>(answer: kube::Result<T>, code: u16, expected: &[&str], what: &Value) {
    match answer {
        Ok(_) => panic!("{what} was accepted"),
        Err(Error::Api(status)) => {
            let message = &status.message;
            assert_eq!(status.code, code, "{what}: {message}");
            for part in expected {
                assert!(message.contains(part), "{what}: no {part:?} in {message:?}");
            }
        }
        Err(error) => panic!("{what}: {error}"),
    }
}

/// Checks that objects are refused: a table of rows of a spec, and of parts of the message.
pub(crate) async fn all_refused<K>(fixture: &Fixture, rows: &Value) -> Result<()>
where
    K: Resource<DynamicType = ()>,
{
    for row in rows.as_array().context("a table")? {
        let (spec, expected) = split(row)?;
        refused(fixture.make::<K>(spec).await, 422, &expected, spec);
    }
    Ok(())
}

pub(super) fn split(row: &Value) -> Result<(&Value, Vec<&str>)> {
    let (subject, parts) = row
        .as_array()
        .and_then(|row| row.split_first())
        .context("a row")?;
    let parts: Vec<&str> = parts.iter().filter_map(Value::as_str).collect();
    ensure!(!parts.is_empty(), "nothing is expected of {subject}");
    Ok((subject, parts))
}
