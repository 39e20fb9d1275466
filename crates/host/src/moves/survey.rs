//! What a body maps, and the head of its offer.

use armento_client::api::CpuSet;
use armento_migrate::image::areas::{self, Survey};
use armento_migrate::image::objects::Views;
use armento_migrate::image::vdso::Vdso;
use armento_migrate::image::{Head, Processor, mm};
use armento_migrate::{MigrateError, Result};
use armento_model::{HomePid, HomeTid, Pid};
use armento_tracee::{maps, status};

pub fn survey(here: Pid, foreign: Option<Vdso>) -> Result<Survey> {
    let all = maps::read(here).map_err(|_| MigrateError::Ended)?;
    let mut s = areas::of_body(&all, foreign)?;
    if foreign.is_none() {
        s.digest_vdso(here)?;
    }
    Ok(s)
}

/// `engine`: the version that both sides use.
pub fn head(
    engine: u32,
    pid: HomePid,
    (here, needs): (Pid, CpuSet),
    s: &Survey,
    tids: Vec<HomeTid>,
) -> Result<Head> {
    let st = status::read(here).map_err(|_| MigrateError::Ended)?;
    Ok(Head {
        since: None,
        engine,
        pid,
        tids,
        command: st.name,
        areas: s.areas.clone(),
        brings: Views::default().lack(&s.areas),
        persistent: Vec::new(),
        mm: mm::read(here, s.vdso)?,
        need_kib: st.rss_kib,
        processor: Processor {
            needs,
            xsave: armento_sense::xsave().clone(),
        },
    })
}
