//! Which nodes reach each other, and which are considered alive.

use armento_model::Users;

/// Reachability between nodes, and which nodes the living consider alive.
#[derive(Clone, Debug)]
pub(super) struct Members {
    /// The side of a cut of each node, and the side where members have detected it.
    pub sides: Vec<u8>,
    pub noticed: Vec<u8>,
    /// Considered dead.
    pub dead: Vec<bool>,
    /// For each side all nodes considered alive, in order.
    circles: [Vec<usize>; 2],
}

/// The living nodes in a node's member list, without itself.
pub(super) struct Peers<'a> {
    circle: &'a [usize],
    own: Option<usize>,
}

impl Peers<'_> {
    pub fn len(&self) -> usize {
        self.circle.len() - usize::from(self.own.is_some())
    }

    pub fn at(&self, place: usize) -> usize {
        self.circle[place + usize::from(self.own.is_some_and(|own| place >= own))]
    }
}

impl Members {
    pub fn new(n: usize) -> Members {
        let mut members = Members {
            sides: vec![0; n],
            noticed: vec![0; n],
            dead: vec![false; n],
            circles: [Vec::new(), Vec::new()],
        };
        members.count();
        members
    }

    pub fn count(&mut self) {
        for side in [0, 1] {
            let here = |i: &usize| !self.dead[*i] && usize::from(self.noticed[*i]) == side;
            self.circles[side] = (0..self.sides.len()).filter(here).collect();
        }
    }

    pub fn peers(&self, i: usize) -> Peers<'_> {
        let circle = &self.circles[usize::from(self.noticed[i])];
        Peers {
            own: circle.binary_search(&i).ok(),
            circle,
        }
    }

    /// The users' processes that `i` may send to each node.
    pub fn open_to(&self, i: usize) -> impl Fn(usize) -> Users {
        move |node| {
            if self.dead[node] || self.noticed[node] != self.noticed[i] {
                Users::none()
            } else {
                Users::all()
            }
        }
    }
}
