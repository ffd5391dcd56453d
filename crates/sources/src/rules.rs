//! Rule files of prometheus-adapter ([`promql::rules`]), and the cluster's resources that their
//! labels name, from the discovery documents of the API server.

use std::sync::Arc;

use kube::Client;
use kube::core::discovery::v2::{APIGroupDiscovery, APIGroupDiscoveryList};

pub use promql::rules::*;

const METRICS_GROUPS: &str = "metrics.k8s.io";

/// Reads the resources from the API server.
pub async fn read_api_resources(client: &Client) -> Result<ApiResources, kube::Error> {
    let core = client.list_core_api_versions_aggregated().await?;
    let groups = client.list_api_groups_aggregated().await?;
    Ok(resources(&[core, groups]))
}

fn resources(lists: &[APIGroupDiscoveryList]) -> ApiResources {
    let mut resources: Vec<Arc<ApiResource>> = Vec::new();
    for group in lists.iter().flat_map(|list| &list.items) {
        let first = resources.len();
        for resource in of_group(group) {
            // Versions are in order of preference.
            if resources[first..]
                .iter()
                .all(|known| known.resource != resource.resource)
            {
                resources.push(Arc::new(resource));
            }
        }
    }
    ApiResources::new(resources)
}

fn of_group(group: &APIGroupDiscovery) -> impl Iterator<Item = ApiResource> {
    let name = group
        .metadata
        .as_ref()
        .and_then(|metadata| metadata.name.clone())
        .unwrap_or_default();
    let is_metrics = name.ends_with(METRICS_GROUPS);
    let versions = group.versions.iter().filter(move |_| !is_metrics);
    versions.flat_map(move |version| {
        let name = name.clone();
        version.resources.iter().filter_map(move |resource| {
            let plural = resource.resource.clone()?;
            let kind = resource
                .response_kind
                .as_ref()?
                .kind
                .clone()
                .filter(|kind| !kind.is_empty())?;
            let singular = resource
                .singular_resource
                .clone()
                .filter(|singular| !singular.is_empty());
            let version = version.version.clone()?;
            Some(ApiResource {
                singular: singular.unwrap_or_else(|| kind.to_lowercase()),
                api_version: if name.is_empty() {
                    version
                } else {
                    format!("{name}/{version}")
                },
                kind,
                is_namespaced: resource.scope.as_deref() == Some("Namespaced"),
                resource: GroupResource {
                    group: name.clone(),
                    resource: plural,
                },
            })
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(resources: &ApiResources, group: &str, resource: &str, expected: (&str, &str, bool)) {
        let found = resources.find(group, resource).expect(resource);
        let found = (
            found.api_version.as_str(),
            found.kind.as_str(),
            found.is_namespaced,
        );
        assert_eq!(found, expected, "{group} {resource}");
    }

    #[test]
    fn the_documents_of_discovery_are_read() {
        let list =
            |text: &str| serde_json::from_str::<APIGroupDiscoveryList>(text).expect("a document");
        let resource = |plural: &str, singular: &str, kind: &str, scope: &str| {
            format!(
                r#"{{"resource":"{plural}","singularResource":"{singular}","scope":"{scope}",
                    "responseKind":{{"group":"","version":"","kind":"{kind}"}},"verbs":["get"]}}"#
            )
        };
        let core = list(&format!(
            r#"{{"items":[{{"versions":[{{"version":"v1","resources":[{},{{"resource":"broken"}}]}}]}}]}}"#,
            resource("pods", "pod", "Pod", "Namespaced")
        ));
        let groups = list(&format!(
            r#"{{"items":[
                {{"metadata":{{"name":"autoscaling"}},"versions":[
                    {{"version":"v2","resources":[{hpa}]}},{{"version":"v1","resources":[{hpa}]}}]}},
                {{"metadata":{{"name":"metrics.k8s.io"}},"versions":[{{"version":"v1beta1","resources":[{pods}]}}]}}]}}"#,
            hpa = resource(
                "horizontalpodautoscalers",
                "",
                "HorizontalPodAutoscaler",
                "Namespaced"
            ),
            pods = resource("pods", "pod", "PodMetrics", "Namespaced"),
        ));
        let resources = super::resources(&[core, groups]);
        assert_eq!(resources.iter().count(), 2);
        check(&resources, "", "pods", ("v1", "Pod", true));
        check(
            &resources,
            "",
            "horizontalpodautoscaler",
            ("autoscaling/v2", "HorizontalPodAutoscaler", true),
        );
    }
}
