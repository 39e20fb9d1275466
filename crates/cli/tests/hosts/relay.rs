//! The host's side of a real session: the connection to its daemon, its own keys, a real host behind it that does the
//! honest part, and forged messages in between.

use super::lies;
use armento_client::Session as Control;
use armento_client::api::{Ask, Build, HostHello, HostStart, HostUp};
use armento_link::{Badge, Duplex, Identity, Listener, Reader, Role, Writer, dial};
use armento_model::HomeTid;
use armento_wire::bulk::HELLO;
use armento_wire::call::{CALL, REPLY, decode_reply};
use armento_wire::session::{Closer, Session};
use armento_wire::talk::{self, Hello, Purpose, Resume, WELCOME};
use armento_wire::{read_frame, write_frame};
use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{Shutdown, TcpStream};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::spawn;
use std::time::{Duration, Instant};

const LONG: Duration = Duration::from_secs(10);
/// Sequence numbers of forged calls start here; answers to them are for the relay.
pub const FORGED: u32 = 0x7000_0000;

/// State of the man in the middle.
pub struct Middle {
    home: Session<Writer>,
    answers: Mutex<HashMap<u32, (i64, Vec<u8>)>>,
}

impl Middle {
    pub fn send(&self, kind: u8, body: &[u8]) {
        let _ = self.home.send(kind, &[body]);
    }

    /// Home's answer to a forged call.
    pub fn answer(&self, seq: u32) -> Option<(i64, Vec<u8>)> {
        let until = Instant::now() + LONG;
        while Instant::now() < until {
            let mut all = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(a) = all.remove(&seq) {
                return Some(a);
            }
            drop(all);
            std::thread::sleep(Duration::from_millis(2));
        }
        None
    }
}

pub fn run() -> ! {
    let mut line = String::new();
    std::io::stdin()
        .lock()
        .read_line(&mut line)
        .expect("a line");
    let start: HostStart = serde_json::from_str(&line).expect("its start parameters");
    let door = Listener::bind(&start.listen, &start.identity).expect("a door");
    let inner = HostStart {
        identity: Identity::Plain,
        listen: "127.0.0.1:0".into(),
        ..start.clone()
    };
    let mut host = Command::new(env!("CARGO_BIN_EXE_armento"))
        .arg("host")
        .env("ARMENTO_SOCKET", "/nowhere")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("a host");
    let order = serde_json::to_string(&inner).expect("plain data");
    let mut to = host.stdin.take().expect("piped");
    writeln!(to, "{order}").expect("it listens");
    drop(to);
    let mut said = String::new();
    let out = host.stdout.take().expect("piped");
    BufReader::new(out).read_line(&mut said).expect("its line");
    let up: HostUp = serde_json::from_str(&said).expect("its address");
    let behind = format!("127.0.0.1:{}", up.port);
    let me = HostUp {
        port: door.port(),
        host: std::process::id() as i32,
    };
    println!("{}", serde_json::to_string(&me).expect("plain data"));
    // A host that does not register with its daemon is killed.
    let mut daemon = Control::connect().expect("its daemon");
    let hello = HostHello {
        tree: start.tree,
        home: start.home.clone(),
        host: std::process::id() as i32,
        uid: start.uid,
        build: Build::own(),
    };
    let host_is_known = spawn(move || {
        // Until the daemon has recorded that the host is up.
        while daemon.ask(Ask::Host(hello.clone()), LONG).is_err() {
            std::thread::sleep(Duration::from_millis(50));
        }
        daemon
    });
    spawn(move || {
        loop {
            let keeper = |badge: &Badge| *badge == start.expect;
            if let Ok((link, _)) = door.accept_if(None, keeper) {
                let (behind, start) = (behind.clone(), start.clone());
                spawn(move || between(link, &behind, &start));
            }
        }
    });
    let _daemon = host_is_known.join();
    let _ = host.wait();
    std::process::exit(0);
}

fn parts(link: Duplex) -> (TcpStream, Reader, Writer) {
    let socket = link.socket().try_clone().expect("a socket");
    let (r, w) = link.split().expect("both halves");
    (socket, r, w)
}

fn between(link: Duplex, behind: &str, start: &HostStart) {
    let (socket, mut r, w) = parts(link);
    let mut buf = Vec::new();
    let Ok(HELLO) = read_frame(&mut r, &mut buf) else {
        return;
    };
    let Ok(hello) = talk::decode::<Hello>(&buf, "hello") else {
        return;
    };
    let host = Badge {
        role: Role::Host,
        ..start.expect.clone()
    };
    let Ok(inner) = dial(behind, &Identity::Plain, &host, LONG) else {
        return;
    };
    let (inner_socket, inner_r, mut inner_w) = parts(inner);
    write_frame(&mut inner_w, HELLO, &[&buf]).expect("it receives");
    match hello.purpose {
        Purpose::Calls(resume) => calls((socket, r, w), (inner_socket, inner_r, inner_w), &resume),
        purpose => {
            let lie = matches!(purpose, Purpose::Fetch(_)).then(lies::chosen);
            let (a, b) = (socket.try_clone(), inner_socket.try_clone());
            spawn(move || {
                frames(r, inner_w, None);
                let _ = b.map(|s| s.shutdown(Shutdown::Both));
            });
            frames(inner_r, w, lie.flatten());
            let _ = a.map(|s| s.shutdown(Shutdown::Both));
        }
    }
}

/// Passes frames on; changes those of an image on its way home as the forgery requires.
fn frames(mut r: Reader, mut w: Writer, lie: Option<lies::Lie>) {
    let mut buf = Vec::new();
    while let Ok(kind) = read_frame(&mut r, &mut buf) {
        if let Some(lie) = lie {
            lies::image(lie, kind, &mut buf);
        }
        if write_frame(&mut w, kind, &[&buf]).is_err() {
            return;
        }
    }
}

type Line = (TcpStream, Reader, Writer);

/// The stream of calls: two sessions, each forwarding what the other receives.
fn calls((socket, mut r, mut w): Line, (inner_socket, inner_r, inner_w): Line, resume: &Resume) {
    if resume.epoch != 0 {
        return;
    }
    write_frame(&mut w, WELCOME, &[&0u64.to_le_bytes()]).expect("home receives");
    let mut inner_r = BufReader::new(inner_r);
    let mut buf = Vec::new();
    assert_eq!(read_frame(&mut inner_r, &mut buf).ok(), Some(WELCOME));
    let middle = Arc::new(Middle {
        home: Session::default(),
        answers: Mutex::default(),
    });
    let host = Arc::new(Session::<Writer>::default());
    let ends = |s: TcpStream| -> Closer { Box::new(move || drop(s.shutdown(Shutdown::Both))) };
    let attached = middle.home.attach(w, ends(socket), 0);
    assert!(matches!(attached, Ok(None)));
    let attached = host.attach(inner_w, ends(inner_socket), 0);
    assert!(matches!(attached, Ok(None)));
    let (m, h) = (middle.clone(), host.clone());
    spawn(move || {
        let mut buf = Vec::new();
        while let Ok(kind) = m.home.hear(&mut r, &mut buf) {
            let ours = decode_reply(&buf)
                .ok()
                .filter(|a| kind == REPLY && a.seq >= FORGED);
            if let Some(a) = ours {
                let mut all = m.answers.lock().unwrap_or_else(PoisonError::into_inner);
                all.insert(a.seq, (a.ret, a.outs.to_vec()));
            } else if h.send(kind, &[&buf]).is_err() {
                break;
            }
        }
        h.end();
    });
    let mut begun = false;
    while let Ok(kind) = host.hear(&mut inner_r, &mut buf) {
        // The process's first call: the process runs here, and this is its tid.
        if kind == CALL && !begun {
            begun = true;
            let tid = i32::from_le_bytes(buf[..4].try_into().expect("a call's head"));
            let m = middle.clone();
            spawn(move || lies::run(&m, HomeTid::of_home(tid)));
        }
        if middle.home.send(kind, &[&buf]).is_err() {
            break;
        }
    }
    middle.home.end();
}
