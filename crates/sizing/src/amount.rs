//! Resource amounts as integers (millicores or bytes), of one resource limited to upstream's range, of
//! both with saturating sums and differences.
//!
//! Source: upstream `pkg/recommender/model/types.go` (`resourceAmountFromFloat`, `ScaleResource`).

use std::iter::Sum;
use std::ops::{Add, Sub};

use model::{Cpu, Memory, ResourceName};

pub(crate) const MAX: f64 = 1e14;

/// The integral part of a number, between 0 and the largest amount; 0 for NaN.
pub(crate) fn from_f64(amount: f64) -> i64 {
    amount.clamp(0.0, MAX) as i64
}

pub(crate) fn scale(amount: i64, factor: f64) -> i64 {
    from_f64(amount as f64 * factor)
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Amounts {
    pub cpu: Cpu,
    pub memory: Memory,
}

impl Amounts {
    pub fn new(millicores: i64, bytes: i64) -> Self {
        Self {
            cpu: Cpu::from_millicores(millicores),
            memory: Memory::from_bytes(bytes),
        }
    }

    /// The amount of a resource, in millicores or bytes.
    pub(crate) fn of(&self, resource: &ResourceName) -> i64 {
        match resource {
            ResourceName::Cpu => self.cpu.millicores(),
            _ => self.memory.bytes(),
        }
    }

    #[must_use]
    pub fn max(self, other: Self) -> Self {
        self.each(other, i64::max)
    }

    #[must_use]
    pub fn min(self, other: Self) -> Self {
        self.each(other, i64::min)
    }

    /// Both amounts changed in the same way.
    #[must_use]
    pub fn map(self, change: fn(i64) -> i64) -> Self {
        let (millicores, bytes) = (self.cpu.millicores(), self.memory.bytes());
        Self::new(change(millicores), change(bytes))
    }

    fn each(self, other: Self, combine: fn(i64, i64) -> i64) -> Self {
        Self::new(
            combine(self.cpu.millicores(), other.cpu.millicores()),
            combine(self.memory.bytes(), other.memory.bytes()),
        )
    }
}

impl Add for Amounts {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        self.each(other, i64::saturating_add)
    }
}

impl Sub for Amounts {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        self.each(other, i64::saturating_sub)
    }
}

impl Sum for Amounts {
    fn sum<I: Iterator<Item = Self>>(amounts: I) -> Self {
        amounts.fold(Self::default(), Add::add)
    }
}
