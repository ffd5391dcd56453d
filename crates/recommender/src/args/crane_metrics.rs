//! The flag of Crane's metrics.

use clap::Args;

/// Limit of Crane's metrics.
#[derive(Debug, Clone, Args)]
pub struct CraneMetricsArgs {
    /// Maximum number of series of Crane's metrics (`crane_autoscaling_*`, `crane_prediction_tsp`);
    /// 0 disables them. One metric counts the omitted series.
    #[arg(long, default_value_t = 20_000, value_name = "SERIES")]
    pub crane_metrics_limit: u32,
}

#[cfg(test)]
mod tests {
    use crate::args::tests::parse;

    #[test]
    fn there_is_always_a_limit() {
        assert_eq!(
            parse("").expect("a line").crane_metrics.crane_metrics_limit,
            20_000
        );
        assert_eq!(
            parse("--crane-metrics-limit=0")
                .expect("a line")
                .crane_metrics
                .crane_metrics_limit,
            0
        );
        assert!(parse("--crane-metrics-limit=-1").is_err());
    }
}
