//! Workload controllers of the built-in kinds: selector, owner, desired replicas, and the resources in
//! their pod template, before webhooks change its next pod.
//!
//! Source: upstream `target/fetcher.go` (`getLabelSelector`), `updater/restriction` (replicas).

use std::collections::BTreeMap;
use std::time::Duration;

pub use api::WellKnown;
use k8s_openapi::api::apps::v1::{DaemonSet, Deployment, ReplicaSet, StatefulSet};
use k8s_openapi::api::batch::v1::{CronJob, Job, JobSpec};
use k8s_openapi::api::core::v1::{self, ReplicationController};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta, OwnerReference};
use model::{
    Labels, LimitRangeItem, LimitType, ParseSelectorError, ResourceList, Selector, WHOLE_POD,
    Workload,
};

use crate::limits::quantities;
use crate::table::ObjectKey;

#[derive(Debug, Clone, PartialEq)]
pub struct Controller {
    pub key: ObjectKey,
    /// Labels of the controller itself; empty if a well-known controller owns it.
    pub labels: Labels,
    /// Selector of its pods, or the reason why it does not parse.
    pub selector: Result<Selector, ParseSelectorError>,
    /// The owner reference with `controller: true`.
    pub owner: Option<Owner>,
    /// Desired number of pods; `None` for kinds that do not state one.
    pub replicas: Option<i32>,
    /// Time for which a pod must be ready before it counts as available.
    pub min_ready: Duration,
    /// Resources of its pods as they are written; empty for kinds that do not own pods themselves, and
    /// where the watch leaves them out.
    pub template: PodTemplate,
}

impl Controller {
    fn new(
        metadata: ObjectMeta,
        selector: Result<Selector, ParseSelectorError>,
        replicas: Option<i32>,
    ) -> Self {
        let owner = Owner::controller(metadata.owner_references);
        let kind = owner.as_ref().map(|owner| owner.kind.as_str());
        let is_part = kind.and_then(WellKnown::of_kind).is_some();
        Self {
            key: ObjectKey::of(metadata.namespace, metadata.name),
            labels: metadata
                .labels
                .filter(|_| !is_part)
                .map(Labels::from)
                .unwrap_or_default(),
            selector,
            owner,
            replicas,
            min_ready: Duration::ZERO,
            template: PodTemplate::default(),
        }
    }

    /// A controller with a number of replicas, 1 by default.
    fn replicated(metadata: ObjectMeta, selector: LabelSelector, replicas: Option<i32>) -> Self {
        Self::new(
            metadata,
            of_selector(Some(selector)),
            Some(replicas.unwrap_or(1)),
        )
    }

    fn with_template(self, template: Option<&v1::PodTemplateSpec>) -> Self {
        Self {
            template: PodTemplate::from_k8s(template),
            ..self
        }
    }

    fn with_min_ready(self, seconds: Option<i32>) -> Self {
        let seconds = u64::try_from(seconds.unwrap_or(0)).unwrap_or(0);
        Self {
            min_ready: Duration::from_secs(seconds),
            ..self
        }
    }
}

impl From<Deployment> for Controller {
    fn from(Deployment { metadata, spec, .. }: Deployment) -> Self {
        Self::replicated(metadata, spec.selector, spec.replicas)
            .with_min_ready(spec.min_ready_seconds)
    }
}

impl From<ReplicaSet> for Controller {
    fn from(ReplicaSet { metadata, spec, .. }: ReplicaSet) -> Self {
        // Old revisions have no pods.
        let template = spec.template.filter(|_| spec.replicas != Some(0));
        Self::replicated(metadata, spec.selector, spec.replicas)
            .with_min_ready(spec.min_ready_seconds)
            .with_template(template.as_ref())
    }
}

impl From<StatefulSet> for Controller {
    fn from(StatefulSet { metadata, spec, .. }: StatefulSet) -> Self {
        Self::replicated(metadata, spec.selector, spec.replicas)
            .with_min_ready(spec.min_ready_seconds)
            .with_template(Some(&spec.template))
    }
}

impl From<DaemonSet> for Controller {
    fn from(object: DaemonSet) -> Self {
        let desired = object.status.map(|status| status.desired_number_scheduled);
        let selector = of_selector(Some(object.spec.selector));
        Self::new(object.metadata, selector, desired)
            .with_min_ready(object.spec.min_ready_seconds)
            .with_template(Some(&object.spec.template))
    }
}

impl From<Job> for Controller {
    fn from(object: Job) -> Self {
        let spec = object.spec.unwrap_or_default();
        let succeeded = object.status.and_then(|status| status.succeeded);
        let replicas = wanted(&spec, succeeded.unwrap_or(0));
        Self::new(object.metadata, of_selector(spec.selector), replicas)
            .with_template(Some(&spec.template))
    }
}

impl From<CronJob> for Controller {
    fn from(object: CronJob) -> Self {
        let template = object.spec.job_template.spec.map(|job| job.template);
        let labels = template
            .and_then(|template| template.metadata)
            .and_then(|metadata| metadata.labels);
        Self::new(object.metadata, Ok(of_labels(labels)), None)
    }
}

impl From<ReplicationController> for Controller {
    fn from(object: ReplicationController) -> Self {
        let spec = object.spec.unwrap_or_default();
        let replicas = Some(spec.replicas.unwrap_or(1));
        Self::new(object.metadata, Ok(of_labels(spec.selector)), replicas)
            .with_min_ready(spec.min_ready_seconds)
            .with_template(spec.template.as_ref())
    }
}

/// The number of pods that a Job keeps active. Without `completions` a Job starts no further pods
/// after the first success. That number is unknown here, so the result is at most `parallelism`.
///
/// Source: `manageJob` in `pkg/controller/job/job_controller.go` of Kubernetes.
fn wanted(spec: &JobSpec, succeeded: i32) -> Option<i32> {
    if spec.suspend == Some(true) {
        return Some(0);
    }
    let left = spec.completions.map_or(i32::MAX, |completions| {
        completions.saturating_sub(succeeded).max(0)
    });
    spec.parallelism.map(|parallelism| parallelism.min(left))
}

/// Converts a label selector. An absent one selects no pod.
pub(crate) fn of_selector(selector: Option<LabelSelector>) -> Result<Selector, ParseSelectorError> {
    let Some(selector) = selector else {
        return Ok(Selector::nothing());
    };
    let expressions = selector.match_expressions.into_iter().flatten();
    let expressions = expressions.map(|expression| {
        let values = expression.values.unwrap_or_default();
        (expression.key, expression.operator, values)
    });
    Selector::from_parts(&selector.match_labels.unwrap_or_default(), expressions)
}

fn of_labels(labels: Option<BTreeMap<String, String>>) -> Selector {
    labels.map_or(Selector::nothing(), Selector::match_labels)
}

/// The controller of an object, in the same namespace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Owner {
    /// Group and version, such as `apps/v1`.
    pub api_version: String,
    /// Kind, such as `ReplicaSet`.
    pub kind: String,
    pub name: String,
    /// Unique identifier; an object recreated under the same name has another one.
    pub uid: String,
}

impl Owner {
    /// Returns the first owner reference with `controller: true`.
    pub fn controller(references: Option<Vec<OwnerReference>>) -> Option<Self> {
        let reference = references?
            .into_iter()
            .find(|reference| reference.controller == Some(true))?;
        let OwnerReference {
            api_version,
            kind,
            name,
            uid,
            ..
        } = reference;
        Some(Self {
            api_version,
            kind,
            name,
            uid,
        })
    }

    /// The controller of an object of this namespace.
    pub fn workload<'a>(&'a self, namespace: &'a str) -> Workload<'a> {
        Workload {
            api_version: &self.api_version,
            kind: &self.kind,
            namespace,
            name: &self.name,
        }
    }
}

/// Resources of the containers of a template, as they are written.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PodTemplate(Vec<TemplateContainer>);

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
            let containers = spec.containers.iter().chain(init);
            let containers = containers.map(|it| (&*it.name, &it.resources));
            containers.chain([(WHOLE_POD, &spec.resources)])
        });
        let container = |(name, resources): (&str, &Option<v1::ResourceRequirements>)| {
            let resources = resources.clone().unwrap_or_default();
            TemplateContainer {
                name: name.to_owned(),
                requests: resources.requests.map(quantities).unwrap_or_default(),
                limits: resources.limits.map(quantities).unwrap_or_default(),
            }
        };
        Self(containers.map(container).collect())
    }

    /// Requests and limits that a new pod's container of this name, or [`WHOLE_POD`], has before webhooks
    /// change it, in a namespace with these items of `LimitRange` objects; `None` without such a container.
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
        if container == WHOLE_POD {
            // Its missing requests follow from those of the containers.
            return Some((requests, limits));
        }
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
    use serde::de::DeserializeOwned;
    use serde_json::{Value, json};

    use super::*;

    fn check<K: DeserializeOwned + Into<Controller>>(
        spec: &Value,
        selector: &Selector,
        replicas: Option<i32>,
    ) {
        let object = json!({
            "metadata": {
                "namespace": "shop", "name": "web",
                "ownerReferences": [{"apiVersion": "v1", "kind": "Owner", "name": "o", "uid": "u", "controller": true}],
            },
            "spec": spec,
            "status": {
                "desiredNumberScheduled": 4, "currentNumberScheduled": 1, "numberMisscheduled": 0, "numberReady": 1,
                "replicas": 9,
            },
        });
        let object: K = serde_json::from_value(object).expect("an object of the kind");
        let controller: Controller = object.into();
        assert_eq!(controller.key, ObjectKey::new("shop", "web"));
        assert_eq!(controller.owner.expect("an owner").name, "o");
        assert_eq!(controller.selector.as_ref(), Ok(selector));
        assert_eq!(controller.replicas, replicas);
    }

    #[test]
    fn each_kind_has_a_selector_and_desired_replicas() {
        let web = Selector::match_labels([("app", "web")]);
        let selector = json!({"matchLabels": {"app": "web"}});
        let template = json!({"metadata": {"labels": {"app": "web"}}});
        let with = |field: &str, value: Value| json!({"selector": selector, "template": template, field: value});
        check::<Deployment>(&with("replicas", json!(3)), &web, Some(3));
        check::<Deployment>(&with("paused", json!(false)), &web, Some(1));
        check::<ReplicaSet>(&with("replicas", json!(0)), &web, Some(0));
        check::<StatefulSet>(&with("serviceName", json!("")), &web, Some(1));
        check::<DaemonSet>(&with("replicas", Value::Null), &web, Some(4));
        let plain = json!({"selector": {"app": "web"}, "replicas": 2});
        check::<ReplicationController>(&plain, &web, Some(2));
        check::<Job>(&with("parallelism", json!(5)), &web, Some(5));
        let schedule =
            json!({"schedule": "* * * * *", "jobTemplate": {"spec": {"template": template}}});
        check::<CronJob>(&schedule, &web, None);
    }

    #[test]
    fn a_job_wants_as_many_pods_at_a_time_as_still_have_to_succeed() {
        let check = |spec: &Value, succeeded: i32, expected: i32| {
            let mut spec = spec.clone();
            spec["template"] = json!({});
            let object = json!({"metadata": {}, "spec": spec, "status": {"succeeded": succeeded}});
            let job: Job = serde_json::from_value(object).expect("a Job");
            let replicas = Controller::from(job).replicas;
            assert_eq!(replicas, Some(expected), "{spec}, {succeeded} succeeded");
        };
        check(&json!({"parallelism": 1, "completions": 1}), 0, 1);
        check(&json!({"parallelism": 10, "completions": 100}), 0, 10);
        check(&json!({"parallelism": 10, "completions": 100}), 97, 3);
        check(&json!({"parallelism": 10, "completions": 5}), 0, 5);
        check(&json!({"parallelism": 10, "completions": 5}), 6, 0);
        check(&json!({"parallelism": 10}), 3, 10);
        check(&json!({"parallelism": 10, "suspend": true}), 0, 0);
    }

    #[test]
    fn labels_are_kept_without_a_well_known_owner() {
        let check = |owner: &str, expected: &str| {
            let owner = json!([{"apiVersion": "v1", "kind": owner, "name": "o", "uid": "u", "controller": true}]);
            let metadata = json!({"namespace": "shop", "name": "web", "labels": {"tier": "a"}, "ownerReferences": owner});
            let object = json!({"metadata": metadata, "spec": {"selector": {}, "template": {}}});
            let object: ReplicaSet = serde_json::from_value(object).expect("a ReplicaSet");
            assert_eq!(Controller::from(object).labels.to_string(), expected);
        };
        check("Deployment", "");
        check("Rollout", "tier=a");
    }

    #[test]
    fn expressions_are_part_of_the_selector() {
        let selector =
            json!({"matchExpressions": [{"key": "tier", "operator": "In", "values": ["a", "b"]}]});
        let expected = "tier in (a,b)".parse().expect("a selector");
        let spec = json!({"selector": selector, "template": {}});
        check::<Deployment>(&spec, &expected, Some(1));
    }

    #[test]
    fn absent_labels_select_nothing() {
        check::<ReplicationController>(&json!({}), &Selector::nothing(), Some(1));
        let schedule = json!({"schedule": "* * * * *", "jobTemplate": {"spec": {"template": {}}}});
        check::<CronJob>(&schedule, &Selector::nothing(), None);
        check::<Job>(&json!({"template": {}}), &Selector::nothing(), None);
    }

    fn check_owner(controllers: &[Option<bool>], expected: Option<&str>) {
        let reference = |(index, controller): (usize, &Option<bool>)| OwnerReference {
            name: index.to_string(),
            controller: *controller,
            ..OwnerReference::default()
        };
        let references = controllers.iter().enumerate().map(reference).collect();
        let owner = Owner::controller(Some(references)).map(|owner| owner.name);
        assert_eq!(owner.as_deref(), expected, "{controllers:?}");
    }

    #[test]
    fn an_owner_without_the_controller_flag_does_not_count() {
        check_owner(&[], None);
        check_owner(&[None, Some(false)], None);
        check_owner(&[None, Some(false), Some(true), Some(true)], Some("2"));
        assert_eq!(Owner::controller(None), None);
    }

    fn list(value: &Value) -> ResourceList {
        serde_json::from_value(value.clone()).expect("a list")
    }

    fn check_template(resources: &Value, requests: &Value, limits: &Value) {
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
        check_template(
            &json!({"requests": {"cpu": "50m"}, "limits": {"memory": "1Gi"}}),
            &json!({"cpu": "50m", "memory": "1Gi"}),
            &json!({"cpu": "1", "memory": "1Gi"}),
        );
        check_template(
            &json!({"limits": {"cpu": "2"}}),
            &json!({"cpu": "2", "memory": "64Mi"}),
            &json!({"cpu": "2"}),
        );
        check_template(
            &Value::Null,
            &json!({"cpu": "200m", "memory": "64Mi"}),
            &json!({"cpu": "1"}),
        );
    }
}
