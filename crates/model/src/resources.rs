//! Amounts of CPU and memory, and Kubernetes resource lists.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::fmt;

use serde::de::{Deserializer, MapAccess, Visitor};
use serde::ser::Serializer;
use serde::{Deserialize, Serialize};

use crate::Quantity;

/// CPU in millicores.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Cpu(i64);

impl Cpu {
    pub const fn from_millicores(millicores: i64) -> Self {
        Self(millicores)
    }

    pub const fn millicores(self) -> i64 {
        self.0
    }

    pub fn cores(self) -> f64 {
        self.0 as f64 / 1000.0
    }
}

impl From<&Quantity> for Cpu {
    fn from(quantity: &Quantity) -> Self {
        Self(quantity.milli_value())
    }
}

impl From<Cpu> for Quantity {
    fn from(cpu: Cpu) -> Self {
        Self::from_milli(cpu.0)
    }
}

/// Memory in bytes.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Memory(i64);

impl Memory {
    pub const fn from_bytes(bytes: i64) -> Self {
        Self(bytes)
    }

    pub const fn bytes(self) -> i64 {
        self.0
    }
}

impl From<&Quantity> for Memory {
    fn from(quantity: &Quantity) -> Self {
        Self(quantity.value())
    }
}

impl From<Memory> for Quantity {
    fn from(memory: Memory) -> Self {
        Self::from_bytes(memory.0)
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum ResourceName {
    Cpu,
    Memory,
    /// Another resource, such as `ephemeral-storage`.
    Other(Box<str>),
}

impl ResourceName {
    pub fn as_str(&self) -> &str {
        match self {
            Self::Cpu => "cpu",
            Self::Memory => "memory",
            Self::Other(name) => name,
        }
    }
}

impl From<&str> for ResourceName {
    fn from(name: &str) -> Self {
        match name {
            "cpu" => Self::Cpu,
            "memory" => Self::Memory,
            other => Self::Other(other.into()),
        }
    }
}

impl Ord for ResourceName {
    fn cmp(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Cpu, Self::Cpu) | (Self::Memory, Self::Memory) => Ordering::Equal,
            (Self::Cpu, Self::Memory) => Ordering::Less,
            (Self::Memory, Self::Cpu) => Ordering::Greater,
            _ => self.as_str().cmp(other.as_str()),
        }
    }
}

impl PartialOrd for ResourceName {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Display for ResourceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl Serialize for ResourceName {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for ResourceName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Self::from(&*Cow::<str>::deserialize(deserializer)?))
    }
}

/// Amounts by resource name, in order of the names. A sorted vector: lists are short.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct ResourceList(Vec<(ResourceName, Quantity)>);

impl ResourceList {
    pub const fn new() -> Self {
        Self(Vec::new())
    }

    pub fn of(cpu: Cpu, memory: Memory) -> Self {
        Self(vec![
            (ResourceName::Cpu, cpu.into()),
            (ResourceName::Memory, memory.into()),
        ])
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn get(&self, name: &ResourceName) -> Option<&Quantity> {
        let index = self.position(name).ok()?;
        Some(&self.0[index].1)
    }

    /// The amount of CPU, rounded up to millicores.
    pub fn cpu(&self) -> Option<Cpu> {
        self.get(&ResourceName::Cpu).map(Cpu::from)
    }

    /// The amount of memory, rounded up to bytes.
    pub fn memory(&self) -> Option<Memory> {
        self.get(&ResourceName::Memory).map(Memory::from)
    }

    pub fn insert(&mut self, name: ResourceName, quantity: Quantity) {
        match self.position(&name) {
            Ok(index) => self.0[index].1 = quantity,
            Err(index) => self.0.insert(index, (name, quantity)),
        }
    }

    pub fn remove(&mut self, name: &ResourceName) {
        if let Ok(index) = self.position(name) {
            self.0.remove(index);
        }
    }

    /// The resources in order of their names.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&ResourceName, &Quantity)> {
        self.0.iter().map(|(name, quantity)| (name, quantity))
    }

    /// The resources in order of their names, with mutable amounts.
    pub fn iter_mut(&mut self) -> impl ExactSizeIterator<Item = (&ResourceName, &mut Quantity)> {
        self.0.iter_mut().map(|(name, quantity)| (&*name, quantity))
    }

    fn position(&self, name: &ResourceName) -> Result<usize, usize> {
        self.0.binary_search_by(|(listed, _)| listed.cmp(name))
    }
}

impl FromIterator<(ResourceName, Quantity)> for ResourceList {
    fn from_iter<I: IntoIterator<Item = (ResourceName, Quantity)>>(amounts: I) -> Self {
        let mut list = Self::new();
        for (name, quantity) in amounts {
            list.insert(name, quantity);
        }
        list
    }
}

impl Serialize for ResourceList {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.iter())
    }
}

impl<'de> Deserialize<'de> for ResourceList {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(ListVisitor)
    }
}

struct ListVisitor;

impl<'de> Visitor<'de> for ListVisitor {
    type Value = ResourceList;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a map from resource name to quantity")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<ResourceList, A::Error> {
        let mut list = ResourceList::new();
        while let Some((name, quantity)) = map.next_entry()? {
            list.insert(name, quantity);
        }
        Ok(list)
    }
}
