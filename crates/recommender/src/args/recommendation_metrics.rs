//! Flags of recommendations as metrics.

use clap::Args;

/// Recommendations as metrics, and their limit.
#[derive(Debug, Clone, Args)]
pub struct RecommendationMetricsArgs {
    /// Export recommendations as metrics, under the former names of kube-state-metrics.
    #[arg(long)]
    pub recommendation_metrics: bool,
    /// Maximum number of series of recommendations. A container has eight; one metric counts the
    /// omitted series.
    #[arg(long, default_value_t = 20_000, value_parser = clap::value_parser!(u32).range(1..), value_name = "SERIES")]
    pub recommendation_metrics_limit: u32,
}

impl RecommendationMetricsArgs {
    /// Maximum number of series; `None` if disabled.
    pub fn limit(&self) -> Option<usize> {
        self.recommendation_metrics
            .then_some(self.recommendation_metrics_limit as usize)
    }
}

#[cfg(test)]
mod tests {
    use crate::args::tests::parse;

    fn check(line: &str, expected: Option<usize>) {
        let args = parse(line).expect(line);
        assert_eq!(args.recommendation_metrics.limit(), expected, "{line}");
    }

    #[test]
    fn recommendations_are_shown_on_request_only() {
        check("", None);
        check("--recommendation-metrics", Some(20_000));
        check(
            "--recommendation-metrics --recommendation-metrics-limit=80",
            Some(80),
        );
        check("--recommendation-metrics-limit=80", None);
        assert!(parse("--recommendation-metrics-limit=0").is_err());
    }
}
