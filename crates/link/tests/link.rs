//! Streams between two sides of one farm, and peers that must be refused.

use armento_link::{
    Badge, FarmKeys, Identity, LinkError, Listener, NodeKeys, Role, dial, dial_unknown, serial_of,
    signed_by,
};
use armento_model::{NodeName, TreeId};
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::thread;
use std::time::{Duration, SystemTime};

const LONG: Duration = Duration::from_secs(20);
const DAY: Duration = Duration::from_secs(86400);

fn node(name: &str) -> NodeName {
    name.parse().expect("name")
}

fn badge(name: &str, role: Role, tree: u64) -> Badge {
    Badge {
        node: node(name),
        tree: Some((TreeId(tree), 1000)),
        role,
    }
}

struct Farm {
    keys: FarmKeys,
    n1: NodeKeys,
    n2: NodeKeys,
}

impl Farm {
    fn new() -> Farm {
        let keys = FarmKeys::create().expect("farm");
        let n1 = keys.first_node(&node("n1")).expect("n1");
        let n2 = keys.first_node(&node("n2")).expect("n2");
        Farm { keys, n1, n2 }
    }

    fn host(&self) -> Identity {
        let b = badge("n2", Role::Host, 7);
        self.n2.sign_short(&b, DAY).expect("host")
    }

    fn keeper(&self) -> Identity {
        let b = badge("n1", Role::Keeper, 7);
        self.n1.sign_short(&b, DAY).expect("keeper")
    }
}

type Met = Result<(armento_link::Duplex, Badge), LinkError>;
type Called = Result<armento_link::Duplex, LinkError>;

/// One connection: `host` listens for n1's keeper of tree 7, `keeper` connects to n2's host of tree 7.
fn meet(host: &Identity, keeper: &Identity) -> (Met, Called) {
    let listener = Listener::bind("127.0.0.1:0", host).expect("bind");
    let addr = format!("127.0.0.1:{}", listener.port());
    let expect = [badge("n1", Role::Keeper, 7)];
    thread::scope(|s| {
        let met = s.spawn(move || listener.accept(&expect));
        let called = dial(&addr, keeper, &badge("n2", Role::Host, 7), LONG);
        (met.join().expect("listener"), called)
    })
}

fn stream(host: &Identity, keeper: &Identity) -> (armento_link::Duplex, armento_link::Duplex) {
    let (met, called) = meet(host, keeper);
    (met.expect("accept").0, called.expect("dial"))
}

fn refused<T>(r: Result<T, LinkError>, part: &str) {
    match r {
        Err(LinkError::Refused(why)) => assert!(why.contains(part), "`{why}` lacks `{part}`"),
        Err(e) => panic!("other error: {e}"),
        Ok(_) => panic!("was let in"),
    }
}

/// … because the peer's certificate is not valid at this time.
fn of_another_time<T>(r: Result<T, LinkError>, part: &str) {
    match r {
        Err(LinkError::Clock(why)) => assert!(why.contains(part), "`{why}` lacks `{part}`"),
        Err(e) => panic!("other error: {e}"),
        Ok(_) => panic!("was let in"),
    }
}

fn pattern(len: usize, seed: u8) -> Vec<u8> {
    (0..len).map(|i| (i / 3) as u8 ^ seed).collect()
}

#[test]
fn both_directions_at_once_carry_every_byte() {
    let farm = Farm::new();
    for (host, keeper) in [
        (farm.host(), farm.keeper()),
        (Identity::Plain, Identity::Plain),
    ] {
        let (a, b) = stream(&host, &keeper);
        let (mut ar, mut aw) = a.split().expect("split");
        let (mut br, mut bw) = b.split().expect("split");
        // Sizes around records and buffers, both ways at the same time.
        let sizes = [1, 16383, 16384, 16385, 262144, 262145, 3_000_000];
        let feed = |w: &mut armento_link::Writer, seed| {
            for (i, n) in sizes.iter().enumerate() {
                w.write_all(&pattern(*n, seed + i as u8)).expect("write");
            }
            w.flush().expect("flush");
        };
        let drink = |r: &mut armento_link::Reader, seed| {
            for (i, n) in sizes.iter().enumerate() {
                let mut got = vec![0; *n];
                r.read_exact(&mut got).expect("read");
                assert!(got == pattern(*n, seed + i as u8), "{n} bytes differ");
            }
        };
        thread::scope(|s| {
            s.spawn(move || feed(&mut aw, 1));
            s.spawn(move || feed(&mut bw, 100));
            s.spawn(move || drink(&mut br, 1));
            s.spawn(move || drink(&mut ar, 100));
        });
    }
}

#[test]
fn badge_is_that_of_the_certificate() {
    let farm = Farm::new();
    let (met, called) = meet(&farm.host(), &farm.keeper());
    assert_eq!(met.expect("accept").1, badge("n1", Role::Keeper, 7));
    assert!(called.expect("dial").is_tls());
}

#[test]
fn close_notify_is_an_end_and_a_break_is_an_error() {
    let farm = Farm::new();
    let (a, b) = stream(&farm.host(), &farm.keeper());
    let (mut ar, _aw) = a.split().expect("split");
    let (_br, mut bw) = b.split().expect("split");
    bw.write_all(b"last").expect("write");
    bw.close().expect("close");
    let mut got = Vec::new();
    ar.read_to_end(&mut got).expect("end");
    assert_eq!(got, b"last");

    let (a, b) = stream(&farm.host(), &farm.keeper());
    let (mut ar, _aw) = a.split().expect("split");
    b.socket().shutdown(Shutdown::Both).expect("cut");
    let e = ar.read(&mut [0; 8]).expect_err("no goodbye was said");
    assert_eq!(e.kind(), io::ErrorKind::UnexpectedEof);
}

#[test]
fn non_blocking_writer_loses_and_repeats_nothing() {
    let farm = Farm::new();
    let (a, b) = stream(&farm.host(), &farm.keeper());
    a.socket().set_nonblocking(true).expect("non-blocking");
    let (_ar, mut aw) = a.split().expect("split");
    let (mut br, _bw) = b.split().expect("split");
    let data = pattern(20_000_000, 9);
    let mut written = 0;
    // The peer does not read: the socket fills up.
    let full = loop {
        match aw.write(&data[written..]) {
            Ok(n) => written += n,
            Err(e) => break e,
        }
    };
    assert_eq!(full.kind(), io::ErrorKind::WouldBlock);
    assert!(aw.has_unsent());
    thread::scope(|s| {
        s.spawn(|| {
            let mut got = vec![0; data.len()];
            br.read_exact(&mut got).expect("read");
            assert!(got == data);
        });
        while written < data.len() || aw.has_unsent() {
            let r = if written < data.len() {
                aw.write(&data[written..])
            } else {
                aw.flush().map(|()| 0)
            };
            match r {
                Ok(n) => written += n,
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => thread::yield_now(),
                Err(e) => panic!("{e}"),
            }
        }
    });
}

#[test]
fn another_farm_is_refused_both_ways() {
    let (farm, other) = (Farm::new(), Farm::new());
    let (met, called) = meet(&farm.host(), &other.keeper());
    refused(met, "");
    refused(called, "another farm");
    // The client trusts the host, the host does not trust the client.
    let Identity::Tls { ca_pem, .. } = farm.host() else {
        panic!("TLS")
    };
    let mixed = match other.keeper() {
        Identity::Tls {
            chain_pem, key_pem, ..
        } => Identity::Tls {
            ca_pem,
            chain_pem,
            key_pem,
            crl_pem: None,
        },
        Identity::Plain => panic!("TLS"),
    };
    let (met, called) = meet(&farm.host(), &mixed);
    refused(met, "another farm");
    refused(called, "did not accept our certificate");
}

/// A removed node still has its keys: they are refused, and a node that has the list does not connect to it any more.
/// Its name may be given to other keys.
#[test]
fn removed_node_is_refused_both_ways() {
    let farm = Farm::new();
    let serials = [serial_of(&farm.n1.cert_pem).expect("serial")];
    let list = Some(farm.keys.removed(&serials, 1).expect("list"));
    let (met, called) = meet(&farm.host().with_removed(list.clone()), &farm.keeper());
    refused(met, "removed from the farm");
    refused(called, "this node was removed from the farm");
    // The connecting side has the list, and the listener is the removed node.
    let serials = [serial_of(&farm.n2.cert_pem).expect("serial")];
    let other = Some(farm.keys.removed(&serials, 2).expect("list"));
    let (_, called) = meet(&farm.host(), &farm.keeper().with_removed(other.clone()));
    refused(called, "its node was removed from the farm");
    // Unlisted nodes go on, and so does the name with new keys.
    let again = farm.keys.first_node(&node("n1")).expect("n1");
    let keeper = again.sign_short(&badge("n1", Role::Keeper, 7), DAY);
    let keeper = keeper.expect("sign").with_removed(list.clone());
    let (met, called) = meet(&farm.host().with_removed(list.clone()), &keeper);
    assert_eq!(met.expect("accept").1, badge("n1", Role::Keeper, 7));
    called.expect("dial");
    // A list that another farm signed does not admit the node; it makes connections fail.
    let forged = Farm::new();
    let serials = [serial_of(&again.cert_pem).expect("serial")];
    let forged = Some(forged.keys.removed(&serials, 9).expect("list"));
    refused(meet(&farm.host().with_removed(forged), &keeper).0, "");
}

#[test]
fn only_the_farm_ca_signs_messages() {
    let (farm, other) = (Farm::new(), Farm::new());
    let signature = farm.keys.sign(b"n3 is removed").expect("sign");
    let ca = &farm.keys.ca_pem;
    assert!(signed_by(ca, b"n3 is removed", &signature));
    assert!(!signed_by(ca, b"n2 is removed", &signature));
    assert!(!signed_by(&other.keys.ca_pem, b"n3 is removed", &signature));
    let member = FarmKeys {
        ca_pem: farm.n1.cert_pem.clone(),
        ca_key_pem: farm.n1.key_pem.clone(),
    };
    let theirs = member.sign(b"n3 is removed").expect("sign");
    assert!(!signed_by(ca, b"n3 is removed", &theirs));
    assert!(!signed_by(ca, b"n3 is removed", b""));
    assert!(!signed_by("", b"n3 is removed", &signature));
}

#[test]
fn certificate_validity_is_enforced() {
    let farm = Farm::new();
    let now = SystemTime::now();
    let b = badge("n1", Role::Keeper, 7);
    let old = farm.n1.sign_between(&b, now - 2 * DAY, now - DAY);
    let (met, called) = meet(&farm.host(), &old.expect("old"));
    of_another_time(met, "expired");
    refused(called, "did not accept our certificate");
    let early = farm.n1.sign_between(&b, now + DAY, now + 2 * DAY);
    of_another_time(
        meet(&farm.host(), &early.expect("early")).0,
        "not valid yet",
    );
    let host = badge("n2", Role::Host, 7);
    let old = farm.n2.sign_between(&host, now - 2 * DAY, now - DAY);
    of_another_time(meet(&old.expect("old"), &farm.keeper()).1, "expired");
}

#[test]
fn role_tree_user_and_node_are_checked() {
    let farm = Farm::new();
    let as_keeper = |b: &Badge| farm.n1.sign_short(b, DAY).expect("sign");
    let mut user = badge("n1", Role::Keeper, 7);
    user.tree = Some((TreeId(7), 1001));
    for wrong in [
        badge("n1", Role::Host, 7),
        badge("n1", Role::Keeper, 8),
        Badge::daemon(&node("n1")),
        user,
    ] {
        let (met, called) = meet(&farm.host(), &as_keeper(&wrong));
        refused(met, "not expected here");
        refused(called, "not expected here");
    }
    for wrong in [badge("n2", Role::Keeper, 7), badge("n2", Role::Host, 8)] {
        let host = farm.n2.sign_short(&wrong, DAY).expect("sign");
        refused(meet(&host, &farm.keeper()).1, "another peer");
    }
    let host = farm.n1.sign_short(&badge("n1", Role::Host, 7), DAY);
    refused(meet(&host.expect("sign"), &farm.keeper()).1, "another peer");
}

#[test]
fn node_cannot_sign_for_another() {
    let farm = Farm::new();
    // n2 forges n1's keeper, n1 forges n2's host.
    let forged = farm.n2.sign_short(&badge("n1", Role::Keeper, 7), DAY);
    let (met, _) = meet(&farm.host(), &forged.expect("sign"));
    refused(met, "");
    let forged = farm.n1.sign_short(&badge("n2", Role::Host, 7), DAY);
    refused(meet(&forged.expect("sign"), &farm.keeper()).1, "");
    // Nor by signing a node certificate of its own.
    let usurper = FarmKeys {
        ca_pem: farm.n2.cert_pem.clone(),
        ca_key_pem: farm.n2.key_pem.clone(),
    };
    let mut below = usurper.first_node(&node("n1")).expect("sign");
    below.ca_pem = farm.keys.ca_pem.clone();
    let forged = below.sign_short(&badge("n1", Role::Keeper, 7), DAY);
    let forged = match forged.expect("sign") {
        Identity::Tls {
            ca_pem,
            chain_pem,
            key_pem,
            crl_pem,
        } => Identity::Tls {
            ca_pem,
            chain_pem: chain_pem + &farm.n2.cert_pem,
            key_pem,
            crl_pem,
        },
        Identity::Plain => panic!("TLS"),
    };
    refused(meet(&farm.host(), &forged).0, "");
}

#[test]
fn silent_and_garbage_peers_delay_no_other() {
    let farm = Farm::new();
    let listener = Listener::bind("127.0.0.1:0", &farm.host()).expect("bind");
    let addr = format!("127.0.0.1:{}", listener.port());
    let silent: Vec<TcpStream> = (0..3)
        .map(|_| TcpStream::connect(&addr).expect("connect"))
        .collect();
    let mut garbage = TcpStream::connect(&addr).expect("connect");
    garbage
        .write_all(b"GET / HTTP/1.1\r\nHost: n2\r\n\r\n")
        .expect("write");
    refused(
        listener.accept(&[badge("n1", Role::Keeper, 7)]),
        "does not speak TLS",
    );
    // A client without a certificate is not accepted as a keeper.
    let hash = farm.n1.ca_sha256().expect("hash");
    let expect = [badge("n1", Role::Keeper, 7)];
    thread::scope(|s| {
        let stranger = s.spawn(|| dial_unknown(&addr, hash, LONG).map(drop));
        assert!(listener.accept(&expect).is_err());
        assert!(stranger.join().expect("thread").is_err());
    });
    thread::scope(|s| {
        s.spawn(|| {
            let to = badge("n2", Role::Host, 7);
            dial(&addr, &farm.keeper(), &to, LONG).expect("dial")
        });
        listener.accept(&expect).expect("the honest peer");
    });
    drop(silent);
}

#[test]
fn closed_listener_returns() {
    let farm = Farm::new();
    let listener = Listener::bind("127.0.0.1:0", &farm.host()).expect("bind");
    let closer = listener.closer().expect("closer");
    thread::scope(|s| {
        let waiting = s.spawn(|| listener.accept(&[]).map(drop));
        closer.close();
        assert!(matches!(
            waiting.join().expect("thread"),
            Err(LinkError::Closed)
        ));
    });
}

#[test]
fn joining_node_verifies_the_farm_by_its_hash() {
    let farm = Farm::new();
    let me = farm.n1.sign_short(&Badge::daemon(&node("n1")), DAY);
    let listener = Listener::bind_open("127.0.0.1:0", &me.expect("sign")).expect("bind");
    let addr = format!("127.0.0.1:{}", listener.port());
    let hash = farm.n1.ca_sha256().expect("hash");
    thread::scope(|s| {
        let call = s.spawn(|| dial_unknown(&addr, hash, LONG));
        let (_, peer) = listener.accept_any().expect("accept");
        assert_eq!(peer, None);
        let (_, daemon, ca) = call.join().expect("thread").expect("dial");
        assert_eq!(daemon, Badge::daemon(&node("n1")));
        assert_eq!(armento_link::ca_hash(&ca), hash);
    });
    thread::scope(|s| {
        let call = s.spawn(|| dial_unknown(&addr, [1; 32], LONG));
        assert!(listener.accept_any().is_err());
        refused(call.join().expect("thread").map(drop), "another farm");
    });
    // Members are identified by name on the same listener.
    let n2 = farm.n2.sign_short(&Badge::daemon(&node("n2")), DAY);
    thread::scope(|s| {
        let n2 = n2.expect("sign");
        let addr = &addr;
        let call = s.spawn(move || dial(addr, &n2, &Badge::daemon(&node("n1")), LONG));
        let (_, peer) = listener.accept_any().expect("accept");
        assert_eq!(peer, Some(Badge::daemon(&node("n2"))));
        assert!(call.join().expect("thread").is_ok());
    });
}
