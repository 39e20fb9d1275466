//! Order, filter and selection of a pane's lines.

/// `K` identifies what a line shows: the selection stays with it when the order changes.
#[derive(Clone, Debug)]
pub struct List<K> {
    /// Number of the column by which it is sorted.
    pub sort: usize,
    /// Whether the largest is first.
    pub falls: bool,
    pub filter: String,
    pub chosen: Option<K>,
    /// Index of the selected line when it was last shown.
    at: usize,
}

impl<K: Clone + PartialEq> List<K> {
    pub fn new(sort: usize, falls: bool) -> List<K> {
        List {
            sort,
            falls,
            filter: String::new(),
            chosen: None,
            at: 0,
        }
    }

    /// Sorts by that column, its usual way round; by the same again: the other way round.
    pub fn sort_by(&mut self, column: usize, falls: bool) {
        self.falls = if self.sort == column {
            !self.falls
        } else {
            falls
        };
        self.sort = column;
    }

    /// Index of the selected one of `keys`.
    pub fn place(&self, keys: &[K]) -> Option<usize> {
        let chosen = self.chosen.as_ref()?;
        keys.iter().position(|k| k == chosen)
    }

    /// Moves the selection; without one the first step selects the line where it was last.
    pub fn step(&mut self, keys: &[K], by: isize) {
        let Some(last) = keys.len().checked_sub(1) else {
            return;
        };
        let to = match self.place(keys) {
            Some(at) => at.saturating_add_signed(by),
            None if by.unsigned_abs() >= keys.len() => {
                if by < 0 {
                    0
                } else {
                    last
                }
            }
            None => self.at,
        };
        self.at = to.min(last);
        self.chosen = Some(keys[self.at].clone());
    }

    /// Called after `keys` changed. False when the selected line has gone: then none is selected.
    pub fn settle(&mut self, keys: &[K]) -> bool {
        match self.place(keys) {
            Some(at) => self.at = at,
            None if self.chosen.take().is_some() => return false,
            None => {}
        }
        true
    }
}

/// The first of `count` lines that is shown in a window of `height`, so that the selected one is in its middle.
pub fn top(count: usize, chosen: Option<usize>, height: usize) -> usize {
    let above = chosen.map_or(0, |at| at.saturating_sub(height / 2));
    above.min(count.saturating_sub(height))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn selection_stays_with_its_line() {
        let mut list = List::new(0, false);
        list.step(&["a", "b", "c"], 1);
        assert_eq!(list.chosen, Some("a"));
        list.step(&["a", "b", "c"], 1);
        assert!(list.settle(&["c", "b", "a"]));
        assert_eq!(list.chosen, Some("b"));
        list.step(&["c", "b", "a"], 9);
        assert_eq!(list.chosen, Some("a"));
        list.step(&["c", "b", "a"], -isize::MAX);
        assert_eq!(list.chosen, Some("c"));
        assert!(!list.settle(&["b"]));
        assert_eq!(list.chosen, None);
        list.step(&["b"], 1);
        assert_eq!(list.chosen, Some("b"));
        list.step(&[], 1);
        assert_eq!(list.chosen, Some("b"));
        let mut fresh = List::new(0, false);
        fresh.step(&["a", "b"], isize::MAX);
        assert_eq!(fresh.chosen, Some("b"));
    }

    #[test]
    fn windows_contain_the_selection() {
        let check = |count, chosen, first| assert_eq!(top(count, chosen, 10), first);
        check(5, Some(4), 0);
        check(100, None, 0);
        check(100, Some(3), 0);
        check(100, Some(50), 45);
        check(100, Some(99), 90);
        check(0, None, 0);
    }
}
