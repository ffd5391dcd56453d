//! The feed between real servers and readers, over mutual TLS on loopback.

mod access;
mod certificates;
mod changing_server;
mod fixture;
mod forecasts;
mod frozen;
mod leaders;
mod memory;
mod reports;
mod services;
mod shards;
mod slow_reader;
