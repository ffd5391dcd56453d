//! Code generated from `proto/plimsoll/feed/v1/feed.proto`, which documents it.

#![allow(missing_docs, unreachable_pub, clippy::pedantic)]

tonic::include_proto!("plimsoll.feed.v1");

/// Protocol descriptor for the reflection service.
pub const DESCRIPTION: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/feed.bin"));
