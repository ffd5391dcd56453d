//! The admission webhook before a real control plane: registered by Service as it is deployed, and
//! by URL with certificates that somebody else puts into files.

mod by_service;
mod by_url;
mod certificates;
mod fixture;
