//! TLS: the bounded HTTPS server, certificates that a program issues and rotates itself,
//! certificates that are reloaded from files, and the connection to the feed.
//!
//! | module | contents |
//! |---|---|
//! | [`ca_bundles`] | the controller of the CA bundles that the API server has |
//! | [`certificates`] | self-managed certificates in a Secret, their rotation, and their monitor |
//! | [`http_endpoints`] | the server of `--address`: /metrics and health |
//! | [`feed_reader`] | settings of a feed client, its mutual TLS, and the announced address |
//! | [`own_service`] | a program's own Service and its DNS names |
//! | [`port`] | a serving port that stays open for a while after shutdown |
//! | [`request_body`] | request bodies and the limits of their memory |
//! | [`http_server`] | the HTTP server and its limits |
//! | [`tls`] | TLS configurations that follow their files |

pub mod ca_bundles;
pub mod certificates;
pub mod feed_reader;
pub mod http_endpoints;
pub mod http_server;
pub mod own_service;
pub mod port;
pub mod request_body;
pub mod tls;

pub use feed_reader::{FeedReader, FeedSource, advertised_address};
