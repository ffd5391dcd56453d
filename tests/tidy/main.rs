//! The conventions that a compiler does not check.

mod arrows;
mod documents;
mod licences;
mod metadata;
mod repository;
mod sources;
