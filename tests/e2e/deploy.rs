//! The manifests of `deploy/`: the API server accepts them, and they grant each program exactly its
//! own rights.

mod combinations;
mod manifests;
mod tables;

use std::collections::BTreeSet;
use std::fs;

use anyhow::{Context as _, Result, ensure};
use e2e::manifests::{objects_in, rules_of};

pub(crate) use combinations::Combination;
use manifests::{base, binding, rights, rules, rules_in};
use tables::{COMPONENTS, OPTIONAL, RIGHTS, expand, sections};

#[test]
fn each_component_brings_the_rights_that_it_needs_and_nothing_else() -> Result<()> {
    for entry in fs::read_dir(e2e::repository().join("deploy/components"))? {
        let folder = entry?.path();
        let mut objects = Vec::new();
        for file in fs::read_dir(&folder)? {
            let path = file?.path();
            if path
                .extension()
                .is_some_and(|extension| extension == "yaml")
            {
                objects.extend(objects_in(&path)?);
            }
        }
        let name = folder
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        let mut components = sections(COMPONENTS).into_iter();
        let (_, lines) = components
            .find(|(known, _)| *known == name)
            .unwrap_or_default();
        let (bound, expected): (Vec<&str>, Vec<&str>) =
            lines.iter().partition(|line| line.starts_with("-> "));
        assert_eq!(rights(&rules_of(&objects)?), expand(&expected)?, "{name}");
        let bindings: BTreeSet<String> = objects.iter().filter_map(binding).collect();
        let found = bindings.iter().map(|binding| format!("-> {binding}"));
        assert!(found.eq(bound), "{name}: {bindings:?}");
    }
    // The role of clients that read metrics from the component.
    let reader = rights(&rules_in("adapter/readers.yaml")?);
    let expected = [
        "get custom.metrics.k8s.io/*",
        "list external.metrics.k8s.io/*",
    ];
    assert_eq!(reader, expected.map(str::to_owned).into());
    Ok(())
}

#[test]
fn each_program_has_the_rights_of_the_table_and_no_others() -> Result<()> {
    for (program, expected) in sections(RIGHTS) {
        assert_eq!(rights(&rules(program)?), expand(&expected)?, "{program}");
    }
    Ok(())
}

#[test]
fn the_recommender_has_no_right_to_what_only_its_components_use() -> Result<()> {
    for right in rights(&rules("recommender")?) {
        ensure!(
            !OPTIONAL.iter().any(|optional| right.contains(optional)),
            "{right}"
        );
    }
    Ok(())
}

#[test]
fn the_right_to_scale_everything_comes_with_the_policy_that_limits_its_use() -> Result<()> {
    let deploy = e2e::repository().join("deploy");
    let mut open = vec![deploy.clone()];
    let mut granted = Vec::new();
    while let Some(path) = open.pop() {
        // Links lead to the files in the chart.
        if path.ends_with("chart") || path.ends_with("images") {
            continue;
        }
        if path.is_dir() {
            for entry in fs::read_dir(&path)? {
                open.push(entry?.path());
            }
        } else if rights(&rules_of(&objects_in(&path)?)?).contains("patch */*/scale") {
            granted.push(path);
        }
    }
    let component = deploy.join("components/specific-replicas");
    assert_eq!(granted, [component.join("rbac.yaml")]);
    let kustomization = objects_in(&component.join("kustomization.yaml"))?;
    assert_eq!(
        kustomization[0]["resources"],
        serde_json::json!(["admission-policy.yaml", "rbac.yaml"])
    );
    let kinds: Vec<_> = objects_in(&component.join("admission-policy.yaml"))?;
    assert_eq!(kinds[0]["spec"]["failurePolicy"], "Fail");
    assert_eq!(kinds[1]["spec"]["policyName"], kinds[0]["metadata"]["name"]);
    assert_eq!(
        kinds[1]["spec"]["validationActions"],
        serde_json::json!(["Deny"])
    );
    Ok(())
}

#[test]
fn a_reader_of_the_feed_may_see_who_leads_and_nothing_else() -> Result<()> {
    let rights = rights(&rules_in("recommender/feed-reader.yaml")?);
    let expected = ["list", "watch"]
        .map(|verb| format!("{verb} coordination.k8s.io/leases [vpa-recommender-lease]"));
    assert_eq!(rights, expected.into());
    Ok(())
}

#[test]
fn each_program_with_rights_has_a_line_in_the_table() -> Result<()> {
    for entry in fs::read_dir(base())? {
        let path = entry?.path();
        let program = path
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        let known = RIGHTS.lines().any(|line| line == program);
        ensure!(
            known || !path.join("rbac.yaml").exists(),
            "{program} has rights but no line in RIGHTS"
        );
    }
    Ok(())
}

#[test]
fn the_recommender_may_read_the_rules_and_no_other_config_map() -> Result<()> {
    let objects = objects_in(&e2e::repository().join("deploy/components/rules/rbac.yaml"))?;
    let objects: Vec<_> = objects
        .into_iter()
        .filter(|object| object["kind"] == "Role")
        .collect();
    let rules = rules_of(&objects)?;
    let ([role], [rights]) = (objects.as_slice(), rules.as_slice()) else {
        anyhow::bail!("{objects:?}")
    };
    assert_eq!(role["metadata"]["namespace"], "plimsoll-system");
    assert_eq!(rights.resources, Some(vec!["configmaps".to_owned()]));
    assert_eq!(
        rights.resource_names,
        Some(vec!["plimsoll-adapter-rules".to_owned()])
    );
    Ok(())
}

#[test]
fn the_recommender_may_read_the_status_of_cluster_autoscaler_and_no_other_config_map() -> Result<()>
{
    let file = e2e::repository().join("deploy/components/node-capacity/rbac.yaml");
    for object in objects_in(&file)? {
        for rule in rules_of(std::slice::from_ref(&object))? {
            if rule.resources.iter().flatten().any(|it| it == "configmaps") {
                assert_eq!(object["metadata"]["namespace"], "kube-system");
                let name = api::cluster_autoscaler::STATUS_NAME.to_owned();
                assert_eq!(rule.resource_names, Some(vec![name]));
            }
        }
    }
    Ok(())
}

#[test]
fn no_manifest_lets_the_api_server_skip_the_verification_of_certificates() -> Result<()> {
    let mut open = vec![e2e::repository().join("deploy")];
    while let Some(path) = open.pop() {
        if path.is_dir() {
            for entry in fs::read_dir(&path)? {
                open.push(entry?.path());
            }
        } else {
            ensure!(
                !fs::read_to_string(&path)?.contains("insecureSkipTLSVerify"),
                "{}",
                path.display()
            );
        }
    }
    Ok(())
}

#[test]
fn the_network_policy_of_the_webhook_names_no_address_until_it_is_patched() -> Result<()> {
    let file =
        e2e::repository().join("deploy/components/webhook-network-policy/network-policy.yaml");
    let policy = &objects_in(&file)?[0];
    let cidr = policy["spec"]["ingress"][0]["from"][0]["ipBlock"]["cidr"]
        .as_str()
        .context("a placeholder")?;
    // The API server refuses what is no network.
    ensure!(!cidr.contains(['/', '.', ':']), "{cidr}");
    Ok(())
}

#[test]
fn services_set_no_variables_in_our_pods() -> Result<()> {
    for file in [
        "base/adapter",
        "base/recommender/workload",
        "base/updater",
        "base/webhook",
        "components/extender",
    ] {
        let folder = e2e::repository().join("deploy").join(file);
        let objects = objects_in(&folder.join("deployment.yaml"))?;
        let [deployment] = &objects[..] else {
            anyhow::bail!("{file} has {} objects", objects.len())
        };
        ensure!(
            deployment["spec"]["template"]["spec"]["enableServiceLinks"] == false,
            "{file}"
        );
    }
    Ok(())
}

#[test]
fn both_programs_read_the_address_of_prometheus_from_one_config_map() -> Result<()> {
    let mut addresses = 0;
    for component in ["prometheus", "rules"] {
        let folder = e2e::repository().join("deploy/components").join(component);
        let text = fs::read_to_string(folder.join("kustomization.yaml"))?;
        addresses += text.matches("      - address=http").count();
        ensure!(text.contains("name: plimsoll-prometheus\n"), "{component}");
    }
    assert_eq!(addresses, 1);
    Ok(())
}

#[test]
fn rebalancing_reads_the_load_from_the_extenders_service() -> Result<()> {
    let components = e2e::repository().join("deploy/components");
    let service = &objects_in(&components.join("extender/service.yaml"))?[0];
    let ports = service["spec"]["ports"].as_array().context("ports")?;
    let port = ports.iter().find(|port| port["name"] == "load-watcher");
    let port = &port.context("no port of load-watcher")?["port"];
    let metadata = &service["metadata"];
    let [name, namespace] = ["name", "namespace"].map(|field| metadata[field].as_str());
    let host = format!(
        "{}.{}",
        name.context("name")?,
        namespace.context("namespace")?
    );
    let field = format!("\"loadWatcherAddress\":\"http://{host}.svc:{port}\"");
    let component = fs::read_to_string(components.join("rebalancing/kustomization.yaml"))?;
    ensure!(component.contains(&field), "{field}");
    Ok(())
}

#[test]
fn no_program_may_do_everything() -> Result<()> {
    for (program, _) in sections(RIGHTS) {
        for rule in rules(program)? {
            let everything = |list: &[String]| list.iter().any(|item| item == "*");
            ensure!(!everything(&rule.verbs), "{program}: {rule:?}");
            ensure!(
                !everything(rule.resources.as_deref().unwrap_or_default()),
                "{program}: {rule:?}"
            );
        }
    }
    Ok(())
}
