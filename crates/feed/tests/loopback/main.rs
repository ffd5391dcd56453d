//! The feed between real servers and readers, over mutual TLS on loopback.

mod access;
mod certificates;
mod forecasts;
mod frozen;
mod leaders;
mod memory;
mod restless;
mod services;
mod shards;
mod slow_reader;
mod stage;
