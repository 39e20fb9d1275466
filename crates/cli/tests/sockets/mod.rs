//! Connections between two processes that are away go from node to node: they survive moves of either end, and the loss of a node or of the way
//! between the two nodes.

use crate::lab::{Farm, until};
use crate::restarts::json;

/// A parent and a child that answer each other, until /tmp/stop is there.
const PROGRAM: &str = r#"use Socket; $| = 1; $SIG{PIPE} = "IGNORE"; socketpair(A, B, AF_UNIX, SOCK_STREAM, 0); ($i, $wrong) = (0, 0);
 if (!($child = fork)) { close A; while (sysread(B, $b, 4)) { syswrite(B, pack("N", unpack("N", $b) + 1)) } exit 0 }
 close B; print "child $child\n";
 while ($i % 64 || !-e "/tmp/stop") { syswrite(A, pack("N", ++$i)); $r = sysread(A, $b, 4); if (!$r) { print "its end\n"; last }
 $wrong++ if unpack("N", $b) != $i + 1 } close A; wait; print "wrong $wrong status $?\n";"#;

/// The same over TCP; in the end both write a MiB before they read one, for which home's kernel has room.
const BOTH_WRITE: &str = r#"use Socket; $| = 1; ($i, $wrong, $many) = (0, 0, 1 << 20); sub all { my ($f, $n) = @_; my $got = "";
 while (length $got < $n) { sysread($f, $got, $n - length $got, length $got) or last } $got }
 socket(L, PF_INET, SOCK_STREAM, 0); bind(L, sockaddr_in(0, INADDR_LOOPBACK)); listen(L, 1); $at = getsockname(L);
 if (!($child = fork)) { socket(B, PF_INET, SOCK_STREAM, 0); connect(B, $at); while (1) { $n = unpack("N", all(B, 4)); last if !$n; syswrite(B, pack("N", $n + 1)) }
 syswrite(B, "b" x $many); exit(all(B, $many) eq "a" x $many ? 0 : 1) }
 accept(A, L); print "child $child\n";
 while ($i % 64 || !-e "/tmp/stop") { syswrite(A, pack("N", ++$i)); $wrong++ if unpack("N", all(A, 4)) != $i + 1 }
 syswrite(A, pack("N", 0) . "a" x $many); $wrong++ if all(A, $many) ne "b" x $many; wait; print "wrong $wrong status $?\n";"#;

struct Pair<'a> {
    farm: &'a Farm,
    parent: String,
    child: String,
}

impl<'a> Pair<'a> {
    /// Both away, at n2 and n3, and their connection direct.
    fn start(farm: &'a Farm) -> Pair<'a> {
        Pair::run(farm, PROGRAM)
    }

    fn run(farm: &'a Farm, program: &str) -> Pair<'a> {
        let pair = Pair::begin(farm, program);
        pair.becomes_direct();
        pair
    }

    /// Both away, whichever way their connection goes.
    fn begin(farm: &'a Farm, program: &str) -> Pair<'a> {
        let start = format!(
            "rm -f /tmp/stop; armento run --begin here perl -e '{program}' >/tmp/out 2>/tmp/err </dev/null & echo $!"
        );
        let parent = farm.sh("n1", &start).trim().to_owned();
        let mut child = String::new();
        until("its child", || {
            let out = farm.sh("n1", "cat /tmp/out");
            child = out.trim().strip_prefix("child ").unwrap_or("").to_owned();
            !child.is_empty()
        });
        let pair = Pair {
            farm,
            parent,
            child,
        };
        // The child first: home finds it while its parent is there.
        pair.moves(&pair.child, "n3");
        pair.moves(&pair.parent, "n2");
        pair
    }

    fn moves(&self, pid: &str, to: &str) {
        // Its home may not know it yet.
        let order = format!("armento migrate {pid} {to}");
        until(&order, || self.farm.run("n1", &order).status.success());
    }

    /// Calls of the parent that home answered, and messages that went from node to node.
    fn counts(&self) -> (u64, u64) {
        let doc = json(
            self.farm,
            "n1",
            &format!("armento files --json {}", self.parent),
        );
        let one = doc.map(|d| d["procs"][0].clone()).unwrap_or_default();
        let number = |v: &serde_json::Value| v.as_u64().unwrap_or(0);
        (number(&one["forwarded"]), number(&one["files"]["messages"]))
    }

    fn becomes_direct(&self) {
        let (_, before) = self.counts();
        until("a direct connection", || self.counts().1 > before + 100);
    }

    fn goes_over_home(&self) {
        let (before, _) = self.counts();
        until("a connection over home", || self.counts().0 > before + 100);
    }

    /// The parent's connection, as both commands tell of it.
    fn says(&self, what: &str) {
        for command in ["why", "files"] {
            let ask = format!("armento {command} {}", self.parent);
            until(what, || {
                let said = self.farm.sh("n1", &ask);
                said.lines()
                    .any(|l| l.starts_with("connection: ") && l.contains(what))
            });
        }
    }

    fn ends(self, want: &str) {
        self.farm.sh("n1", "touch /tmp/stop");
        until("its end", || {
            let lives = format!("kill -0 {}", self.parent);
            !self.farm.run("n1", &lives).status.success()
        });
        let out = self.farm.sh("n1", "cat /tmp/out");
        let said: Vec<&str> = out.lines().skip(1).collect();
        let err = self.farm.sh("n1", "cat /tmp/err");
        assert_eq!(said.join("; "), want, "{err}");
    }
}

#[test]
fn connections_go_from_node_to_node_and_come_back() {
    let Some(farm) = Farm::up("sockets", None) else {
        return;
    };
    let pair = Pair::start(&farm);
    pair.says(&format!("to process {}: direct, for ", pair.child));
    // Both at one node; one at home; both away again.
    pair.moves(&pair.child, "n2");
    pair.becomes_direct();
    pair.moves(&pair.parent, "home");
    pair.moves(&pair.parent, "n3");
    pair.becomes_direct();
    pair.ends("wrong 0 status 0");

    Pair::run(&farm, BOTH_WRITE).ends("wrong 0 status 0");

    // The way between the two nodes breaks; that of each to home does not.
    let pair = Pair::start(&farm);
    let address = |node| {
        let all = farm.sh(node, "hostname -i | cut -d' ' -f1");
        all.trim().to_owned()
    };
    for (here, there) in [("n2", "n3"), ("n3", "n2")] {
        farm.sh(
            here,
            &format!("ip route add unreachable {}/32", address(there)),
        );
    }
    pair.goes_over_home();
    pair.says(": over home: ");
    pair.ends("wrong 0 status 0");
    for (here, there) in [("n2", "n3"), ("n3", "n2")] {
        farm.sh(
            here,
            &format!("ip route del unreachable {}/32", address(there)),
        );
    }

    // The home lets none go directly that begins from now on.
    farm.sh(
        "n1",
        "echo 'direct_sockets = false' >> /etc/armento/config.toml; armento farm reload",
    );
    let pair = Pair::begin(&farm, PROGRAM);
    pair.says(": over home: its home has the setting direct_sockets = false");
    assert_eq!(pair.counts().1, 0, "a message went directly");
    pair.ends("wrong 0 status 0");
    farm.sh(
        "n1",
        "sed -i /direct_sockets/d /etc/armento/config.toml; armento farm reload",
    );

    // The child is lost with its node: its parent sees the end of the stream.
    let pair = Pair::start(&farm);
    farm.sh("n3", "pkill -9 -f '^armento host'");
    pair.ends("its end; wrong 0 status 9");
}
