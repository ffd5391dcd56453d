//! Owner reference of an object with `controller: true`.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use model::Workload;

/// The controller of an object, in the same namespace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Owner {
    /// Group and version, such as `apps/v1`.
    pub api_version: String,
    /// Kind, such as `ReplicaSet`.
    pub kind: String,
    pub name: String,
    /// Unique identifier; an object recreated under the same name has another one.
    pub uid: String,
}

impl Owner {
    /// Returns the first owner reference with `controller: true`.
    pub fn controller(references: Option<Vec<OwnerReference>>) -> Option<Self> {
        let reference = references?
            .into_iter()
            .find(|reference| reference.controller == Some(true))?;
        let OwnerReference {
            api_version,
            kind,
            name,
            uid,
            ..
        } = reference;
        Some(Self {
            api_version,
            kind,
            name,
            uid,
        })
    }

    /// The controller of an object of this namespace.
    pub fn workload<'a>(&'a self, namespace: &'a str) -> Workload<'a> {
        Workload {
            api_version: &self.api_version,
            kind: &self.kind,
            namespace,
            name: &self.name,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(controllers: &[Option<bool>], expected: Option<&str>) {
        let reference = |(index, controller): (usize, &Option<bool>)| OwnerReference {
            name: index.to_string(),
            controller: *controller,
            ..OwnerReference::default()
        };
        let references = controllers.iter().enumerate().map(reference).collect();
        let owner = Owner::controller(Some(references)).map(|owner| owner.name);
        assert_eq!(owner.as_deref(), expected, "{controllers:?}");
    }

    #[test]
    fn an_owner_without_the_controller_flag_does_not_count() {
        check(&[], None);
        check(&[None, Some(false)], None);
        check(&[None, Some(false), Some(true), Some(true)], Some("2"));
        assert_eq!(Owner::controller(None), None);
    }
}
