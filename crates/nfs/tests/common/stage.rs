//! A writable directory with some files, and results of calls.

use super::call::Client;
use super::space::Net;
use super::{Dir, serve};
use armento_nfs::{Export, Running};
use nfs3_types::nfs3::{Nfs3Option, Nfs3Result, nfs_fh3, nfsstat3};
use nfs3_types::xdr_codec::{Pack, Unpack};
use std::os::unix::fs::symlink;
use std::path::PathBuf;

/// A writable export with a client in the server's own namespace.
pub struct Stage {
    pub net: Net,
    root: Dir,
    _running: Running,
}

impl Stage {
    pub fn new(name: &str) -> Option<Stage> {
        let net = Net::new(&[])?;
        let root = Dir::new(name).with(&[
            ("dir/file", "0123456789"),
            ("dir/other", "x"),
            ("empty/", ""),
        ]);
        symlink("dir/file", root.0.join("link")).expect("link");
        let running = serve(
            &net,
            vec![
                Export::shared("/root", &root.0)
                    .writable()
                    .privileged_ports(),
            ],
        );
        Some(Stage {
            net,
            root,
            _running: running,
        })
    }

    pub fn with(&self, test: impl FnOnce(&mut Client, nfs_fh3) + Send) {
        self.net.inside(self.net.server, || {
            let mut client = Client::new(self.net.server);
            let top = client.mount("/root");
            test(&mut client, top);
        });
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.root.0.join(name)
    }
}

pub fn some<T: Pack + Unpack>(option: Nfs3Option<T>) -> T {
    option.unwrap()
}

pub fn status<T, E>(result: Nfs3Result<T, E>) -> nfsstat3 {
    match result {
        Nfs3Result::Ok(_) => nfsstat3::NFS3_OK,
        Nfs3Result::Err((why, _)) => why,
    }
}
