//! The admission webhook on a real control plane: registered by Service as it is deployed, and by
//! URL with certificates from files.

mod by_service;
pub(crate) mod by_url;
pub(crate) mod certificates;
mod fixture;
mod limit_modes;
