//! A farm of one machine: each node is a directory, with a server process for each user that asks.

pub mod proxy;
mod starter;
mod sys;

use armento_link::{Badge, Duplex, Identity, Listener, Role, dial};
use armento_mfs::{Export, Exports, Farm, FarmNode, Mount, Options, Places, Server, Unreachable};
use armento_model::NodeName;
use starter::{Process, SERVE, Starter, UID};
use std::collections::HashMap;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Set in the process that runs a test in a mount namespace of its own.
const ISOLATED: &str = "ARMENTO_MFS_TEST_ISOLATED";

fn badge() -> Badge {
    Badge {
        node: name("n1"),
        tree: None,
        role: Role::Host,
    }
}

pub fn name(s: &str) -> NodeName {
    s.parse().expect("a node's name")
}

/// The process serves files, or starts those that do, if it was started for that; it does not return then.
pub fn serve_if_asked() {
    starter::run_if_asked();
    let Ok(exports) = std::env::var(SERVE) else {
        return;
    };
    let uid = std::env::var(UID)
        .ok()
        .and_then(|u| u.parse().ok())
        .expect("a user");
    sys::become_user(uid).expect("another user");
    let paths: Vec<(PathBuf, bool, Vec<PathBuf>)> = exports.lines().map(parse).collect();
    let exports = Exports {
        paths: paths
            .into_iter()
            .map(|(path, read_only, hidden)| Export {
                path,
                read_only,
                hidden,
            })
            .collect(),
    };
    let server = Server::new(exports).expect("a server");
    let listener = Listener::bind("127.0.0.1:0", &Identity::Plain).expect("listen");
    starter::say(&listener.port().to_string());
    std::thread::spawn(|| {
        // Who started it is gone.
        let _ = std::io::stdin().read(&mut [0]);
        std::process::exit(0);
    });
    while let Ok((duplex, _)) = listener.accept_if(Some(&badge()), |_| true) {
        let server = server.clone();
        std::thread::spawn(move || drop(server.serve(duplex)));
    }
    std::process::exit(0);
}

fn parse(line: &str) -> (PathBuf, bool, Vec<PathBuf>) {
    let mut parts = line.split(':');
    let path = parts.next().unwrap_or_default().into();
    let read_only = parts.next() == Some("ro");
    (path, read_only, parts.map(PathBuf::from).collect())
}

struct State {
    starter: Starter,
    servers: HashMap<(NodeName, u32), Process>,
    lost: Vec<NodeName>,
    made: Vec<(u32, NodeName)>,
}

/// Nodes by name, with what they export: lines of `path[:ro|rw[:hidden…]]`.
pub struct Loop {
    nodes: Vec<(NodeName, String)>,
    state: Mutex<State>,
    /// Streams go through this address instead, which gets the port as a line first.
    pub via: Mutex<Option<String>>,
}

impl Loop {
    pub fn new(nodes: &[(&str, &str)], args: &[&str]) -> Arc<Loop> {
        Arc::new(Loop {
            nodes: nodes
                .iter()
                .map(|(n, e)| (name(n), (*e).to_owned()))
                .collect(),
            state: Mutex::new(State {
                starter: Starter::new(args, ISOLATED).expect("a starter of servers"),
                servers: HashMap::new(),
                lost: Vec::new(),
                made: Vec::new(),
            }),
            via: Mutex::new(None),
        })
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn port(&self, node: &NodeName, uid: u32) -> Result<u16, Unreachable> {
        let lost = |e: &dyn std::fmt::Display| Unreachable::Lost(e.to_string());
        let mut s = self.state();
        if s.lost.contains(node) {
            return Err(lost(&"it is switched off"));
        }
        let key = (node.clone(), uid);
        if let Some(p) = s.servers.get(&key).copied()
            && s.starter.runs(p)
        {
            return Ok(p.port);
        }
        let (_, exports) = self
            .nodes
            .iter()
            .find(|(n, _)| n == node)
            .ok_or(Unreachable::Unknown)?;
        let p = s.starter.start(uid, exports).map_err(|e| lost(&e))?;
        s.servers.insert(key, p);
        Ok(p.port)
    }

    /// Kills the servers of a node; it can be reached again afterwards.
    pub fn kill_servers(&self, node: &str) {
        let mut state = self.state();
        let State {
            starter, servers, ..
        } = &mut *state;
        servers.retain(|(n, _), p| {
            let dies = n.as_str() == node;
            if dies {
                starter.end(*p).expect("it ends");
            }
            !dies
        });
    }

    /// Switches a node off or on.
    pub fn lose(&self, node: &str, lost: bool) {
        {
            let mut s = self.state();
            s.lost.retain(|n| n.as_str() != node);
            if lost {
                s.lost.push(name(node));
            }
        }
        if lost {
            self.kill_servers(node);
        }
    }

    /// Stops the servers of a node, or lets them go on: it does not answer.
    pub fn stop(&self, node: &str, stopped: bool) {
        let signal = if stopped { "-STOP" } else { "-CONT" };
        let mut state = self.state();
        let State {
            starter, servers, ..
        } = &mut *state;
        for (_, p) in servers.iter().filter(|((n, _), _)| n.as_str() == node) {
            starter.signal(*p, signal).expect("a signal is sent");
        }
    }

    pub fn made_files(&self) -> Vec<(u32, NodeName)> {
        self.state().made.clone()
    }
}

impl Farm for Loop {
    fn nodes(&self) -> Vec<FarmNode> {
        let one = |(i, (n, _)): (usize, &(NodeName, String))| FarmNode {
            name: n.clone(),
            number: Some(i as u32 + 1),
            own: i == 0,
            alive: true,
        };
        self.nodes.iter().enumerate().map(one).collect()
    }

    fn connect(&self, node: &NodeName, uid: u32) -> Result<Duplex, Unreachable> {
        let lost = |e: &dyn std::fmt::Display| Unreachable::Lost(e.to_string());
        let port = self.port(node, uid)?;
        let via = self
            .via
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        let at = via.clone().unwrap_or(format!("127.0.0.1:{port}"));
        let duplex =
            dial(&at, &Identity::Plain, &badge(), Duration::from_secs(2)).map_err(|e| lost(&e))?;
        if via.is_some() {
            let mut s = duplex.socket();
            s.write_all(format!("{port}\n").as_bytes())
                .map_err(|e| lost(&e))?;
        }
        Ok(duplex)
    }

    fn places(&self, _pid: u32) -> Places {
        let (own, last) = (&self.nodes[0].0, &self.nodes[self.nodes.len() - 1].0);
        Places {
            here: own.clone(),
            home: own.clone(),
            last_exec: last.clone(),
            magic: last.clone(),
            selected: last.clone(),
        }
    }

    fn made(&self, pid: u32, node: &NodeName) {
        self.state().made.push((pid, node.clone()));
    }
}

/// Runs a test in a process with a mount namespace of its own, so that nothing is left when it is killed. `test` is its
/// full name. Returns false in the process that only waits for it.
pub fn isolated(test: &str) -> bool {
    if std::env::var_os(ISOLATED).is_some() {
        std::thread::spawn(|| {
            let _ = std::io::stdin().read(&mut [0]);
            std::process::exit(1);
        });
        return true;
    }
    if !Path::new("/dev/fuse").exists() {
        println!("skipped: this machine has no /dev/fuse");
        return false;
    }
    let namespace = Command::new("unshare").args(["-m", "true"]).status();
    if !namespace.is_ok_and(|s| s.success()) {
        println!("skipped: no right to mount");
        return false;
    }
    let mut child = Command::new("unshare")
        .args(["-m", "--propagation", "private"])
        .arg(std::env::current_exe().expect("own program"))
        .args(["--exact", test, "--nocapture", "--test-threads=1"])
        .env(ISOLATED, "1")
        .stdin(Stdio::piped())
        .spawn()
        .expect("a process");
    let held = child.stdin.take();
    let end = child.wait().expect("it ended");
    drop(held);
    assert!(end.success(), "{test}: {end}");
    false
}

/// Directories of a test, removed at its end and before its next run.
pub struct Place(PathBuf);

impl Place {
    /// Below target/, on the disk of the build.
    pub fn new(test: &str) -> Place {
        let base =
            option_env!("CARGO_TARGET_TMPDIR").map_or_else(std::env::temp_dir, PathBuf::from);
        let dir = base.join(format!("mfs-{test}"));
        let _ = std::fs::remove_dir_all(&dir);
        std::fs::create_dir_all(dir.join("mfs")).expect("a directory");
        Place(dir)
    }

    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

pub struct Mounted {
    pub farm: Arc<Loop>,
    pub mount: Option<Mount>,
    pub point: PathBuf,
    pub dirs: Vec<PathBuf>,
    place: Place,
}

pub fn options() -> Options {
    Options {
        deadline: Duration::from_secs(3),
        cache: true,
    }
}

impl Mounted {
    /// A mount with nodes n1 (this one) and n2, whose roots are directories on the disk.
    pub fn new(test: &str, options: Options) -> Mounted {
        let place = Place::new(test);
        let base = place.path().to_path_buf();
        Mounted::at(place, &base, options)
    }

    /// The same with short paths: the names of sockets have 107 bytes at most (unix(7)). Before: the test is isolated.
    pub fn short(test: &str, options: Options) -> Mounted {
        let place = Place::new(test);
        let bind = Command::new("mount")
            .arg("--bind")
            .arg(place.path())
            .arg("/mnt")
            .status();
        assert!(bind.is_ok_and(|s| s.success()), "a bind mount");
        Mounted::at(place, Path::new("/mnt"), options)
    }

    fn at(place: Place, base: &Path, options: Options) -> Mounted {
        let dirs: Vec<PathBuf> = ["n1", "n2"].map(|n| base.join(n)).into();
        for d in &dirs {
            std::fs::create_dir_all(d).expect("a directory");
        }
        let exports: Vec<String> = dirs.iter().map(|d| d.display().to_string()).collect();
        let nodes = [("n1", &exports[0][..]), ("n2", &exports[1][..])];
        let farm = Loop::new(&nodes, &["--exact", "serve_child", "--nocapture"]);
        let point = base.join("mfs");
        let mount = Mount::start(&point, farm.clone(), options).expect("mounted");
        Mounted {
            farm,
            mount: Some(mount),
            point,
            dirs,
            place,
        }
    }

    /// A path on node n2, natively and through the mount. All of it lies below the export's path.
    pub fn native(&self, p: &str) -> PathBuf {
        self.dirs[1].join(p)
    }

    pub fn far(&self, p: &str) -> PathBuf {
        let inside = self.dirs[1].strip_prefix("/").expect("absolute");
        self.point.join("n2").join(inside).join(p)
    }

    /// Waits until the mount knows that its servers are gone.
    pub fn await_disconnected(&self) {
        let connected = |m: &Mount| m.stats().nodes.iter().any(|n| n.connected);
        let began = Instant::now();
        while self.mount.as_ref().is_some_and(connected) {
            assert!(
                began.elapsed() < Duration::from_secs(20),
                "it does not notice"
            );
            std::thread::yield_now();
        }
    }

    pub fn place(&self) -> &Path {
        self.place.path()
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        if let Some(m) = self.mount.take() {
            let _ = m.unmount();
        }
    }
}
