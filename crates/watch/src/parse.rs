//! Parsing of single objects from their JSON text.

use api::ParseError;
use kube::Resource;
use serde::de::DeserializeOwned;
use view::{Entry, ObjectKey, Scope};

use crate::splitter::Item;
use crate::table_writer::Reading;

/// Reason for rejecting an object.
pub(crate) enum Unusable {
    /// It takes too much memory.
    TooLarge(String),
    /// A field cannot be read.
    Broken(ParseError),
}

impl Item<'_> {
    pub(crate) fn key(&self) -> ObjectKey {
        ObjectKey::new(self.namespace, self.name)
    }

    /// Parses the remaining fields.
    pub(crate) fn parse<K: Resource<DynamicType = ()> + DeserializeOwned>(
        &self,
    ) -> Result<K, Unusable> {
        let too_large = || {
            let Self {
                namespace, name, ..
            } = self;
            Unusable::TooLarge(format!(
                "{} {namespace}/{name} is too large: the fields that are read exceed the memory limit",
                K::kind(&())
            ))
        };
        api::parse_text(self.text.ok_or_else(too_large)?).map_err(Unusable::Broken)
    }
}

impl<T: Entry> Reading<T> {
    /// Classifies the result of parsing the object with this key.
    pub(crate) fn of(key: T::Key, object: Result<T, Unusable>) -> Self {
        match object {
            Ok(object) => Self::Keep(object),
            Err(Unusable::TooLarge(reason)) => Self::TooLarge(key, reason),
            Err(Unusable::Broken(error)) => Self::Broken(key, error.to_string()),
        }
    }
}

/// Reads objects within the scope. Others, most of them with many shards, are not parsed.
pub(crate) fn within<K, T>(
    scope: Scope,
    from_k8s: impl Fn(K) -> T,
) -> impl Fn(&Item<'_>) -> Reading<T>
where
    K: Resource<DynamicType = ()> + DeserializeOwned,
    T: Entry<Key = ObjectKey>,
{
    move |item| {
        let key = item.key();
        if scope.includes(item.namespace) {
            Reading::of(key, item.parse().map(&from_k8s))
        } else {
            Reading::Outside(key)
        }
    }
}

/// Reads cluster-scoped objects.
pub(crate) fn by_name<K, T>(from_k8s: impl Fn(K) -> T) -> impl Fn(&Item<'_>) -> Reading<T>
where
    K: Resource<DynamicType = ()> + DeserializeOwned,
    T: Entry<Key = String>,
{
    move |item| Reading::of(item.name.to_owned(), item.parse().map(&from_k8s))
}
