//! Flags of every program and every command, from their `--help`.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::{SERVICES, add_page, cell, check_list, help, page};

const INTRODUCTION: &str = "# Flags

Generated from `--help` of each program. In the services, `_` in the name of a flag is the same as `-`, a
boolean flag is bare or has `=true` or `=false`, and each flag has an environment variable:
`PLIMSOLL_RECOMMENDER_KUBE_API_QPS` is `--kube-api-qps` of the recommender. The command line has
precedence. [Flags of VPA's programs](flags-of-vpa.md) and [of Crane's](flags-of-crane.md) are compared with
these.
";

/// Beginning of the heading above flags that do nothing.
const NO_EFFECT: &str = "Accepted without effect";

/// One flag in the help text of a command.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Flag {
    pub(crate) name: String,
    short: Option<String>,
    value: String,
    pub(crate) default: Option<String>,
    variable: Option<String>,
    /// Help text in one line.
    pub(crate) help: String,
    pub(crate) heading: String,
}

#[derive(Debug)]
pub(crate) struct CommandHelp {
    /// The words of the command, such as `plimsoll migrate vpa`.
    pub(crate) words: Vec<String>,
    about: String,
    usage: String,
    pub(crate) subcommands: Vec<String>,
    /// The flags in their order.
    pub(crate) flags: Vec<Flag>,
}

/// The commands of all programs, with their subcommands.
pub(crate) fn all_commands() -> Vec<CommandHelp> {
    let mut commands = Vec::new();
    for program in SERVICES.into_iter().chain(["plimsoll", "sandbox"]) {
        add_commands(&mut commands, &[program.to_owned()]);
    }
    commands
}

fn add_commands(commands: &mut Vec<CommandHelp>, words: &[String]) {
    let command = parse(words.to_vec(), &help(words));
    let subcommands = command.subcommands.clone();
    commands.push(command);
    for subcommand in subcommands {
        add_commands(commands, &[words, &[subcommand]].concat());
    }
}

fn parse(words: Vec<String>, text: &str) -> CommandHelp {
    let (mut heading, mut flags) = (String::new(), Vec::<Flag>::new());
    let (mut about, mut usage, mut subcommands) = (String::new(), String::new(), Vec::new());
    for line in text.lines() {
        let indentation = line.len() - line.trim_start().len();
        let line = line.trim();
        if let Some(rest) = line.strip_prefix("Usage: ") {
            rest.clone_into(&mut usage);
        } else if indentation == 0 && line.ends_with(':') {
            line.trim_end_matches(':').clone_into(&mut heading);
        } else if usage.is_empty() {
            about = format!("{about} {line}");
        } else if flags.is_empty() && indentation == 2 && line.starts_with(char::is_alphabetic) {
            // Commands, in one or several groups, come before the flags.
            let name = line.split_whitespace().next();
            subcommands.extend(name.filter(|name| *name != "help").map(str::to_owned));
        } else if indentation < 8 && line.starts_with('-') {
            let (names, help) = line.split_once("  ").unwrap_or((line, ""));
            flags.push(flag(names, heading.clone()));
            flags.last_mut().expect("just added").add(help);
        } else if let Some(flag) = flags.last_mut().filter(|_| indentation >= 8) {
            flag.add(line);
        }
    }
    for flag in &mut flags {
        flag.finish();
    }
    let about = about.trim().to_owned();
    CommandHelp {
        words,
        about,
        usage,
        subcommands,
        flags,
    }
}

fn flag(names: &str, heading: String) -> Flag {
    let (short, long) = match names.split_once(", ") {
        Some((short, long)) => (Some(short.to_owned()), long),
        None => (None, names),
    };
    let at = long.find([' ', '[']).unwrap_or(long.len());
    let (name, value) = long.split_at(at);
    Flag {
        name: name.to_owned(),
        short,
        value: value.trim().replace(['<', '>', '[', ']'], ""),
        heading,
        ..Flag::default()
    }
}

impl Flag {
    fn add(&mut self, line: &str) {
        if let Some(value) = line.strip_prefix("- ") {
            let value = value.replace(":  ", ": ");
            let _ = write!(self.help, " {value};");
        } else {
            let _ = write!(self.help, " {line}");
        }
    }

    fn finish(&mut self) {
        self.help = self.help.split_whitespace().collect::<Vec<_>>().join(" ");
        self.variable = take(&mut self.help, "[env: ").map(|text| text.replace('=', ""));
        self.default = take(&mut self.help, "[default: ");
        let help = self.help.trim().trim_end_matches(';');
        self.help = help.replace(" Possible values: ", ". Values: ");
    }

    /// Whether the program accepts and ignores it.
    pub(crate) fn is_ignored(&self) -> bool {
        self.heading.starts_with(NO_EFFECT) || self.help.ends_with("has no effect")
    }

    /// The short form, the value and the default, as code with this sign around each.
    fn parts(&self, sign: &str) -> [String; 3] {
        let short = self.short.as_ref();
        let short = short.map(|short| format!("{sign}{short}{sign}, "));
        // A boolean flag needs no value.
        let value = match self.value.as_str() {
            "" | "=BOOL" => String::new(),
            value => format!(" {value}"),
        };
        let default = match self.default.as_deref() {
            None | Some("\"\"") => String::new(),
            Some(default) => format!("{sign}{default}{sign}"),
        };
        [short.unwrap_or_default(), value, default]
    }

    fn row(&self) -> String {
        let [short, value, default] = self.parts("`");
        let (name, value, help) = (&self.name, cell(&value), cell(&self.help));
        let space = if value.is_empty() { "" } else { " " };
        format!("| {short}`{name}`{space}{value} | {default} | {help} |\n")
    }

    /// All but the help text, for the list.
    fn summary(&self) -> String {
        let [short, value, default] = self.parts("");
        let mut summary = format!("{short}{}{value}", self.name);
        if !default.is_empty() {
            let _ = write!(summary, " [{default}]");
        }
        summary.push_str(if self.is_ignored() {
            " without effect"
        } else {
            ""
        });
        summary
    }
}

/// Cuts `opening` to the closing bracket out of the text and returns what is between.
fn take(text: &mut String, opening: &str) -> Option<String> {
    let start = text.find(opening)?;
    let mut depth = 0;
    let length = text[start..].find(|letter| {
        depth += match letter {
            '[' => 1,
            ']' => -1,
            _ => 0,
        };
        depth == 0
    })?;
    let taken = text[start + opening.len()..start + length].to_owned();
    text.replace_range(start..=start + length, "");
    Some(taken)
}

fn is_standard(flag: &Flag) -> bool {
    ["--help", "--version"].contains(&flag.name.as_str())
}

fn section(text: &mut String, command: &CommandHelp) {
    let _ = write!(
        text,
        "\n## {}\n\n{}",
        command.words.join(" "),
        cell(&command.about)
    );
    let _ = writeln!(text, ".\n\n```text\n{}\n```", command.usage);
    let mut heading = None;
    for flag in command.flags.iter().filter(|flag| !is_standard(flag)) {
        if heading != Some(&flag.heading) {
            if !["", "Options"].contains(&flag.heading.as_str()) {
                let _ = writeln!(text, "\n{}:", flag.heading);
            }
            text.push_str("\n| flag | default | meaning |\n|---|---|---|\n");
            heading = Some(&flag.heading);
        }
        text.push_str(&flag.row());
    }
}

#[test]
fn the_list_of_flags_has_those_of_the_programs() {
    let mut text = INTRODUCTION.to_owned();
    let mut commands_by_flag: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for command in all_commands() {
        let words = command.words.join(" ");
        let flags = || command.flags.iter().filter(|flag| !is_standard(flag));
        if command.subcommands.is_empty() || flags().next().is_some() {
            section(&mut text, &command);
        }
        for flag in flags() {
            let commands = commands_by_flag.entry(flag.summary()).or_default();
            commands.push(words.clone());
        }
    }
    let lines = commands_by_flag.iter();
    let lines = lines.map(|(flag, commands)| format!("{flag}: {}", commands.join(", ")));
    check_list("flags.txt", &lines.collect::<Vec<_>>());
    add_page("flags.md", &text);
}

#[test]
fn the_settings_are_those_of_the_programs() {
    let mut text = "# Settings\n\nThe defaults of [`--config`](../settings.md).\n".to_owned();
    for program in ["recommender", "updater", "webhook", "adapter"] {
        let defaults = page(&format!("crates/{program}/src/defaults.yaml"));
        let _ = write!(text, "\n## {program}\n\n```yaml\n{defaults}```\n");
    }
    add_page("settings.md", &text);
}

#[test]
fn each_flag_of_a_service_has_the_environment_variable_of_its_name() {
    for command in all_commands() {
        let program = &command.words[0];
        for flag in command.flags.iter().filter(|flag| !is_standard(flag)) {
            let name = flag.name.trim_start_matches("--");
            let expected = format!("PLIMSOLL_{program}_{name}").replace('-', "_");
            let expected = SERVICES
                .contains(&program.as_str())
                .then(|| expected.to_uppercase());
            if program != "sandbox" {
                assert_eq!(flag.variable, expected, "{program} {}", flag.name);
            }
        }
    }
}

#[test]
fn a_flag_is_read_from_both_forms_of_help() {
    let long = "  -v, --v <LEVEL>\n          Verbosity\n          \n          [env: A_V=]\n          [default: 4]\n";
    let short = "  -v, --v <LEVEL>  Verbosity [env: A_V=] [default: 4]\n";
    for text in [long, short] {
        let command = parse(vec![], &format!("About\n\nUsage: a\n\nOptions:\n{text}"));
        let expected = Flag {
            name: "--v".to_owned(),
            short: Some("-v".to_owned()),
            value: "LEVEL".to_owned(),
            default: Some("4".to_owned()),
            variable: Some("A_V".to_owned()),
            help: "Verbosity".to_owned(),
            heading: "Options".to_owned(),
        };
        assert_eq!(command.flags, [expected]);
    }
}
