//! Whom nodes trust, and those who are trusted no more.

use crate::common::{Dir, LONG, Node, farm, until};
use crate::work::{TREE, hello, keeper, name, pid, proc, started, uid};
use armento_client::Session;
use armento_client::api::{
    Answer, Ask, GuestInfo, HostHello, Order, Refusal, Report, TrustChange, TrustInfo,
};
use armento_link::{Badge, Identity, LinkError, NodeKeys, Reader, Role, Writer, dial};
use armento_model::{ENGINE_VERSION, HomePid, TreeId};
use armento_noded::peer::{AdmitAsk, CallError, PeerAnswer, PeerAsk, talk};
use armento_noded::{Wire, new_token};
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::UdpSocket;
use std::path::{Path, PathBuf};
use std::time::Duration;

pub fn change(node: &Node, send_to: Option<&[&str]>, accept_from: Option<&[&str]>) -> TrustInfo {
    let texts = |rules: &[&str]| rules.iter().map(|r| (*r).to_owned()).collect();
    let change = TrustChange {
        send_to: send_to.map(texts),
        accept_from: accept_from.map(texts),
        ..TrustChange::default()
    };
    match node.ask(Ask::Trust {
        change: Some(change),
    }) {
        Ok(Answer::Trust(info)) => info,
        other => panic!("{other:?}"),
    }
}

fn try_route(s: &mut Session, to: &str) -> Result<(), Refusal> {
    let ask = Ask::Route {
        tree: TREE,
        pid: pid(),
        node: name(to),
        need_kib: 4096,
        engine: ENGINE_VERSION,
        portable: false,
    };
    match s.ask(ask, LONG) {
        Ok(Answer::Route(_)) => Ok(()),
        Err(armento_client::AskError::Refused(no)) => Err(no),
        other => panic!("{other:?}"),
    }
}

fn not_trusted(s: &mut Session, to: &str, part: &str) {
    let no = try_route(s, to).expect_err("it goes there");
    assert_eq!(no.code, "not-trusted", "{no:?}");
    assert!(
        no.message.contains(part) && no.hint.contains("farm trust"),
        "{no:?}"
    );
}

/// The next order of a kind; others are passed over.
fn ordered<T>(s: &mut Session, what: &str, mut pick: impl FnMut(&Order) -> Option<T>) -> T {
    until(what, || {
        let order = s
            .order(Some(Duration::from_millis(100)))
            .expect("session")?;
        pick(&order)
    })
}

#[test]
fn trust_limits_both_directions() {
    let dir = Dir::new();
    let (nodes, ..) = farm(&dir, &["n1", "n2", "n3"], Wire::Tls);
    let mut s = keeper(&nodes[0]);
    let mine = format!("{}@n3", uid());
    let not_mine = format!("!{mine}");
    change(&nodes[0], Some(&["n3"]), None);
    not_trusted(&mut s, "n2", "send_to of n1 leaves out n2");
    try_route(&mut s, "n3").expect("n3 is trusted");
    change(&nodes[0], Some(&[&not_mine]), None);
    not_trusted(&mut s, "n3", "send_to of n1 leaves out n3 for user");
    change(&nodes[0], Some(&[&mine]), None);
    try_route(&mut s, "n3").expect("this user is trusted");
    // The other side: it goes by the certificate's node and the user at home.
    let from = format!("!{}@n1", uid());
    change(&nodes[2], None, Some(&[&from]));
    not_trusted(&mut s, "n3", "accept_from of n3 leaves out user");
    change(&nodes[2], None, Some(&["n2"]));
    not_trusted(&mut s, "n3", "accept_from of n3 leaves out user");
    change(&nodes[2], None, Some(&["*"]));
    try_route(&mut s, "n3").expect("n3 trusts everybody");
    // Who may not change it may see it; what is wrong changes nothing.
    let bad = TrustChange {
        send_to: Some(vec!["nobody-of-that-name@n2".into()]),
        ..TrustChange::default()
    };
    let no = nodes[0].ask(Ask::Trust { change: Some(bad) });
    assert_eq!(no.expect_err("refused").code, "bad-rule");
    let dry = TrustChange {
        send_to: Some(Vec::new()),
        dry_run: true,
        ..TrustChange::default()
    };
    let said = nodes[0].ask(Ask::Trust { change: Some(dry) });
    assert!(matches!(said, Ok(Answer::Trust(i)) if i.send_to == Some(Vec::new())));
    let said = nodes[0].ask(Ask::Trust { change: None });
    assert!(matches!(said, Ok(Answer::Trust(i)) if i.send_to == Some(vec![mine.clone()])));
}

/// One tree is one user's: a home that says otherwise of a tree that is here already is not heard.
#[test]
fn a_tree_has_one_user() {
    let dir = Dir::new();
    let (nodes, ..) = farm(&dir, &["n1", "n2"], Wire::Tls);
    let addr = addr_of(&nodes[0], "n2");
    let me = daemon_of(&nodes[0]);
    let admit = |uid| {
        let ask = PeerAsk::Admit(AdmitAsk {
            tree: TREE,
            pid: HomePid::of_home(pid()),
            uid,
            need_kib: 4096,
            engine: ENGINE_VERSION,
        });
        let duplex = dial(&addr, &me, &Badge::daemon(&name("n2")), LONG).expect("dial");
        talk(duplex, &ask, LONG)
    };
    assert!(matches!(admit(1000), Ok(PeerAnswer::Admitted { .. })));
    assert!(matches!(admit(1000), Ok(PeerAnswer::Admitted { .. })));
    match admit(1001) {
        Err(CallError::Refused(no)) => assert_eq!(no.code, "not-trusted"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn changes_of_trust_apply_to_running_processes() {
    let dir = Dir::new();
    let (mut nodes, ..) = farm(&dir, &["n1", "n2"], Wire::Tls);
    let mut s = keeper(&nodes[0]);
    try_route(&mut s, "n2").expect("route");
    s.report(Report::Procs {
        ran: Vec::new(),
        procs: vec![proc("n2")],
    })
    .expect("report");
    let home = |o: &Order| match o {
        Order::Move { pid, to, .. } => Some((*pid, to.clone())),
        _ => None,
    };
    let closed = |o: &Order| match o {
        Order::Closed { nodes } => Some(nodes.clone()),
        _ => None,
    };
    until("the process is seen away", || {
        match nodes[0].ask(Ask::Ps { all: false }) {
            Ok(Answer::Ps { procs }) => (procs.first()?.place == name("n2")).then_some(()),
            other => panic!("{other:?}"),
        }
    });
    let info = change(&nodes[0], Some(&["!n2"]), None);
    assert_eq!(info.homeward, 1);
    // A keeper that is new is told that nobody is, if members come meanwhile.
    let some = |o: &Order| closed(o).filter(|nodes| !nodes.is_empty());
    assert_eq!(ordered(&mut s, "closed", some), vec![name("n2")]);
    let (who, to) = ordered(&mut s, "home", home);
    assert_eq!((who, to), (pid(), armento_client::api::Dest::Home));
    // It was not sent home before; the daemon that starts again knows it, too.
    nodes[0].stop();
    nodes[0].start();
    let mut s = keeper(&nodes[0]);
    s.report(Report::Procs {
        ran: Vec::new(),
        procs: vec![proc("n2")],
    })
    .expect("report");
    // In either order: n2 may become a member after the process has reported.
    let (mut sent_home, mut shut) = (false, false);
    ordered(&mut s, "home and closed", |o| {
        sent_home |= home(o).is_some_and(|(who, _)| who == pid());
        shut |= closed(o).is_some_and(|nodes| nodes == [name("n2")]);
        (sent_home && shut).then_some(())
    });
    change(&nodes[0], Some(&["*"]), None);
    assert_eq!(ordered(&mut s, "open", closed), Vec::new());

    // The other side: guests are sent away, and nobody comes while they are.
    let mut host = {
        let tree = started(&nodes[1]).tree;
        host_of(&mut nodes[1], tree)
    };
    change(&nodes[1], None, Some(&["!n1"]));
    let why = ordered(&mut host, "expelled", |o| match o {
        Order::Expel { why, for_ms, .. } => (*for_ms > 0).then(|| why.clone()),
        _ => None,
    });
    assert!(why.contains("accept_from"), "{why}");
    change(&nodes[1], None, Some(&["*"]));
    ordered(&mut host, "welcome", |o| match o {
        Order::Expel { for_ms: 0, .. } => Some(()),
        _ => None,
    });
}

/// A session as the host that `node` started: its daemon, started again, finds this process in the record.
fn host_of(node: &mut Node, tree: TreeId) -> Session {
    node.stop();
    let hosts = node.config.state.clone().expect("state").join("hosts");
    let files = fs::read_dir(&hosts).expect("hosts").flatten();
    let is_record = |f: &PathBuf| f.extension().is_some_and(|e| e == "json");
    let record = files.map(|f| f.path()).find(is_record).expect("a record");
    let text = fs::read(&record).expect("record");
    let mut fields: serde_json::Value = serde_json::from_slice(&text).expect("json");
    let stat = fs::read_to_string("/proc/self/stat").expect("stat");
    let after = stat.rsplit_once(") ").expect("stat").1;
    let began: u64 = after
        .split(' ')
        .nth(19)
        .expect("start")
        .parse()
        .expect("number");
    fields["pid"] = pid().into();
    fields["started"] = began.into();
    fs::write(&record, fields.to_string()).expect("write");
    node.start();
    let mut s = node.session();
    let hello = HostHello {
        tree,
        home: name("n1"),
        host: pid(),
        uid: uid(),
        build: Default::default(),
    };
    s.ask(Ask::Host(hello), LONG).expect("host");
    let guest = GuestInfo {
        pid: HomePid::of_home(pid()),
        tree,
        home: name("n1"),
        command: "lame".into(),
        cpu_ms: 1,
        rss_kib: 1,
        threads: 1,
        busy_percent: 100,
        frozen: false,
    };
    s.report(Report::Guests {
        guests: vec![guest],
    })
    .expect("report");
    s
}

pub fn addr_of(node: &Node, other: &str) -> String {
    let nodes = node.nodes();
    let it = nodes.iter().find(|n| n.name.as_str() == other);
    it.expect("member").addr.clone()
}

fn keys_of(state: &Path, node: &str) -> NodeKeys {
    let text = |f: &str| fs::read_to_string(state.join(f)).expect("keys");
    NodeKeys {
        node: name(node),
        ca_pem: text("ca.pem"),
        cert_pem: text("node.pem"),
        key_pem: text("node.key"),
    }
}

pub fn daemon_of(node: &Node) -> Identity {
    let state = node.config.state.clone().expect("state");
    let keys = keys_of(&state, &node.name);
    let badge = Badge::daemon(&name(&node.name));
    keys.sign_short(&badge, LONG).expect("sign")
}

fn remove(node: &Node, other: &str, now: bool) -> Result<Answer, Refusal> {
    node.ask(Ask::Remove {
        node: name(other),
        now,
    })
}

/// What a removed node kept: its keys, and the farm's old secret.
struct Kept {
    dir: PathBuf,
    keys: NodeKeys,
}

fn copy_of(node: &Node, dir: &Dir) -> Kept {
    let state = node.config.state.clone().expect("state");
    let copy = dir.path().join("kept");
    fs::create_dir_all(&copy).expect("directory");
    for f in fs::read_dir(&state).expect("state").flatten() {
        if f.path().is_file() {
            fs::copy(f.path(), copy.join(f.file_name())).expect("copy");
        }
    }
    Kept {
        keys: keys_of(&copy, &node.name),
        dir: copy,
    }
}

fn shut_out(addr: &str, me: &Identity, expect: &Badge) {
    match dial(addr, me, expect, LONG) {
        Err(LinkError::Refused(why)) => assert!(why.contains("removed"), "{why}"),
        Err(e) => panic!("another error: {e}"),
        Ok(_) => panic!("was let in at {addr}"),
    }
}

#[test]
fn a_removed_node_is_refused_everywhere() {
    let dir = Dir::new();
    let (mut nodes, token, addr) = farm(&dir, &["n1", "n2", "n3", "n4"], Wire::Tls);
    let kept = copy_of(&nodes[2], &dir);
    let n2 = addr_of(&nodes[0], "n2");
    // Only who holds the farm's key removes, and nobody who is not there.
    assert_eq!(
        remove(&nodes[1], "n3", true).expect_err("n2").code,
        "no-farm-key"
    );
    assert_eq!(
        remove(&nodes[0], "n9", true).expect_err("n9").code,
        "no-such-node"
    );
    assert_eq!(
        remove(&nodes[0], "n1", true).expect_err("n1").code,
        "itself"
    );
    // n4 is away when it happens.
    nodes[3].stop();
    nodes[0].sees("n4", "down");
    match remove(&nodes[0], "n3", false) {
        Ok(Answer::Removed { lost, untold, .. }) => {
            assert_eq!((lost, untold), (0, vec![name("n4")]));
        }
        other => panic!("{other:?}"),
    }
    // Its own daemon believes the farm, and ends.
    nodes[2].wait();
    let gone = |node: &Node| {
        let known = node.nodes();
        known.iter().all(|n| n.name.as_str() != "n3").then_some(())
    };
    until("n1 forgets n3", || gone(&nodes[0]));
    until("n2 forgets n3", || gone(&nodes[1]));
    // With its old keys it is a stranger: as a daemon, a keeper, a host.
    let sign = |role, tree| {
        let badge = Badge {
            node: name("n3"),
            tree,
            role,
        };
        kept.keys.sign_short(&badge, LONG).expect("sign")
    };
    let tree = Some((TREE, uid()));
    for (role, tree) in [
        (Role::Daemon, None),
        (Role::Keeper, tree),
        (Role::Host, tree),
    ] {
        for (to, at) in [("n1", &addr), ("n2", &n2)] {
            shut_out(at, &sign(role, tree), &Badge::daemon(&name(to)));
        }
    }
    // The farm goes on under another secret: n1 and n2 hear each other, n3 with the old one nobody.
    nodes[0].sees("n2", "alive");
    let old: serde_json::Value =
        serde_json::from_slice(&fs::read(kept.dir.join("farm.json")).expect("farm")).expect("json");
    let news = fs::read_to_string(dir.path().join("n2/state/news.json")).expect("news");
    assert!(!news.contains(old["secret"].as_str().expect("secret")));
    // A copy of n3 starts with all that it knew and meets nobody.
    let mut ghost = Node::new(&dir, "n3");
    let state = dir.path().join("ghost");
    fs::rename(&kept.dir, &state).expect("rename");
    ghost.config.state = Some(state);
    ghost.start();
    ghost.sees("n1", "down");
    let noise = UdpSocket::bind("127.0.0.1:0").expect("socket");
    noise.send_to(b"garbage", &addr).expect("send");
    // Who was away learns it when it comes back, and then meets the others.
    nodes[3].start();
    nodes[3].sees("n1", "alive");
    nodes[0].sees("n4", "alive");
    until("n4 forgets n3", || gone(&nodes[3]));
    let n4 = addr_of(&nodes[0], "n4");
    shut_out(&n4, &sign(Role::Daemon, None), &Badge::daemon(&name("n4")));
    until("n1 has not met it", || gone(&nodes[0]));
    drop(ghost);
    // Tokens of before are void; with a new one the name comes back, on new keys.
    let mut again = Node::new(&dir, "n3");
    again.config.state = Some(dir.path().join("again"));
    match again.join(&token.to_string(), &addr) {
        Err(armento_noded::FarmError::Refused(no)) => assert_eq!(no.code, "wrong-token"),
        Err(e) => panic!("{e}"),
        Ok(_) => panic!("an old token was good"),
    }
    let (fresh, _) = new_token(&nodes[0].config, LONG, 1).expect("token");
    again.join(&fresh.to_string(), &addr).expect("join");
    again.start();
    nodes[1].sees("n3", "alive");
    again.sees("n4", "alive");
    // … and the old keys are as worthless as before.
    shut_out(&n2, &sign(Role::Daemon, None), &Badge::daemon(&name("n2")));
}

/// What a removed node's keeper holds elsewhere ends, and what others have there is cut off.
#[test]
fn links_to_a_removed_node_are_cut() {
    let dir = Dir::new();
    let (nodes, ..) = farm(&dir, &["n1", "n2"], Wire::Tls);
    let mut s = keeper(&nodes[0]);
    try_route(&mut s, "n2").expect("route");
    s.report(Report::Procs {
        ran: Vec::new(),
        procs: vec![proc("n2")],
    })
    .expect("report");
    // A host of n2's here.
    let mut theirs = nodes[1].session();
    let mut hello = hello();
    hello.tree = TreeId(7);
    theirs.ask(Ask::Keep(hello), LONG).expect("keep");
    let ask = Ask::Route {
        tree: TreeId(7),
        pid: pid(),
        node: name("n1"),
        need_kib: 4096,
        engine: ENGINE_VERSION,
        portable: false,
    };
    theirs.ask(ask, LONG).expect("route");
    let records = dir.path().join("n1/state/hosts");
    let count = || {
        let files = fs::read_dir(&records).expect("hosts").flatten();
        files
            .filter(|f| f.path().extension().is_some_and(|e| e == "json"))
            .count()
    };
    assert_eq!(count(), 1);
    until("the process is seen away", || {
        match nodes[0].ask(Ask::Ps { all: false }) {
            Ok(Answer::Ps { procs }) => (procs.first()?.place == name("n2")).then_some(()),
            other => panic!("{other:?}"),
        }
    });
    match remove(&nodes[0], "n2", true) {
        Ok(Answer::Removed { lost, .. }) => assert_eq!(lost, 1),
        other => panic!("{other:?}"),
    }
    let cut = ordered(&mut s, "cut", |o| match o {
        Order::Cut { node } => Some(node.clone()),
        _ => None,
    });
    assert_eq!(cut, name("n2"));
    until("its host has ended", || (count() == 0).then_some(()));
}

/// A connection that stays open answers one question after the other, and none of a node that was removed since.
#[test]
fn a_removal_ends_open_connections() {
    let dir = Dir::new();
    let (nodes, ..) = farm(&dir, &["n1", "n2", "n3"], Wire::Tls);
    let n1 = addr_of(&nodes[1], "n1");
    let connect = |node: &Node| {
        let badge = Badge::daemon(&name("n1"));
        let duplex = dial(&n1, &daemon_of(node), &badge, LONG).expect("dial");
        let wait = duplex.socket().set_read_timeout(Some(LONG));
        wait.expect("a socket");
        let (reader, writer) = duplex.split().expect("halves");
        (BufReader::new(reader), writer)
    };
    let ask = |(reader, writer): &mut (BufReader<Reader>, Writer)| {
        let v = armento_client::version::spoken();
        let line = serde_json::json!({"v": v, "ask": {"type": "clock"}});
        let said = writeln!(writer, "{line}").and_then(|()| writer.flush());
        let mut answer = String::new();
        let heard = said.and_then(|()| reader.read_line(&mut answer));
        heard.is_ok() && answer.contains("realtime_ns")
    };
    let (mut theirs, mut others) = (connect(&nodes[2]), connect(&nodes[1]));
    for _ in 0..3 {
        assert!(ask(&mut theirs) && ask(&mut others), "one after the other");
    }
    remove(&nodes[0], "n3", true).expect("removed");
    assert!(!ask(&mut theirs), "it was answered");
    // Whoever else was connected by then proves anew who it is.
    assert!(!ask(&mut others) && ask(&mut connect(&nodes[1])));
}

/// Nobody but the farm speaks for it, whatever a member says.
#[test]
fn members_cannot_sign_for_the_farm() {
    let dir = Dir::new();
    let (nodes, ..) = farm(&dir, &["n1", "n2", "n3"], Wire::Tls);
    let addr = addr_of(&nodes[0], "n1");
    let text = r#"{"type":"drain","node":"n3","epoch":0}"#;
    let said = armento_noded::revocation::Signed {
        text: text.into(),
        signature: "00".repeat(70),
    };
    let duplex = dial(
        &addr,
        &daemon_of(&nodes[1]),
        &Badge::daemon(&name("n1")),
        LONG,
    );
    match talk(duplex.expect("dial"), &PeerAsk::Said(said), LONG) {
        Err(CallError::Refused(no)) => assert_eq!(no.code, "not-trusted"),
        other => panic!("{other:?}"),
    }
    let mut s = keeper(&nodes[0]);
    try_route(&mut s, "n3").expect("n3 is as welcome as before");
}
