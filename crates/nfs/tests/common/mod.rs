//! Networks of namespaces, directories to export, and a client that makes single calls.

#![allow(unused, reason = "not every test uses all of it")]

pub mod call;
pub mod space;
pub mod stage;
mod sys;

use armento_nfs::{Caller, Export, Exports, Key, Running, Server};
use space::Net;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

/// A directory that is removed with its value, and those of killed tests with it.
pub struct Dir(pub PathBuf);

impl Dir {
    pub fn new(what: &str) -> Dir {
        let all = Path::new(env!("CARGO_TARGET_TMPDIR"));
        for old in std::fs::read_dir(all).into_iter().flatten().flatten() {
            let name = old.file_name().to_string_lossy().into_owned();
            let pid = name.strip_prefix("nfs-").and_then(|n| n.split('-').next());
            if pid.is_some_and(|pid| !Path::new("/proc").join(pid).exists()) {
                let _ = std::fs::remove_dir_all(old.path());
            }
        }
        let path = all.join(format!("nfs-{}-{what}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).expect("a directory");
        Dir(path)
    }

    /// Writes files; a name that ends with `/` is a directory.
    pub fn with(self, files: &[(&str, &str)]) -> Dir {
        for (name, content) in files {
            let path = self.0.join(name);
            if name.ends_with('/') {
                std::fs::create_dir_all(path).expect("a directory");
                continue;
            }
            std::fs::create_dir_all(path.parent().expect("a parent")).expect("a directory");
            std::fs::write(path, content).expect("a file");
        }
        self
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

pub const KEY: Key = Key([7; 32]);

/// Starts a server in the first namespace of a net, at port 2049 of its address.
pub fn serve(net: &Net, list: Vec<Export>) -> Running {
    serve_with(net, list, KEY)
}

pub fn serve_with(net: &Net, list: Vec<Export>, key: Key) -> Running {
    let address = (net.server, space::PORT).into();
    net.inside(net.server, || {
        Server::bind(address, Exports { list, key }, resolver).expect("bound")
    })
}

/// 10.77.0.N is nN for numbers below 50; 60 is refused; others are strangers.
pub fn resolver(address: IpAddr) -> Caller {
    match address {
        IpAddr::V4(a) if a.octets()[3] < 50 => Caller::Node(format!("n{}", a.octets()[3])),
        IpAddr::V4(a) if a.octets()[3] == 60 => Caller::Refused,
        _ => Caller::Stranger,
    }
}
