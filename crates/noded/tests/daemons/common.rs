//! Daemons side by side in one process, each with its own state, socket and port on 127.0.0.1.

use armento_client::api::{Answer, Ask, NodeInfo, Refusal};
use armento_client::{AskError, Session};
use armento_link::Token;
use armento_noded::{
    Config, Enrolled, FarmError, InitOptions, JoinOptions, Options, Running, Wire, init, join,
    start,
};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Longest wait for anything that must happen; a machine under load is slow.
pub const LONG: Duration = Duration::from_secs(20);

/// A directory that goes away with the test.
pub struct Dir(PathBuf);

impl Dir {
    pub fn new() -> Dir {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let n = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("farm-{}-{n}", std::process::id());
        let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        fs::create_dir_all(&dir).expect("directory");
        Dir(dir)
    }

    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Waits until `look` finds something, for at most [`LONG`].
pub fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + LONG;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < end, "waited in vain for: {what}");
        thread::sleep(Duration::from_millis(20));
    }
}

pub struct Node {
    pub name: String,
    pub config: Config,
    pub host: PathBuf,
    daemon: Option<Running>,
}

impl Node {
    /// A node that is no member yet.
    pub fn new(dir: &Dir, name: &str) -> Node {
        let place = dir.path().join(name);
        fs::create_dir_all(&place).expect("directory");
        let config = Config {
            state: Some(place.join("state")),
            socket: Some(place.join("sock")),
            gossip_period_ms: 100,
            allow_root: true,
            ..Config::default()
        };
        Node {
            name: name.into(),
            config,
            host: fake_host(&place),
            daemon: None,
        }
    }

    pub fn init(&self, wire: Wire) -> Enrolled {
        let options = InitOptions {
            listen: Some("127.0.0.1:0".into()),
            address: None,
            wire,
            name: Some(self.name.clone()),
        };
        init(&self.config, &options).expect("init")
    }

    pub fn join(&self, token: &str, addr: &str) -> Result<Enrolled, FarmError> {
        let options = JoinOptions {
            token: token.into(),
            addr: addr.into(),
            listen: Some("127.0.0.1:0".into()),
            address: None,
            name: Some(self.name.clone()),
            check: true,
            same_machine: true,
        };
        join(&self.config, &options)
    }

    pub fn try_start(&mut self) -> Result<(), FarmError> {
        let options = Options {
            config: self.config.clone(),
            host_program: Some(self.host.clone()),
        };
        self.daemon = Some(start(options, false)?);
        Ok(())
    }

    pub fn start(&mut self) {
        self.try_start().expect("start");
    }

    /// Ends the daemon without a word to the others.
    pub fn stop(&mut self) {
        if let Some(daemon) = self.daemon.take() {
            daemon.stop();
        }
    }

    /// Waits for a daemon that ends by itself.
    pub fn wait(&mut self) {
        if let Some(daemon) = self.daemon.take() {
            daemon.wait();
        }
    }

    pub fn session(&self) -> Session {
        let socket = self.config.socket.as_deref().expect("socket");
        Session::connect_to(socket).expect("session")
    }

    pub fn ask(&self, ask: Ask) -> Result<Answer, Refusal> {
        match self.session().ask(ask, LONG) {
            Ok(answer) => Ok(answer),
            Err(AskError::Refused(no)) => Err(no),
            Err(e) => panic!("{}: {e}", self.name),
        }
    }

    pub fn nodes(&self) -> Vec<NodeInfo> {
        match self.ask(Ask::Nodes) {
            Ok(Answer::Nodes { nodes }) => nodes,
            other => panic!("{other:?}"),
        }
    }

    /// Waits until this node sees `other` in `state`.
    pub fn sees(&self, other: &str, state: &str) {
        until(&format!("{} sees {other} {state}", self.name), || {
            let nodes = self.nodes();
            let it = nodes.iter().find(|n| n.name.as_str() == other)?;
            (it.state == state).then_some(())
        });
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Farm of `names`, all running, all seeing each other.
pub fn farm(dir: &Dir, names: &[&str], wire: Wire) -> (Vec<Node>, Token, String) {
    let mut nodes: Vec<Node> = names.iter().map(|n| Node::new(dir, n)).collect();
    let made = nodes[0].init(wire);
    let (token, addr) = (made.token.expect("token"), made.addr.to_string());
    nodes[0].start();
    for node in &mut nodes[1..] {
        node.join(&token.to_string(), &addr).expect("join");
        node.start();
    }
    for node in &nodes {
        for name in names {
            node.sees(name, "alive");
        }
    }
    (nodes, token, addr)
}

/// Speaks as a host does at its start, then lives until it is killed or this test ends.
fn fake_host(place: &Path) -> PathBuf {
    let path = place.join("host");
    let test = std::process::id();
    let script = format!(
        "#!/bin/sh\nIFS= read -r line\nprintf '%s' \"$line\" > {}/started\n\
         echo '{{\"port\":4242,\"host\":'$$'}}'\nexec >/dev/null\n\
         while kill -0 {test} 2>/dev/null && [ -d {} ]; do sleep 0.2; done\n",
        place.display(),
        place.display(),
    );
    fs::write(&path, script).expect("script");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("mode");
    path
}
