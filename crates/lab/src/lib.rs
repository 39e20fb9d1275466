//! The lab: a farm on one machine, each node in namespaces of its own with its own disk, speed, memory and network
//! link.
//!
//! It never changes the machine outside a lab's namespaces, control groups and state directory
//! (`/run/armento-lab/NAME`), and `lab down --all` finds and removes all of these.
//!
//! ```text
//! lab up ─► switch process ─► first process of n1, n2, …  (pid 1 of each node)
//!   │        holds the bridge;          die with the switch process;
//!   │        ends if `lab up` ends      the kernel then ends all in the node
//!   └ commit: the lab outlives `lab up`
//! ```
//!
//! What other crates use, and no more: [`Spec`] says what farm it shall be (nodes, speeds, cores, period, memory, [`Link`],
//! second link, MTU, faults, shares, disks), [`Lab::up`] starts it, [`Lab::node`] and [`Node::command`] run programs in it,
//! [`Lab::load`] loads a node, [`counters::of`] counts bytes, [`check::measure`] measures it,
//! [`pvm::start`] makes it a virtual machine of PVM, [`sources`] are built in it. It ends with the value.
//!
//! Start at [`Lab::up`], then `switch.rs`, `node.rs`, `root.rs`; `down.rs` is the way back.

#[macro_use]
mod say;

mod cgroup;
pub mod check;
mod cmd;
pub mod counters;
mod disk;
pub mod doctor;
mod down;
mod enter;
mod facts;
pub mod farm;
mod hierarchy;
mod lab;
mod load;
mod net;
mod node;
pub mod play;
mod probe;
pub mod proxy;
pub mod pvm;
mod root;
mod rsh;
pub mod sources;
mod spec;
mod state;
mod switch;
mod sys;
mod waiting;

pub use cmd::{Cmd, run};
pub use down::own as down_own;
pub use facts::Facts;
pub use lab::{Lab, Node, Traffic};
pub use say::{told, write_out};
pub use spec::{
    CableFault, Imitated, Link, NodePlan, Place, Plan, Share, Spec, imitate, parse_rate, parse_size,
};
pub use sys::{Signals, is_root};
pub use waiting::Waiting;

use std::ffi::OsString;

/// First argument of the processes that a lab consists of. A program that offers labs calls [`init_main`] when its
/// first argument is this word, before anything else and before any thread is started.
pub const INIT: &str = "lab-init";

/// `lab-init switch LAB | node LAB N GROUP… | exec LAB NODE … -- CMD… | rsh LAB |
/// launch WORDS… | probe KIND …`
pub fn init_main() -> ! {
    let args: Vec<OsString> = std::env::args_os().skip(2).collect();
    let text = |i: usize| args.get(i).map(|a| a.to_string_lossy()).unwrap_or_default();
    let done = match &*text(0) {
        "switch" => switch::main(&text(1)).map(|()| 0),
        "node" => {
            let groups: Vec<_> = args.iter().skip(3).map(Into::into).collect();
            node::main(&text(1), text(2).parse().unwrap_or(usize::MAX), &groups).map(|()| 0)
        }
        "probe" => probe::main(&args[1..]),
        "launch" => Ok(rsh::launch(None, &args[1..])),
        "rsh" => rsh::main(&text(1)).map(|()| 0),
        "exec" => lab::exec_main(&args[1..]),
        _ => Err(anyhow::anyhow!(
            "lab-init is internal\nhint: armento lab --help"
        )),
    };
    let code = done.unwrap_or_else(|e| {
        eprintln!("armento: {e:#}");
        125
    });
    std::process::exit(code)
}
