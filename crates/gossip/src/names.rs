//! Numbers for names, so that rows are small.

use armento_model::NodeName;
use std::collections::BTreeMap;

#[derive(Clone, Debug, Default)]
pub(crate) struct Names {
    numbers: BTreeMap<NodeName, u32>,
    names: Vec<Option<NodeName>>,
    free: Vec<u32>,
}

impl Names {
    pub fn number(&self, name: &NodeName) -> Option<u32> {
        self.numbers.get(name).copied()
    }

    /// Its number, a new one if it has none; `None` if there are `max` already.
    pub fn give(&mut self, name: &NodeName, max: usize) -> Option<u32> {
        if let Some(number) = self.number(name) {
            return Some(number);
        }
        if self.numbers.len() >= max {
            return None;
        }
        let number = self.free.pop().unwrap_or_else(|| {
            self.names.push(None);
            (self.names.len() - 1) as u32
        });
        self.numbers.insert(name.clone(), number);
        self.names[number as usize] = Some(name.clone());
        Some(number)
    }

    pub fn name(&self, number: u32) -> Option<&NodeName> {
        self.names.get(number as usize)?.as_ref()
    }

    /// In order of names.
    pub fn all(&self) -> impl Iterator<Item = (&NodeName, u32)> {
        self.numbers.iter().map(|(name, number)| (name, *number))
    }

    /// The numbers of the others may be assigned again.
    pub fn keep(&mut self, kept: impl Fn(u32) -> bool) {
        let (names, free) = (&mut self.names, &mut self.free);
        self.numbers.retain(|_, number| {
            let stays = kept(*number);
            if !stays {
                names[*number as usize] = None;
                free.push(*number);
            }
            stays
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn number_is_assigned_to_one_name_at_a_time() {
        let name = |text: &str| -> NodeName { text.parse().unwrap() };
        let mut names = Names::default();
        let given = ["b", "a", "b"].map(|n| names.give(&name(n), 2));
        assert_eq!(given, [Some(0), Some(1), Some(0)]);
        assert_eq!(names.give(&name("c"), 2), None);
        names.keep(|number| number != 0);
        assert_eq!((names.number(&name("b")), names.name(0)), (None, None));
        assert_eq!(names.give(&name("c"), 2), Some(0));
        let all: Vec<String> = names.all().map(|(n, i)| format!("{n}{i}")).collect();
        assert_eq!(all, ["a1", "c0"]);
    }
}
