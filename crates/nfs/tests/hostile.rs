//! Clients that break the protocol harm themselves only.

mod common;

use armento_nfs::{Export, Running};
use common::call::Client;
use common::space::{Net, PORT};
use common::{Dir, serve};
use nfs3_types::nfs3::{GETATTR3args, NFS_PROGRAM, READ3args, READ3res};
use nfs3_types::rpc::{call_body, fragment_header, msg_body, opaque_auth, rpc_msg};
use nfs3_types::xdr_codec::Pack;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::Duration;

fn stage(name: &str) -> Option<(Net, Dir, Running)> {
    let net = Net::new(&[])?;
    let root = Dir::new(name).with(&[("f", "text"), ("d/g", "")]);
    let running = serve(&net, vec![Export::shared("/root", &root.0).writable()]);
    Some((net, root, running))
}

/// Sends bytes and returns what comes until the server closes.
fn exchange(net: &Net, bytes: &[u8]) -> Vec<u8> {
    let mut stream = TcpStream::connect((net.server, PORT)).expect("connected");
    stream
        .set_read_timeout(Some(Duration::from_secs(20)))
        .expect("a time limit");
    // It may have been closed already.
    let _ = stream.write_all(bytes);
    let _ = stream.shutdown(Shutdown::Write);
    let mut got = Vec::new();
    let _ = stream.read_to_end(&mut got);
    got
}

fn serves(net: &Net) {
    let mut c = Client::new(net.server);
    let top = c.mount("/root");
    c.walk(&top, "d/g").expect("found");
}

/// A call with its mark.
fn record(program: u32, procedure: u32, args: &[u8]) -> Vec<u8> {
    let call = rpc_msg {
        xid: 1,
        body: msg_body::CALL(call_body {
            rpcvers: 2,
            prog: program,
            vers: 3,
            proc: procedure,
            cred: opaque_auth::default(),
            verf: opaque_auth::default(),
        }),
    };
    let mut bytes = vec![0; 4];
    call.pack(&mut bytes).expect("packed");
    bytes.extend_from_slice(args);
    let mark = fragment_header::new(bytes.len() as u32 - 4, true);
    bytes[..4].copy_from_slice(&mark.into_xdr_buf());
    bytes
}

#[test]
fn broken_records_close_the_connection() {
    let Some((net, _root, running)) = stage("records") else {
        return;
    };
    net.inside(net.server, || {
        let hostile: [&[u8]; 7] = [
            b"GET / HTTP/1.0\r\n\r\n",
            &[0xff; 64],
            &[0; 4096],
            &[0x80, 0, 0, 0],
            &[0x80, 0, 0, 8, 0, 0, 0, 1, 0, 0, 0, 1],
            &[0x80, 0x20, 0, 0, 1, 2, 3],
            &[0x80, 0, 0, 4, 0, 0, 0, 9],
        ];
        for bytes in hostile {
            assert_eq!(exchange(&net, bytes), Vec::<u8>::new(), "{bytes:?}");
            serves(&net);
        }
    });
    let clients = running.clients();
    running.stop();
    assert_eq!(clients.len(), 1);
}

/// A generator of numbers that is the same in each run (xorshift64).
struct Random(u64);

impl Random {
    fn next(&mut self, below: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 16) as usize % below
    }
}

#[test]
fn changed_calls_never_stop_the_server() {
    let Some((net, _root, running)) = stage("changed") else {
        return;
    };
    let mut random = Random(0x1234_5678_9abc_def1);
    net.inside(net.server, || {
        let top = Client::new(net.server).mount("/root");
        let mut handle = Vec::new();
        GETATTR3args { object: top }
            .pack(&mut handle)
            .expect("packed");
        for round in 0..600 {
            let program = [100_003, 100_003, 100_003, 100_005, 100_227][round % 5];
            let mut args = handle.clone();
            for _ in 0..random.next(80) {
                args.push([0, 0, 0, 1, 4, 0xff, 0x7f][random.next(7)]);
            }
            let mut bytes = record(program, random.next(24) as u32, &args);
            for _ in 0..random.next(4) {
                // Not the mark: then most records would be none.
                let at = 4 + random.next(bytes.len() - 4);
                bytes[at] = random.next(256) as u8;
            }
            exchange(&net, &bytes);
        }
        serves(&net);
    });
    running.stop();
}

#[test]
fn clients_that_do_not_read_hold_up_nobody() {
    let Some((net, root, running)) = stage("slow") else {
        return;
    };
    std::fs::write(root.0.join("big"), vec![7; 4 << 20]).expect("written");
    net.inside(net.server, || {
        let mut slow = Client::new(net.server);
        let top = slow.mount("/root");
        let file = slow.walk(&top, "big").expect("file");
        let args = READ3args {
            file,
            offset: 0,
            count: 1 << 20,
        };
        let mut bytes = Vec::new();
        args.pack(&mut bytes).expect("packed");
        let call = record(100_003, NFS_PROGRAM::NFSPROC3_READ as u32, &bytes);
        for _ in 0..100 {
            slow.stream.write_all(&call).expect("sent");
        }
        // A record that never becomes whole.
        let mut half = TcpStream::connect((net.server, PORT)).expect("connected");
        half.write_all(&[0x80, 0, 1, 0, 5]).expect("sent");
        // Until nothing more fits into the sockets.
        let sent = || running.clients()[0].bytes_read;
        let mut before = 0;
        while before == 0 || before != sent() {
            before = sent();
            std::thread::sleep(Duration::from_millis(300));
        }
        serves(&net);
        let mut other = Client::new(net.server);
        let ok: READ3res = other.nfs(NFS_PROGRAM::NFSPROC3_READ, &args);
        assert!(matches!(ok, READ3res::Ok(_)));
        // Stops although both are still there.
        running.stop();
        drop((slow, half));
    });
}

#[test]
fn many_clients_read_at_once() {
    let Some((net, root, running)) = stage("many") else {
        return;
    };
    let content: Vec<u8> = (0..600_000_u32).map(|i| (i / 3) as u8).collect();
    std::fs::write(root.0.join("big"), &content).expect("written");
    net.inside(net.server, || {
        // All are connected before the first one reads.
        let mut clients: Vec<Client> = (0..200).map(|_| Client::new(net.server)).collect();
        for c in &mut clients {
            let top = c.mount("/root");
            let file = c.walk(&top, "big").expect("file");
            let args = READ3args {
                file,
                offset: 0,
                count: 1 << 20,
            };
            match c.nfs(NFS_PROGRAM::NFSPROC3_READ, &args) {
                READ3res::Ok(ok) => assert!(ok.data.0 == content),
                READ3res::Err((why, _)) => panic!("{why}"),
            }
        }
        assert_eq!(running.clients()[0].connections, 200);
    });
    assert_eq!(running.clients()[0].bytes_read, 200 * 600_000);
}
