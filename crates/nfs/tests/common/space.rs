//! A network of namespaces that end with their value: no process and no name holds them.

use super::sys::unshare_net;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use std::fs::File;
use std::net::Ipv4Addr;
use std::os::fd::{AsFd, AsRawFd};
use std::process::Command;

pub const PORT: u16 = 2049;

/// Namespaces with one address each, joined by a bridge in the first one.
pub struct Net {
    pub server: Ipv4Addr,
    all: Vec<(Ipv4Addr, File)>,
}

/// The address of a number.
pub fn address(number: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, 77, 0, number)
}

impl Net {
    /// Namespaces with the addresses of these numbers; the server's is 100. `None`: the reason was printed.
    pub fn new(numbers: &[u8]) -> Option<Net> {
        let root = std::fs::read_to_string("/proc/self/status")
            .is_ok_and(|s| s.contains("\nUid:\t0\t0\t"));
        if !root {
            println!("skipped: network namespaces need root");
            return None;
        }
        let server = address(100);
        let mut net = Net {
            server,
            all: vec![(server, empty())],
        };
        let pid = std::process::id();
        net.ip(server, "link set dev lo up");
        net.ip(server, "link add name wire type bridge");
        net.ip(server, &format!("address add {server}/24 dev wire"));
        net.ip(server, "link set dev wire up");
        for n in numbers {
            let space = empty();
            let fd = space.as_raw_fd();
            net.all.push((address(*n), space));
            net.ip(
                server,
                &format!("link add name n{n} type veth peer name up netns /proc/{pid}/fd/{fd}"),
            );
            net.ip(server, &format!("link set dev n{n} master wire up"));
            net.ip(address(*n), "link set dev lo up");
            net.ip(
                address(*n),
                &format!("address add {}/24 dev up", address(*n)),
            );
            net.ip(address(*n), "link set dev up up");
        }
        Some(net)
    }

    /// Runs something in a thread inside the namespace of an address; processes that it starts are there too.
    pub fn inside<T: Send>(&self, at: Ipv4Addr, what: impl FnOnce() -> T + Send) -> T {
        let space = self.all.iter().find(|(a, _)| *a == at).expect("an address");
        std::thread::scope(|scope| {
            let thread = scope.spawn(|| {
                move_into_link_name_space(space.1.as_fd(), Some(LinkNameSpaceType::Network))
                    .expect("the namespace");
                what()
            });
            thread.join().expect("no panic inside")
        })
    }

    /// Output of a program that must succeed within half a minute.
    pub fn run(&self, at: Ipv4Addr, words: &[&str]) -> String {
        let (code, out, err) = self.try_run(at, words);
        assert_eq!(code, 0, "{words:?}: {out}{err}");
        out
    }

    pub fn try_run(&self, at: Ipv4Addr, words: &[&str]) -> (i32, String, String) {
        let output = self.inside(at, || {
            let mut c = Command::new("timeout");
            c.args(["--kill-after=2", "30"]).args(words);
            c.output().expect("timeout runs")
        });
        let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
        (
            output.status.code().unwrap_or(-1),
            text(&output.stdout),
            text(&output.stderr),
        )
    }

    fn ip(&self, at: Ipv4Addr, words: &str) {
        let words: Vec<&str> = std::iter::once("ip").chain(words.split(' ')).collect();
        self.run(at, &words);
    }
}

fn empty() -> File {
    let thread = std::thread::spawn(|| {
        unshare_net().expect("a network namespace");
        File::open("/proc/thread-self/ns/net").expect("the namespace")
    });
    thread.join().expect("no panic")
}
