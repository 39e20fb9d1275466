//! What a processor offers to user code, so that a program never wakes where it cannot run.

use serde::{Deserialize, Serialize};

/// Features that user code may use. Words of CPUID, already masked to what matters to user code,
/// so that two sets compare bit by bit.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct CpuSet {
    /// `AuthenticAMD`, `GenuineIntel`, …
    pub vendor: String,
    /// Leaf 1 ecx, edx; leaf 7.0 ebx, ecx, edx; leaf 7.1 eax; leaf 0xD.1 eax;
    /// leaf 0x8000_0001 ecx, edx.
    pub flags: [u32; 9],
    /// State components that the kernel enabled (XCR0).
    pub xcr0: u64,
    /// Size of the XSAVE area for those, standard form, bytes.
    pub xsave_bytes: u32,
}

impl CpuSet {
    /// May a program that started with `needed` run here?
    ///
    /// Two vendors may place the same state component at different offsets, so registers travel
    /// between vendors only when the enabled components and the area's size are the same.
    pub fn covers(&self, needed: &CpuSet) -> bool {
        let flags = self
            .flags
            .iter()
            .zip(needed.flags)
            .all(|(have, need)| have & need == need);
        let state = self.xcr0 & needed.xcr0 == needed.xcr0;
        let same = self.xcr0 == needed.xcr0 && self.xsave_bytes == needed.xsave_bytes;
        flags && state && (same || (self.vendor == needed.vendor && self.xcr0 != needed.xcr0))
    }

    /// What both have: the set a portable program starts with.
    pub fn common(&self, other: &CpuSet) -> CpuSet {
        let mut both = self.clone();
        both.flags
            .iter_mut()
            .zip(other.flags)
            .for_each(|(mine, theirs)| *mine &= theirs);
        both.xcr0 &= other.xcr0;
        both.xsave_bytes = self.xsave_bytes.min(other.xsave_bytes);
        both
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(vendor: &str, flag: u32, xcr0: u64, xsave_bytes: u32) -> CpuSet {
        let mut flags = [0; 9];
        flags[2] = flag;
        CpuSet {
            vendor: vendor.into(),
            flags,
            xcr0,
            xsave_bytes,
        }
    }

    #[test]
    fn a_target_must_have_all_that_the_program_started_with() {
        let check = |have: CpuSet, need: CpuSet, fits: bool| {
            assert_eq!(have.covers(&need), fits, "{have:?} for {need:?}");
        };
        let avx2 = || set("AMD", 0b01, 7, 832);
        let avx512 = || set("AMD", 0b11, 0xe7, 2440);
        check(avx2(), avx2(), true);
        check(avx512(), avx2(), true);
        check(avx2(), avx512(), false);
        check(avx2(), set("Intel", 0b01, 7, 832), true);
        // The same flags, but the state could lie elsewhere in the area.
        check(avx512(), set("Intel", 0b01, 7, 832), false);
        check(avx2(), set("AMD", 0b01, 7, 900), false);
        check(avx2(), CpuSet::default(), false);
    }

    #[test]
    fn the_common_set_is_flagwise_within_both() {
        let (a, b) = (set("AMD", 0b110, 7, 832), set("AMD", 0b011, 0xe7, 2440));
        assert_eq!(a.common(&b).flags[2], 0b010);
        assert_eq!(a.common(&b).xcr0, 7);
        assert_eq!(a.common(&b).xsave_bytes, 832);
    }
}
