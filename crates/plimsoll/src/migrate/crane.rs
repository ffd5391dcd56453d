//! From Crane: EHPAs, predictions and Substitutes are used as they are; kinds without a counterpart
//! are named.

use std::collections::BTreeSet;

use api::ehpa;
use kube::ResourceExt as _;
use kube::api::DynamicObject;
use metric_routes::api_service::API_SERVICES;
use serde_json::Value;

use super::facts::{API_SERVICE, Facts, Kind, Source, installer, kind};
use super::plan::{Migration, Verdict, install, uninstall, verify, without_api_services};
use crate::json::{items, text, texts};

const EHPA: Kind = kind(
    "EffectiveHorizontalPodAutoscaler",
    "effectivehorizontalpodautoscalers.autoscaling.crane.io/v1alpha1",
);
const EVPA: Kind = kind(
    "EffectiveVerticalPodAutoscaler",
    "effectiveverticalpodautoscalers.autoscaling.crane.io/v1alpha1",
);
const MUTATING: Kind = kind(
    "MutatingWebhookConfiguration",
    "mutatingwebhookconfigurations.admissionregistration.k8s.io/v1",
);
const VALIDATING: Kind = kind(
    "ValidatingWebhookConfiguration",
    "validatingwebhookconfigurations.admissionregistration.k8s.io/v1",
);
const RULE: Kind = kind(
    "RecommendationRule",
    "recommendationrules.analysis.crane.io/v1alpha1",
);
const ANALYTICS: Kind = kind("Analytics", "analytics.analysis.crane.io/v1alpha1");
const NODE_QOS: Kind = kind("NodeQOS", "nodeqoss.ensurance.crane.io/v1alpha1");
const POD_QOS: Kind = kind("PodQOS", "podqoss.ensurance.crane.io/v1alpha1");
const RECOMMENDATIONS: &str = "`plimsoll scan --replicas` gives the same recommendations";
const AGENT: &str = "Crane's agent on the nodes has no counterpart";
/// Kinds without a counterpart, and the replacement.
const LEFT: [(Kind, &str); 4] = [
    (RULE, RECOMMENDATIONS),
    (ANALYTICS, RECOMMENDATIONS),
    (NODE_QOS, AGENT),
    (POD_QOS, AGENT),
];
pub(crate) const SOURCE: Source = Source {
    product: "Crane",
    images: &["craned", "metric-adapter"],
    kinds: &[
        EHPA,
        EVPA,
        RULE,
        ANALYTICS,
        NODE_QOS,
        POD_QOS,
        MUTATING,
        VALIDATING,
        API_SERVICE,
    ],
    definitions: &[
        "effectivehorizontalpodautoscalers.autoscaling.crane.io",
        "substitutes.autoscaling.crane.io",
        "timeseriespredictions.prediction.crane.io",
        // Without a counterpart: their objects stay nevertheless.
        "effectiveverticalpodautoscalers.autoscaling.crane.io",
        "analytics.analysis.crane.io",
        "recommendationrules.analysis.crane.io",
        "recommendations.analysis.crane.io",
        "configsets.analysis.crane.io",
        "nodeqoss.ensurance.crane.io",
        "podqoss.ensurance.crane.io",
        "avoidanceactions.ensurance.crane.io",
        "clusternodepredictions.prediction.crane.io",
    ],
    reads_config_maps: false,
};

pub(crate) fn migration(facts: &Facts) -> Migration {
    let mut migration = Migration::default();
    migration.deployments("Crane", &facts.deployments);
    for definition in &facts.definitions {
        if let Some(installer) = installer(definition) {
            let reason = format!(
                "belongs to {installer}: without a step of the plan, removing that would delete all objects"
            );
            let kind = "CustomResourceDefinition";
            migration.item(kind, definition, Verdict::Changed, reason);
        }
    }
    let definition = api::crd::effective_horizontal_pod_autoscaler();
    for object in facts.of(&EHPA) {
        migration.lacking_fields(EHPA.name, object, &definition);
        let (verdict, reason) = judge_ehpa(object);
        migration.item(EHPA.name, object, verdict, reason);
    }
    for object in facts.of(&EVPA) {
        let reason =
            "has no counterpart: write a VerticalPodAutoscaler or a SizingPolicy (docs/sizing.md)";
        migration.item(EVPA.name, object, Verdict::Manual, reason);
    }
    for (kind, reason) in &LEFT {
        for object in facts.of(kind) {
            migration.item(kind.name, object, Verdict::Manual, *reason);
        }
    }
    if facts.runs_own("recommender") {
        for deployment in facts.running("craned") {
            let reason = "the recommender of the suite runs too, and both write the HPAs of the EHPAs: scale one of them to 0 now";
            migration.item("Deployment", deployment, Verdict::Blocked, reason);
        }
    }
    steps(facts, &mut migration);
    migration
}

fn judge_ehpa(object: &DynamicObject) -> (Verdict, String) {
    let value = serde_json::to_value(object).unwrap_or_default();
    if let Err(error) = ehpa::parse(value) {
        return (Verdict::Blocked, format!("is not accepted: {error}"));
    }
    let spec = &object.data["spec"];
    let is_local = |cron: &&Value| matches!(text(&cron["timezone"]), "" | "Local");
    let local = items(&spec["crons"]).filter(is_local).count();
    if local > 0 {
        let reason = format!(
            "{local} schedules without timezone: Crane uses the zone of its container (TZ, Asia/Shanghai in its manifests), the adapter UTC; set timezone before"
        );
        return (Verdict::Manual, reason);
    }
    if spec["prediction"].is_object() {
        let reason = "its forecasts come from our own method; the annotation plimsoll.dev/forecast: crane keeps Crane's";
        return (Verdict::Kept, reason.to_owned());
    }
    (Verdict::Kept, "works as before".to_owned())
}

fn is_cranes(configuration: &DynamicObject, facts: &Facts) -> bool {
    items(&configuration.data["webhooks"]).any(|webhook| {
        let [namespace, name] = texts(&webhook["clientConfig"]["service"], ["namespace", "name"]);
        name.contains("crane") && facts.is_in(namespace)
    })
}

fn steps(facts: &Facts, migration: &mut Migration) {
    let installed = [&EHPA, &EVPA]
        .into_iter()
        .chain(LEFT.iter().map(|(kind, _)| kind))
        .filter(|kind| facts.objects.contains_key(kind.name))
        .map(|kind| kind.resource().to_owned())
        .chain(facts.definitions.iter().map(kube::ResourceExt::name_any));
    let installed: BTreeSet<String> = installed.collect();
    if !installed.is_empty() {
        migration.step(
            "Save the objects",
            "No step deletes any of them; this is the copy to restore from.",
            [format!(
                "kubectl get {},hpa -A -o yaml > crane-objects.yaml",
                installed.into_iter().collect::<Vec<_>>().join(",")
            )],
            [],
        );
    }
    migration.keep(&facts.definitions);
    let (mut commands, mut undo) = (Vec::new(), Vec::new());
    for (kind, short) in [
        (&MUTATING, "mutatingwebhookconfiguration"),
        (&VALIDATING, "validatingwebhookconfiguration"),
    ] {
        for object in facts.of(kind).iter().filter(|one| is_cranes(one, facts)) {
            let name = object.name_any();
            migration.item(kind.name, object, Verdict::Changed, "is to be deleted");
            commands.push(format!(
                "kubectl get {short} {name} -o yaml > {name}.{short}.yaml"
            ));
            commands.push(format!("kubectl delete {short} {name}"));
            undo.push(format!("kubectl create -f {name}.{short}.yaml"));
        }
    }
    migration.step(
        "Remove Crane's webhooks",
        "Their failure policy is Fail: while craned is away, no EHPA could be written.",
        commands,
        undo,
    );
    let is_cranes = |name: &&str| {
        let owner = facts.owner(name);
        owner.is_some_and(|owner| facts.is_in(&owner.namespace))
    };
    let services = API_SERVICES.into_iter().filter(is_cranes);
    let services: Vec<String> = services.map(str::to_owned).collect();
    migration.save_api_services(&services);
    migration.flags(
        &facts.deployments,
        "A flag that a program here refuses ends it with the flag's name; the book of `make docs` says what takes its place.",
    );
    migration.stop(
        "Stop craned",
        "HPAs keep their replicas: a forecast that is missing or old never scales down. metric-adapter runs until the adapter serves its metrics.",
        facts.running("craned"),
    );
    let without = without_api_services(&services);
    let arguments = format!(" --set prometheus.address=ADDRESS{without}");
    migration.step(
        "Install the suite",
        "ADDRESS is that of Prometheus: forecasts need the history. An overlay has the components horizontal and prometheus, and none of the metrics APIs yet.",
        [
            install(facts, "horizontal", &arguments),
            verify(),
            "kubectl get ehpa,hpa -A".to_owned(),
        ],
        [uninstall(facts)],
    );
    migration.move_api_services(facts, &services);
    migration.stop(
        "Stop metric-adapter",
        "The adapter serves the same metrics.",
        facts.running("metric-adapter"),
    );
    migration.delete_release_records(facts.deployments.iter().chain(&facts.definitions));
    migration.notes.push(
        "Crane's agents on the nodes (a DaemonSet) are not part of the plan: nothing here uses them."
            .to_owned(),
    );
}
