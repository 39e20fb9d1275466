//! Which nodes hear each other, and which are held to be alive.

use armento_model::Users;

/// Who can hear whom, and whom the living hold for alive.
#[derive(Clone, Debug)]
pub(super) struct Members {
    /// On which side of a cut each is, and on which it is held to be.
    pub sides: Vec<u8>,
    pub noticed: Vec<u8>,
    /// Held for dead.
    pub buried: Vec<bool>,
    /// Of each side all who are held for alive, in order.
    circles: [Vec<usize>; 2],
}

/// The living that a node knows of, without itself.
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
            buried: vec![false; n],
            circles: [Vec::new(), Vec::new()],
        };
        members.count();
        members
    }

    pub fn count(&mut self) {
        for side in [0, 1] {
            let here = |i: &usize| !self.buried[*i] && usize::from(self.noticed[*i]) == side;
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

    /// Whose programs `i` sends where.
    pub fn open_to(&self, i: usize) -> impl Fn(usize) -> Users {
        move |node| {
            if self.buried[node] || self.noticed[node] != self.noticed[i] {
                Users::nobody()
            } else {
                Users::everybody()
            }
        }
    }
}
