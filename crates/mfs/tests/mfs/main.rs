//! MFS through mounts of this machine, compared with the directories themselves.

mod farm;
mod hostile;
mod locks;
mod lost;
mod mount;
mod suites;

/// Not a test: the process of a file server.
#[test]
fn serve_child() {
    farm::serve_if_asked();
}
