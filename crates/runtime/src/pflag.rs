//! Parser of command lines in the syntax of Go's pflag, with an environment variable for every flag.
//!
//! * `--a_b` is `--a-b`; `--flag=v` and `--flag v` are the same; the last of a repeated flag wins.
//! * A boolean is bare or has `=true`, `=false` or another value of Go's `strconv.ParseBool`.
//! * A value may start with a dash (`--eviction-rate-limit -1`).
//! * The flag `--kube-api-qps` of the program `recommender` is also read from
//!   `PLIMSOLL_RECOMMENDER_KUBE_API_QPS`. The command line overrides the environment, the
//!   environment the default. A variable with a value such as `tcp://10.0.0.1:443` is ignored:
//!   Kubernetes sets it for a Service whose name has the same prefix.

use std::ffi::{OsStr, OsString};

use clap::builder::TypedValueParser as _;
use clap::{Arg, ArgAction, Command, CommandFactory, FromArgMatches};

/// The properties of a program that shared `clap::Args` cannot hold.
#[derive(Debug, Clone, Copy)]
pub struct Program {
    /// The crate name, used in logs, metrics, the user agent and environment variables.
    pub name: &'static str,
    /// `env!("CARGO_PKG_VERSION")` of the program.
    pub version: &'static str,
    /// Program-specific defaults of shared flags, such as `("address", ":8942")`.
    pub defaults: &'static [(&'static str, &'static str)],
}

impl Program {
    /// Parses the process's command line. Prints help or a usage error and exits if it does not
    /// parse.
    pub fn parse<A: CommandFactory + FromArgMatches>(&self) -> A {
        self.try_parse_from(std::env::args_os())
            .unwrap_or_else(|error| error.exit())
    }

    /// Parses a command line whose first word is the program.
    pub fn try_parse_from<A: CommandFactory + FromArgMatches>(
        &self,
        words: impl IntoIterator<Item = impl Into<OsString>>,
    ) -> Result<A, clap::Error> {
        let mut command = self.command::<A>();
        let mut matches = command.try_get_matches_from_mut(normalize_underscores(words))?;
        A::from_arg_matches_mut(&mut matches).map_err(|error| error.format(&mut command))
    }

    /// Parses a command line without the program's name, split at white space. The error is the
    /// message for the user.
    pub fn parse_line<A: CommandFactory + FromArgMatches>(&self, line: &str) -> Result<A, String> {
        let words = std::iter::once(self.name).chain(line.split_whitespace());
        self.try_parse_from(words)
            .map_err(|error| error.to_string())
    }

    /// The clap command, with defaults and environment variables.
    pub fn command<A: CommandFactory>(&self) -> Command {
        let command = A::command()
            .name(self.name)
            .version(self.version)
            .args_override_self(true);
        let command = self
            .defaults
            .iter()
            .fold(command, |command, (flag, default)| {
                command.mut_args(|arg| {
                    if arg.get_long() == Some(flag) {
                        arg.required(false).default_value(*default)
                    } else {
                        arg
                    }
                })
            });
        with_pflag_behaviour(command, self.name)
    }
}

fn with_pflag_behaviour(command: Command, program: &str) -> Command {
    command
        .mut_args(|arg| {
            match arg
                .get_long()
                .map(|long| environment_variable(program, long))
            {
                Some(variable) if takes_values(&arg) => {
                    let arg = as_boolean(arg).allow_hyphen_values(true);
                    let is_link =
                        std::env::var_os(&variable).is_some_and(|value| is_service_link(&value));
                    if is_link { arg } else { arg.env(variable) }
                }
                _ => arg,
            }
        })
        .mut_subcommands(|subcommand| {
            with_pflag_behaviour(subcommand.args_override_self(true), program)
        })
}

fn takes_values(arg: &Arg) -> bool {
    matches!(
        arg.get_action(),
        ArgAction::Set | ArgAction::Append | ArgAction::SetTrue | ArgAction::SetFalse
    )
}

/// Converts a flag to a Go boolean: absent, bare, `=true` or `=false`.
fn as_boolean(arg: Arg) -> Arg {
    if !matches!(arg.get_action(), ArgAction::SetTrue) {
        return arg;
    }
    let arg = if arg.get_default_values().is_empty() {
        arg.default_value("false")
    } else {
        arg
    };
    arg.action(ArgAction::Set)
        .num_args(0..=1)
        .require_equals(true)
        .default_missing_value("true")
        .value_name("BOOL")
        .value_parser(
            clap::builder::NonEmptyStringValueParser::new().try_map(|word| go_bool(&word)),
        )
}

/// Parses the values of Go's `strconv.ParseBool`.
pub(crate) fn go_bool(word: &str) -> Result<bool, &'static str> {
    match word {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(false),
        _ => Err("expected true or false"),
    }
}

/// The environment variable of a flag: `PLIMSOLL_<PROGRAM>_<FLAG>`.
pub fn environment_variable(program: &str, flag: &str) -> String {
    format!("PLIMSOLL_{program}_{flag}")
        .replace('-', "_")
        .to_uppercase()
}

/// Warns of ignored environment variables that Kubernetes set.
pub(crate) fn warn_of_service_links(program: &str) {
    let prefix = environment_variable(program, "");
    for (name, value) in std::env::vars_os() {
        let is_ours = name
            .to_str()
            .is_some_and(|name| name.starts_with(&prefix) && name.ends_with("_PORT"));
        if is_ours && is_service_link(&value) {
            tracing::warn!(
                ?name,
                ?value,
                "ignoring an environment variable that Kubernetes set for a Service; set enableServiceLinks: false in the pod"
            );
        }
    }
}

/// Whether Kubernetes set the value for a Service of the pod's namespace, such as
/// `tcp://10.0.0.1:443` in `PLIMSOLL_WEBHOOK_PORT` for the Service `plimsoll-webhook`.
fn is_service_link(value: &OsStr) -> bool {
    let protocols = ["tcp://", "udp://", "sctp://"];
    value
        .to_str()
        .is_some_and(|value| protocols.iter().any(|protocol| value.starts_with(protocol)))
}

/// Rewrites `--a_b=c_d` to `--a-b=c_d`. Words after a bare `--` are unchanged.
fn normalize_underscores(words: impl IntoIterator<Item = impl Into<OsString>>) -> Vec<OsString> {
    let mut flags_ended = false;
    let rewrite = |word: OsString| {
        flags_ended |= word == "--";
        match word.to_str() {
            Some(text) if text.starts_with("--") && !flags_ended => {
                let (name, value) = text.split_at(text.find('=').unwrap_or(text.len()));
                OsString::from(name.replace('_', "-") + value)
            }
            _ => word,
        }
    };
    words.into_iter().map(Into::into).map(rewrite).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::duration::GoDuration;

    #[derive(Debug, PartialEq, clap::Parser)]
    struct Flags {
        #[arg(long, default_value = "1m0s")]
        full_interval: GoDuration,
        #[arg(long, default_value_t = -1.0)]
        rate_limit: f64,
        #[arg(long)]
        memory_saver: bool,
        #[arg(long, default_value_t = true)]
        use_status: bool,
        #[arg(long)]
        name: String,
        #[arg(long = "v", short = 'v', default_value_t = 4)]
        v: u8,
        #[arg(long, default_value_t = 8000)]
        port: u16,
    }

    const PROGRAM: Program = Program {
        name: "some-program",
        version: "1.2.3",
        defaults: &[("name", "default")],
    };

    fn parse(line: &str) -> Result<Flags, String> {
        PROGRAM.parse_line(line)
    }

    fn check(line: &str, expected: impl Fn(&mut Flags)) {
        let mut flags = parse("").unwrap();
        expected(&mut flags);
        assert_eq!(parse(line), Ok(flags), "{line}");
    }

    #[test]
    fn flags_are_read_as_by_pflag() {
        check("--full_interval=90s", |flags| {
            flags.full_interval = "1m30s".parse().unwrap();
        });
        check("--full-interval 1.5h", |flags| {
            flags.full_interval = "1h30m".parse().unwrap();
        });
        check("--rate_limit -2", |flags| flags.rate_limit = -2.0);
        check("--memory-saver", |flags| flags.memory_saver = true);
        check("--memory_saver=T --use-status=0", |flags| {
            flags.memory_saver = true;
            flags.use_status = false;
        });
        check("--memory-saver --v=2", |flags| {
            flags.memory_saver = true;
            flags.v = 2;
        });
        check("-v=5", |flags| flags.v = 5);
        check("-v 6", |flags| flags.v = 6);
        check("--v=1 --v=7", |flags| flags.v = 7);
        check("--name=a_b --name --c=d_e", |flags| {
            flags.name = "--c=d_e".to_owned();
        });
    }

    #[test]
    fn defaults_of_the_program_fill_flags_without_one() {
        assert_eq!(parse("").unwrap().name, "default");
    }

    #[test]
    fn wrong_values_name_the_flag() {
        for (line, flag) in [
            ("--full-interval=1", "--full-interval"),
            ("--use-status=maybe", "--use-status"),
            ("--nonsense", "--nonsense"),
        ] {
            let error = parse(line).unwrap_err();
            assert!(error.contains(flag), "{line}: {error}");
        }
        assert!(
            parse("--memory-saver true").is_err(),
            "pflag takes no separate word for a boolean either"
        );
    }

    #[test]
    fn every_flag_has_an_environment_variable() {
        let command = PROGRAM.command::<Flags>();
        let variables: Vec<_> = command
            .get_arguments()
            .filter_map(|arg| arg.get_env()?.to_str())
            .collect();
        assert_eq!(
            variables,
            [
                "PLIMSOLL_SOME_PROGRAM_FULL_INTERVAL",
                "PLIMSOLL_SOME_PROGRAM_RATE_LIMIT",
                "PLIMSOLL_SOME_PROGRAM_MEMORY_SAVER",
                "PLIMSOLL_SOME_PROGRAM_USE_STATUS",
                "PLIMSOLL_SOME_PROGRAM_NAME",
                "PLIMSOLL_SOME_PROGRAM_V",
                "PLIMSOLL_SOME_PROGRAM_PORT",
            ]
        );
    }

    #[test]
    fn the_environment_gives_values_and_the_command_line_wins() {
        // Every variable is read from a child process, because a test must not change its own
        // environment.
        if let Ok(line) = std::env::var("TEST_FLAGS_LINE") {
            let flags = parse(&line).unwrap();
            println!(
                "RESULT {} {} {} {}",
                flags.full_interval, flags.memory_saver, flags.use_status, flags.port
            );
            return;
        }
        let run = |line: &str, port: &str| {
            let output = std::process::Command::new(std::env::current_exe().unwrap())
                .args([
                    "--exact",
                    "--nocapture",
                    "pflag::tests::the_environment_gives_values_and_the_command_line_wins",
                ])
                .env("TEST_FLAGS_LINE", line)
                .env("PLIMSOLL_SOME_PROGRAM_FULL_INTERVAL", "5m")
                .env("PLIMSOLL_SOME_PROGRAM_MEMORY_SAVER", "true")
                .env("PLIMSOLL_SOME_PROGRAM_USE_STATUS", "f")
                .env("PLIMSOLL_SOME_PROGRAM_PORT", port)
                .output()
                .unwrap();
            let text = String::from_utf8(output.stdout).unwrap();
            text.split("RESULT ")
                .nth(1)
                .and_then(|rest| rest.lines().next())
                .unwrap_or_default()
                .to_owned()
        };
        assert_eq!(run("", "9000"), "5m0s true false 9000");
        assert_eq!(
            run("--full-interval=7m --memory-saver=false", "9000"),
            "7m0s false false 9000"
        );
        // Kubernetes sets the variable so for a Service called `some-program` when the name has the
        // prefix of the variables.
        for port in ["tcp://10.0.0.1:443", "udp://[fd00::1]:53"] {
            assert_eq!(run("", port), "5m0s true false 8000");
        }
    }
}
