//! List of allowed container sizes: the smallest CPU class that fits the CPU and has a memory size
//! that fits the memory.
//!
//! Source: `pkg/recommendation/recommender/resource/resource_spec.go`. There the result is printed
//! with two decimals; here it is exact.

use model::{Cpu, Memory};

const MAX_ITEMS: usize = 1000;

const GIB: f64 = (1u64 << 30) as f64;

#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub struct Specification {
    pub cores: f64,
    pub gibibytes: f64,
}

/// A list of sizes, ordered by CPU, then memory.
#[derive(Clone, Debug, PartialEq)]
pub struct Specifications(Vec<Specification>);

impl Specifications {
    /// Parses a list such as `0.25c0.5g,1c2g`: items are separated by commas, and the two numbers
    /// of an item by anything else.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut list = text.split(',').map(item).collect::<Result<Vec<_>, _>>()?;
        if list.len() > MAX_ITEMS {
            return Err(format!("there are more than {MAX_ITEMS} sizes"));
        }
        list.sort_by(|a, b| {
            a.cores
                .total_cmp(&b.cores)
                .then(a.gibibytes.total_cmp(&b.gibibytes))
        });
        Ok(Self(list))
    }

    pub fn items(&self) -> &[Specification] {
        &self.0
    }

    /// The first size that fits both, if any.
    pub fn fit(&self, cpu: Cpu, memory: Memory) -> Option<(Cpu, Memory)> {
        let holds = |size: &&Specification| {
            size.cores >= cpu.cores() && size.gibibytes >= memory.bytes() as f64 / GIB
        };
        let size = self.0.iter().find(holds)?;
        let millicores = (size.cores * 1000.0).ceil() as i64;
        let bytes = (size.gibibytes * GIB).ceil() as i64;
        // Sizes of zero are invalid.
        (millicores > 0 && bytes > 0)
            .then(|| (Cpu::from_millicores(millicores), Memory::from_bytes(bytes)))
    }
}

fn item(text: &str) -> Result<Specification, String> {
    let numbers = text.split(|letter: char| !(letter.is_ascii_digit() || letter == '.'));
    let numbers = numbers
        .filter(|number| !number.is_empty())
        .map(str::parse)
        .collect::<Result<Vec<f64>, _>>();
    match numbers.as_deref() {
        Ok([cores, gibibytes]) if cores.is_finite() && gibibytes.is_finite() => Ok(Specification {
            cores: *cores,
            gibibytes: *gibibytes,
        }),
        _ => Err(format!("size {text:?} is not of the form <cores>c<GiB>g")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(list: &str, millicores: i64, bytes: i64, expected: Option<(i64, i64)>) {
        let list = Specifications::parse(list).expect("a list");
        let fit = list.fit(Cpu::from_millicores(millicores), Memory::from_bytes(bytes));
        let fit = fit.map(|(cpu, memory)| (cpu.millicores(), memory.bytes()));
        assert_eq!(fit, expected);
    }

    #[test]
    fn a_size_keeps_its_exact_value() {
        check("0.125c0.125g", 100, 1 << 20, Some((125, 1 << 27)));
        check("1c1g,2c8g", 500, 4 << 30, Some((2000, 8 << 30)));
        check("1c1g,2c8g", 2001, 1, None);
        check("0c0g,1c1g", 0, 0, None);
    }

    #[test]
    fn an_item_has_exactly_two_numbers() {
        for text in ["", "1c", "1c2g3x", "1.2.3c1g", "1c2g,", "."] {
            assert!(Specifications::parse(text).is_err(), "{text}");
        }
    }
}
