//! From KEDA. External metrics stay with KEDA behind a route; a `ScaledObject` whose triggers are CPU,
//! memory and schedules can become an EHPA.

mod scaled_object;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1::APIService;
use kube::ResourceExt as _;
use kube::api::DynamicObject;
use metric_routes::api_service::{API_SERVICES, EXTERNAL};
use serde::de::DeserializeOwned;

use super::external_metrics::conflicts;
use super::facts::{API_SERVICE, Facts, Kind, Source, kind, name_of};
use super::plan::{Migration, Verdict, apply, install, save_api_services, uninstall, verify};
use crate::installation::ObjectName;

const SCALED_OBJECT: Kind = kind("ScaledObject", "scaledobjects.keda.sh/v1alpha1");
const SCALED_JOB: Kind = kind("ScaledJob", "scaledjobs.keda.sh/v1alpha1");
const CA: &str = "keda-ca";
pub(crate) const SOURCE: Source = Source {
    product: "KEDA",
    images: &["keda", "keda-metrics-apiserver", "keda-admission-webhooks"],
    kinds: &[SCALED_OBJECT, SCALED_JOB, API_SERVICE],
    definitions: &[],
    reads_config_maps: false,
};

pub(crate) fn migration(facts: &Facts) -> Migration {
    let mut migration = Migration::default();
    for deployment in &facts.deployments {
        let reason = "stays: its scalers serve the metrics behind the route";
        migration.item("Deployment", deployment, Verdict::Kept, reason);
    }
    migration.step(
        "Save the objects",
        "They are the way back.",
        [
            "kubectl get scaledobjects,scaledjobs,triggerauthentications -A -o yaml > keda-objects.yaml".to_owned(),
            save_api_services(EXTERNAL, "apiservice.yaml"),
        ],
        [],
    );
    let is_routed = external(facts, &mut migration);
    if !is_routed {
        migration.step(
            "Install the suite",
            "An overlay has the component horizontal and the adapter.",
            [install(facts, "horizontal", ""), verify()],
            [uninstall(facts)],
        );
    }
    for object in facts.of(&SCALED_OBJECT) {
        scaled_object(object, &mut migration);
    }
    for object in facts.of(&SCALED_JOB) {
        let reason = "stays with KEDA, which creates Jobs from events";
        migration.item(SCALED_JOB.name, object, Verdict::Kept, reason);
    }
    migration
}

/// The route to KEDA and the move of the `APIService`. Returns whether they are in the plan.
fn external(facts: &Facts, migration: &mut Migration) -> bool {
    let mut objects = facts.of(&API_SERVICE).iter();
    let present = objects.find(|object| object.name_any() == EXTERNAL);
    let (Some(present), Some(service)) = (present, facts.owner(EXTERNAL)) else {
        migration.notes.push(format!(
            "No Service serves {EXTERNAL}: the adapter may take it at once."
        ));
        return false;
    };
    let of_others = facts.of(&API_SERVICE).iter().filter_map(|object| {
        let name = object.name_any();
        let is_custom = API_SERVICES.contains(&name.as_str()) && name != EXTERNAL;
        let owner = facts.owner(&name)?;
        (is_custom && owner.namespace != facts.system_namespace).then_some((object, owner))
    });
    for (object, owner) in of_others {
        let reason = format!(
            "points at {owner}: migrate that provider first, because `adopt` needs the adapter behind custom.metrics.k8s.io (docs/migrate-from-prometheus-adapter.md)"
        );
        migration.item(API_SERVICE.name, object, Verdict::Manual, reason);
    }
    if service.namespace == facts.system_namespace {
        let reason = format!("points at {service}, the adapter");
        migration.item(API_SERVICE.name, present, Verdict::Kept, reason);
        return false;
    }
    let mut verdict = Verdict::Changed;
    let mut reason = format!("points at {service}, to be moved to the adapter");
    if !facts.is_in(&service.namespace) {
        verdict = Verdict::Manual;
        reason = format!("points at {service}, in a namespace without KEDA: is it its owner?");
    }
    migration.item(API_SERVICE.name, present, verdict, reason);
    let deployments: Vec<Deployment> = facts.deployments.iter().filter_map(typed).collect();
    let against = typed::<APIService>(present)
        .map(|present| conflicts(&present, Some(&deployments)))
        .unwrap_or_default();
    for reason in &against {
        migration.item(API_SERVICE.name, present, Verdict::Manual, reason.clone());
    }
    route(facts, present, &service, &against, migration);
    true
}

/// The object with its type; `None` if the type does not accept it.
fn typed<T: DeserializeOwned>(object: &DynamicObject) -> Option<T> {
    serde_json::from_value(serde_json::to_value(object).ok()?).ok()
}

fn route(
    facts: &Facts,
    present: &DynamicObject,
    service: &ObjectName,
    against: &[String],
    migration: &mut Migration,
) {
    let port = present.data["spec"]["service"]["port"].as_i64();
    let ObjectName { namespace, name } = service;
    let system = &facts.system_namespace;
    let routes = format!(
        "cat > routes.yaml <<'EOF'\nupstreams:\n- name: keda\n  service: {{namespace: {namespace}, name: {name}, port: {}}}\n  caFrom: {{configMap: {{namespace: {system}, name: {CA}}}}}\nEOF",
        port.unwrap_or(443)
    );
    let bundle = present.data["spec"]["caBundle"].as_str();
    let bundle = if bundle.is_some_and(|bundle| !bundle.is_empty()) {
        format!(
            "kubectl get apiservice {EXTERNAL} -o jsonpath='{{.spec.caBundle}}' | base64 -d > keda.crt"
        )
    } else {
        let reason = format!(
            "has no caBundle: save the CA of {service} as keda.crt, because the adapter verifies each provider"
        );
        migration.item(API_SERVICE.name, present, Verdict::Manual, reason);
        "ls keda.crt    # the CA of KEDA's certificate".to_owned()
    };
    migration.step(
        "Write the route to KEDA",
        "The adapter asks KEDA for each metric of a ScaledObject. To follow a new CA of KEDA, name its Secret in caFrom (docs/routes.md).",
        [
            bundle,
            routes,
            "plimsoll routes check routes.yaml".to_owned(),
            format!(
                "kubectl create namespace {system} --dry-run=client -o yaml | kubectl apply -f -"
            ),
            format!(
                "kubectl create configmap {CA} -n {system} --from-file=ca.crt=keda.crt --dry-run=client -o yaml | kubectl apply -f -"
            ),
        ],
        [format!("kubectl delete configmap {CA} -n {system}")],
    );
    migration.step(
        "Install the suite without its APIService of external metrics",
        "The chart leaves the API to KEDA, which still serves all external metrics. An overlay has the component metric-routes, the right to read the ConfigMap with the CA, and a patch that deletes the APIService (docs/routes.md).",
        [
            install(facts, "horizontal", " --set-file adapter.routes=routes.yaml"),
            verify(),
        ],
        [uninstall(facts)],
    );
    let mut reason = "`adopt` waits until each replica of the adapter has loaded the route, and reverts the move unless HPAs get their metrics of KEDA through it.".to_owned();
    let force = if against.is_empty() {
        ""
    } else {
        reason += " It refuses while something would revert the move, see the APIService above. An upgrade of a Helm release does so once: then run `adopt` again. KEDA's operator does so within minutes: give it --enable-apiservice-patching=false first.";
        " --force"
    };
    migration.step(
        "Move the APIService",
        reason,
        [
            "plimsoll migrate adopt --dry-run".to_owned(),
            format!("plimsoll migrate adopt{force}"),
        ],
        ["plimsoll migrate release".to_owned()],
    );
}

/// The HPA that KEDA makes for a `ScaledObject`. The spec may name it.
fn hpa_of(object: &DynamicObject) -> String {
    let config = &object.data["spec"]["advanced"]["horizontalPodAutoscalerConfig"];
    let is_part = |letter: char| letter.is_ascii_alphanumeric() || "-.".contains(letter);
    let named = config["name"].as_str();
    // The name gets into a command.
    let named = named.filter(|name| !name.starts_with('-') && name.chars().all(is_part));
    let named = named.filter(|name| !name.is_empty()).map(str::to_owned);
    named.unwrap_or_else(|| format!("keda-hpa-{}", object.name_any()))
}

fn scaled_object(object: &DynamicObject, migration: &mut Migration) {
    let kind = SCALED_OBJECT.name;
    let name = name_of(object);
    let (manifest, left_out) = match scaled_object::counterpart(object) {
        Ok(counterpart) => counterpart,
        Err(reason) => {
            let reason = format!("stays with KEDA: {reason}");
            return migration.item(kind, object, Verdict::Kept, reason);
        }
    };
    let mut reason = "can become an EHPA; it may as well stay with KEDA".to_owned();
    let mut step = "A paused ScaledObject has no HPA, and the workload keeps its replicas. Add `prediction` to the EHPA for replicas ahead of demand. If all is well after a day, delete the ScaledObject, with restoreToOriginalReplicaCount off.".to_owned();
    if !left_out.is_empty() {
        let left_out = left_out.join(", ");
        reason = format!("{reason}; the EHPA leaves out {left_out}");
        step = format!("{step} The EHPA leaves out {left_out}.");
    }
    migration.item(kind, object, Verdict::Changed, reason);
    let hpa = hpa_of(object);
    let ObjectName { namespace, name } = &name;
    let annotate =
        format!("kubectl annotate scaledobject {name} -n {namespace} autoscaling.keda.sh/paused");
    migration.step(
        format!("Hand over {namespace}/{name}"),
        step,
        [
            format!("{annotate}=true"),
            format!("kubectl wait hpa/{hpa} -n {namespace} --for=delete --timeout=1m"),
            apply(&manifest),
            format!("kubectl wait hpa/ehpa-{name} -n {namespace} --for=create --timeout=1m"),
        ],
        [
            format!("kubectl delete ehpa {name} -n {namespace}"),
            format!("{annotate}-"),
        ],
    );
}
