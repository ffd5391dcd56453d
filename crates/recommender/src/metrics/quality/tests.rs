//! Metrics after one sample, one OOM kill and two rounds.

use jiff::Timestamp;
use prometheus::Registry;
use serde_json::json;

use super::*;
use crate::fixture;

/// Quality metrics and what they read like: every line that is not a bucket.
struct Read {
    quality: Quality,
    registry: Registry,
}

impl Read {
    fn new() -> Self {
        let registry = Registry::new();
        let quality = Quality::register(&registry).expect("valid names");
        Self { quality, registry }
    }

    fn check(&self, expected: &[&str]) {
        let samples = fixture::samples(&self.registry);
        let lines = samples.iter().filter(|line| !line.contains("_bucket{"));
        let lines: Vec<_> = lines
            .filter_map(|line| line.strip_prefix("vpa_quality_"))
            .collect();
        assert_eq!(lines, expected);
    }
}

fn list(millicores: i64, bytes: i64) -> ResourceList {
    ResourceList::of(Cpu::from_millicores(millicores), Memory::from_bytes(bytes))
}

fn sample(millicores: i64, bytes: i64) -> Sample {
    Sample {
        at: Timestamp::UNIX_EPOCH,
        cpu: Some(Cpu::from_millicores(millicores)),
        memory: Some(Memory::from_bytes(bytes)),
    }
}

const BOTH: Accepted = Accepted {
    cpu: true,
    memory: true,
};

#[test]
fn a_sample_is_held_against_what_was_recommended() {
    let read = Read::new();
    let uncapped = list(500, 100);
    let recommended = Recommended {
        update_mode: Some(UpdateMode::Off),
        uncapped: Some(&uncapped),
    };
    read.quality.sample(recommended, &sample(250, 150), BOTH);
    read.check(&[
        r#"cpu_recommendation_over_usage_diffs_cores_sum{recommendation_missing="false",update_mode="Off"} 0.25"#,
        r#"cpu_recommendation_over_usage_diffs_cores_count{recommendation_missing="false",update_mode="Off"} 1"#,
        r#"cpu_recommendations_cores_sum{update_mode="Off"} 0.5"#,
        r#"cpu_recommendations_cores_count{update_mode="Off"} 1"#,
        r#"mem_recommendation_lower_equal_usage_diffs_bytes_sum{is_oom="false",recommendation_missing="false",update_mode="Off"} 50"#,
        r#"mem_recommendation_lower_equal_usage_diffs_bytes_count{is_oom="false",recommendation_missing="false",update_mode="Off"} 1"#,
        r#"mem_recommendations_bytes_sum{is_oom="false",update_mode="Off"} 100"#,
        r#"mem_recommendations_bytes_count{is_oom="false",update_mode="Off"} 1"#,
        r#"usage_recommendation_relative_diffs_sum{is_oom="false",resource="cpu",update_mode="Off"} -0.5"#,
        r#"usage_recommendation_relative_diffs_count{is_oom="false",resource="cpu",update_mode="Off"} 1"#,
        r#"usage_recommendation_relative_diffs_sum{is_oom="false",resource="memory",update_mode="Off"} 0.5"#,
        r#"usage_recommendation_relative_diffs_count{is_oom="false",resource="memory",update_mode="Off"} 1"#,
    ]);
}

#[test]
fn a_recommendation_that_is_missing_is_counted_and_what_was_not_accepted_is_not() {
    let read = Read::new();
    let none = list(0, 0);
    let accepted = Accepted {
        cpu: false,
        memory: true,
    };
    for uncapped in [None, Some(&none)] {
        read.quality.sample(
            Recommended {
                update_mode: None,
                uncapped,
            },
            &sample(250, 150),
            accepted,
        );
    }
    read.check(&[
        r#"mem_recommendation_lower_equal_usage_diffs_bytes_sum{is_oom="false",recommendation_missing="true",update_mode=""} 300"#,
        r#"mem_recommendation_lower_equal_usage_diffs_bytes_count{is_oom="false",recommendation_missing="true",update_mode=""} 2"#,
        r#"usage_sample_missing_recommendation_count{is_oom="false",resource="memory",update_mode=""} 2"#,
    ]);
}

#[test]
fn a_kill_counts_as_the_peak_that_it_becomes() {
    let read = Read::new();
    let uncapped = list(500, 100);
    let recommended = Recommended {
        update_mode: Some(UpdateMode::InPlace),
        uncapped: Some(&uncapped),
    };
    read.quality.oom_kill(recommended, Memory::from_bytes(120));
    read.check(&[
        r#"mem_recommendation_lower_equal_usage_diffs_bytes_sum{is_oom="true",recommendation_missing="false",update_mode="InPlace"} 20"#,
        r#"mem_recommendation_lower_equal_usage_diffs_bytes_count{is_oom="true",recommendation_missing="false",update_mode="InPlace"} 1"#,
        r#"mem_recommendations_bytes_sum{is_oom="true",update_mode="InPlace"} 100"#,
        r#"mem_recommendations_bytes_count{is_oom="true",update_mode="InPlace"} 1"#,
        r#"usage_recommendation_relative_diffs_sum{is_oom="true",resource="memory",update_mode="InPlace"} 0.2"#,
        r#"usage_recommendation_relative_diffs_count{is_oom="true",resource="memory",update_mode="InPlace"} 1"#,
    ]);
}

fn decision(name: &str, pods: usize, millicores: i64) -> Decision {
    let container = json!({"containerName": "main", "target": {}, "uncappedTarget": {"cpu": format!("{millicores}m")}});
    let status = json!({"recommendation": {"containerRecommendations": [container]}});
    Decision {
        pods,
        ..fixture::decision(name, &json!({}), status)
    }
}

#[test]
fn changes_count_from_one_round_to_the_next_and_objects_that_are_gone_are_forgotten() {
    let read = Read::new();
    let mut changes = RecommendationChanges::default();
    changes.observe(
        &read.quality,
        &[decision("web", 5, 100), decision("other", 5, 100)],
    );
    read.check(&[]);
    changes.observe(&read.quality, &[decision("web", 5, 150)]);
    assert_eq!(changes.0.len(), 1);
    changes.observe(
        &read.quality,
        &[decision("web", 4, 150), decision("other", 5, 900)],
    );
    read.check(&[
        r#"relative_recommendation_changes_sum{resource="cpu",update_mode="",vpa_size_log2="2"} 0.5"#,
        r#"relative_recommendation_changes_count{resource="cpu",update_mode="",vpa_size_log2="2"} 2"#,
    ]);
}

#[test]
fn the_size_of_an_object_is_its_pods_in_powers_of_two() {
    let pods = [0, 1, 2, 3, 4, 1023, 1 << 30];
    assert_eq!(pods.map(size_log2), [0, 0, 1, 1, 2, 9, 20]);
}
