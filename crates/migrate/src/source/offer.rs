//! The offer: what the process is, and the files that the target lacks.
//!
//! From: the owner of the process. Next: `precopy.rs`; facing it: `migrate/src/target.rs`.

use super::job::{Job, Opened};
use crate::failpoint::point;
use crate::image::{Accept, Head, files_of};
use crate::phase::Failpoint;
use crate::{MigrateError, Result};
use armento_model::Stay;
use armento_wire::{bulk, talk, write_frame};
use std::io::{Read, Write};

impl<R: Read, W: Write> Job<'_, R, W> {
    /// Offers the process. After `Ok` the target holds an empty body with the same layout.
    pub fn offer(&mut self, head: &Head, files: &mut Opened) -> Result<Accept> {
        write_frame(self.w, bulk::OFFER, &[&talk::encode(head)])?;
        self.offered.clone_from(&head.areas);
        point(Failpoint::SourceOffered);
        let mut buf = Vec::new();
        match self.read_answer(&mut buf)? {
            bulk::ACCEPT => {}
            bulk::DECLINE => {
                let (stay, why): (Stay, String) = talk::decode(&buf, "refusal")?;
                return Err(MigrateError::Declined(stay, why));
            }
            _ => return Err(armento_wire::WireError::Garbled("answer to an offer").into()),
        }
        let accept: Accept = talk::decode(&buf, "answer to an offer")?;
        self.postcopy = accept.postcopy;
        self.wants_vdso = accept.vdso;
        self.told = files_of(&head.areas).into_iter().collect();
        self.carry(&accept.files, files)?;
        Ok(accept)
    }
}
