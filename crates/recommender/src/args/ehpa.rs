//! Flags of EHPAs, under Crane's names.

use clap::Args;
use horizontal::ehpa::Propagation;

/// Labels and annotations of an EHPA that are copied to the objects that it owns.
#[derive(Debug, Clone, Args)]
pub struct EhpaArgs {
    /// Copy labels of an `EffectiveHorizontalPodAutoscaler` whose keys begin with one of these
    /// prefixes to the objects that it owns.
    #[arg(long, value_delimiter = ',', value_name = "PREFIXES")]
    pub ehpa_propagation_label_prefixes: Vec<String>,
    /// Copy labels with these keys.
    #[arg(long, value_delimiter = ',', value_name = "KEYS")]
    pub ehpa_propagation_labels: Vec<String>,
    /// Copy annotations whose keys begin with one of these prefixes.
    #[arg(long, value_delimiter = ',', value_name = "PREFIXES")]
    pub ehpa_propagation_annotation_prefixes: Vec<String>,
    /// Copy annotations with these keys.
    #[arg(long, value_delimiter = ',', value_name = "KEYS")]
    pub ehpa_propagation_annotations: Vec<String>,
}

impl EhpaArgs {
    /// The labels and annotations to copy. Empty entries of a list are ignored.
    pub(crate) fn propagation(self) -> Propagation {
        let Self {
            ehpa_propagation_label_prefixes,
            ehpa_propagation_labels,
            ehpa_propagation_annotation_prefixes,
            ehpa_propagation_annotations,
        } = self;
        let named = |list: Vec<String>| list.into_iter().filter(|key| !key.is_empty()).collect();
        Propagation {
            label_prefixes: named(ehpa_propagation_label_prefixes),
            labels: named(ehpa_propagation_labels),
            annotation_prefixes: named(ehpa_propagation_annotation_prefixes),
            annotations: named(ehpa_propagation_annotations),
        }
    }
}

#[cfg(test)]
mod tests {
    use horizontal::ehpa::Propagation;

    use crate::args::tests::parse;

    fn check(line: &str, expected: &Propagation) {
        assert_eq!(
            parse(line).expect(line).effective_hpa.propagation(),
            *expected,
            "{line}"
        );
    }

    #[test]
    fn nothing_is_passed_on_unless_it_is_named() {
        check("", &Propagation::default());
        let labels = vec!["team".to_owned(), "tier".to_owned()];
        check(
            "--ehpa-propagation-labels=team,tier,",
            &Propagation {
                labels,
                ..Propagation::default()
            },
        );
        let annotation_prefixes = vec!["example.com/".to_owned()];
        let expected = Propagation {
            annotation_prefixes,
            ..Propagation::default()
        };
        check(
            "--ehpa-propagation-annotation-prefixes=example.com/",
            &expected,
        );
    }
}
