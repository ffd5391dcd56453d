//! Taints of nodes and what pods tolerate of them.

/// What a taint does. Taints that only make a node less welcome keep no pod away and are left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Effect {
    /// No new pod comes.
    NoSchedule,
    /// No new pod comes, and those that are there have to leave.
    NoExecute,
}

/// Keeps pods away from a node.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Taint {
    /// Its key.
    pub key: String,
    /// Its value, possibly empty.
    pub value: String,
    /// What it does.
    pub effect: Effect,
}

/// Lets a pod come in spite of a taint.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Toleration {
    /// The taint's key; empty for every key.
    pub key: String,
    /// The taint's value; none for every value.
    pub value: Option<String>,
    /// The taint's effect; none for every effect.
    pub effect: Option<Effect>,
}

impl Toleration {
    /// Whether it is about this taint.
    pub fn covers(&self, taint: &Taint) -> bool {
        (self.key.is_empty() || self.key == taint.key)
            && self
                .value
                .as_ref()
                .is_none_or(|value| *value == taint.value)
            && self.effect.is_none_or(|effect| effect == taint.effect)
    }
}
