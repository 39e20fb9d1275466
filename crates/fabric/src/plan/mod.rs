//! What each node's network should be: links, addresses, routes, kernel settings. Pure. Start at [`plan`].

mod node;

pub use node::{Device, NodePlan, Planned, Route, plan};
