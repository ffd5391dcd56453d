//! The updater, deployed from `deploy/`, against real evictions, budgets, `ReplicaSet`s and
//! resizes. Recommendations are written by hand, and so is the webhook's Lease; pods come back with
//! another size because the template of their `ReplicaSet` was changed meanwhile.

mod failures;
mod fixture;
mod in_place;
mod make_room;
mod modes;
mod oom;
mod rebalancing;
mod rolling_updates;
mod settling;
mod startup_boost;
