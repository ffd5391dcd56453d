//! The nouns of the suite: what is measured, asked for and recommended, without Kubernetes machinery, clocks or input and output.

pub mod quantity;

pub use quantity::{ParseQuantityError, Quantity};
