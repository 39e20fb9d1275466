//! Lines as a forest: each below its parent, as `ps f` draws it.

use std::collections::{HashMap, HashSet};
use std::hash::Hash;

/// Deeper generations are drawn at this depth.
const DEPTH_MAX: usize = 64;

/// Rows from the roots down, by index, each with what is drawn before its name. `rows`: what names a row, and what names
/// its parent. Siblings, and roots, keep their order; a row whose parent is not among them is a root.
pub fn forest<K: Eq + Hash>(rows: &[(K, K)]) -> Vec<(usize, String)> {
    let known: HashSet<&K> = rows.iter().map(|(own, _)| own).collect();
    let mut children: HashMap<&K, Vec<usize>> = HashMap::new();
    let mut open: Vec<(usize, String, bool, usize)> = Vec::new();
    for (i, (own, parent)) in rows.iter().enumerate() {
        if own != parent && known.contains(parent) {
            children.entry(parent).or_default().push(i);
        } else {
            open.push((i, String::new(), true, 0));
        }
    }
    open.reverse();
    let mut order = Vec::with_capacity(rows.len());
    let mut seen = vec![false; rows.len()];
    let mut unseen = 0;
    loop {
        while let Some((i, before, last, depth)) = open.pop() {
            if std::mem::replace(&mut seen[i], true) {
                continue;
            }
            let drawn = match depth {
                0 => String::new(),
                _ => format!("{before} \\_ "),
            };
            let below = match (depth, last) {
                (0, _) | (DEPTH_MAX.., _) => before,
                (_, true) => before + "    ",
                (_, false) => before + " |  ",
            };
            order.push((i, drawn));
            let own = children.get(&rows[i].0).map_or(&[][..], Vec::as_slice);
            for (n, child) in own.iter().enumerate().rev() {
                open.push((*child, below.clone(), n + 1 == own.len(), depth + 1));
            }
        }
        // Parents in a circle are none that a kernel has: shown, from the first of them on.
        while seen.get(unseen) == Some(&true) {
            unseen += 1;
        }
        if unseen == rows.len() {
            return order;
        }
        open.push((unseen, String::new(), true, 0));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(rows: &[(u32, u32)]) -> String {
        let line = |(i, before): &(usize, String)| format!("{before}{}\n", rows[*i].0);
        forest(rows).iter().map(line).collect()
    }

    #[test]
    fn children_stand_below_their_parents() {
        let want = "10\n \\_ 11\n |   \\_ 13\n |   \\_ 14\n \\_ 12\n     \\_ 15\n20\n";
        let all = [
            (10, 1),
            (11, 10),
            (12, 10),
            (13, 11),
            (14, 11),
            (15, 12),
            (20, 1),
        ];
        assert_eq!(drawn(&all), want);
    }

    #[test]
    fn no_row_is_left_out_or_shown_twice() {
        assert_eq!(drawn(&[(10, 11), (11, 10), (12, 12)]), "12\n10\n \\_ 11\n");
        let chain: Vec<(u32, u32)> = (1..2000).map(|n| (n, n - 1)).collect();
        let text = drawn(&chain);
        assert_eq!(text.lines().count(), 1999);
        assert!(text.lines().all(|l| l.len() < 300));
        assert_eq!(drawn(&[]), "");
    }
}
