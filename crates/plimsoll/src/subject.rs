//! An object that a user names, as KIND/NAME.

use std::str::FromStr;

/// Short and plural names of kinds, as in kubectl.
const ALIASES: &[(&str, &str)] = &[
    ("vpa", "verticalpodautoscaler"),
    ("po", "pod"),
    ("deploy", "deployment"),
    ("sts", "statefulset"),
    ("ds", "daemonset"),
    ("rs", "replicaset"),
    ("rc", "replicationcontroller"),
    ("cj", "cronjob"),
    ("ehpa", "effectivehorizontalpodautoscaler"),
];

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Subject {
    Vpa(String),
    Ehpa(String),
    Pod(String),
    Workload {
        /// Kind in lower case.
        kind: String,
        name: String,
    },
}

impl FromStr for Subject {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (kind, name) = text
            .split_once('/')
            .filter(|(kind, name)| !kind.is_empty() && is_name(name))
            .ok_or("expected KIND/NAME, such as vpa/web, deployment/web or pod/web-1")?;
        let kind = kind.to_lowercase();
        // `deployments.apps` is the full name of the resource.
        let kind = kind.split('.').next().unwrap_or_default();
        // `ds`, `rs` and `sts` are no plurals, so the exact name comes first.
        let alias_of = |text: &str| ALIASES.iter().find(|(alias, _)| *alias == text);
        let known = alias_of(kind).or_else(|| alias_of(kind.strip_suffix('s')?));
        let singular = match known {
            Some((_, singular)) => singular,
            None => kind.strip_suffix('s').unwrap_or(kind),
        };
        let name = name.to_owned();
        Ok(match singular {
            "verticalpodautoscaler" => Self::Vpa(name),
            "effectivehorizontalpodautoscaler" => Self::Ehpa(name),
            "pod" => Self::Pod(name),
            _ => Self::Workload {
                kind: singular.to_owned(),
                name,
            },
        })
    }
}

impl Subject {
    /// Whether a reference to a workload with this kind and name names the subject.
    pub(crate) fn is_target(&self, target_kind: &str, target_name: &str) -> bool {
        let Self::Workload { kind, name } = self else {
            return false;
        };
        let target_kind = target_kind.to_lowercase();
        let target_kind = target_kind.strip_suffix('s').unwrap_or(&target_kind);
        target_kind == kind && target_name == name
    }
}

/// Whether the text can be the name of an object: it becomes a part of the request's path.
pub(crate) fn is_name(text: &str) -> bool {
    let is_allowed = |letter: char| letter.is_ascii_alphanumeric() || "-._:".contains(letter);
    (1..=253).contains(&text.len()) && text.chars().all(is_allowed) && text != "." && text != ".."
}
