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
fn only_a_release_may_write() {
    for name in ["ci.yml", "release.yml"] {
        let text = read(&Path::new(".github/workflows").join(name));
        let writes = text.lines().filter(|line| line.ends_with(": write"));
        assert_eq!(writes.count() > 0, name == "release.yml", "{name}");
    }
}
