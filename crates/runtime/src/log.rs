//! Structured logs on standard error, as text or one JSON object per line.

use std::backtrace::Backtrace;
use std::fmt;
use std::str::FromStr;

use anyhow::anyhow;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::ParseError;
use tracing_subscriber::fmt::format::FmtSpan;

/// The format of log lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    Text,
    Json,
}

/// Flags of the log of every service.
#[derive(Debug, Clone, PartialEq, clap::Args)]
pub struct LogArgs {
    /// Log verbosity as in klog: 0-1 warnings and errors, 2-4 information, 5-7 debug, 8 and more
    /// everything. The environment variable `RUST_LOG`, such as `info,recommender=debug`, sets levels
    /// per module instead.
    #[arg(long = "v", short = 'v', default_value_t = 4, value_name = "LEVEL")]
    pub v: u8,
    /// Format of the log lines on standard error.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub log_format: Format,
}

/// Flags of klog, of services that take the place of programs with klog.
#[derive(Debug, Clone, PartialEq, clap::Args)]
pub struct KlogArgs {
    /// Minimum severity of log lines with --legacy-stderr-threshold-behavior=false: info, warning,
    /// error or fatal, or 0 to 3. `RUST_LOG` overrides it.
    #[arg(long, default_value_t = Severity::Info, value_name = "SEVERITY")]
    stderrthreshold: Severity,
    /// Ignore --stderrthreshold.
    #[arg(long, default_value_t = true)]
    legacy_stderr_threshold_behavior: bool,
}

impl KlogArgs {
    pub fn threshold(&self) -> Severity {
        if self.legacy_stderr_threshold_behavior {
            Severity::Info
        } else {
            self.stderrthreshold
        }
    }
}

/// A condition that is logged once until it changes: an error that repeats, for example.
#[derive(Debug)]
pub struct LogOnce<T>(Option<T>);

impl<T> Default for LogOnce<T> {
    fn default() -> Self {
        Self(None)
    }
}

impl<T: PartialEq> LogOnce<T> {
    /// Stores `value`. Returns whether it differs from the one stored before, so that it is to be
    /// logged.
    pub fn is_new(&mut self, value: T) -> bool {
        self.update(Some(value)).is_some()
    }

    /// Stores the condition, or its end. Returns it if it is to be logged.
    pub fn update(&mut self, value: Option<T>) -> Option<&T> {
        let is_new = self.0 != value;
        self.0 = value;
        self.0.as_ref().filter(|_| is_new)
    }

    /// Forgets the value, so that it is logged again when it returns.
    pub fn clear(&mut self) {
        self.0 = None;
    }
}

/// Libraries whose debug lines are of use to their authors only; logged from verbosity 8.
const NOISY_LIBRARIES: [&str; 7] = [
    "h2",
    "hyper",
    "hyper_util",
    "kube_client",
    "rustls",
    "tokio_util",
    "tower",
];

/// Starts logging to standard error, including panics.
pub fn init(args: &LogArgs, threshold: Severity) -> anyhow::Result<()> {
    let directives = std::env::var("RUST_LOG").unwrap_or_default();
    let filter = filter(args.v, threshold, &directives)
        .map_err(|error| anyhow!("invalid RUST_LOG: {error}"))?;
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_span_events(FmtSpan::NONE)
        .with_writer(std::io::stderr);
    let set = match args.log_format {
        Format::Text => builder
            .with_ansi(std::io::IsTerminal::is_terminal(&std::io::stderr()))
            .try_init(),
        Format::Json => builder.json().flatten_event(true).try_init(),
    };
    set.map_err(|_| anyhow!("logging is already set up"))?;
    std::panic::set_hook(Box::new(|panic| {
        let backtrace = Backtrace::capture();
        tracing::error!(%panic, %backtrace, "panicked");
    }));
    Ok(())
}

fn filter(verbosity: u8, threshold: Severity, directives: &str) -> Result<EnvFilter, ParseError> {
    if !directives.is_empty() {
        return EnvFilter::builder().parse(directives);
    }
    let level = level(verbosity).min(threshold.level());
    let quiet: &[&str] = if level == LevelFilter::DEBUG {
        &NOISY_LIBRARIES
    } else {
        &[]
    };
    // Its warnings have whole answers of the API server, which may be many MiB or a Secret.
    let has_warnings = level > LevelFilter::ERROR && level < LevelFilter::TRACE;
    let client = has_warnings.then(|| "kube_client::client=error".to_owned());
    let directives: Vec<_> = quiet
        .iter()
        .map(|library| format!("{library}=info"))
        .chain(client)
        .chain([level.to_string()])
        .collect();
    EnvFilter::builder().parse(directives.join(","))
}

/// The level of a verbosity. klog prints information from verbosity 0 and upstream runs at 4. A
/// line here is one decision, which upstream logs between 2 and 4.
fn level(verbosity: u8) -> LevelFilter {
    match verbosity {
        0..=1 => LevelFilter::WARN,
        2..=4 => LevelFilter::INFO,
        5..=7 => LevelFilter::DEBUG,
        8.. => LevelFilter::TRACE,
    }
}

/// klog's minimum severity of log lines, for `--stderrthreshold`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// All lines of the verbosity.
    #[default]
    Info,
    Warning,
    Error,
    /// Lines that end the process in klog. Here the same as errors.
    Fatal,
}

const INVALID: &str = "expected info, warning, error, fatal or 0 to 3";

impl FromStr for Severity {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.to_ascii_lowercase().as_str() {
            "info" | "0" => Ok(Self::Info),
            "warning" | "1" => Ok(Self::Warning),
            "error" | "2" => Ok(Self::Error),
            "fatal" | "3" => Ok(Self::Fatal),
            _ => Err(INVALID),
        }
    }
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Info => "info",
            Self::Warning => "warning",
            Self::Error => "error",
            Self::Fatal => "fatal",
        })
    }
}

impl Severity {
    pub(crate) fn level(self) -> LevelFilter {
        match self {
            Self::Info => LevelFilter::TRACE,
            Self::Warning => LevelFilter::WARN,
            Self::Error | Self::Fatal => LevelFilter::ERROR,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pflag::Program;

    #[test]
    fn a_repeated_error_is_logged_once_until_it_changes_or_ends() {
        let mut logged = LogOnce::default();
        for (error, expected) in [("a", true), ("a", false), ("b", true), ("a", true)] {
            assert_eq!(logged.is_new(error), expected, "{error}");
        }
        logged.clear();
        assert!(logged.is_new("a"));
        for (error, expected) in [(Some("a"), None), (None, None), (Some("a"), Some(&"a"))] {
            assert_eq!(logged.update(error), expected, "{error:?}");
        }
    }

    #[derive(Debug, clap::Parser)]
    struct Args {
        #[command(flatten)]
        log: LogArgs,
        #[command(flatten)]
        klog: KlogArgs,
    }

    const PROGRAM: Program = Program {
        name: "recommender",
        version: "0.0.0",
        defaults: &[],
    };

    fn check(line: &str, expected: &str) {
        let Args { log, klog } = PROGRAM.parse_line(line).expect(line);
        let filter = filter(log.v, klog.threshold(), "").expect(line);
        assert_eq!(filter.to_string(), expected, "{line}");
    }

    #[test]
    fn verbosity_becomes_a_level_unless_directives_are_given() {
        check("--v=0", "kube_client::client=error,warn");
        check("--v=4", "kube_client::client=error,info");
        check("--v=9", "trace");
        let directives = filter(4, Severity::Info, "warn,recommender=debug").unwrap();
        assert_eq!(directives.to_string(), "recommender=debug,warn");
        let debug = filter(5, Severity::Info, "").unwrap().to_string();
        assert!(debug.contains("hyper=info"), "{debug}");
    }

    #[test]
    fn lines_below_the_threshold_are_not_written() {
        let check = |line: &str, expected| {
            check(
                &format!("--legacy_stderr_threshold_behavior=false {line}"),
                expected,
            );
        };
        check("--stderrthreshold=info", "kube_client::client=error,info");
        check(
            "--stderrthreshold=warning --v=9",
            "kube_client::client=error,warn",
        );
        check("--stderrthreshold=2", "error");
        let directives = filter(4, Severity::Error, "debug").unwrap();
        assert_eq!(directives.to_string(), "debug");
    }

    #[test]
    fn a_threshold_is_ignored_by_default() {
        for line in ["", "--legacy_stderr_threshold_behavior"] {
            let line = format!("--stderrthreshold=fatal {line}");
            check(&line, "kube_client::client=error,info");
        }
    }

    #[test]
    fn a_wrong_directive_is_refused() {
        let error = filter(4, Severity::Info, "recommender=loud").unwrap_err();
        let expected = "error parsing level filter: expected one of";
        assert!(error.to_string().starts_with(expected), "{error}");
    }

    #[test]
    fn severities_are_written_as_words_or_numbers() {
        for (text, expected) in [
            ("INFO", Ok(Severity::Info)),
            ("0", Ok(Severity::Info)),
            ("warning", Ok(Severity::Warning)),
            ("Error", Ok(Severity::Error)),
            ("3", Ok(Severity::Fatal)),
            ("4", Err(INVALID)),
            ("", Err(INVALID)),
        ] {
            assert_eq!(text.parse::<Severity>(), expected, "{text}");
        }
    }
}
