//! The conventions that a compiler does not check.

mod cycles;
mod dependencies;
mod documents;
mod licences;
mod metadata;
mod sizes;
mod sources;
mod versions;
mod words;
mod workflows;

use e2e::repository_files as repository;
