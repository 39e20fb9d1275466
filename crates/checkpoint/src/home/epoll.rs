//! Epoll instances: what they watch, by the descriptors of one process.

use super::found::Found;
use super::kinds::Kind;
use super::sys;
use super::table::{Entry, Group};

/// The kernel names the watched descriptors by the numbers under which they were added. They are added again in a process
/// of which all of these numbers lead to what is watched.
pub fn find(group: &Group) -> Found {
    // The kernel's order is that of its addresses.
    let mut watched = group.first().info.watched.clone();
    watched.sort_by_key(|w| w.fd);
    let numbers: Vec<i32> = watched.iter().map(|w| w.fd).collect();
    if numbers.windows(2).any(|w| w[0] == w[1]) {
        return Found::no("an epoll that watches one number twice");
    }
    let fits = |entry: &&Entry| {
        let same = |fd: &i32| sys::watches(entry.pid, entry.fd, *fd).unwrap_or(false);
        numbers.iter().all(same)
    };
    match group.members.iter().find(fits) {
        Some(entry) => Found::Inside(Box::new(Kind::Epoll {
            watched,
            of: entry.owner as u32,
        })),
        None => Found::no("an epoll that watches a file whose descriptor was closed"),
    }
}
