//! What backs the mappings of a body: copies of files, and memory files for memory that processes share.

use crate::inject::{map_call, map_file};
use crate::state::Shared;
use crate::sync::lock;
use armento_migrate::image::Area;
use armento_migrate::image::Kind;
use armento_migrate::image::objects;
use armento_migrate::image::objects::{Object, ObjectId};
use armento_migrate::{Local, MigrateError, Result};
use armento_model::Stay;
use armento_tracee::call::Call;
use armento_tracee::inject::{Hold, ok};
use armento_tracee::region::Code;
use armento_tracee::sys as tsys;
use std::fs::File;
use std::os::fd::AsRawFd;
use std::sync::Arc;

/// Maps areas that files or objects back: each file is passed in once for all its areas.
pub fn map_all(shared: &Shared, h: &mut Hold, code: &Code, all: &[Area]) -> Result<()> {
    let mut files: Vec<(Arc<File>, Vec<Call>)> = Vec::new();
    for a in all {
        let (file, view, off) = backing(shared, a)?;
        let flags = view | libc::MAP_FIXED | a.flags.of_mmap();
        let call = map_call((a.start, a.end - a.start), a.prot, flags, off);
        match files.iter_mut().find(|(f, _)| Arc::ptr_eq(f, &file)) {
            Some((_, calls)) => calls.push(call),
            None => files.push((file, vec![call])),
        }
    }
    for (file, mut calls) in files {
        let pass = shared.pass.as_raw_fd();
        let results = map_file(h, code, (pass, &file), &mut calls)?;
        for r in results {
            ok("map a file", h.tid, r)?;
        }
    }
    Ok(())
}

/// The file here that backs `a`, how it is mapped, and its offset.
fn backing(shared: &Shared, a: &Area) -> Result<(Arc<File>, i32, u64)> {
    let (file, view, off) = match &a.kind {
        Kind::File { key, off, .. } => {
            let file = shared.files.get(key);
            (file, libc::MAP_PRIVATE, *off)
        }
        Kind::Shared { object, off } => {
            let file = lock(&shared.objects).get(object).map(|o| o.file.clone());
            (file, libc::MAP_SHARED, *off)
        }
        Kind::Anon | Kind::Stack => (None, 0, 0),
    };
    let file = file.ok_or_else(|| {
        MigrateError::Stays(
            Stay::TargetFailed,
            "a mapped file did not come along".into(),
        )
    })?;
    Ok((file, view, off))
}

/// Memory files for the objects that `areas` map, big enough. Those that come with this move (`brings`), or are not there
/// yet, are empty.
pub fn make_objects(
    shared: &Shared,
    areas: &[Area],
    brings: &[ObjectId],
    persistent: &[ObjectId],
) -> Result<()> {
    let mut all = lock(&shared.objects);
    for (object, size) in objects::sizes(areas) {
        if brings.contains(&object) || !all.contains_key(&object) {
            let file = tsys::memfd(&object.name(), 0).local("make shared memory")?;
            all.insert(object, Object::new(file, persistent.contains(&object)));
        }
        let file = &all[&object].file;
        if file.metadata().local("look at shared memory")?.len() < size {
            file.set_len(size).local("make shared memory")?;
        }
    }
    Ok(())
}
