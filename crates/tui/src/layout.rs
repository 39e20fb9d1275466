//! Areas of the terminal for each panel.

use ratatui::layout::{Rect, Size};

/// Nothing is readable on a smaller terminal.
pub const LEAST: Size = Size {
    width: 40,
    height: 10,
};
/// On a lower terminal only the pane with the focus is shown.
const ALL_PANES: u16 = 14;

/// One of the tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pane {
    Nodes,
    Procs,
    Moves,
}

#[derive(Debug, PartialEq)]
pub struct Areas {
    pub header: Rect,
    pub nodes: Option<Rect>,
    pub procs: Option<Rect>,
    pub moves: Option<Rect>,
    /// `None` if there is no room: then the footer shows notes.
    pub note: Option<Rect>,
    pub footer: Rect,
}

impl Areas {
    pub fn of(&self, pane: Pane) -> Option<Rect> {
        match pane {
            Pane::Nodes => self.nodes,
            Pane::Procs => self.procs,
            Pane::Moves => self.moves,
        }
    }
}

/// Areas of a terminal of `size`, with the focus on `pane` and this number of nodes. `None`: it is too small.
pub fn areas(size: Size, pane: Pane, nodes: usize) -> Option<Areas> {
    if size.width < LEAST.width || size.height < LEAST.height {
        return None;
    }
    let (width, height) = (size.width, size.height);
    let at = |y, height| Rect {
        x: 0,
        y,
        width,
        height,
    };
    let footer = at(height - 1, 1);
    if height < ALL_PANES {
        let whole = |p| (p == pane).then_some(at(1, height - 2));
        return Some(Areas {
            header: at(0, 1),
            nodes: whole(Pane::Nodes),
            procs: whole(Pane::Procs),
            moves: whole(Pane::Moves),
            note: None,
            footer,
        });
    }
    let room = height - 4;
    let moves = 1 + room / 6;
    // Two lines of a table are its title and its heads.
    let share = if pane == Pane::Nodes { 3 } else { 2 };
    let nodes_max = (room - moves) * share / 5;
    let wanted = u16::try_from(nodes.max(1))
        .unwrap_or(u16::MAX)
        .saturating_add(2);
    let nodes = wanted.min(nodes_max);
    let procs = room - moves - nodes;
    Some(Areas {
        header: at(0, 2),
        nodes: Some(at(2, nodes)),
        procs: Some(at(2 + nodes, procs)),
        moves: Some(at(2 + nodes + procs, moves)),
        note: Some(at(height - 2, 1)),
        footer,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn panes_fill_the_terminal_and_do_not_overlap() {
        for height in LEAST.height..100 {
            for (pane, nodes) in [(Pane::Nodes, 0), (Pane::Procs, 4), (Pane::Moves, 5000)] {
                let a = areas(Size { width: 80, height }, pane, nodes).expect("large enough");
                let all = [
                    Some(a.header),
                    a.nodes,
                    a.procs,
                    a.moves,
                    a.note,
                    Some(a.footer),
                ];
                let mut y = 0;
                for area in all.into_iter().flatten() {
                    assert_eq!(area.y, y, "{height} {pane:?} {nodes}");
                    y += area.height;
                }
                assert_eq!(y, height);
                let own = a.of(pane).expect("the pane that has the keys");
                assert!(
                    own.height >= if pane == Pane::Moves { 2 } else { 3 },
                    "{height} {pane:?}"
                );
            }
        }
    }

    #[test]
    fn too_small_terminals_have_no_areas() {
        assert_eq!(
            areas(
                Size {
                    width: 39,
                    height: 24
                },
                Pane::Procs,
                1
            ),
            None
        );
        assert_eq!(
            areas(
                Size {
                    width: 80,
                    height: 9
                },
                Pane::Procs,
                1
            ),
            None
        );
    }
}
