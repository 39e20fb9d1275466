//! The content of files. What is read goes from the file to the socket without a copy of ours.

use crate::programs::results::{Answer, done};
use crate::programs::session::{Session, before, change as changed};
use crate::rpc::{Accept, Args, Body, User};
use crate::tree::{Failed, Purpose, Ready, status};
use nfs3_types::nfs3::{
    COMMIT3res, COMMIT3resfail, COMMIT3resok, NFS3_FHSIZE, Nfs3Option, READ3res, READ3resfail,
    WRITE3res, WRITE3resfail, WRITE3resok, fattr3, nfsstat3, post_op_attr, stable_how, wcc_data,
};
use nfs3_types::xdr_codec::Pack;
use rustix::io::Errno;

/// Bytes of one READ or WRITE. KERNEL: NFS_MAX_FILE_IO_SIZE, the most that Linux asks for.
pub const TRANSFER_MAX: u32 = 1 << 20;

fn ready(
    s: &mut Session,
    handle: &[u8],
    user: Option<&User>,
    purpose: Purpose,
) -> Result<Ready, Failed> {
    if let Some(ready) = s.files.get(handle, user, purpose) {
        return Ok(ready);
    }
    let found = s.find(handle)?;
    if purpose == Purpose::Write {
        found.is_writable()?;
    }
    s.open(found, user, purpose)
}

pub fn read(s: &mut Session, args: &mut Args, user: Option<&User>) -> Answer {
    let handle = args.bytes(NFS3_FHSIZE)?;
    let offset: u64 = args.value()?;
    let count: u32 = args.value()?;
    let ready = match ready(s, handle, user, Purpose::Read) {
        Ok(ready) => ready,
        Err(why) => return done(&READ3res::Err((why, READ3resfail::default()))),
    };
    let size = ready.stat.st_size as u64;
    let left = size.saturating_sub(offset);
    let count = count
        .min(TRANSFER_MAX)
        .min(u32::try_from(left).unwrap_or(u32::MAX));
    let eof = offset.saturating_add(u64::from(count)) >= size;
    let attributes: post_op_attr = Nfs3Option::Some(ready.found.attributes(&ready.stat));
    // READ3resok up to its data, which is sent from the file.
    let mut bytes = Vec::with_capacity(128);
    let packed = nfsstat3::NFS3_OK
        .pack(&mut bytes)
        .and_then(|_| attributes.pack(&mut bytes))
        .and_then(|_| count.pack(&mut bytes))
        .and_then(|_| eof.pack(&mut bytes))
        .and_then(|_| count.pack(&mut bytes));
    // A vector takes everything.
    let _ = packed;
    let body = Body {
        file: ready.file,
        offset,
        count,
    };
    Ok(Accept::Done(bytes, Some(body)))
}

pub fn write(s: &mut Session, args: &mut Args, user: Option<&User>) -> Answer {
    let handle = args.bytes(NFS3_FHSIZE)?;
    let offset: u64 = args.value()?;
    let count: u32 = args.value()?;
    let stable: stable_how = args.value()?;
    let data = args.bytes(TRANSFER_MAX as usize)?;
    let data = &data[..data.len().min(count as usize)];
    let ready = match ready(s, handle, user, Purpose::Write) {
        Ok(ready) => ready,
        Err(why) => return done(&WRITE3res::Err((why, WRITE3resfail::default()))),
    };
    let was = ready.found.attributes(&ready.stat);
    let written = put(&ready, offset, data, stable);
    let file_wcc = change(&ready, &was);
    done(&match written {
        Ok(()) => {
            s.written += data.len() as u64;
            WRITE3res::Ok(WRITE3resok {
                file_wcc,
                count: data.len() as u32,
                committed: match stable {
                    stable_how::UNSTABLE => stable_how::UNSTABLE,
                    _ => stable_how::FILE_SYNC,
                },
                verf: s.world.verifier,
            })
        }
        Err(why) => WRITE3res::Err((why, WRITE3resfail { file_wcc })),
    })
}

fn put(ready: &Ready, offset: u64, data: &[u8], stable: stable_how) -> Result<(), Failed> {
    let end = offset.checked_add(data.len() as u64);
    if end.is_none_or(|end| end > i64::MAX as u64) {
        return Err(nfsstat3::NFS3ERR_FBIG);
    }
    let mut done = 0;
    while done < data.len() {
        match rustix::io::pwrite(&ready.file, &data[done..], offset + done as u64) {
            Ok(0) => return Err(nfsstat3::NFS3ERR_IO),
            Ok(n) => done += n,
            Err(Errno::INTR) => {}
            Err(e) => return Err(status(e)),
        }
    }
    match stable {
        stable_how::UNSTABLE => Ok(()),
        _ => rustix::fs::fsync(&ready.file).map_err(status),
    }
}

fn change(ready: &Ready, was: &fattr3) -> wcc_data {
    let now = rustix::fs::fstat(&ready.file).ok();
    wcc_data {
        before: before(was),
        after: match now {
            Some(stat) => Nfs3Option::Some(ready.found.attributes(&stat)),
            None => Nfs3Option::None,
        },
    }
}

pub fn commit(s: &mut Session, args: &mut Args) -> Answer {
    let handle = args.bytes(NFS3_FHSIZE)?;
    let found = match s.find(handle) {
        Ok(found) => found,
        Err(why) => {
            let file_wcc = wcc_data::default();
            return done(&COMMIT3res::Err((why, COMMIT3resfail { file_wcc })));
        }
    };
    // Everything of the file, whoever wrote it. The thread is root.
    let synced = found.sync();
    let file_wcc = changed(&found);
    done(&match synced {
        Ok(()) => COMMIT3res::Ok(COMMIT3resok {
            file_wcc,
            verf: s.world.verifier,
        }),
        Err(why) => COMMIT3res::Err((why, COMMIT3resfail { file_wcc })),
    })
}
