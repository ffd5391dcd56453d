//! Upstream's flags that have no meaning here. They are accepted, so that an existing Deployment
//! starts unchanged. A value that asks for a different behaviour is logged.
//!
//! Source: klog's `InitFlags`, and `--profiling` of the Vertical Pod Autoscaler's common flags.

use clap::{Arg, ArgAction, ArgMatches, Args, Command, Error, FromArgMatches};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IgnoredFlag {
    pub name: &'static str,
    /// Upstream's default, which is also the behaviour here.
    pub default: &'static str,
    /// The reason why it is ignored, for `--help` and the log.
    pub reason: &'static str,
}

const LOG_FILE: &str = "all log lines go to standard error";
const HEADER: &str = "the format of log lines is set by --log-format";
const SOURCE_FILE: &str =
    "it names source files of upstream; the environment variable RUST_LOG sets levels per module";

/// All ignored flags. Those with the default `true` or `false` are booleans.
pub const FLAGS: [IgnoredFlag; 13] = [
    ignored(
        "profiling",
        "false",
        "the program has no profiling endpoint",
    ),
    ignored("logtostderr", "true", LOG_FILE),
    ignored("alsologtostderr", "false", LOG_FILE),
    ignored("alsologtostderrthreshold", "0", LOG_FILE),
    ignored("log-dir", "", LOG_FILE),
    ignored("log-file", "", LOG_FILE),
    ignored("log-file-max-size", "1800", LOG_FILE),
    ignored("one-output", "false", LOG_FILE),
    ignored("skip-log-headers", "false", LOG_FILE),
    ignored("skip-headers", "false", HEADER),
    ignored("add-dir-header", "false", HEADER),
    ignored("log-backtrace-at", ":0", SOURCE_FILE),
    ignored("vmodule", "", SOURCE_FILE),
];

const fn ignored(name: &'static str, default: &'static str, reason: &'static str) -> IgnoredFlag {
    IgnoredFlag {
        name,
        default,
        reason,
    }
}

impl IgnoredFlag {
    fn is_switch(&self) -> bool {
        matches!(self.default, "true" | "false")
    }

    fn arg(&self) -> Arg {
        let arg = Arg::new(self.name)
            .long(self.name)
            .default_value(self.default)
            .help(self.reason);
        let arg = arg.help_heading("Accepted without effect, since existing manifests pass them");
        if self.is_switch() {
            arg.action(ArgAction::SetTrue)
        } else {
            arg.action(ArgAction::Set).value_name("VALUE")
        }
    }

    fn value(&self, matches: &ArgMatches) -> Option<String> {
        if self.is_switch() {
            return matches.get_one::<bool>(self.name).map(bool::to_string);
        }
        matches.get_one::<String>(self.name).cloned()
    }
}

/// The ignored flags that are set to a value other than their default.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct IgnoredFlags(Vec<(IgnoredFlag, String)>);

impl IgnoredFlags {
    pub fn iter(&self) -> impl Iterator<Item = (IgnoredFlag, &str)> {
        self.0.iter().map(|(flag, value)| (*flag, value.as_str()))
    }

    pub fn warn(&self) {
        for (flag, value) in self.iter() {
            tracing::warn!("--{}={value} has no effect: {}", flag.name, flag.reason);
        }
    }
}

impl Args for IgnoredFlags {
    fn augment_args(command: Command) -> Command {
        command.args(FLAGS.iter().map(IgnoredFlag::arg))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for IgnoredFlags {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        let set = FLAGS
            .iter()
            .filter_map(|flag| Some((*flag, flag.value(matches)?)));
        Ok(Self(
            set.filter(|(flag, value)| value != flag.default).collect(),
        ))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pflag::Program;

    #[derive(Debug, clap::Parser)]
    struct Parsed {
        #[command(flatten)]
        ignored_flags: IgnoredFlags,
    }

    const PROGRAM: Program = Program {
        name: "recommender",
        version: "0.0.0",
        defaults: &[],
    };

    /// `expected`: the flags that are named in the log.
    fn check(line: &str, expected: &[(&str, &str)]) {
        let ignored_flags = PROGRAM
            .parse_line::<Parsed>(line)
            .expect(line)
            .ignored_flags;
        let named: Vec<_> = ignored_flags
            .iter()
            .map(|(flag, value)| (flag.name, value))
            .collect();
        assert_eq!(named, expected, "{line}");
    }

    #[test]
    fn an_ignored_flag_is_logged_only_when_it_is_set() {
        check("", &[]);
        for IgnoredFlag { name, default, .. } in FLAGS {
            check(&format!("--{name}={default}"), &[]);
        }
        check("--logtostderr --alsologtostderr=f", &[]);
        check(
            "--logtostderr=false --log_file=/var/log/vpa",
            &[("logtostderr", "false"), ("log-file", "/var/log/vpa")],
        );
        check("--profiling", &[("profiling", "true")]);
        check(
            "--vmodule=cluster*=6 --skip_headers",
            &[("skip-headers", "true"), ("vmodule", "cluster*=6")],
        );
        check("--log-file-max-size 10", &[("log-file-max-size", "10")]);
    }
}
