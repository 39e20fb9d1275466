//! Read and write calls of a process that talks over TCP, as far as the kernel counts them for a process at home.
//!
//! Such calls wait for home when the process is away: known at home already, they tell what leaving would cost. Nothing
//! is traced: /proc/PID/io counts calls of all descriptors, and a look at the descriptors tells whether connections are
//! among them. KERNEL: proc_pid_io(5): syscr and syscw count read(2), readv(2), write(2), writev(2) and the like, also
//! those that fail with EAGAIN; send(2) and recv(2) are not counted.

use crate::text;
use armento_model::MessageCounts;
use std::collections::HashSet;
use std::fs;
use std::time::{Duration, Instant};

/// A process that makes fewer calls than this between two looks is not examined further.
const CALLS_MIN: u64 = 20;
/// Whether it has connections is looked up this often.
const CONNECTIONS_EVERY: Duration = Duration::from_secs(2);
/// Descriptors of a process and bytes of a table of connections that are examined.
const DESCRIPTORS_MAX: usize = 1024;
const TABLE_MAX: u64 = 1 << 20;
/// KERNEL: include/net/tcp_states.h, TCP_ESTABLISHED.
const ESTABLISHED: &str = "01";

/// What a process has done so far since it was first looked at.
#[derive(Clone, Debug, Default)]
pub struct Messages {
    counts: MessageCounts,
    /// The kernel's counts at the last look.
    before: Option<MessageCounts>,
    /// Whether it had a connection, and when that was looked up.
    connected: Option<(bool, Instant)>,
    ever: bool,
}

impl Messages {
    /// Looks at a process at home.
    pub fn look(&mut self, pid: i32) {
        let Some(now) = text::read(format!("/proc/{pid}/io"))
            .ok()
            .and_then(|t| parse(&t))
        else {
            return;
        };
        let Some(before) = self.before.replace(now) else {
            return;
        };
        let new = now.since(before);
        if new.calls < CALLS_MIN || !self.is_connected(pid) {
            return;
        }
        self.ever = true;
        self.counts = self.counts.plus(new);
    }

    /// The process was away, where its body makes its calls: what its deputy did does not count.
    pub fn skip(&mut self) {
        self.before = None;
    }

    /// `None`: it was never seen to talk.
    pub fn counts(&self) -> Option<MessageCounts> {
        self.ever.then_some(self.counts)
    }

    fn is_connected(&mut self, pid: i32) -> bool {
        match self.connected {
            Some((known, at)) if at.elapsed() < CONNECTIONS_EVERY => known,
            _ => {
                let found = has_connection(pid);
                self.connected = Some((found, Instant::now()));
                found
            }
        }
    }
}

fn parse(text: &str) -> Option<MessageCounts> {
    let get = |key: &str| {
        let line = text.lines().find_map(|l| l.strip_prefix(key))?;
        line.trim().parse::<u64>().ok()
    };
    Some(MessageCounts {
        calls: get("syscr:")?.saturating_add(get("syscw:")?),
        received: get("rchar:")?,
        sent: get("wchar:")?,
    })
}

/// Whether one of its descriptors is an established connection over TCP.
fn has_connection(pid: i32) -> bool {
    let Ok(fds) = fs::read_dir(format!("/proc/{pid}/fd")) else {
        return false;
    };
    let links = fds.flatten().take(DESCRIPTORS_MAX);
    let links = links.filter_map(|fd| fs::read_link(fd.path()).ok());
    let sockets: HashSet<u64> = links
        .filter_map(|link| socket(&link.to_string_lossy()))
        .collect();
    !sockets.is_empty()
        && ["tcp", "tcp6"]
            .iter()
            .any(|table| any_established(&table_text(pid, table), &sockets))
}

fn table_text(pid: i32, table: &str) -> String {
    use std::io::Read as _;
    let mut bytes = Vec::new();
    let read = fs::File::open(format!("/proc/{pid}/net/{table}"))
        .and_then(|file| file.take(TABLE_MAX).read_to_end(&mut bytes));
    match read {
        Ok(_) => String::from_utf8_lossy(&bytes).into_owned(),
        Err(_) => String::new(),
    }
}

/// The inode of `socket:[N]`.
fn socket(link: &str) -> Option<u64> {
    link.strip_prefix("socket:[")?
        .strip_suffix(']')?
        .parse()
        .ok()
}

/// KERNEL: proc_pid_net(5), tcp: the fourth word of a line is the state, the tenth the inode.
fn any_established(table: &str, sockets: &HashSet<u64>) -> bool {
    table.lines().skip(1).any(|line| {
        let mut words = line.split_ascii_whitespace();
        let state = words.nth(3);
        let inode = words.nth(5).and_then(|w| w.parse().ok());
        state == Some(ESTABLISHED) && inode.is_some_and(|i: u64| sockets.contains(&i))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read as _, Write as _};
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::OwnedFd;
    use std::process::{Child, Command, Stdio};

    #[test]
    fn calls_count_only_with_a_connection() {
        // Of a process of its own: other tests of this one have connections, too.
        let mut child = Command::new("cat")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("cat");
        let pid = child.id() as i32;
        let mut seen = Messages::default();
        let echo = |child: &mut Child| {
            for _ in 0..CALLS_MIN {
                let (mut to, from) = (child.stdin.as_ref(), child.stdout.as_mut());
                to.as_mut().expect("pipe").write_all(b"x").expect("write");
                from.expect("pipe").read_exact(&mut [0]).expect("read");
            }
        };
        seen.look(pid);
        echo(&mut child);
        seen.look(pid);
        assert_eq!(seen.counts(), None, "pipes only");
        drop(child.stdin.take());
        child.wait().expect("ends");

        let listener = TcpListener::bind("127.0.0.1:0").expect("bind");
        let mut here =
            TcpStream::connect(listener.local_addr().expect("address")).expect("connect");
        let (there, _) = listener.accept().expect("accept");
        let there = OwnedFd::from(there);
        let mut child = Command::new("cat")
            .stdin(there.try_clone().expect("copy"))
            .stdout(there)
            .spawn()
            .expect("cat");
        let pid = child.id() as i32;
        let mut seen = Messages::default();
        let echo = |here: &mut TcpStream| {
            for _ in 0..2 * CALLS_MIN {
                here.write_all(b"x").expect("write");
                here.read_exact(&mut [0]).expect("read");
            }
        };
        echo(&mut here);
        seen.look(pid);
        echo(&mut here);
        seen.look(pid);
        let counts = seen.counts().expect("a connection");
        // The last answer may be read here before the kernel has counted the write.
        assert!(counts.calls >= 4 * CALLS_MIN - 4, "{counts:?}");
        drop(here);
        child.wait().expect("ends");
    }

    #[test]
    fn tables_and_links_are_read() {
        assert_eq!(socket("socket:[123]"), Some(123));
        assert_eq!(socket("/dev/null"), None);
        let table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n   \
            0: 0100007F:1F90 0100007F:C350 01 00000000:00000000 00:00000000 00000000     0        0 77 1 0 20 4 30 10 -1\n   \
            1: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 78 1 0 100 0 0 10 0\n";
        let check = |inode: u64, found: bool| {
            assert_eq!(
                any_established(table, &HashSet::from([inode])),
                found,
                "{inode}"
            );
        };
        check(77, true);
        check(78, false); // It listens.
        check(79, false);
        let io = "rchar: 10\nwchar: 20\nsyscr: 3\nsyscw: 4\nread_bytes: 0\n";
        let counts = MessageCounts {
            calls: 7,
            sent: 20,
            received: 10,
        };
        assert_eq!(parse(io), Some(counts));
        assert_eq!(parse("rchar: x\n"), None);
    }
}
