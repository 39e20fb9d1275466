//! Tables: columns, the choice of those that fit, and one line of cells.

use crate::look::{Look, Role, right};
use ratatui::buffer::Buffer;
use ratatui::text::Line;
use std::cmp::Ordering;

/// A column of a table with rows `R`.
pub struct Column<R: 'static> {
    pub head: &'static str,
    /// For the help page.
    pub about: &'static str,
    pub right: bool,
    pub width: Width,
    /// Columns with a low rank get room first; rank 0 is always shown.
    pub rank: u8,
    /// Its share of the width left over.
    pub grows: u16,
    /// Whether sorting by it puts the largest first.
    pub falls: bool,
    pub cell: fn(&R, &Cell) -> Line<'static>,
    pub order: fn(&R, &R) -> Ordering,
}

/// Cells that a column needs.
#[derive(Clone, Copy)]
pub enum Width {
    Cells(u16),
    /// As many as the longest name of a node.
    Names,
    /// As many as the longest pid.
    Pids,
}

/// What a cell is drawn with.
pub struct Cell {
    pub look: Look,
    pub width: u16,
    /// Load that a full bar stands for.
    pub full: f64,
}

impl Cell {
    pub fn text(&self, text: impl AsRef<str>, role: Role) -> Line<'static> {
        let fitting = self.look.fit(text.as_ref(), self.width);
        Line::from(self.look.span(fitting, role))
    }
}

/// Columns of this rank and above are shown only if this much is left for columns that grow.
const EXTRA: u8 = 6;
const EASE: u16 = 20;
/// Cells between two columns.
pub const GAP: u16 = 1;

/// Columns that are shown in `width` cells, by number, each with its width; `needs` returns the width of columns of
/// names and pids.
pub fn fitting<R>(
    columns: &[Column<R>],
    width: u16,
    needs: impl Fn(&Column<R>) -> u16,
) -> Vec<(usize, u16)> {
    let sum = |shown: &[(usize, u16)]| -> u16 {
        let cells = shown.iter().map(|(_, w)| w.saturating_add(GAP));
        cells.fold(0, u16::saturating_add).saturating_sub(GAP)
    };
    let mut ranked: Vec<usize> = (0..columns.len()).collect();
    ranked.sort_by_key(|i| columns[*i].rank);
    let mut shown = Vec::new();
    for i in ranked {
        shown.push((i, needs(&columns[i])));
        let left = if columns[i].rank >= EXTRA { EASE } else { 0 };
        if columns[i].rank > 0 && sum(&shown).saturating_add(left) > width {
            shown.pop();
        }
    }
    shown.sort_unstable();
    let spare = width.saturating_sub(sum(&shown));
    let growing: u16 = shown.iter().map(|(i, _)| columns[*i].grows).sum();
    let mut given = 0;
    let mut before = 0;
    for (i, w) in &mut shown {
        before += columns[*i].grows;
        let due = if growing > 0 {
            u32::from(spare) * u32::from(before) / u32::from(growing)
        } else {
            0
        };
        *w += due as u16 - given;
        given = due as u16;
    }
    shown
}

/// A line of cells from `x` on, none beyond `end`.
pub fn line(
    buf: &mut Buffer,
    (x, y): (u16, u16),
    end: u16,
    cells: impl Iterator<Item = (Line<'static>, bool, u16)>,
) {
    let mut x = x;
    for (cell, at_right, width) in cells {
        let width = width.min(end.saturating_sub(x));
        if width == 0 {
            return;
        }
        let cell = if at_right { right(cell, width) } else { cell };
        buf.set_line(x, y, &cell, width);
        x += width + GAP;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn column(head: &'static str, width: u16, rank: u8, grows: u16) -> Column<()> {
        Column {
            head,
            about: "",
            right: false,
            width: Width::Cells(width),
            rank,
            grows,
            falls: false,
            cell: |(), _| Line::default(),
            order: |(), ()| Ordering::Equal,
        }
    }

    #[test]
    fn the_least_important_columns_go_first() {
        let columns = [
            column("a", 4, 0, 0),
            column("b", 6, 2, 1),
            column("c", 5, 1, 2),
        ];
        let cells = |c: &Column<()>| match c.width {
            Width::Cells(n) => n,
            Width::Names | Width::Pids => 0,
        };
        let check = |width, shown: &[(usize, u16)]| {
            assert_eq!(fitting(&columns, width, cells), shown, "{width}");
        };
        check(17, &[(0, 4), (1, 6), (2, 5)]);
        check(20, &[(0, 4), (1, 7), (2, 7)]);
        check(16, &[(0, 4), (2, 11)]);
        check(9, &[(0, 4)]);
        check(2, &[(0, 4)]);
        let columns = [column("a", 4, 0, 1), column("b", 6, EXTRA, 0)];
        let check = |width, shown: &[(usize, u16)]| {
            assert_eq!(fitting(&columns, width, cells), shown, "{width}");
        };
        check(30, &[(0, 30)]);
        check(31, &[(0, 24), (1, 6)]);
    }
}
