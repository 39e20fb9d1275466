//! `armento lab rsh`: starts a command on another node, as rsh(1) and ssh(1) do for mpirun, PVM and Erlang.
//!
//! ```text
//! in n1                                    outside                        in n2
//! armento lab rsh n2 CMD ──socket──► server ─fork─► entry ─fork─► supervisor ─fork─► shell -c CMD
//!   its stdin, stdout, stderr ════════════════ pipes, passed by the request ════════════► 0, 1, 2
//! ```
//!
//! The client makes three pipes and passes their far ends, so that no byte of input or output passes the server and the
//! command sees the end of its input. The supervisor is in the node's namespaces and control groups, with all its
//! descendants: it reports the command's end, passes signals on, and kills what the command has started if the client ends
//! before.
//!
//! Who may use it: the socket is in a directory that only root of the machine can enter, and mounted at `/run/armento-rsh` in
//! the nodes of its lab. The command runs as the user who asks, as the kernel tells it (unix(7), SO_PEERCRED); only root
//! may name another.

mod client;
mod place;
mod request;
mod server;
mod supervise;
mod sys;
mod words;

pub use client::{Args, HELP, launch, run};
pub use place::install;
pub use server::{bind, main, start};
