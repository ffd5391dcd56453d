//! Taints of nodes and tolerations of pods.

use serde::Deserialize;

/// Effect of a taint. `PreferNoSchedule` excludes no pod and is left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize)]
pub enum Effect {
    /// New pods are not scheduled.
    NoSchedule,
    /// New pods are not scheduled, and running ones are evicted.
    NoExecute,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Taint {
    pub key: String,
    /// Value of the taint, possibly empty.
    #[serde(default)]
    pub value: String,
    pub effect: Effect,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Toleration {
    /// Key of the taint; empty for every key.
    pub key: String,
    /// Value of the taint; `None` for every value.
    pub value: Option<String>,
    /// Effect of the taint; `None` for every effect.
    pub effect: Option<Effect>,
}

impl Toleration {
    pub fn covers(&self, taint: &Taint) -> bool {
        (self.key.is_empty() || self.key == taint.key)
            && self
                .value
                .as_ref()
                .is_none_or(|value| *value == taint.value)
            && self.effect.is_none_or(|effect| effect == taint.effect)
    }
}
