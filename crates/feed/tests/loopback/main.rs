//! The feed between real servers and readers, over mutual TLS on loopback.

mod access;
mod certificates;
mod leaders;
mod services;
mod slow_reader;
mod stage;
