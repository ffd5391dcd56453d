//! Scale subresources of objects of kinds that are not well known: what the API server said when
//! asked.

use std::hash::{DefaultHasher, Hash, Hasher};

use model::Workload;

use crate::owner::Owner;
use crate::table::Entry;

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
pub struct ReadScale {
    /// Names the scale subresource.
    pub key: ScaleKey,
    /// The answer.
    pub scale: Scale,
    /// The owner's live pods when it was asked for.
    pub pods: PodSet,
}

/// The live pods of one owner, as a number that is another one when a pod comes or goes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PodSet(u64);

impl PodSet {
    /// Adds the pod with this unique identifier.
    pub fn add(&mut self, uid: &str) {
        let mut hasher = DefaultHasher::new();
        uid.hash(&mut hasher);
        self.0 = self.0.wrapping_add(hasher.finish());
    }
}

impl Entry for ReadScale {
    type Key = ScaleKey;

    fn key(&self) -> &ScaleKey {
        &self.key
    }
}

impl ScaleKey {
    /// The key of a workload's scale subresource; an error if its `apiVersion` is neither a version
    /// nor `group/version`.
    pub fn of<'a>(workload: impl Into<Workload<'a>>) -> Result<Self, String> {
        let Workload {
            api_version,
            kind,
            namespace,
            name,
        } = workload.into();
        let group = match api_version.split('/').collect::<Vec<_>>().as_slice() {
            [_version] => "",
            [group, _version] => *group,
            _ => return Err(format!("unexpected GroupVersion string: {api_version}")),
        };
        let [group, kind, namespace, name] = [group, kind, namespace, name].map(str::to_owned);
        Ok(Self {
            group,
            kind,
            namespace,
            name,
        })
    }
}
