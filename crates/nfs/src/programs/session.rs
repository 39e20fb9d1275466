//! What a connection is to the programs: who calls, and what is served.

use crate::clients::{Clients, Counters};
use crate::export::{Place, Ports};
use crate::rpc::User;
use crate::tree::{Failed, Found, Identities, OpenFiles, Purpose, Ready, Trees, squash};
use crate::view::{Dirs, existing, new};
use armento_provision::view::Client;
use nfs3_types::nfs3::{Nfs3Option, fattr3};
use nfs3_types::nfs3::{nfsstat3, post_op_attr, pre_op_attr, wcc_attr, wcc_data, writeverf3};
use std::borrow::Cow;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{SystemTime, UNIX_EPOCH};

/// RFC 1813, 2.4, and Linux's own: longer names are refused.
pub const NAME_MAX: usize = 255;

/// KERNEL: ip(7): ports below need CAP_NET_BIND_SERVICE.
const PRIVILEGED: u16 = 1024;

/// What all connections share.
#[derive(Debug)]
pub struct World {
    trees: RwLock<Arc<Trees>>,
    pub dirs: Dirs,
    pub clients: Clients,
    /// Another one after each start: what was written and not committed before may be lost.
    pub verifier: writeverf3,
}

impl World {
    pub fn new(trees: Trees) -> World {
        let since = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        World {
            trees: RwLock::new(Arc::new(trees)),
            dirs: Dirs::default(),
            clients: Clients::default(),
            verifier: writeverf3((since.as_nanos() as u64).to_be_bytes()),
        }
    }

    fn trees(&self) -> Arc<Trees> {
        self.trees
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    pub fn replace(&self, trees: Trees) {
        *self.trees.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(trees);
    }
}

/// One connection. Before: it stays in the thread that made it.
#[derive(Debug)]
pub struct Session {
    pub world: Arc<World>,
    /// As of the beginning of the call at hand.
    pub trees: Arc<Trees>,
    pub client: Client,
    pub counters: Arc<Counters>,
    pub ids: Identities,
    pub files: OpenFiles,
    /// Of the client; below 1024 only its root can have it.
    port: u16,
    /// Bytes that the call at hand brought into files.
    pub written: u64,
}

impl Session {
    pub fn new(world: Arc<World>, client: Client, port: u16, counters: Arc<Counters>) -> Session {
        Session {
            trees: world.trees(),
            world,
            client,
            port,
            counters,
            ids: Identities::default(),
            files: OpenFiles::default(),
            written: 0,
        }
    }

    /// Before each call.
    pub fn begin(&mut self) {
        self.written = 0;
        let trees = self.world.trees();
        if !Arc::ptr_eq(&trees, &self.trees) {
            self.files = OpenFiles::default();
            self.trees = trees;
        }
    }

    /// The file of a handle. After: the thread is root.
    pub fn find(&mut self, handle: &[u8]) -> Result<Found, Failed> {
        self.ids.root()?;
        self.trees.find(handle, self.client.name.as_deref())
    }

    /// After: the thread is the call's user.
    pub fn become_user(&mut self, said: Option<&User>, of: &Found) -> Result<(), Failed> {
        let said = self.believed(said, of);
        self.ids.become_user(&squash(said, of.tree.export.squash))
    }

    /// Opens a file's content. After: the thread is the call's user, or root.
    pub fn open(
        &mut self,
        found: Found,
        said: Option<&User>,
        purpose: Purpose,
    ) -> Result<Ready, Failed> {
        let user = squash(self.believed(said, &found), found.tree.export.squash);
        self.files.open(found, &mut self.ids, said, &user, purpose)
    }

    fn believed<'a>(&self, said: Option<&'a User>, of: &Found) -> Option<&'a User> {
        said.filter(|_| self.port < PRIVILEGED || of.tree.export.ports == Ports::Any)
    }

    /// The file that a name means. After: the thread is root, or as before.
    pub fn existing<'a>(&mut self, dir: &Found, asked: &'a [u8]) -> Result<Cow<'a, [u8]>, Failed> {
        self.named(dir, asked, existing)
    }

    /// The file that a new name means. After: the thread is root, or as before.
    pub fn new_name<'a>(&mut self, dir: &Found, asked: &'a [u8]) -> Result<Cow<'a, [u8]>, Failed> {
        self.named(dir, asked, new)
    }

    fn named<'a>(
        &mut self,
        dir: &Found,
        asked: &'a [u8],
        choose: fn(&crate::view::Listing, &'a [u8], &Client) -> Cow<'a, [u8]>,
    ) -> Result<Cow<'a, [u8]>, Failed> {
        check_name(asked)?;
        if !dir.is_dir() {
            return Err(nfsstat3::NFS3ERR_NOTDIR);
        }
        match dir.tree.export.place {
            Place::PerNode(_) => Ok(Cow::Borrowed(asked)),
            Place::Shared(_) => {
                self.ids.root()?;
                let listing = self.world.dirs.listing(dir)?;
                Ok(choose(&listing, asked, &self.client))
            }
        }
    }
}

/// Names are one part of a path.
pub fn check_name(name: &[u8]) -> Result<(), Failed> {
    if name.len() > NAME_MAX {
        return Err(nfsstat3::NFS3ERR_NAMETOOLONG);
    }
    if name.is_empty() || name.contains(&b'/') || name.contains(&0) {
        return Err(nfsstat3::NFS3ERR_INVAL);
    }
    Ok(())
}

/// Attributes after a call.
pub fn after(found: &Found) -> post_op_attr {
    match found.again() {
        Some(stat) => Nfs3Option::Some(found.attributes(&stat)),
        None => Nfs3Option::None,
    }
}

/// Attributes before and after a change, of a file found before it.
pub fn change(found: &Found) -> wcc_data {
    let was: fattr3 = found.attributes(&found.stat);
    wcc_data {
        before: before(&was),
        after: after(found),
    }
}

pub fn before(was: &fattr3) -> pre_op_attr {
    Nfs3Option::Some(wcc_attr {
        size: was.size,
        mtime: was.mtime,
        ctime: was.ctime,
    })
}
