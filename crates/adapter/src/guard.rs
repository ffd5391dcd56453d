//! Who may ask what.

use std::collections::BTreeMap;

use http::HeaderMap;
use runtime::tls::PeerCertificates;

use crate::refusal::Refusal;

/// Decides who may ask what.
#[derive(Debug, Default)]
pub struct Guard;

/// Who asks.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct User {
    /// The name.
    pub name: String,
    /// The unique identifier, where there is one.
    pub uid: Option<String>,
    /// Groups.
    pub groups: Vec<String>,
    /// Whatever else was said of the user.
    pub extra: BTreeMap<String, Vec<String>>,
}

/// What a caller wants to do, in the words of access reviews.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Wants {
    /// Something with a resource.
    Resource {
        /// None for resources of the whole cluster.
        namespace: Option<String>,
        /// Such as `get`.
        verb: &'static str,
        /// The API group.
        group: String,
        /// The version of the group.
        version: String,
        /// The resource.
        resource: String,
        /// The subresource.
        subresource: Option<String>,
        /// The name of the object.
        name: Option<String>,
    },
    /// Something with a path.
    Path {
        /// Such as `get`.
        verb: &'static str,
        /// The path.
        path: String,
    },
}

impl Guard {
    /// Lets nobody in as long as nobody can be recognised.
    #[expect(clippy::unused_async, reason = "access reviews are asked of the API server")]
    pub async fn admit(
        &self,
        _peer: Option<&PeerCertificates>,
        _headers: &mut HeaderMap,
        _wants: &Wants,
    ) -> Result<User, Refusal> {
        Err(Refusal::Unauthorized)
    }
}
