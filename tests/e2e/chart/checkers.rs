//! The objects of the chart, checked by kubeconform against the schemas of Kubernetes and of our definitions,
//! and by the rules of kube-score, for every mode and many options.

use std::collections::{BTreeSet, HashMap};
use std::fs;
use std::path::Path;
use std::process::Stdio;

use anyhow::{Context as _, Result, ensure};
use e2e::helm::Helm;
use e2e::{MANIFEST_CHECKS, OPENAPI, built};
use serde_json::{Map, Value, json};
use tokio::process::Command;

use super::SAME;

/// Kinds of other projects, whose definitions are not at hand; the API server has those of cert-manager in
/// other tests.
const SKIPPED_KINDS: &str = "Certificate,Issuer,PodMonitor,PrometheusRule";

/// Rules of kube-score that the chart breaks, with the reason.
const EXCEPTIONS: [(&str, &str); 6] = [
    (
        "container-ephemeral-storage-request-and-limit",
        "no program writes to its file system; the extender's cache has a size limit",
    ),
    (
        "container-image-pull-policy",
        "tags and digests of releases do not change",
    ),
    (
        "container-security-context-user-group-id",
        "with global.runAsUser=null the cluster chooses the user",
    ),
    (
        "deployment-has-host-podantiaffinity",
        "topology spread constraints prefer two nodes, and do not prevent scheduling",
    ),
    (
        "deployment-replicas",
        "the sessions of the dashboard are in its memory, so it has one replica",
    ),
    (
        "pod-networkpolicy",
        "networkPolicy.enabled, since a default cannot know where Prometheus is",
    ),
];

/// Options in addition to those with components.
const OPTIONS: &[&[&str]] = &[
    &["certificates.mode=existing", "extender.enabled=true"],
    &["rbac.create=false", "rbac.aggregate=false"],
    &["global.runAsUser=null", "global.nodeSelector.disk=ssd"],
    &[
        "webhook.pod.hostNetwork=true",
        "adapter.pod.hostNetwork=true",
    ],
    &["networkPolicy.enabled=true", "extender.enabled=true"],
    &[
        "dashboard.enabled=true",
        "dashboard.host=a.example.com",
        "dashboard.tlsSecret=tls",
        "dashboard.publicNamespaces[0]=shop",
    ],
    &["webhook.apiServerNetworks={10.0.0.0/24}"],
    &[
        "metrics.podMonitor.enabled=true",
        "metrics.prometheusRule.enabled=true",
        "metrics.grafanaDashboards.enabled=true",
    ],
    &[
        "prometheus.address=http://prometheus",
        "prometheus.secretName=read",
        "prometheus.tokenKey=token",
        "adapter.rules=rules: []",
        "adapter.routes=routes: []",
    ],
    &[
        "recommender.sizingPolicies=true",
        r#"policies=[{"name": "all", "spec": {}}, {"name": "web", "namespace": "shop", "spec": {}}]"#,
    ],
    &["mode=vertical", "watchNamespace=shop"],
];

/// Every mode, and mode `all` with every option.
fn options() -> Vec<Vec<&'static str>> {
    let modes = [
        "mode=recommend",
        "mode=vertical",
        "mode=horizontal",
        "mode=all",
    ];
    let modes = modes
        .map(|mode| vec![mode, "crds.install=true"])
        .into_iter();
    let with_components = SAME.iter().map(|(values, _)| *values).skip(1);
    let options = with_components.chain(OPTIONS.iter().copied());
    modes
        .chain(options.map(|values| [&["mode=all"], values].concat()))
        .collect()
}

/// Refuses fields that a schema does not have, and follows the types that `OpenAPI` cannot name.
fn make_strict(schema: &mut Value) {
    match schema {
        Value::Object(fields) => {
            let is_open = fields.contains_key("additionalProperties")
                || fields.contains_key("x-kubernetes-preserve-unknown-fields");
            if fields.get("properties").is_some_and(Value::is_object) && !is_open {
                fields.insert("additionalProperties".to_owned(), json!(false));
            }
            if fields.get("format") == Some(&json!("int-or-string")) {
                fields.insert("type".to_owned(), json!(["integer", "string"]));
            }
            fields.values_mut().for_each(make_strict);
        }
        Value::Array(items) => items.iter_mut().for_each(make_strict),
        _ => {}
    }
}

/// Names of the definitions to which a schema refers, and those to which they refer.
fn referred(schema: &Value, definitions: &Map<String, Value>, found: &mut Map<String, Value>) {
    match schema {
        Value::Object(fields) => {
            let name = fields.get("$ref").and_then(Value::as_str);
            let name = name.and_then(|name| name.strip_prefix("#/definitions/"));
            if let Some((name, definition)) = name.and_then(|name| definitions.get_key_value(name))
                && !found.contains_key(name)
            {
                found.insert(name.clone(), definition.clone());
                referred(definition, definitions, found);
            }
            let fields = fields.values();
            fields.for_each(|field| referred(field, definitions, found));
        }
        Value::Array(items) => items
            .iter()
            .for_each(|item| referred(item, definitions, found)),
        _ => {}
    }
}

/// Group, version and kind in the form of kubeconform's name of the file with their schema.
fn file_name(group: &str, version: &str, kind: &str) -> String {
    let group = group.split('.').next().unwrap_or_default();
    let group = if group.is_empty() {
        String::new()
    } else {
        format!("-{group}")
    };
    format!("{}{group}-{version}.json", kind.to_lowercase())
}

/// Writes the schemas of these kinds of Kubernetes, and of all kinds of our definitions, into a folder.
fn write_schemas(openapi: &Path, kinds: &BTreeSet<String>, folder: &Path) -> Result<()> {
    let mut document: Value = serde_json::from_slice(&fs::read(openapi)?)?;
    make_strict(&mut document["definitions"]);
    let quantity = "io.k8s.apimachinery.pkg.api.resource.Quantity";
    document["definitions"][quantity]["type"] = json!(["string", "number"]);
    let definitions = document["definitions"].as_object().context("definitions")?;
    let write = |name: String, schema: &Value| fs::write(folder.join(name), schema.to_string());
    for definition in definitions.values() {
        let of = definition["x-kubernetes-group-version-kind"].as_array();
        for of in of.into_iter().flatten() {
            let [group, version, kind] = ["group", "version", "kind"].map(|field| &of[field]);
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            let (group, version, kind) = (text(group), text(version), text(kind));
            if kinds.contains(&kind) {
                let mut used = Map::new();
                referred(definition, definitions, &mut used);
                let mut schema = definition.clone();
                schema["definitions"] = Value::Object(used);
                write(file_name(&group, &version, &kind), &schema)?;
            }
        }
    }
    for definition in api::crd::all() {
        let spec = serde_json::to_value(definition.spec)?;
        for version in spec["versions"].as_array().into_iter().flatten() {
            let mut schema = version["schema"]["openAPIV3Schema"].clone();
            make_strict(&mut schema);
            schema["properties"]["metadata"] = json!({"type": "object"});
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            let (group, kind) = (text(&spec["group"]), text(&spec["names"]["kind"]));
            write(file_name(&group, &text(&version["name"]), &kind), &schema)?;
        }
    }
    Ok(())
}

/// Runs a checker over a file, and returns what it prints in JSON. Its exit code says no more.
async fn check(checker: &Path, arguments: &[&str], file: &Path) -> Result<Value> {
    let mut command = Command::new(checker);
    command.args(arguments).arg(file).stdin(Stdio::null());
    let output = command.kill_on_drop(true).output().await?;
    serde_json::from_slice(&output.stdout).with_context(|| format!("{arguments:?}: {output:?}"))
}

/// The rendered objects of all options, each in a file, with their kinds.
async fn render(folder: &Path) -> Result<(HashMap<String, std::path::PathBuf>, BTreeSet<String>)> {
    let helm = Helm::find().await?;
    let (mut files, mut kinds) = (HashMap::new(), BTreeSet::new());
    for (index, values) in options().into_iter().enumerate() {
        let text = helm.template(&values).await?;
        for object in super::objects(&text)?.into_values() {
            kinds.extend(object["kind"].as_str().map(str::to_owned));
        }
        let file = folder.join(format!("{index}.yaml"));
        fs::write(&file, text)?;
        files.insert(values.join(" "), file);
    }
    Ok((files, kinds))
}

#[tokio::test]
async fn kubeconform_and_kube_score_find_nothing_in_any_mode_and_option() -> Result<()> {
    let checkers = built(&MANIFEST_CHECKS).await?.join("bin");
    let openapi = built(&OPENAPI).await?.join("files/swagger.json");
    let folder = tempfile::tempdir()?;
    let (files, kinds) = render(folder.path()).await?;
    ensure!(files.len() > 15, "{files:?}");
    let schemas = folder.path().join("schemas");
    fs::create_dir(&schemas)?;
    write_schemas(&openapi, &kinds, &schemas)?;
    let location = schemas.join("{{.ResourceKind}}{{.KindSuffix}}.json");
    let location = location.to_str().context("the path is text")?;
    let conform = [
        "-output=json",
        "-strict",
        "-summary",
        "-skip",
        SKIPPED_KINDS,
    ];
    let conform = [&conform[..], &["-schema-location", location]].concat();
    let mut broken = BTreeSet::new();
    for (values, file) in &files {
        let found = check(&checkers.join("kubeconform"), &conform, file).await?;
        ensure!(found["resources"] == json!([]), "{values}: {found:#}");
        ensure!(
            found["summary"]["valid"].as_u64() > Some(10),
            "{values}: {found:#}"
        );
        let score = [
            "score",
            "--output-format=json",
            "--ignore-container-cpu-limit",
        ];
        let found = check(&checkers.join("kube-score"), &score, file).await?;
        for object in found.as_array().context("a list of objects")? {
            for rule in object["checks"].as_array().into_iter().flatten() {
                // 10 is free of faults.
                if rule["skipped"] == false && rule["grade"].as_u64() < Some(10) {
                    let id = rule["check"]["id"].as_str().unwrap_or_default();
                    let is_declared = EXCEPTIONS.iter().any(|(name, _)| *name == id);
                    ensure!(is_declared, "{values}: {}: {rule:#}", object["object_name"]);
                    broken.insert(id.to_owned());
                }
            }
        }
    }
    let declared: BTreeSet<_> = EXCEPTIONS.map(|(id, _)| id.to_owned()).into();
    assert_eq!(broken, declared, "each exception is needed");
    Ok(())
}
