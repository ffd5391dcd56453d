//! Parameters of the program, from flags and from queries.

const MAX_MIB: u64 = 1 << 20;
const MAX_SECONDS: u64 = 24 * 60 * 60;
pub(crate) const MAX_CPU_MILLICORES: u64 = 4_000;

/// Changes by the flags or by one request. A parameter that is not given keeps its value.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Parameters {
    pub(crate) memory: MemoryParameters,
    /// The time until the memory parameters of the same flags or request apply. Default: at once.
    pub(crate) memory_after_seconds: u64,
    pub(crate) cpu_millicores: Option<u64>,
    /// Counts from the start of the program.
    pub(crate) ready_after_seconds: Option<u64>,
    pub(crate) ignore_sigterm: Option<bool>,
}

#[derive(Debug, Default, PartialEq, Clone, Copy)]
pub(crate) struct MemoryParameters {
    pub(crate) mib: Option<u64>,
    pub(crate) grow_mib_per_second: Option<u64>,
    /// Ends the growth, and does not limit `mib`.
    pub(crate) max_mib: Option<u64>,
}

impl Parameters {
    /// Parses `memory-mib=100&ignore-sigterm=true`. The error names the parameter.
    pub(crate) fn from_query(query: &str) -> Result<Self, String> {
        let mut parameters = Self::default();
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            parameters.set(name, value)?;
        }
        parameters.validate()?;
        Ok(parameters)
    }

    fn set(&mut self, name: &str, value: &str) -> Result<(), String> {
        match name {
            "memory-mib" => self.memory.mib = Some(number(name, value, MAX_MIB)?),
            "memory-after-seconds" => {
                self.memory_after_seconds = number(name, value, MAX_SECONDS)?;
            }
            "grow-mib-per-second" => {
                self.memory.grow_mib_per_second = Some(number(name, value, MAX_MIB)?);
            }
            "memory-max-mib" => self.memory.max_mib = Some(number(name, value, MAX_MIB)?),
            "cpu-millicores" => {
                self.cpu_millicores = Some(number(name, value, MAX_CPU_MILLICORES)?);
            }
            "ready-after-seconds" => {
                self.ready_after_seconds = Some(number(name, value, MAX_SECONDS)?);
            }
            "ignore-sigterm" => {
                let parsed = value.parse();
                let error = |_| format!("{name}: {value:?} is neither true nor false");
                self.ignore_sigterm = Some(parsed.map_err(error)?);
            }
            _ => return Err(format!("{name}: unknown parameter")),
        }
        Ok(())
    }

    fn validate(&self) -> Result<(), String> {
        if self.memory_after_seconds > 0 && self.memory == MemoryParameters::default() {
            return Err("memory-after-seconds: needs another memory parameter".to_owned());
        }
        Ok(())
    }
}

/// The command line.
#[derive(Debug, PartialEq)]
pub(crate) struct Flags {
    pub(crate) port: u16,
    pub(crate) start_after_seconds: u64,
    pub(crate) parameters: Parameters,
}

impl Flags {
    /// Parses `--name=value` and `--name value`.
    pub(crate) fn parse(arguments: impl IntoIterator<Item = String>) -> Result<Self, String> {
        let mut flags = Self {
            port: 8080,
            start_after_seconds: 0,
            parameters: Parameters::default(),
        };
        let mut arguments = arguments.into_iter();
        while let Some(argument) = arguments.next() {
            let flag = argument.strip_prefix("--");
            let flag = flag.ok_or_else(|| format!("{argument}: not a flag"))?;
            let (name, value) = match flag.split_once('=') {
                Some((name, value)) => (name, value.to_owned()),
                None => (flag, arguments.next().unwrap_or_default()),
            };
            match name {
                "port" => {
                    let port = number(name, &value, u16::MAX.into())?;
                    flags.port = port as u16;
                }
                "start-after-seconds" => {
                    flags.start_after_seconds = number(name, &value, MAX_SECONDS)?;
                }
                _ => flags.parameters.set(name, &value)?,
            }
        }
        flags.parameters.validate()?;
        Ok(flags)
    }
}

fn number(name: &str, value: &str, max: u64) -> Result<u64, String> {
    let parsed = value.parse().ok().filter(|number| *number <= max);
    parsed.ok_or_else(|| format!("{name}: {value:?} is not a whole number from 0 to {max}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_sets_what_it_names() {
        let query = "memory-mib=300&grow-mib-per-second=5&memory-max-mib=400&memory-after-seconds=9\
                     &cpu-millicores=250&ready-after-seconds=30&ignore-sigterm=true";
        let expected = Parameters {
            memory: MemoryParameters {
                mib: Some(300),
                grow_mib_per_second: Some(5),
                max_mib: Some(400),
            },
            memory_after_seconds: 9,
            cpu_millicores: Some(250),
            ready_after_seconds: Some(30),
            ignore_sigterm: Some(true),
        };
        assert_eq!(Parameters::from_query(query), Ok(expected));
        assert_eq!(Parameters::from_query(""), Ok(Parameters::default()));
    }

    #[test]
    fn an_error_names_the_parameter() {
        for (query, name) in [
            ("memory=1", "memory"),
            ("memory-mib", "memory-mib"),
            ("memory-mib=1&cpu-millicores=1.5", "cpu-millicores"),
            ("memory-mib=-1", "memory-mib"),
            ("cpu-millicores=4001", "cpu-millicores"),
            ("ignore-sigterm=yes", "ignore-sigterm"),
            ("ready-after-seconds=1000000", "ready-after-seconds"),
            ("memory-after-seconds=5", "memory-after-seconds"),
            // A flag only.
            ("port=1", "port"),
        ] {
            let error = Parameters::from_query(query).expect_err(query);
            assert!(error.starts_with(&format!("{name}: ")), "{query}: {error}");
        }
    }

    #[test]
    fn a_flag_has_its_value_after_an_equals_sign_or_a_space() {
        let check = |line: &str| Flags::parse(line.split(' ').map(str::to_owned));
        let flags = check("--port=0 --start-after-seconds 2 --memory-mib 7 --ignore-sigterm=true");
        let mut parameters = Parameters::default();
        parameters.memory.mib = Some(7);
        parameters.ignore_sigterm = Some(true);
        let expected = Flags {
            port: 0,
            start_after_seconds: 2,
            parameters,
        };
        assert_eq!(flags, Ok(expected));
        for (line, name) in [
            ("--port=65536", "port"),
            ("--memory-mib", "memory-mib"),
            ("--memory", "memory"),
            ("memory-mib=1", "memory-mib=1"),
        ] {
            let error = check(line).expect_err(line);
            assert!(error.starts_with(&format!("{name}: ")), "{line}: {error}");
        }
    }
}
