//! The processor features that a program uses, and the processor that it comes from.

use crate::image::ThreadState;
use crate::{MigrateError, Result};
use armento_gossip::CpuSet;
use armento_model::{Stay, Xsave};
use serde::{Deserialize, Serialize};

/// What a target must support.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Processor {
    /// Features that it may use: all of its home's, or fewer (`--portable`).
    pub needs: CpuSet,
    /// The layout of its threads' extended state at the source.
    pub xsave: Xsave,
}

/// This machine as a target.
pub struct Here {
    pub has: CpuSet,
    pub xsave: Xsave,
}

impl Here {
    /// Checked before anything is transferred.
    pub fn takes(&self, its: &Processor) -> Result<()> {
        let no = |why: String| Err(MigrateError::Stays(Stay::CpuFeatures, why));
        let mut missing = self.has.lacking(&its.needs);
        if !missing.is_empty() {
            missing.insert(0, "there the processor lacks".into());
            return no(missing.join(" "));
        }
        match self.xsave.refuses(&its.xsave, its.needs.xcr0) {
            Some(why) => no(format!("the XSAVE layout there has {why}")),
            None => Ok(()),
        }
    }
}

/// Converts their extended state to this machine's layout.
pub fn fit(threads: &mut [ThreadState], from: &Xsave, here: &Xsave) -> Result<()> {
    if from == here {
        return Ok(());
    }
    for t in threads {
        let fitted = here.fit(&t.xstate, from);
        t.xstate = fitted.map_err(|what| {
            let why = format!("the XSAVE layout there has no room for {what}");
            MigrateError::Stays(Stay::CpuFeatures, why)
        })?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use armento_model::Part;

    #[test]
    fn target_names_missing_features() {
        let check = |change: fn(&mut Here), want: &str| {
            let part = Part {
                number: 2,
                at: 576,
                bytes: 256,
            };
            let xsave = Xsave {
                bytes: 832,
                parts: vec![part],
            };
            let has = CpuSet {
                flags: [u32::MAX; 9],
                xcr0: 7,
                xsave_bytes: 832,
                ..CpuSet::default()
            };
            let its = Processor {
                needs: has.clone(),
                xsave: xsave.clone(),
            };
            let mut here = Here { has, xsave };
            change(&mut here);
            let said = here
                .takes(&its)
                .map_or_else(|e| e.to_string(), |()| String::new());
            assert!(
                said.contains(want) && want.is_empty() == said.is_empty(),
                "{said}"
            );
        };
        check(|_| {}, "");
        check(|h| h.has.without("avx2,bmi1"), "lacks bmi1 avx2");
        check(|h| h.xsave.parts[0].at = 640, "AVX at byte 640, not 576");
        check(|h| h.xsave.parts.clear(), "no room for AVX");
    }
}
