//! Scale subresources of objects of kinds that are not well known: what the API server said when asked.

mod keep;
mod question;
mod read;

use model::WorkloadRef;

use crate::owner::Owner;
use crate::table::Entry;

pub(crate) use keep::keep;
pub use question::ScaleQuestions;

/// Names the scale subresource of one object, whatever the version of its kind.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ScaleKey {
    /// API group, empty for the core group.
    pub group: String,
    /// Kind.
    pub kind: String,
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
}

/// What the scale subresource said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Scale {
    /// The object can be scaled.
    Found {
        /// Which pods are its own, as it was written; empty if it does not say.
        selector: String,
        /// The controller that made the object, where the answer carries it.
        owner: Option<Owner>,
        /// How many pods it wants, where the answer says so.
        replicas: Option<i32>,
    },
    /// There is no such object, or its kind has no scale subresource.
    NotFound {
        /// The API server's words.
        reason: String,
    },
    /// It could not be read.
    Failed {
        /// What went wrong.
        reason: String,
        /// Whether trying again may help: the API server was away or overloaded.
        transient: bool,
    },
}

/// One answer, by its key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ReadScale {
    pub(crate) key: ScaleKey,
    pub(crate) scale: Scale,
}

impl Entry for ReadScale {
    type Key = ScaleKey;

    fn key(&self) -> ScaleKey {
        self.key.clone()
    }
}

impl ScaleKey {
    /// The key of a workload's scale subresource; an error if its `apiVersion` is neither a version nor `group/version`.
    pub fn of(workload: &WorkloadRef) -> Result<Self, String> {
        let group = match workload.api_version.split('/').collect::<Vec<_>>().as_slice() {
            [_version] => "",
            [group, _version] => group,
            _ => return Err(format!("unexpected GroupVersion string: {}", workload.api_version)),
        };
        Ok(Self {
            group: group.to_owned(),
            kind: workload.kind.clone(),
            namespace: workload.namespace.clone(),
            name: workload.name.clone(),
        })
    }
}
