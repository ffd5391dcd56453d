//! Placeholder for the workspace skeleton.
