//! Calls of NFS, MOUNT and NFSACL, as a client's stream has them.

use armento_nfs::replies;
use nfs3_types::nfs3::{NFS3_FHSIZE, nfs_fh3};
use nfs3_types::rpc::{
    RPC_VERSION_2, auth_unix, call_body, fragment_header, msg_body, opaque_auth, reply_body,
    rpc_msg,
};
use nfs3_types::xdr_codec::{Opaque, Pack, Unpack};

pub fn nfs(data: &[u8]) {
    for reply in replies(data) {
        let (reply, _) = rpc_msg::unpack(&mut &reply[..]).expect("a message");
        assert!(matches!(
            reply.body,
            msg_body::REPLY(reply_body::MSG_ACCEPTED(_) | reply_body::MSG_DENIED(_))
        ));
    }
}

/// A call with its mark. Program, procedure, arguments.
fn call(program: u32, procedure: u32, args: &[u8]) -> Vec<u8> {
    let user = auth_unix {
        machinename: Opaque::borrowed(b"n1"),
        gids: vec![1, 2],
        ..auth_unix::default()
    };
    let call = rpc_msg {
        xid: 7,
        body: msg_body::CALL(call_body {
            rpcvers: RPC_VERSION_2,
            prog: program,
            vers: 3,
            proc: procedure,
            cred: opaque_auth::auth_unix(&user),
            verf: opaque_auth::default(),
        }),
    };
    let mut bytes = vec![0; 4];
    call.pack(&mut bytes).expect("into memory");
    bytes.extend_from_slice(args);
    let mark = fragment_header::new(bytes.len() as u32 - 4, true);
    bytes[..4].copy_from_slice(&mark.into_xdr_buf());
    bytes
}

/// Name and bytes of first inputs: every procedure, with a handle, a name and numbers.
pub fn seeds() -> Vec<(String, Vec<u8>)> {
    let handle = nfs_fh3 {
        data: Opaque::owned(vec![1; NFS3_FHSIZE]),
    };
    let mut args = Vec::new();
    handle.pack(&mut args).expect("into memory");
    let single = args.clone();
    args.extend_from_slice(&[0, 0, 0, 4]);
    args.extend_from_slice(b"name");
    args.extend_from_slice(&single);
    args.extend_from_slice(&[0; 64]);
    let procedures = [(100_003, 22), (100_005, 6), (100_227, 3)];
    let all = procedures
        .iter()
        .flat_map(|(program, count)| (0..*count).map(move |procedure| (*program, procedure)));
    all.map(|(program, procedure)| {
        let name = format!("{program}-{procedure}");
        (name, call(program, procedure, &args))
    })
    .collect()
}
