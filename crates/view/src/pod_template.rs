//! The resources in the pod template of a workload controller, before webhooks change its next pod.

use k8s_openapi::api::core::v1;
use model::{LimitRangeItem, LimitType, ResourceList};

use crate::limit_range::quantities;

/// Resources of the containers of a template, as they are written.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PodTemplate(Vec<TemplateContainer>);

/// A container or init container of a template.
#[derive(Debug, Clone, PartialEq)]
struct TemplateContainer {
    name: String,
    requests: ResourceList,
    limits: ResourceList,
}

impl PodTemplate {
    pub(crate) fn from_k8s(template: Option<&v1::PodTemplateSpec>) -> Self {
        let spec = template.and_then(|template| template.spec.as_ref());
        let containers = spec.into_iter().flat_map(|spec| {
            let init = spec.init_containers.iter().flatten();
            spec.containers.iter().chain(init)
        });
        let container = |container: &v1::Container| {
            let resources = container.resources.clone().unwrap_or_default();
            TemplateContainer {
                name: container.name.clone(),
                requests: resources.requests.map(quantities).unwrap_or_default(),
                limits: resources.limits.map(quantities).unwrap_or_default(),
            }
        };
        Self(containers.map(container).collect())
    }

    /// Requests and limits that a new pod's container of this name has before webhooks change it, in a
    /// namespace with these items of `LimitRange` objects; `None` without such a container.
    ///
    /// Source: Kubernetes, `SetDefaults_Pod` of `pkg/apis/core/v1` (requests equal to limits), and
    /// `mergeContainerResources` of `plugin/pkg/admission/limitranger`.
    pub fn resources_of(
        &self,
        container: &str,
        ranges: &[LimitRangeItem],
    ) -> Option<(ResourceList, ResourceList)> {
        let written = self.0.iter().find(|written| written.name == container)?;
        let (mut requests, mut limits) = (written.requests.clone(), written.limits.clone());
        add_missing(&mut requests, Some(&written.limits));
        for range in ranges {
            if range.kind == LimitType::Container {
                add_missing(&mut limits, range.default.as_ref());
                add_missing(&mut requests, range.default_request.as_ref());
            }
        }
        Some((requests, limits))
    }
}

fn add_missing(list: &mut ResourceList, defaults: Option<&ResourceList>) {
    for (name, quantity) in defaults.into_iter().flat_map(ResourceList::iter) {
        if list.get(name).is_none() {
            list.insert(name.clone(), quantity.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn list(value: &Value) -> ResourceList {
        serde_json::from_value(value.clone()).expect("a list")
    }

    fn check(resources: &Value, requests: &Value, limits: &Value) {
        let template = json!({"spec": {
            "containers": [{"name": "app", "resources": resources}],
            "initContainers": [{"name": "proxy"}],
        }});
        let template: v1::PodTemplateSpec = serde_json::from_value(template).expect("a template");
        let template = PodTemplate::from_k8s(Some(&template));
        let range = json!({"metadata": {}, "spec": {"limits": [
            {"type": "Container", "default": {"cpu": "1"}, "defaultRequest": {"cpu": "200m", "memory": "64Mi"}},
            {"type": "Pod", "max": {"cpu": "1"}},
        ]}});
        let range = serde_json::from_value(range).expect("a limit range");
        let items = crate::LimitRange::from_k8s(range).items;
        let expected = Some((list(requests), list(limits)));
        assert_eq!(
            template.resources_of("app", &items),
            expected,
            "{resources}"
        );
        let proxy = (
            list(&json!({"cpu": "200m", "memory": "64Mi"})),
            list(&json!({"cpu": "1"})),
        );
        assert_eq!(template.resources_of("proxy", &items), Some(proxy));
        assert_eq!(template.resources_of("injected", &items), None);
    }

    #[test]
    fn a_new_pod_has_the_defaults_of_the_api_server() {
        check(
            &json!({"requests": {"cpu": "50m"}, "limits": {"memory": "1Gi"}}),
            &json!({"cpu": "50m", "memory": "1Gi"}),
            &json!({"cpu": "1", "memory": "1Gi"}),
        );
        check(
            &json!({"limits": {"cpu": "2"}}),
            &json!({"cpu": "2", "memory": "64Mi"}),
            &json!({"cpu": "2"}),
        );
        check(
            &Value::Null,
            &json!({"cpu": "200m", "memory": "64Mi"}),
            &json!({"cpu": "1"}),
        );
    }
}
