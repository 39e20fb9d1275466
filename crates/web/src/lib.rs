//! The dashboard's server: pages, sign-in, the farm as a stream of changes, and actions on processes.
//!
//! ```text
//! browser ── HTTP, a cookie ──► this server (nobody) ── control socket, `Act` ──► daemon: rights of the browser's user
//! ```
//! It has no rights of its own: whatever a browser asks is asked of the daemon on a session that acts for this browser, and
//! the daemon decides. It never stores a token, reads no file but reports, and asks no third party for anything.
//!
//! Start at `serve.rs`, then `routes.rs`. `watch.rs` asks the daemon once a second and `state.rs` finds what has changed; the
//! pages themselves are in `web/` at the root, built into `web/dist`.

mod asset;
mod guard;
mod history;
mod hub;
mod packed;
mod reply;
mod reports;
mod routes;
mod serve;
mod state;
mod watch;

pub use serve::{Bound, WebError, bind, serve};
