//! Pattern of the names of a workload's pods, for queries over deleted pods, whose owner no series
//! has.
//!
//! Source of the patterns: gocrane/crane `pkg/utils/expression_prom_default.go`. All of them match
//! whole names, so that `api` does not match `api-gateway`.

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodNamePattern {
    workload: String,
    form: Form,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// A template hash and five letters or digits.
    HashAndFive,
    /// Five letters or digits.
    Five,
    /// An ordinal.
    Number,
    Any,
}

impl PodNamePattern {
    pub fn new(kind: &str, workload: &str) -> Self {
        let form = match kind {
            "Deployment" => Form::HashAndFive,
            "ReplicaSet" | "DaemonSet" => Form::Five,
            "StatefulSet" => Form::Number,
            _ => Form::Any,
        };
        Self {
            workload: workload.to_owned(),
            form,
        }
    }

    /// Returns a regular expression for whole names.
    pub fn expression(&self) -> String {
        // A dot is the only character of names that needs escaping.
        let name = self.workload.replace('.', "\\.");
        match self.form {
            Form::HashAndFive => format!("{name}-[a-z0-9]+-[a-z0-9]{{5}}"),
            Form::Five => format!("{name}-[a-z0-9]{{5}}"),
            Form::Number => format!("{name}-[0-9]+"),
            Form::Any => format!("{name}-.*"),
        }
    }

    pub fn include(&self, pod: &str) -> bool {
        let Some(rest) = pod
            .strip_prefix(self.workload.as_str())
            .and_then(|rest| rest.strip_prefix('-'))
        else {
            return false;
        };
        let is_plain = |text: &str| {
            text.bytes()
                .all(|letter| letter.is_ascii_digit() || letter.is_ascii_lowercase())
        };
        let is_five = |text: &str| text.len() == 5 && is_plain(text);
        match self.form {
            Form::HashAndFive => rest
                .split_once('-')
                .is_some_and(|(hash, five)| !hash.is_empty() && is_plain(hash) && is_five(five)),
            Form::Five => is_five(rest),
            Form::Number => !rest.is_empty() && rest.bytes().all(|letter| letter.is_ascii_digit()),
            Form::Any => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(kind: &str, expression: &str, own: &[&str], others: &[&str]) {
        let names = PodNamePattern::new(kind, "api.v1");
        assert_eq!(names.expression(), expression);
        for pod in own {
            assert!(names.include(pod), "{kind}: {pod}");
        }
        for pod in others {
            assert!(!names.include(pod), "{kind}: {pod}");
        }
    }

    #[test]
    fn each_kind_names_its_pods_in_its_way() {
        let of_others = [
            "api.v1-gateway-6d5f8-x2x9z",
            "api.v1-x2x9z",
            "api.v1-6d5f8-x2x9",
            "api",
        ];
        let expression = r"api\.v1-[a-z0-9]+-[a-z0-9]{5}";
        check(
            "Deployment",
            expression,
            &["api.v1-6d5f8-x2x9z"],
            &of_others,
        );
        let of_others = ["api.v1-6d5f8-x2x9z", "api.v1-X2x9z"];
        let expression = r"api\.v1-[a-z0-9]{5}";
        check("DaemonSet", expression, &["api.v1-x2x9z"], &of_others);
        let (own, of_others) = (
            ["api.v1-0", "api.v1-12"],
            ["api.v1-", "api.v1-0a", "api.v1"],
        );
        check("StatefulSet", r"api\.v1-[0-9]+", &own, &of_others);
        let own = ["api.v1-anything-at-all"];
        check("Rollout", r"api\.v1-.*", &own, &["api.v1", "api.v2-1"]);
    }
}
