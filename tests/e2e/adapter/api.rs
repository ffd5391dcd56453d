//! The two APIs for a client of the API server: discovery, descriptions, values and refusals.

use anyhow::{Context as _, Result, ensure};
use e2e::deployment::ADAPTER;
use serde_json::Value;

use super::fixture::{APIS, Fixture};

#[tokio::test]
async fn the_apis_are_found_and_described_as_any_others() -> Result<()> {
    let fixture = Fixture::together("served").await?;
    check_api_services(&fixture).await?;

    let group = fixture.ask("/apis/custom.metrics.k8s.io").await?;
    assert_eq!(group["preferredVersion"]["version"], "v1beta2");
    for api in APIS {
        let list = fixture.ask(&format!("/apis/{api}")).await?;
        assert_eq!(list["kind"], "APIResourceList");
        assert_eq!(list["groupVersion"], api);
        ensure!(list["resources"][0].is_object(), "{list}");
    }

    check_aggregated_discovery(&fixture).await?;
    let versions = fixture.kubectl("api-versions").await?;
    for api in APIS {
        ensure!(versions.lines().any(|line| line == api), "{versions}");
    }

    e2e::eventually("the API server serves the descriptions", async || {
        let index = fixture.ask("/openapi/v3").await?;
        for api in APIS {
            let address = index["paths"][format!("apis/{api}")]["serverRelativeURL"].as_str();
            let address = address.with_context(|| format!("no description of {api}"))?;
            let document = fixture.ask(address).await?;
            ensure!(document["openapi"] == "3.0.0", "{document}");
        }
        Ok(())
    })
    .await
}

/// Checks that the `APIService` objects are available and have a CA bundle of the adapter.
async fn check_api_services(fixture: &Fixture) -> Result<()> {
    let get = format!("get apiservice -l {} -ojson", ADAPTER.labels);
    let get = format!("{get} --show-managed-fields");
    let services: Value = serde_json::from_str(&fixture.kubectl(&get).await?)?;
    let services = services["items"].as_array().context("a list")?;
    ensure!(services.len() == APIS.len(), "{services:?}");
    for service in services {
        let available = &service["status"]["conditions"][0];
        assert_eq!(available["type"], "Available");
        assert_eq!(available["message"], "all checks passed");
        assert_eq!(service["spec"]["insecureSkipTLSVerify"], Value::Null);
        let bundle = service["spec"]["caBundle"].as_str().context("a bundle")?;
        ensure!(!bundle.is_empty());
        let owners = service["metadata"]["managedFields"].as_array();
        let mut owners = owners.context("owners")?.iter();
        let owner = owners.find(|it| it["fieldsV1"]["f:spec"].get("f:caBundle").is_some());
        let owner = owner.context("a field manager")?;
        assert_eq!(owner["manager"], "plimsoll-adapter");
    }
    Ok(())
}

/// Checks that the API server's single discovery document has the resources of both APIs.
async fn check_aggregated_discovery(fixture: &Fixture) -> Result<()> {
    let accept = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
    let request = http::Request::get("/apis").header("accept", accept);
    let request = request.body(Vec::new())?;
    let by = |list: &Value, path: &str, name: &str| {
        let mut items = list.as_array().into_iter().flatten();
        let found = items.find(|item| item.pointer(path).is_some_and(|it| it == name));
        found.cloned().with_context(|| format!("no {name}"))
    };
    e2e::eventually("aggregated discovery is current", async || {
        let document: Value = fixture.client.request(request.clone()).await?;
        for api in APIS {
            let (group, version) = api.split_once('/').context("a group and a version")?;
            let group = by(&document["items"], "/metadata/name", group)?;
            let found = by(&group["versions"], "/version", version)?;
            ensure!(found["freshness"] == "Current", "{found}");
            ensure!(found["resources"][0].is_object(), "{found}");
        }
        Ok(())
    })
    .await
}

#[tokio::test]
async fn whatever_is_refused_is_refused_with_a_status() -> Result<()> {
    let fixture = Fixture::together("refused").await?;
    let namespace = &fixture.namespace;
    let custom = format!("/apis/custom.metrics.k8s.io/v1beta2/namespaces/{namespace}");
    let external = format!("/apis/external.metrics.k8s.io/v1beta1/namespaces/{namespace}");
    let cases = format!(
        "GET | {custom}/pods/*/nothing?labelSelector=app%3Dx | 404 NotFound | the server could not find the metric nothing for pods
         GET | {custom}/pods/%2A/nothing?labelSelector=app+in+%28x%2Cy%29&foo=1 | 404 NotFound | nothing
         GET | {custom}/deployments.apps/web/nothing | 404 NotFound | nothing
         GET | {custom}/metrics/nothing | 404 NotFound | nothing
         GET | {external}/nothing | 404 NotFound | nothing
         GET | {external}/nothing?labelSelector=a%3D%3D%3Db | 400 BadRequest | labelSelector: unable to parse
         GET | {custom}/pods/a/b/c | 404 NotFound | the server could not find the requested resource
         POST | {external}/nothing | 405 MethodNotAllowed | does not allow this method
         DELETE | {custom}/pods/*/nothing | 405 MethodNotAllowed | does not allow this method"
    );
    for case in cases.lines() {
        let [method, path, expected, text] = case.trim().split(" | ").collect::<Vec<_>>()[..]
        else {
            anyhow::bail!("{case}")
        };
        let status = fixture.refused(method, path).await?;
        let found = format!("{} {}", status.code, status.reason);
        ensure!(
            found == expected && status.message.contains(text),
            "{method} {path}: {status:?}"
        );
    }
    Ok(())
}
