//! The rule file, reloaded when it changes. If it is not valid, the previous rules stay in use.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context as _;
use sources::rules::RuleSet;

use super::Metrics;

/// The interval at which it is read.
const POLL: Duration = Duration::from_secs(5);
const MAX_WARNINGS: usize = 1000;

pub(super) struct RuleFile {
    path: PathBuf,
    /// The text that was read last, valid or not.
    text: String,
    is_usable: bool,
    warnings: LoggedWarnings,
    metrics: Metrics,
}

/// Warnings that were logged and are not repeated.
#[derive(Debug, Default)]
pub(super) struct LoggedWarnings(BTreeSet<String>);

impl RuleFile {
    /// Loads the file, which must be valid.
    pub(super) fn open(path: PathBuf, metrics: Metrics) -> anyhow::Result<(Self, RuleSet)> {
        let text =
            std::fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))?;
        let rules =
            RuleSet::parse(&text).with_context(|| format!("rule file {}", path.display()))?;
        warn(&rules);
        metrics.config_valid.set(1);
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

    /// Waits for new rules. Cancel safe.
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
                self.metrics.config_valid.set(0);
                None
            }
        }
    }

    /// Returns the rules of a text, if it has changed and is valid.
    fn apply(&mut self, text: String) -> Option<RuleSet> {
        if text == self.text {
            // The file may have been missing in between.
            self.metrics.config_valid.set(self.is_usable.into());
            return None;
        }
        self.text = text;
        let rules = RuleSet::parse(&self.text);
        self.is_usable = rules.is_ok();
        self.metrics.config_valid.set(self.is_usable.into());
        match rules {
            Ok(rules) => {
                tracing::info!(file = %self.path.display(), "loaded rules");
                warn(&rules);
                Some(rules)
            }
            Err(error) => {
                tracing::error!(%error, file = %self.path.display(), "cannot load the rule file; keeping the previous rules");
                None
            }
        }
    }
}

impl LoggedWarnings {
    /// Logs a warning that has not been logged before.
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

    struct Fixture {
        file: RuleFile,
        registry: Registry,
        folder: tempfile::TempDir,
    }

    impl Fixture {
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

        /// Writes or removes the file and reloads it. `expected`: the number of rules if they are
        /// new, and whether the last reload failed.
        async fn check(&mut self, text: Option<&str>, expected: (Option<usize>, bool)) {
            let path = self.folder.path().join("rules.yaml");
            match text {
                Some(text) => std::fs::write(&path, text).expect("a file"),
                None => std::fs::remove_file(&path).expect("a file"),
            }
            let rules = self.file.reload().await.map(|rules| rules.custom.len());
            let shown = TextEncoder::new().encode_to_string(&self.registry.gather());
            let failed = "plimsoll_adapter_rules_config_last_reload_successful 0";
            let has_failed = shown.expect("text").contains(failed);
            assert_eq!((rules, has_failed), expected, "{text:?}");
        }
    }

    #[tokio::test]
    async fn a_valid_file_after_an_invalid_one_is_loaded() {
        let mut fixture = Fixture::new();
        fixture.check(Some(ONE), (None, false)).await;
        fixture.check(None, (None, true)).await;
        fixture.check(Some(ONE), (None, false)).await;
        fixture.check(Some("rules: ["), (None, true)).await;
        fixture.check(Some("rules: ["), (None, true)).await;
        fixture.check(None, (None, true)).await;
        fixture.check(Some("rules: ["), (None, true)).await;
        fixture.check(Some(ONE), (Some(1), false)).await;
        fixture.check(Some(NONE), (Some(0), false)).await;
    }
}
