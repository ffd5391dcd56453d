//! The required node affinity of a pod in a review: only the fields of nodes. The controller of a
//! `DaemonSet` binds each pod to its node by the field `metadata.name`.
//!
//! Source: `k8s.io/kubernetes/pkg/controller/daemon/util`
//! (`ReplaceDaemonSetPodNodeNameNodeAffinity`, `GetTargetNodeName`).

use serde::Deserialize;

use crate::review::Text;

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Affinity<'a> {
    #[serde(borrow)]
    node_affinity: Option<NodeAffinity<'a>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct NodeAffinity<'a> {
    #[serde(borrow, rename = "requiredDuringSchedulingIgnoredDuringExecution")]
    required: Option<NodeSelector<'a>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct NodeSelector<'a> {
    #[serde(borrow)]
    node_selector_terms: Option<Vec<Term<'a>>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Term<'a> {
    #[serde(borrow)]
    match_fields: Option<Vec<FieldRequirement<'a>>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct FieldRequirement<'a> {
    #[serde(borrow)]
    key: Text<'a>,
    operator: Text<'a>,
    values: Option<Vec<Text<'a>>>,
}

impl Affinity<'_> {
    /// The only node that the affinity allows by name, if it does.
    pub(super) fn node_name(&self) -> Option<&str> {
        let required = self.node_affinity.as_ref()?.required.as_ref()?;
        let [term] = required.node_selector_terms.as_deref()? else {
            return None;
        };
        let mut fields = term.match_fields.iter().flatten();
        let names = fields
            .find(|field| &*field.key == "metadata.name" && &*field.operator == "In")?
            .values
            .as_deref()?;
        match names {
            [name] => Some(name),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn check(terms: &Value, expected: Option<&str>) {
        let required = json!({"nodeSelectorTerms": terms});
        let affinity = json!({
            "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required},
            "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "a"}]},
        });
        let text = affinity.to_string();
        let affinity: Affinity = serde_json::from_str(&text).expect("an affinity");
        assert_eq!(affinity.node_name(), expected, "{terms}");
    }

    #[test]
    fn the_node_is_the_only_one_that_the_affinity_allows() {
        let by = |key: &str, operator: &str, names: &[&str]| {
            let field = json!({"key": key, "operator": operator, "values": names});
            json!({"matchFields": [field], "matchExpressions": [{"key": "a", "operator": "Exists"}]})
        };
        let name = "metadata.name";
        check(&json!([by(name, "In", &["n1"])]), Some("n1"));
        check(&json!([by(name, "In", &["n1", "n2"])]), None);
        check(&json!([by(name, "In", &[])]), None);
        check(&json!([by(name, "NotIn", &["n1"])]), None);
        check(&json!([by("other", "In", &["n1"])]), None);
        let two = json!([by(name, "In", &["n1"]), by(name, "In", &["n2"])]);
        check(&two, None);
        check(&json!([{"matchExpressions": [{"key": "a"}]}]), None);
        check(&json!([]), None);
        check(&json!(null), None);
    }
}
