//! Workloads of pods by name, for pods that are gone.

/// The letters and digits of generated suffixes (`k8s.io/apimachinery/pkg/util/rand`).
const ALPHABET: &str = "bcdfghjklmnpqrstvwxz2456789";
/// Length of the suffix of a pod.
const SUFFIX: usize = 5;

fn is_generated(text: &str) -> bool {
    text.chars().all(|letter| ALPHABET.contains(letter))
}

/// Workloads that may have had a pod of this name, such as `deployment/web`, the most likely one
/// first. `replica_set` returns the owner of a `ReplicaSet` or Job.
pub(super) fn candidates(pod: &str, owner: impl Fn(&str) -> Option<String>) -> Vec<String> {
    let Some((base, suffix)) = pod.rsplit_once('-') else {
        return Vec::new();
    };
    let mut found = Vec::new();
    if !suffix.is_empty() && suffix.bytes().all(|byte| byte.is_ascii_digit()) {
        found.push(format!("statefulset/{base}"));
    }
    if suffix.len() != SUFFIX || !is_generated(suffix) {
        return found;
    }
    found.extend(owner(base));
    if let Some((name, hash)) = base.rsplit_once('-') {
        if (6..=10).contains(&hash.len()) && is_generated(hash) {
            found.push(format!("deployment/{name}"));
        }
        if hash.bytes().all(|byte| byte.is_ascii_digit()) {
            found.push(format!("cronjob/{name}"));
        }
    }
    found.extend(["daemonset", "job", "replicaset"].map(|kind| format!("{kind}/{base}")));
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_point_to_workloads() {
        let owner = |name: &str| (name == "api-1").then(|| "rollout/api".to_owned());
        for (pod, expected) in [
            ("web-7d9f5c6b8-x2vq4", "deployment/web"),
            ("queue-12", "statefulset/queue"),
            ("agent-x2vq4", "daemonset/agent"),
            ("backup-29384756-x2vq4", "cronjob/backup"),
            ("api-1-x2vq4", "rollout/api"),
        ] {
            let found = candidates(pod, owner);
            assert!(found.iter().any(|it| it == expected), "{pod}: {found:?}");
        }
        for pod in ["web", "web-", "web-aeiou", ""] {
            assert_eq!(candidates(pod, owner), Vec::<String>::new(), "{pod}");
        }
    }
}
