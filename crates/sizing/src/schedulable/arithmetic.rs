//! Saturating sums and differences of amounts of both resources.

use std::iter::Sum;
use std::ops::{Add, Sub};

use model::{Cpu, Memory};

use crate::estimate::Amounts;

impl Add for Amounts {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        each(self, other, i64::saturating_add)
    }
}

impl Sub for Amounts {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        each(self, other, i64::saturating_sub)
    }
}

impl Sum for Amounts {
    fn sum<I: Iterator<Item = Self>>(amounts: I) -> Self {
        amounts.fold(Self::default(), Add::add)
    }
}

impl Amounts {
    #[must_use]
    pub fn max(self, other: Self) -> Self {
        each(self, other, i64::max)
    }
}

fn each(a: Amounts, b: Amounts, combine: fn(i64, i64) -> i64) -> Amounts {
    Amounts {
        cpu: Cpu::from_millicores(combine(a.cpu.millicores(), b.cpu.millicores())),
        memory: Memory::from_bytes(combine(a.memory.bytes(), b.memory.bytes())),
    }
}
