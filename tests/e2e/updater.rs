//! The updater, deployed from `deploy/`, against real evictions, budgets, `ReplicaSet`s and
//! resizes. Recommendations are written by hand, and so is the webhook's Lease; pods come back with
//! another size because the template of their `ReplicaSet` was changed meanwhile.

mod failures;
pub(crate) mod fixture;
mod in_place;
mod modes;
mod oom;
mod rolling_updates;
mod settling;
mod startup_boost;
