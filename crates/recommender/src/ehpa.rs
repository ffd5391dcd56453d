//! EHPAs: their watches and writes, for one term of leadership. The decisions are in
//! [`horizontal::ehpa`].

pub(crate) mod controller;
pub(crate) mod crane_metrics;
pub(crate) mod rule_file;
pub(crate) mod watch;
