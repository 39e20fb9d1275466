//! From observations of nodes to faults: code, node, link, evidence, remedy. Pure. Start at [`diagnose`]; all codes are in
//! [`Code`].

mod bonds;
mod code;
mod culprit;
mod finding;
mod judge;
mod links;
mod observation;
mod paths;
mod wiring;

pub use code::{Code, page};
pub use finding::Finding;
pub use judge::diagnose;
pub use observation::{
    ArpAnswers, Flow, Heard, LinkExtra, MtuProbe, OBSERVATION, Observation, PathSeen,
};
pub use wiring::drawing;
