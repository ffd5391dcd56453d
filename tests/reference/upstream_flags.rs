//! Flags of the programs of upstream's VPA and of Crane: accepted, without effect, or refused.

use std::fmt::Write as _;

use crate::flags::{CommandHelp, Flag, all_commands};
use crate::{add_page, cell, page};

const VPA_INTRODUCTION: &str = "# Flags of VPA's programs

Generated from the flags of the Vertical Pod Autoscaler 1.8.1 and `--help` of the programs here. All are
accepted, with `-` or `_`, so an existing Deployment starts unchanged. A flag without effect that has another
value than its default is logged once, at the start. [Additional
flags](../differences-from-vpa.md#additional-flags) are those that upstream lacks.
";

const CRANE_INTRODUCTION: &str = "# Flags of Crane's programs

Generated from the flags of Crane's `craned` and `metric-adapter`, and `--help` of the programs here. A
refused flag ends the program at its start with exit code 2 and the flag's name: remove it from the
arguments. The environment variable `TZ` has no effect: schedules without a zone are in UTC.
";

fn rows(path: &str) -> Vec<String> {
    let text = page(path);
    let rows = text.lines().filter(|line| !line.starts_with('#'));
    rows.map(str::to_owned).collect()
}

fn find<'a>(commands: &'a [CommandHelp], program: &str, flag: &str) -> Option<&'a Flag> {
    let command = commands.iter().find(|command| command.words == [program])?;
    let name = format!("--{flag}");
    command.flags.iter().find(|flag| flag.name == name)
}

fn state(flag: &Flag) -> &'static str {
    if flag.is_ignored() {
        "without effect"
    } else {
        "accepted"
    }
}

/// The state, and the default if it is another one than there.
fn state_and_default(flag: &Flag, default: &str) -> String {
    let ours = flag.default.as_deref().unwrap_or_default();
    if normal(ours) == normal(default) {
        return state(flag).to_owned();
    }
    format!("{}, default `{ours}`", state(flag))
}

/// One letter case, and one form of durations and numbers, so that equal defaults are equal texts.
fn normal(default: &str) -> String {
    let default = default
        .trim_matches('"')
        .trim_end_matches("0s")
        .trim_end_matches("0m");
    if let Some(severity) = SEVERITIES.iter().position(|name| *name == default) {
        return severity.to_string();
    }
    let number = default.parse::<f64>().map(|number| number.to_string());
    number.unwrap_or_else(|_| default.to_owned())
}

#[test]
fn each_flag_of_vpas_programs_is_accepted() {
    let commands = all_commands();
    let mut text = VPA_INTRODUCTION.to_owned();
    let mut section = String::new();
    let mut other_defaults = Vec::new();
    for row in rows("tests/reference/vpa-flags.txt") {
        let mut words = row.splitn(3, ' ');
        let [program, name] = [words.next(), words.next()].map(Option::unwrap_or_default);
        let default = words.next().unwrap_or_default();
        let flag = find(&commands, program, name);
        let flag = flag.unwrap_or_else(|| panic!("{program} refuses --{name}"));
        let ours = flag.default.as_deref().unwrap_or_default();
        if normal(ours) != normal(default) {
            other_defaults.push(format!("{program} {name} {default} {ours}"));
        }
        if section != program {
            let _ = write!(
                text,
                "\n## {program}\n\n| flag | default upstream | here | meaning |\n|---|---|---|---|\n"
            );
            program.clone_into(&mut section);
        }
        let default = if default.is_empty() {
            String::new()
        } else {
            format!("`{default}`")
        };
        let (state, help) = (state(flag), cell(&flag.help));
        let _ = writeln!(text, "| `--{name}` | {default} | {state} | {help} |");
    }
    assert_eq!(
        other_defaults, OTHER_DEFAULTS,
        "defaults that differ from upstream"
    );
    add_page("flags-of-vpa.md", &text);
}

/// Program, flag, default upstream, default here.
const OTHER_DEFAULTS: [&str; 1] = ["webhook webhook-timeout-seconds 30 5"];

/// Names of severities, which klog also takes as numbers.
const SEVERITIES: [&str; 4] = ["info", "warning", "error", "fatal"];

#[test]
fn each_flag_of_cranes_programs_is_accepted_or_explained() {
    let commands = all_commands();
    let mut text = CRANE_INTRODUCTION.to_owned();
    let mut section = String::new();
    for row in rows("tests/reference/crane-flags.txt") {
        let (row, sentence) = row.split_once(" |").expect("a sentence");
        let words: Vec<&str> = row.split(' ').collect();
        let [program, name, default, ours] = words[..] else {
            panic!("{row}");
        };
        let (state, sentence) = match (find(&commands, ours, name), sentence.trim()) {
            (Some(flag), "") => (state_and_default(flag, default), cell(&flag.help)),
            (None, sentence) if !sentence.is_empty() => ("refused".to_owned(), sentence.to_owned()),
            (Some(_), _) => panic!("{ours} accepts --{name}"),
            (None, _) => panic!("{ours} refuses --{name}, and no sentence says so"),
        };
        if section != program {
            let _ = write!(
                text,
                "\n## {program}: {ours}\n\n| flag | default in Crane | here | meaning |\n|---|---|---|---|\n"
            );
            program.clone_into(&mut section);
        }
        let default = default.trim_matches('"');
        let default = if default.is_empty() {
            String::new()
        } else {
            format!("`{default}`")
        };
        let _ = writeln!(text, "| `--{name}` | {default} | {state} | {sentence} |");
    }
    add_page("flags-of-crane.md", &text);
}
