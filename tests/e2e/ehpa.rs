//! EHPAs: the recommender forecasts, the adapter serves, and the horizontal pod autoscaler scales.

pub(crate) mod cron_schedules;
mod failures;
mod feed;
mod fixture;
mod pod_cpu;
mod rule_history;
