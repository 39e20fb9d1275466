//! Control sessions: what `armento` commands, keepers, hosts and screens say to a node's daemon.
//!
//! One JSON object a line over a Unix socket (peer credentials) and, between nodes, over TLS.
//! Unknown fields are ignored, so that version N speaks with N-1. Start at [`api`].

pub mod api;
