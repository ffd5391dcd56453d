//! The rule file, read again when it changes. One that cannot be read or used leaves the rules that
//! stand.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context as _;
use sources::rules::RuleSet;

use super::metrics::Metrics;

/// How often it is looked at.
const POLL: Duration = Duration::from_secs(5);
/// The most complaints that are remembered.
const MAX_WARNINGS: usize = 1000;

/// A rule file.
pub(super) struct RuleFile {
    path: PathBuf,
    /// As it was read last, whether it could be used or not.
    text: String,
    is_usable: bool,
    warnings: LoggedWarnings,
    metrics: Metrics,
}

/// Complaints that were made, which are not repeated.
#[derive(Debug, Default)]
pub(super) struct LoggedWarnings(BTreeSet<String>);

impl RuleFile {
    /// Reads it for the first time, when it must be good.
    pub(super) fn open(path: PathBuf, metrics: Metrics) -> anyhow::Result<(Self, RuleSet)> {
        let text =
            std::fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))?;
        let rules =
            RuleSet::parse(&text).with_context(|| format!("rule file {}", path.display()))?;
        warn(&rules);
        metrics.set_config_valid(true);
        Ok((
            Self {
                path,
                text,
                is_usable: true,
                warnings: LoggedWarnings::default(),
                metrics,
            },
            rules,
        ))
    }

    /// Waits for other rules. Nothing is lost when this is dropped before it ends.
    pub(super) async fn changed(&mut self) -> RuleSet {
        loop {
            tokio::time::sleep(POLL).await;
            if let Some(rules) = self.reload().await {
                return rules;
            }
        }
    }

    async fn reload(&mut self) -> Option<RuleSet> {
        match tokio::fs::read_to_string(&self.path).await {
            Ok(text) => self.apply(text),
            Err(error) => {
                self.warnings
                    .log(&format!("cannot read {}: {error}", self.path.display()));
                self.metrics.set_config_valid(false);
                None
            }
        }
    }

    /// The rules of a text, if they are others than those of the last one.
    fn apply(&mut self, text: String) -> Option<RuleSet> {
        if text == self.text {
            // It may have been gone in between.
            self.metrics.set_config_valid(self.is_usable);
            return None;
        }
        self.text = text;
        let rules = RuleSet::parse(&self.text);
        self.is_usable = rules.is_ok();
        self.metrics.set_config_valid(self.is_usable);
        match rules {
            Ok(rules) => {
                tracing::info!(file = %self.path.display(), "there are new rules");
                warn(&rules);
                Some(rules)
            }
            Err(error) => {
                tracing::error!(%error, file = %self.path.display(), "the rule file has an error; the rules before it stand");
                None
            }
        }
    }
}

impl LoggedWarnings {
    /// Makes one.
    pub(super) fn log(&mut self, complaint: &str) {
        if self.0.len() < MAX_WARNINGS && !self.0.contains(complaint) {
            tracing::warn!("{complaint}");
            self.0.insert(complaint.to_owned());
        }
    }
}

fn warn(rules: &RuleSet) {
    for warning in &rules.warnings {
        tracing::warn!("{warning}");
    }
}

#[cfg(test)]
mod tests {
    use prometheus::{Registry, TextEncoder};

    use super::*;

    const ONE: &str = "rules: [{seriesQuery: up, metricsQuery: x}]";
    const NONE: &str = "rules: []";

    struct Stage {
        file: RuleFile,
        registry: Registry,
        folder: tempfile::TempDir,
    }

    impl Stage {
        fn new() -> Self {
            let folder = tempfile::tempdir().expect("a folder");
            let (registry, path) = (Registry::new(), folder.path().join("rules.yaml"));
            std::fs::write(&path, ONE).expect("a file");
            let (file, rules) =
                RuleFile::open(path, Metrics::register(&registry).expect("metrics"))
                    .expect("rules");
            assert_eq!(rules.custom.len(), 1);
            Self {
                file,
                registry,
                folder,
            }
        }

        /// What a look finds when this is written, or nothing is there: how many rules if they are
        /// new, and whether the file is broken.
        async fn check(&mut self, text: Option<&str>, expected: (Option<usize>, bool)) {
            let path = self.folder.path().join("rules.yaml");
            match text {
                Some(text) => std::fs::write(&path, text).expect("a file"),
                None => std::fs::remove_file(&path).expect("a file"),
            }
            let rules = self.file.reload().await.map(|rules| rules.custom.len());
            let shown = TextEncoder::new()
                .encode_to_string(&self.registry.gather())
                .expect("text");
            assert_eq!(
                (
                    rules,
                    shown.contains("plimsoll_adapter_rules_config_last_reload_successful 0")
                ),
                expected,
                "{text:?}"
            );
        }
    }

    #[tokio::test]
    async fn a_file_that_is_whole_again_is_not_broken() {
        let mut stage = Stage::new();
        stage.check(Some(ONE), (None, false)).await;
        stage.check(None, (None, true)).await;
        stage.check(Some(ONE), (None, false)).await;
        stage.check(Some("rules: ["), (None, true)).await;
        stage.check(Some("rules: ["), (None, true)).await;
        stage.check(None, (None, true)).await;
        stage.check(Some("rules: ["), (None, true)).await;
        stage.check(Some(ONE), (Some(1), false)).await;
        stage.check(Some(NONE), (Some(0), false)).await;
    }
}
