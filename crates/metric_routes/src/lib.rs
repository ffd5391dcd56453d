//! The routes file of the adapter: other providers of external metrics, and routes to them; the
//! owner of the metrics APIs.
//!
//! | module | contents |
//! |---|---|
//! | [`api_service`] | state of the `APIService` objects of the metrics APIs |
//! | `file` | fields of the file, their validation, and the route of a request |
//! | `glob` | name patterns |

pub mod api_service;
mod file;
mod glob;

pub use file::{
    File, FileError, KEDA_KEY, Kind, MAX_STALE, ObjectEntry, ObjectKind, ObjectRef, PemSource,
    RouteSpec, ServiceSpec, UpstreamSpec, config_hash,
};
