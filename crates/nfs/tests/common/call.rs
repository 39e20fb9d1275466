//! A client of RPC that makes one call after the other.

use nfs3_types::mount::{MOUNT_PROGRAM, dirpath, mountres3};
use nfs3_types::nfs3::{LOOKUP3args, LOOKUP3res, NFS_PROGRAM, diropargs3, nfs_fh3, nfsstat3};
use nfs3_types::rpc::{
    RPC_VERSION_2, accept_stat_data, auth_unix, call_body, fragment_header, msg_body, opaque_auth,
    reply_body, rpc_msg,
};
use nfs3_types::xdr_codec::{Opaque, Pack, Unpack, Void};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// Programs as numbers.
pub const NFS: u32 = nfs3_types::nfs3::PROGRAM;
pub const MOUNT: u32 = nfs3_types::mount::PROGRAM;
pub const ACL: u32 = 100_227;

pub struct Client {
    pub stream: TcpStream,
    xid: u32,
    auth: opaque_auth<'static>,
}

/// What the server answered besides results.
#[derive(Debug, PartialEq, Eq)]
pub enum Refused {
    NoProgram,
    NoVersion(u32, u32),
    NoProcedure,
    Garbage,
    Denied,
    Closed,
}

impl Client {
    /// Connects from the thread's namespace, as root of the client.
    pub fn new(server: Ipv4Addr) -> Client {
        static CLIENTS: AtomicU32 = AtomicU32::new(1);
        let stream = (600..1024).find_map(|port| connect_from(server, port));
        let mut client = Client::over(stream.expect("a free port"));
        // Two clients make different calls, also one after the other from the same port.
        client.xid = CLIENTS.fetch_add(1, Ordering::Relaxed) << 16;
        client
    }

    /// From a port that any user can have.
    pub fn of_anybody(server: Ipv4Addr) -> Client {
        Client::over(TcpStream::connect((server, super::space::PORT)).expect("connected"))
    }

    /// The same from a certain port, which is free again when the client is dropped; the first call has always the same
    /// number.
    pub fn from_port(server: Ipv4Addr, port: u16) -> Client {
        Client::over(connect_from(server, port).expect("a free port"))
    }

    fn over(stream: TcpStream) -> Client {
        stream
            .set_read_timeout(Some(Duration::from_secs(20)))
            .expect("a time limit");
        Client {
            stream,
            xid: 0,
            auth: auth(0, 0, &[]),
        }
    }

    pub fn user(&mut self, uid: u32, gid: u32, groups: &[u32]) -> &mut Client {
        self.auth = auth(uid, gid, groups);
        self
    }

    pub fn auth(&mut self, auth: opaque_auth<'static>) -> &mut Client {
        self.auth = auth;
        self
    }

    /// The bytes of the results.
    pub fn try_call(
        &mut self,
        (program, version, procedure): (u32, u32, u32),
        args: &impl Pack,
    ) -> Result<Vec<u8>, Refused> {
        self.xid += 1;
        let call = rpc_msg {
            xid: self.xid,
            body: msg_body::CALL(call_body {
                rpcvers: RPC_VERSION_2,
                prog: program,
                vers: version,
                proc: procedure,
                cred: self.auth.borrow(),
                verf: opaque_auth::default(),
            }),
        };
        let mut bytes = vec![0; 4];
        call.pack(&mut bytes).expect("packed");
        args.pack(&mut bytes).expect("packed");
        let mark = fragment_header::new(bytes.len() as u32 - 4, true);
        bytes[..4].copy_from_slice(&mark.into_xdr_buf());
        self.stream.write_all(&bytes).map_err(|_| Refused::Closed)?;
        let record = self.record().ok_or(Refused::Closed)?;
        let mut rest = &record[..];
        let (reply, _) = <rpc_msg<'static, 'static>>::unpack(&mut rest).expect("a reply");
        assert_eq!(reply.xid, self.xid);
        match reply.body {
            msg_body::REPLY(reply_body::MSG_ACCEPTED(accepted)) => match accepted.reply_data {
                accept_stat_data::SUCCESS => Ok(rest.to_vec()),
                accept_stat_data::PROG_UNAVAIL => Err(Refused::NoProgram),
                accept_stat_data::PROG_MISMATCH { low, high } => Err(Refused::NoVersion(low, high)),
                accept_stat_data::PROC_UNAVAIL => Err(Refused::NoProcedure),
                _ => Err(Refused::Garbage),
            },
            msg_body::REPLY(reply_body::MSG_DENIED(_)) => Err(Refused::Denied),
            msg_body::CALL(_) => panic!("a call"),
        }
    }

    /// One record; none at the end of the stream.
    pub fn record(&mut self) -> Option<Vec<u8>> {
        let mut record = Vec::new();
        loop {
            let mut mark = [0; 4];
            self.stream.read_exact(&mut mark).ok()?;
            let mark = fragment_header::from(mark);
            let at = record.len();
            record.resize(at + mark.fragment_length() as usize, 0);
            self.stream.read_exact(&mut record[at..]).ok()?;
            if mark.eof() {
                return Some(record);
            }
        }
    }

    /// A procedure of NFS with its results, which must be all that was sent.
    pub fn nfs<R: Unpack>(&mut self, procedure: NFS_PROGRAM, args: &impl Pack) -> R {
        let bytes = self
            .try_call((NFS, 3, procedure as u32), args)
            .expect("answered");
        whole(&bytes)
    }

    pub fn mount_call<R: Unpack>(&mut self, procedure: MOUNT_PROGRAM, args: &impl Pack) -> R {
        let bytes = self
            .try_call((MOUNT, 3, procedure as u32), args)
            .expect("answered");
        whole(&bytes)
    }

    pub fn try_mount(&mut self, path: &str) -> mountres3<'static> {
        let path = dirpath(Opaque::owned(path.as_bytes().to_vec()));
        let bytes = self.try_call((MOUNT, 3, 1), &path).expect("answered");
        mountres3::unpack(&mut &bytes[..]).expect("results").0
    }

    /// The handle of an export.
    pub fn mount(&mut self, path: &str) -> nfs_fh3 {
        match self.try_mount(path) {
            mountres3::Ok(ok) => nfs_fh3 {
                data: Opaque::owned(ok.fhandle.0.to_vec()),
            },
            mountres3::Err(why) => panic!("{path}: {why}"),
        }
    }

    /// The handle of a path below a handle.
    pub fn walk(&mut self, from: &nfs_fh3, path: &str) -> Result<nfs_fh3, nfsstat3> {
        let mut at = from.clone();
        for part in path.split('/') {
            let what = what(&at, part);
            match self.nfs(NFS_PROGRAM::NFSPROC3_LOOKUP, &LOOKUP3args { what }) {
                LOOKUP3res::Ok(ok) => at = ok.object,
                LOOKUP3res::Err((why, _)) => return Err(why),
            }
        }
        Ok(at)
    }
}

/// Results of which nothing is left over.
pub fn whole<R: Unpack>(bytes: &[u8]) -> R {
    let mut rest = bytes;
    let (results, _) = R::unpack(&mut rest).expect("results");
    assert!(rest.is_empty(), "{} bytes too many", rest.len());
    results
}

pub fn what<'a>(dir: &nfs_fh3, name: &'a str) -> diropargs3<'a> {
    diropargs3 {
        dir: dir.clone(),
        name: name.as_bytes().into(),
    }
}

fn auth(uid: u32, gid: u32, groups: &[u32]) -> opaque_auth<'static> {
    opaque_auth::auth_unix(&auth_unix {
        stamp: 1,
        machinename: Opaque::borrowed(b"client"),
        uid,
        gid,
        gids: groups.to_vec(),
    })
}

impl Drop for Client {
    /// Ends the connection at once, and its port is free. To close it is not enough: a process that another test has just
    /// forked has a copy of the descriptor until its exec. KERNEL: connect(2): AF_UNSPEC dissolves the association.
    fn drop(&mut self) {
        let _ = rustix::net::connect_unspec(&self.stream);
    }
}

fn connect_from(server: Ipv4Addr, port: u16) -> Option<TcpStream> {
    use rustix::net::{
        AddressFamily, SocketFlags, SocketType, bind, connect, socket_with, sockopt,
    };
    let (kind, flags) = (SocketType::STREAM, SocketFlags::CLOEXEC);
    let socket = socket_with(AddressFamily::INET, kind, flags, None).expect("a socket");
    sockopt::set_socket_reuseaddr(&socket, true).expect("an option");
    bind(&socket, &SocketAddr::from((Ipv4Addr::UNSPECIFIED, port))).ok()?;
    connect(&socket, &SocketAddr::from((server, super::space::PORT))).ok()?;
    Some(socket.into())
}
