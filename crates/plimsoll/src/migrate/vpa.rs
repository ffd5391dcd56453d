//! From upstream's VPA: its objects and checkpoints are used as they are, only the programs change.

use std::collections::BTreeMap;

use kube::ResourceExt as _;
use kube::api::DynamicObject;

use super::facts::{Facts, Source, VPA, installer};
use super::plan::{Migration, Verdict, install, uninstall, verify};
use crate::json::{items, text, texts};

const DEFINITIONS: [&str; 2] = [
    "verticalpodautoscalers.autoscaling.k8s.io",
    "verticalpodautoscalercheckpoints.autoscaling.k8s.io",
];
pub(crate) const SOURCE: Source = Source {
    product: "upstream's VPA",
    images: &[RECOMMENDER, UPDATER, WEBHOOK],
    kinds: &[VPA],
    definitions: &DEFINITIONS,
    reads_config_maps: false,
};
const RECOMMENDER: &str = "vpa-recommender";
const UPDATER: &str = "vpa-updater";
const WEBHOOK: &str = "vpa-admission-controller";
/// Label of the VPA objects that Goldilocks creates.
pub(super) const GOLDILOCKS: (&str, &str) = ("source", "goldilocks");

pub(crate) fn migration(facts: &Facts) -> Migration {
    let mut migration = Migration::default();
    migration.deployments("upstream's VPA", &facts.deployments);
    definitions(facts, &mut migration);
    objects(facts, &mut migration);
    both_run(facts, &mut migration);
    steps(facts, &mut migration);
    migration
}

fn definitions(facts: &Facts, migration: &mut Migration) {
    let kind = "CustomResourceDefinition";
    for definition in &facts.definitions {
        let stored = items(&definition.data["status"]["storedVersions"]).map(text);
        let old: Vec<&str> = stored.filter(|version| *version != "v1").collect();
        if !old.is_empty() {
            let reason = format!(
                "objects may be stored as {}, which the new definition lacks: rewrite them \
                 (kubectl get vpa -A -o json | kubectl replace -f -), then remove it from status.storedVersions",
                old.join(", ")
            );
            migration.item(kind, definition, Verdict::Blocked, reason);
        } else if let Some(installer) = installer(definition) {
            let reason = format!(
                "belongs to {installer}: without a step of the plan, removing that would delete all VPA objects"
            );
            migration.item(kind, definition, Verdict::Changed, reason);
        } else {
            migration.item(kind, definition, Verdict::Kept, "the fields are the same");
        }
    }
}

fn objects(facts: &Facts, migration: &mut Migration) {
    let vpas = facts.of(&VPA);
    let mut modes: BTreeMap<&str, usize> = BTreeMap::new();
    let mut by_target: BTreeMap<(String, &str, &str), Vec<&DynamicObject>> = BTreeMap::new();
    let mut goldilocks = 0;
    let definition = api::crd::vertical_pod_autoscaler();
    for vpa in vpas {
        let spec = &vpa.data["spec"];
        let mode = spec["updatePolicy"]["updateMode"].as_str();
        *modes.entry(mode.unwrap_or("Recreate")).or_default() += 1;
        let [kind, name] = texts(&spec["targetRef"], ["kind", "name"]);
        let target = (vpa.namespace().unwrap_or_default(), kind, name);
        by_target.entry(target).or_default().push(vpa);
        migration.lacking_fields(VPA.name, vpa, &definition);
        let mut names = items(&spec["recommenders"]).map(|one| text(&one["name"]));
        if let Some(name) = names.find(|name| *name != "default") {
            let reason = format!(
                "its recommender is {name:?}: it stays with that one, or needs a recommender with --recommender-name"
            );
            migration.item(VPA.name, vpa, Verdict::Manual, reason);
        }
        let (label, value) = GOLDILOCKS;
        goldilocks += usize::from(vpa.labels().get(label).is_some_and(|found| found == value));
    }
    for ((_, kind, name), vpas) in by_target.iter().filter(|(_, vpas)| vpas.len() > 1) {
        for vpa in vpas {
            let reason = format!(
                "{} VPA objects target the {kind} {name}: the oldest one counts, delete the others",
                vpas.len()
            );
            migration.item(VPA.name, vpa, Verdict::Manual, reason);
        }
    }
    let modes = modes.iter();
    let modes = modes.map(|(mode, count)| format!("{count} with mode {mode}"));
    if !vpas.is_empty() {
        let count = vpas.len();
        let modes = modes.collect::<Vec<_>>().join(", ");
        migration.notes.push(format!(
            "{count} VPA objects stay as they are, with their checkpoints: {modes}."
        ));
    }
    if goldilocks > 0 {
        migration.notes.push(format!(
            "Goldilocks made {goldilocks} of them; see `plimsoll migrate goldilocks`."
        ));
    }
}

fn both_run(facts: &Facts, migration: &mut Migration) {
    for (image, program) in [
        (RECOMMENDER, "recommender"),
        (UPDATER, "updater"),
        (WEBHOOK, "webhook"),
    ] {
        if facts.runs_own(program) {
            for deployment in facts.running(image) {
                let reason = format!(
                    "the {program} of the suite runs too, and both write the same objects: scale one of them to 0 now"
                );
                migration.item("Deployment", deployment, Verdict::Blocked, reason);
            }
        }
    }
}

fn steps(facts: &Facts, migration: &mut Migration) {
    migration.step(
        "Save the objects",
        "No step deletes any of them; this is the copy to restore from.",
        ["kubectl get vpa,vpacheckpoint -A -o yaml > vpa-objects.yaml".to_owned()],
        [],
    );
    migration.keep(&facts.definitions);
    migration.flags(
        &facts.deployments,
        "Every flag of upstream's programs is accepted by the program of the same task. Add these to the arguments in your overlay, without files of certificates.",
    );
    migration.stop(
        "Stop upstream's updater",
        "Two updaters would evict twice as many pods as the tolerance allows. New pods still get their size.",
        facts.running(UPDATER),
    );
    migration.stop(
        "Stop upstream's recommender",
        "It writes its checkpoints every minute; the next recommender reads them. Recommendations stay in the objects.",
        facts.running(RECOMMENDER),
    );
    migration.step(
        "Install the suite",
        "Recommender and updater begin at once. The webhook leaves the reviews to upstream's while that has an endpoint.",
        [install(facts, "vertical", "")],
        [uninstall(facts)],
    );
    migration.stop(
        "Stop upstream's webhook",
        "The webhook of the suite then replaces the registration vpa-webhook-config with its own within seconds. At its next start upstream's webhook takes the registration back.",
        facts.running(WEBHOOK),
    );
    migration.step(
        "Look at the result",
        "Recommendations continue from the checkpoints: none may jump.",
        [
            verify(),
            "plimsoll status".to_owned(),
            "kubectl get vpa -A".to_owned(),
        ],
        [],
    );
    migration.delete_release_records(facts.deployments.iter().chain(&facts.definitions));
}
