//! Workflows of GitHub: actions are pinned by commit, and each job has the rights that it needs.

use std::path::Path;

use serde_json::Value;

use crate::repository::{files, read};

/// Text and content of each workflow.
fn workflows() -> Vec<(String, Value)> {
    let paths = files();
    let workflows = paths
        .iter()
        .filter(|path| path.starts_with(".github/workflows"));
    let load = |path: &std::path::PathBuf| {
        let text = read(path);
        let content = serde_yaml_ng::from_str(&text).expect("a workflow is YAML");
        (text, content)
    };
    workflows.map(load).collect()
}

#[test]
fn actions_are_pinned_by_commit_with_their_version() {
    let mut actions = 0;
    for (text, _) in workflows() {
        let uses = text.lines().filter_map(|line| line.split_once("uses: "));
        for (_, action) in uses {
            actions += 1;
            let (_, pin) = action.split_once('@').expect("an action has a version");
            let (commit, version) = pin.split_once(" # v").expect(action);
            let is_commit =
                commit.len() == 40 && commit.chars().all(|letter| letter.is_ascii_hexdigit());
            assert!(is_commit, "{action} is not pinned by commit");
            assert_eq!(version.split('.').count(), 3, "{action}");
        }
    }
    assert!(actions > 0);
}

#[test]
fn each_job_has_its_own_rights_and_a_time_limit() {
    for (_, workflow) in workflows() {
        assert_eq!(workflow["permissions"], serde_json::json!({}));
        let jobs = workflow["jobs"].as_object().expect("a workflow has jobs");
        for (name, job) in jobs {
            let rights = job["permissions"].as_object().expect(name);
            assert!(rights.contains_key("contents"), "{name}: {rights:?}");
            assert!(job["timeout-minutes"].is_u64(), "{name} has no time limit");
        }
    }
}

#[test]
fn what_needs_user_namespaces_runs_where_they_are_allowed() {
    let needs_them = |path: &&std::path::PathBuf| {
        path.extension().is_some_and(|it| it == "sh")
            && read(path).contains("unshare --map-root-user")
    };
    let makefile = read(Path::new("Makefile"));
    let paths = files();
    let targets: Vec<&str> = paths
        .iter()
        .filter(needs_them)
        .filter_map(|script| {
            let (before, _) = makefile.split_once(&format!("\n\t{}\n", script.display()))?;
            before.lines().last()?.split(':').next()
        })
        .collect();
    assert!(!targets.is_empty());
    for (_, workflow) in workflows() {
        for (name, job) in workflow["jobs"].as_object().expect("a workflow has jobs") {
            let steps = job["steps"].as_array().expect("a job has steps");
            let mut are_allowed = false;
            for run in steps.iter().filter_map(|step| step["run"].as_str()) {
                are_allowed |= run.contains("kernel.apparmor_restrict_unprivileged_userns=0");
                let is_one = |target: &&str| run.ends_with(&format!("make {target}"));
                assert!(are_allowed || !targets.iter().any(is_one), "{name}: {run}");
            }
        }
    }
}

#[test]
fn only_the_push_of_a_tag_publishes() {
    for (_, workflow) in workflows() {
        for (name, job) in workflow["jobs"].as_object().expect("a workflow has jobs") {
            let rights = job["permissions"].as_object().expect(name);
            if rights.values().any(|right| right == "write") {
                assert_eq!(job["if"], "github.event_name == 'push'", "{name}");
            }
        }
    }
}

#[test]
fn only_a_release_may_write() {
    for name in ["ci.yml", "release.yml"] {
        let text = read(&Path::new(".github/workflows").join(name));
        let writes = text.lines().filter(|line| line.ends_with(": write"));
        assert_eq!(writes.count() > 0, name == "release.yml", "{name}");
    }
}
