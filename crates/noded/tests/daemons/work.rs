//! Keepers, hosts and commands against real daemons.

use crate::common::{Dir, LONG, Node, farm, until};
use armento_client::api::{
    Answer, Ask, Build, Dest, HostStart, KeeperHello, Order, Pass, ProcInfo, Report,
};
use armento_client::{AskError, Session};
use armento_link::{Badge, Identity, Role};
use armento_model::{ENGINE_VERSION, NodeName, Stay, TreeId};
use armento_noded::Wire;
use std::os::unix::fs::MetadataExt;
use std::thread;

pub const TREE: TreeId = TreeId(0x5eed);
/// A pid that is really ours, since the daemon looks.
pub fn pid() -> i32 {
    std::process::id() as i32
}

pub fn uid() -> u32 {
    std::fs::metadata("/proc/self").expect("proc").uid()
}

pub fn name(n: &str) -> NodeName {
    n.parse().expect("name")
}

pub fn hello() -> KeeperHello {
    KeeperHello {
        tree: TREE,
        keeper: pid(),
        root: pid(),
        above: Vec::new(),
        uid: uid(),
        command: "lame a.wav".into(),
        pinned: None,
        stay: false,
        storm: false,
        common: None,
        begins_here: false,
        hint: None,
        safe: None,
        safe_chosen: false,
        build: Build::own(),
    }
}

pub fn proc(place: &str) -> ProcInfo {
    ProcInfo {
        pid: pid(),
        ppid: 1,
        tree: TREE,
        uid: uid(),
        home: name("n1"),
        place: name(place),
        command: "lame a.wav".into(),
        cpu_ms: 1500,
        away_cpu_ms: 0,
        rss_kib: 4096,
        threads: 1,
        busy_percent: 100,
        moves: 0,
        forwarded: 0,
        bytes_sent: 0,
        bytes_received: 0,
        files: armento_model::FileCounts::default(),
        rates: armento_model::FileRates::default(),
        messages: None,
        stay: None,
        detail: String::new(),
        partner: None,
        locked: false,
        lost_ms: None,
        frozen: false,
        portable: false,
        age_ms: 3000,
        last_exec: None,
        safe: None,
        connections: None,
        stopped: false,
        nice: 0,
        moving: None,
    }
}

/// A keeper in session that has reported its one process.
pub fn keeper(node: &Node) -> Session {
    let mut s = node.session();
    let kept = s.ask(Ask::Keep(hello()), LONG).expect("keep");
    assert!(matches!(kept, Answer::Done));
    s.report(Report::Procs {
        ran: Vec::new(),
        procs: vec![proc("n1")],
    })
    .expect("report");
    s
}

fn ps(node: &Node, all: bool) -> Vec<ProcInfo> {
    match node.ask(Ask::Ps { all }) {
        Ok(Answer::Ps { procs }) => procs,
        other => panic!("{other:?}"),
    }
}

fn listed(node: &Node) {
    until("the process in ps", || {
        (ps(node, false).len() == 1).then_some(())
    });
}

fn route(s: &mut Session, to: &str) -> Pass {
    let ask = Ask::Route {
        tree: TREE,
        pid: pid(),
        node: name(to),
        need_kib: 4096,
        engine: ENGINE_VERSION,
        portable: false,
    };
    match s.ask(ask, LONG) {
        Ok(Answer::Route(pass)) => pass,
        other => panic!("{other:?}"),
    }
}

/// What the fake host of `node` was told at its start.
pub fn started(node: &Node) -> HostStart {
    let path = node.host.with_file_name("started");
    let text = std::fs::read(path).expect("the host was started");
    serde_json::from_slice(&text).expect("HostStart")
}

#[test]
fn a_route_gives_a_host_and_keys_for_both() {
    let dir = Dir::new();
    let (nodes, ..) = farm(&dir, &["n1", "n2"], Wire::Tls);
    let mut s = keeper(&nodes[0]);
    let pass = route(&mut s, "n2");
    let badge = |node, role| Badge {
        node: name(node),
        tree: Some((TREE, uid())),
        role,
    };
    assert_eq!(pass.expect, badge("n2", Role::Host));
    assert_eq!(pass.addr, "127.0.0.1:4242");
    let told = started(&nodes[1]);
    assert_eq!((told.home, told.node), (name("n1"), name("n2")));
    assert_eq!(told.expect, badge("n1", Role::Keeper));
    let Answer::Identity { identity } = s.ask(Ask::Identity, LONG).expect("a new one") else {
        panic!("no identity");
    };
    // The two identities meet.
    let doors = armento_link::Listener::bind("127.0.0.1:0", &told.identity).expect("bind");
    let addr = format!("127.0.0.1:{}", doors.port());
    thread::scope(|scope| {
        let call = scope.spawn(|| armento_link::dial(&addr, &pass.identity, &pass.expect, LONG));
        let accepted = doors.accept(std::slice::from_ref(&told.expect));
        assert_eq!(accepted.expect("accept").1, badge("n1", Role::Keeper));
        call.join().expect("thread").expect("dial");
        // And so does the keeper's next one.
        let call = scope.spawn(|| armento_link::dial(&addr, &identity, &pass.expect, LONG));
        let accepted = doors.accept(std::slice::from_ref(&told.expect));
        assert_eq!(accepted.expect("accept").1, badge("n1", Role::Keeper));
        call.join().expect("thread").expect("dial");
    });
    // Who did not say hello has none.
    let mut stranger = nodes[0].session();
    assert!(stranger.ask(Ask::Identity, LONG).is_err());
    // A second process of the tree shares the host.
    assert_eq!(route(&mut s, "n2").addr, pass.addr);
    let mut with_engine = |engine: u32| {
        let other = Ask::Route {
            tree: TREE,
            pid: pid(),
            node: name("n2"),
            need_kib: 1,
            engine,
            portable: false,
        };
        s.ask(other, LONG)
    };
    // A keeper one version apart from the other node's engine: both use the older one's.
    for engine in [ENGINE_VERSION - 1, ENGINE_VERSION, ENGINE_VERSION + 1] {
        match with_engine(engine) {
            Ok(Answer::Route(pass)) => assert_eq!(pass.engine, engine.min(ENGINE_VERSION)),
            answer => panic!("{answer:?}"),
        }
    }
    for engine in [0, ENGINE_VERSION + 2] {
        match with_engine(engine) {
            Err(AskError::Refused(no)) => assert_eq!(no.code, "engine-version", "{no:?}"),
            answer => panic!("{answer:?}"),
        }
    }
    // Nobody asks for another's tree.
    let stolen = Ask::Route {
        tree: TreeId(1),
        pid: pid(),
        node: name("n2"),
        need_kib: 1,
        engine: ENGINE_VERSION,
        portable: false,
    };
    assert!(s.ask(stolen, LONG).is_err());
}

#[test]
fn moves_are_ordered_and_their_outcome_reported() {
    let dir = Dir::new();
    let (nodes, ..) = farm(&dir, &["n1", "n2"], Wire::Plain);
    let mut s = keeper(&nodes[0]);
    listed(&nodes[0]);
    assert!(matches!(route(&mut s, "n2").identity, Identity::Plain));
    let migrate = |to: Dest| nodes[0].ask(Ask::Migrate { pid: pid(), to });
    let to_n2 = || Dest::Node(name("n2"));
    thread::scope(|scope| {
        let asked = scope.spawn(|| migrate(to_n2()));
        let ticket = ticket(&mut s, &to_n2());
        let moved = Report::Moved {
            ticket,
            pid: pid(),
            node: name("n2"),
            pause_us: 9,
            total_us: 99,
            bytes: 1,
        };
        s.report(moved).expect("report");
        let answer = asked.join().expect("thread");
        assert!(
            matches!(answer, Ok(Answer::Moved { pause_us: 9, .. })),
            "{answer:?}"
        );
    });
    thread::scope(|scope| {
        // A node's own name means home.
        let asked = scope.spawn(|| migrate(Dest::Node(name("n1"))));
        let ticket = ticket(&mut s, &Dest::Home);
        let stayed = Report::Stayed {
            ticket,
            pid: pid(),
            stay: Stay::Busy,
            detail: "vfork".into(),
            group: Vec::new(),
        };
        s.report(stayed).expect("report");
        let no = asked.join().expect("thread").expect_err("it stayed");
        assert_eq!(no.code, "busy");
        assert!(no.message.contains("vfork") && !no.hint.is_empty());
    });
    let no = migrate(Dest::Node(name("n7"))).expect_err("no such node");
    assert_eq!(no.code, "no-such-node");
    assert!(no.hint.contains("n2"), "{}", no.hint);
    // The keeper goes: whoever waits is told.
    thread::scope(|scope| {
        let asked = scope.spawn(|| migrate(to_n2()));
        ticket(&mut s, &to_n2());
        drop(s);
        assert_eq!(
            asked.join().expect("thread").expect_err("gone").code,
            "gone"
        );
    });
    until("ps is empty", || {
        ps(&nodes[0], false).is_empty().then_some(())
    });
    assert_eq!(migrate(to_n2()).expect_err("no keeper").code, "not-held");
    let nobody = nodes[0].ask(Ask::Migrate {
        pid: i32::MAX,
        to: Dest::Home,
    });
    assert_eq!(nobody.expect_err("no process").code, "no-such-process");
}

/// Waits for the order to move to `to`. The policy's own orders are passed over.
fn ticket(s: &mut Session, to: &Dest) -> u64 {
    loop {
        match s.order(Some(LONG)).expect("session").expect("an order") {
            Order::Move {
                to: there, ticket, ..
            } if there == *to => return ticket,
            _ => {}
        }
    }
}

#[test]
fn a_restarted_daemon_knows_keepers_and_hosts_again() {
    let dir = Dir::new();
    let (mut nodes, ..) = farm(&dir, &["n1", "n2"], Wire::Tls);
    let mut s = keeper(&nodes[0]);
    let before = route(&mut s, "n2").addr;
    // The host's daemon: its host is found again, no second one started.
    std::fs::remove_file(nodes[1].host.with_file_name("started")).expect("remove");
    nodes[1].stop();
    nodes[1].start();
    nodes[0].sees("n2", "alive");
    let mut after = None;
    until("a way to n2", || {
        let ask = Ask::Route {
            tree: TREE,
            pid: pid(),
            node: name("n2"),
            need_kib: 1,
            engine: ENGINE_VERSION,
            portable: false,
        };
        match s.ask(ask, LONG) {
            Ok(Answer::Route(pass)) => after = Some(pass.addr),
            // Membership may still hold the old life for a moment.
            _ => return None,
        }
        Some(())
    });
    assert_eq!(after.as_ref(), Some(&before));
    assert!(!nodes[1].host.with_file_name("started").exists());
    // The home's daemon: keepers say hello again.
    nodes[0].stop();
    nodes[0].start();
    assert!(ps(&nodes[0], false).is_empty());
    let _s = keeper(&nodes[0]);
    listed(&nodes[0]);
}

#[test]
fn every_node_lists_the_whole_farm() {
    let dir = Dir::new();
    let (nodes, ..) = farm(&dir, &["n1", "n2"], Wire::Tls);
    let _s = keeper(&nodes[0]);
    listed(&nodes[0]);
    assert!(ps(&nodes[1], false).is_empty());
    let all = ps(&nodes[1], true);
    assert_eq!(all.len(), 1);
    assert_eq!((&all[0].home, all[0].pid), (&name("n1"), pid()));
    match nodes[0].ask(Ask::Why { pid: pid() }) {
        Ok(Answer::Why {
            place,
            explanation,
            remedy,
            ..
        }) => {
            assert_eq!(place, Some(name("n1")));
            assert!(!explanation.is_empty() && !remedy.is_empty());
        }
        other => panic!("{other:?}"),
    }
    assert!(nodes[0].ask(Ask::Why { pid: i32::MAX }).is_err());
}

#[test]
fn placements_are_spread() {
    let dir = Dir::new();
    let (nodes, ..) = farm(&dir, &["n1", "n2"], Wire::Tls);
    until("n1 knows n2's load", || {
        nodes[0].nodes().iter().all(|n| n.cores > 0).then_some(())
    });
    let mut away = 0;
    let mut sessions = Vec::new();
    for i in 0..40 {
        let mut s = nodes[0].session();
        let tree = TreeId(i);
        s.ask(
            Ask::Keep(KeeperHello {
                tree,
                root: 1_000_000 + i as i32,
                ..hello()
            }),
            LONG,
        )
        .expect("keep");
        let place = Ask::Place {
            tree,
            pid: 1_000_000 + i as i32,
            command: "lame".into(),
            portable: false,
            program: String::new(),
            parent: 0,
            waiting: 0,
            ran: Vec::new(),
        };
        match s.ask(place, LONG) {
            Ok(Answer::Placed { node }) => away += u32::from(node == Some(name("n2"))),
            other => panic!("{other:?}"),
        }
        sessions.push(s);
    }
    // Both nodes are the same machine; background work and calibration may tip a few. All daemons, and the other tests, are
    // one process here: what it uses counts as the farm's own work at n1, of which at least a tenth is left for programs.
    assert!((10..=37).contains(&away), "{away} of 40 away");
}

#[test]
fn bad_input_ends_only_its_own_session() {
    use std::io::{BufRead, BufReader, Write};
    let dir = Dir::new();
    let (nodes, ..) = farm(&dir, &["n1"], Wire::Tls);
    let socket = nodes[0].config.socket.clone().expect("socket");
    let raw = std::os::unix::net::UnixStream::connect(socket).expect("connect");
    let mut from = BufReader::new(raw.try_clone().expect("clone"));
    let mut line = String::new();
    (&raw)
        .write_all(b"{\"v\":9,\"id\":5,\"ask\":{\"type\":\"from-the-future\"}}\n")
        .expect("write");
    from.read_line(&mut line).expect("answer");
    assert!(
        line.contains("unknown-question") && line.contains("\"id\":5"),
        "{line}"
    );
    // Too old to be understood: it is told, and nothing is done.
    line.clear();
    (&raw)
        .write_all(b"{\"v\":0,\"id\":6,\"ask\":{\"type\":\"leave\"}}\n")
        .expect("write");
    from.read_line(&mut line).expect("answer");
    assert!(
        line.contains("version-mismatch") && line.contains("\"id\":6"),
        "{line}"
    );
    // A place is chosen for keepers only.
    let place = Ask::Place {
        tree: TREE,
        pid: 1,
        command: String::new(),
        portable: false,
        program: String::new(),
        parent: 0,
        waiting: 0,
        ran: Vec::new(),
    };
    assert!(matches!(
        nodes[0].ask(place),
        Ok(Answer::Placed { node: None })
    ));
    // A host that nobody started.
    let host = Ask::Host(armento_client::api::HostHello {
        tree: TREE,
        home: name("n1"),
        host: pid(),
        uid: uid(),
        build: Default::default(),
    });
    assert_eq!(nodes[0].ask(host).expect_err("unknown").code, "not-trusted");
    let long = vec![b'x'; armento_client::api::LINE_MAX + 2];
    // The daemon may hang up before it has heard all of it.
    let _ = (&raw).write_all(&long);
    line.clear();
    assert_eq!(from.read_line(&mut line).unwrap_or(0), 0);
    assert_eq!(nodes[0].nodes().len(), 1);
}

#[test]
fn a_process_has_one_keeper() {
    let dir = Dir::new();
    let mut node = Node::new(&dir, "n1");
    node.init(Wire::Plain);
    node.start();
    let first = keeper(&node);
    listed(&node);
    let of = |tree: u64, above: Vec<i32>| KeeperHello {
        tree: TreeId(tree),
        root: 1_000_000,
        above,
        ..hello()
    };
    let mut second = node.session();
    let no = second.ask(Ask::Keep(of(7, vec![1_000_000, pid()])), LONG);
    match no {
        Err(AskError::Refused(no)) => assert_eq!(no.code, "held"),
        other => panic!("{other:?}"),
    }
    // One that was there before, and finds the daemon again.
    let kept = second
        .ask(Ask::Keep(of(7, Vec::new())), LONG)
        .expect("keep");
    assert!(matches!(kept, Answer::Done));
    let child = |pid, ppid| ProcInfo {
        pid,
        ppid,
        tree: TreeId(7),
        ..proc("n1")
    };
    let (root, below) = (child(1_000_000, pid()), child(1_000_001, 1_000_000));
    let both = || vec![root.clone(), below.clone()];
    second
        .report(Report::Procs {
            procs: both(),
            ran: Vec::new(),
        })
        .expect("report");
    until("three processes", || {
        (ps(&node, false).len() == 3).then_some(())
    });
    // The keeper of their parent meets them, too.
    let mut all = both();
    all.push(proc("n1"));
    first
        .report(Report::Procs {
            procs: all,
            ran: Vec::new(),
        })
        .expect("report");
    for _ in 0..20 {
        let seen = ps(&node, false);
        assert_eq!(seen.len(), 3, "{seen:?}");
        let of_second = seen.iter().filter(|p| p.tree == TreeId(7)).count();
        assert_eq!(of_second, 2, "{seen:?}");
        thread::sleep(std::time::Duration::from_millis(5));
    }
}

#[test]
fn a_host_without_a_keeper_is_ended() {
    let dir = Dir::new();
    let mut nodes = [Node::new(&dir, "n1"), Node::new(&dir, "n2")];
    nodes[1].config.freeze_ms = 100;
    nodes[1].config.dead_ms = 200;
    let made = nodes[0].init(Wire::Tls);
    nodes[0].start();
    let token = made.token.expect("token").to_string();
    nodes[1].join(&token, &made.addr.to_string()).expect("join");
    nodes[1].start();
    nodes[0].sees("n2", "alive");
    let mut s = keeper(&nodes[0]);
    route(&mut s, "n2");
    let records = nodes[1].config.state.clone().expect("state").join("hosts");
    let count = || std::fs::read_dir(&records).map_or(0, Iterator::count);
    until("the host is gone and forgotten", || {
        (count() == 0).then_some(())
    });
    // And is started again when somebody wants it.
    route(&mut s, "n2");
}
