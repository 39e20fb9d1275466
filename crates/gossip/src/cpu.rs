//! Processor features available to user code, so that a program is never moved to where it cannot run.

use serde::{Deserialize, Serialize};

/// Features that user code may use. Words of CPUID, already masked to what matters to user code, so that two sets can
/// be compared bit by bit.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct CpuSet {
    /// `AuthenticAMD`, `GenuineIntel`, …; empty for the features that several have in common.
    pub vendor: String,
    /// Leaf 1 ecx, edx; leaf 7.0 ebx, ecx, edx; leaf 7.1 eax; leaf 0xD.1 eax;
    /// leaf 0x8000_0001 ecx, edx.
    pub flags: [u32; 9],
    /// State components that the kernel enabled (XCR0).
    pub xcr0: u64,
    /// Size of the XSAVE area for those, standard form, bytes. For the needs of a portable program: home's size, which
    /// is the space that its loader reserved.
    pub xsave_bytes: u32,
}

impl CpuSet {
    /// Whether a program that started with `needed` may run here.
    /// \n Two vendors may place the same state component at different offsets, so registers can be moved between
    /// vendors only if the enabled components and the area's size are the same, or if the program started with the
    /// features that vendors have in common (see [`CpuSet::portable`]).
    /// \n The loader saves registers around the first call of each function, in an area as large as home's components
    /// need, and saves all components that *this* machine has: additional ones must fit there. Without `--portable` it
    /// uses the compact form, which names components that may be unknown at home: then there may be no additional ones.
    pub fn covers(&self, needed: &CpuSet) -> bool {
        let flags = self
            .flags
            .iter()
            .zip(needed.flags)
            .all(|(have, need)| have & need == need);
        let state = self.xcr0 & needed.xcr0 == needed.xcr0;
        let same = self.xcr0 == needed.xcr0 && self.xsave_bytes == needed.xsave_bytes;
        let portable = needed.vendor.is_empty() && fixed(needed.xcr0).is_some();
        let kin = self.vendor == needed.vendor && self.xcr0 != needed.xcr0;
        let more = self.xcr0 & !needed.xcr0 & LOADER != 0;
        let room = !more || portable && self.loader_end() <= needed.xsave_bytes;
        flags && state && room && (same || kin || portable)
    }

    /// End of the area in which a loader saves its components, bytes. SDM vol. 1, 13.5: Intel's offsets.
    fn loader_end(&self) -> u32 {
        match self.xcr0 & LOADER {
            0 => 0,
            0x08..=0x18 => 1088,
            _ => self.xsave_bytes.min(2688),
        }
    }

    /// The features that a program with `needed` would lack here, in the words of `/proc/cpuinfo`; empty if it may run.
    pub fn lacking(&self, needed: &CpuSet) -> Vec<String> {
        if self.covers(needed) {
            return Vec::new();
        }
        let words = self.flags.iter().zip(needed.flags).enumerate();
        let mut missing: Vec<String> = words
            .flat_map(|(word, (have, need))| names(word, need & !have))
            .collect();
        if missing.is_empty() {
            let (here, there) = (self.state(), needed.state());
            missing.push(format!("the same XSAVE layout ({there}; here {here})"));
        }
        missing
    }

    fn state(&self) -> String {
        format!("components {:#x}, {} bytes", self.xcr0, self.xsave_bytes)
    }

    /// Removes features, by the names that [`CpuSet::lacking`] returns; unknown names are skipped.
    pub fn without(&mut self, features: &str) {
        let taken: Vec<&str> = features.split([',', ' ']).collect();
        for (word, bit, name, _) in FEATURES {
            if taken.contains(name) {
                self.flags[*word] &= !(1 << bit);
            }
        }
    }

    /// The value of `glibc.cpu.hwcaps` with which a program on this processor uses only the features in `common`. glibc
    /// ignores names that it does not know.
    pub fn hwcaps_off(&self, common: &CpuSet) -> String {
        let gone = |word: usize, bit: u32| (self.flags[word] & !common.flags[word]) >> bit & 1 == 1;
        let off = FEATURES
            .iter()
            .filter(|(word, bit, _, _)| gone(*word, *bit));
        let mut names: Vec<&str> = off.filter_map(|(_, _, _, glibc)| *glibc).collect();
        // The loader saves registers in compact form, which names components that may be unknown on another node.
        if self.xcr0 != common.xcr0 && !names.contains(&XSAVEC) {
            names.push(XSAVEC);
        }
        let off: Vec<String> = names.iter().map(|name| format!("-{name}")).collect();
        off.join(",")
    }

    /// The needs of a portable program started here, where `common` are the features of all nodes.
    pub fn portable(&self, common: &CpuSet) -> CpuSet {
        let mut needs = common.clone();
        if fixed(needs.xcr0).is_some() {
            // On every machine these have the same offsets.
            needs.vendor.clear();
            needs.xsave_bytes = self.xsave_bytes;
        }
        needs
    }

    /// The features that both have.
    pub fn common(&self, other: &CpuSet) -> CpuSet {
        let mut both = self.clone();
        both.flags
            .iter_mut()
            .zip(other.flags)
            .for_each(|(mine, theirs)| *mine &= theirs);
        both.xcr0 &= other.xcr0;
        let same = self.xcr0 == other.xcr0 && self.xsave_bytes == other.xsave_bytes;
        if self.vendor != other.vendor {
            both.vendor.clear();
            both.xcr0 &= if same { u64::MAX } else { ANYWHERE };
        }
        let least = self.xsave_bytes.min(other.xsave_bytes);
        both.xsave_bytes = fixed(both.xcr0).unwrap_or(least);
        both
    }
}

/// x87, SSE and AVX: at the same offset on all processors.
const ANYWHERE: u64 = 7;

/// Size of the area if all enabled components are such. SDM vol. 1, 13.4: header until 576, then AVX.
fn fixed(xcr0: u64) -> Option<u32> {
    match xcr0 {
        3 => Some(576),
        ANYWHERE => Some(832),
        _ => None,
    }
}

/// Components that a loader saves beyond the fixed ones, as glibc does: BNDREGS, BNDCSR and AVX-512. glibc 2.36 to
/// 2.41, STATE_SAVE_MASK in sysdeps/x86/sysdep.h: never PKRU.
const LOADER: u64 = 0xf8;

/// glibc's name of the compact form.
const XSAVEC: &str = "XSAVEC";

/// Word, bit, name in `/proc/cpuinfo`, and name in glibc's tunable if glibc selects functions by it (glibc 2.36 to
/// 2.41, sysdeps/x86/cpu-tunables.c).
#[rustfmt::skip]
const FEATURES: &[(usize, u32, &str, Option<&str>)] = &[
    (0, 0, "pni", None), (0, 1, "pclmulqdq", None), (0, 9, "ssse3", Some("SSSE3")),
    (0, 12, "fma", Some("FMA")), (0, 13, "cx16", None), (0, 19, "sse4_1", Some("SSE4_1")),
    (0, 20, "sse4_2", Some("SSE4_2")), (0, 22, "movbe", Some("MOVBE")),
    (0, 23, "popcnt", Some("POPCNT")), (0, 25, "aes", None), (0, 26, "xsave", None),
    (0, 27, "osxsave", Some("OSXSAVE")), (0, 28, "avx", Some("AVX")), (0, 29, "f16c", None),
    (0, 30, "rdrand", None),
    (1, 0, "fpu", None), (1, 4, "tsc", None), (1, 8, "cx8", Some("CX8")), (1, 15, "cmov", Some("CMOV")),
    (1, 19, "clflush", None), (1, 23, "mmx", None), (1, 24, "fxsr", None), (1, 25, "sse", None),
    (1, 26, "sse2", Some("SSE2")),
    (2, 0, "fsgsbase", None), (2, 3, "bmi1", Some("BMI1")), (2, 4, "hle", None),
    (2, 5, "avx2", Some("AVX2")), (2, 8, "bmi2", Some("BMI2")), (2, 9, "erms", Some("ERMS")),
    (2, 11, "rtm", Some("RTM")), (2, 16, "avx512f", Some("AVX512F")),
    (2, 17, "avx512dq", Some("AVX512DQ")), (2, 18, "rdseed", None), (2, 19, "adx", None),
    (2, 21, "avx512ifma", None), (2, 23, "clflushopt", None), (2, 24, "clwb", None),
    (2, 26, "avx512pf", Some("AVX512PF")), (2, 27, "avx512er", Some("AVX512ER")),
    (2, 28, "avx512cd", Some("AVX512CD")), (2, 29, "sha_ni", None),
    (2, 30, "avx512bw", Some("AVX512BW")), (2, 31, "avx512vl", Some("AVX512VL")),
    (3, 0, "prefetchwt1", None), (3, 1, "avx512vbmi", None), (3, 4, "ospke", None),
    (3, 5, "waitpkg", None), (3, 6, "avx512_vbmi2", None), (3, 8, "gfni", None), (3, 9, "vaes", None),
    (3, 10, "vpclmulqdq", None), (3, 11, "avx512_vnni", None), (3, 12, "avx512_bitalg", None),
    (3, 14, "avx512_vpopcntdq", None), (3, 22, "rdpid", None), (3, 27, "movdiri", None),
    (3, 28, "movdir64b", None),
    (4, 2, "avx512_4vnniw", None), (4, 3, "avx512_4fmaps", None), (4, 4, "fsrm", None),
    (4, 8, "avx512_vp2intersect", None), (4, 14, "serialize", None), (4, 22, "amx_bf16", None),
    (4, 23, "avx512_fp16", None), (4, 24, "amx_tile", None), (4, 25, "amx_int8", None),
    (5, 0, "sha512", None), (5, 1, "sm3", None), (5, 2, "sm4", None), (5, 4, "avx_vnni", None),
    (5, 5, "avx512_bf16", None), (5, 21, "amx_fp16", None), (5, 23, "avx_ifma", None),
    (6, 0, "xsaveopt", None), (6, 1, "xsavec", Some(XSAVEC)), (6, 2, "xgetbv1", None),
    (7, 0, "lahf_lm", None), (7, 5, "abm", Some("LZCNT")), (7, 6, "sse4a", None),
    (7, 7, "misalignsse", None), (7, 8, "3dnowprefetch", None), (7, 11, "xop", None),
    (7, 16, "fma4", Some("FMA4")), (7, 21, "tbm", None),
    (8, 11, "syscall", None), (8, 22, "mmxext", None), (8, 27, "rdtscp", None), (8, 29, "lm", None),
    (8, 30, "3dnowext", None), (8, 31, "3dnow", None),
];

/// Names of `bits` in word `word`; a bit without a name by its position.
fn names(word: usize, bits: u32) -> impl Iterator<Item = String> {
    (0..32)
        .filter(move |bit| bits >> bit & 1 == 1)
        .map(move |bit| {
            let named = FEATURES.iter().find(|(w, b, _, _)| (*w, *b) == (word, bit));
            named.map_or_else(
                || format!("bit {bit} of word {word}"),
                |(_, _, name, _)| (*name).to_owned(),
            )
        })
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
    fn target_must_have_all_features_at_program_start() {
        let check = |have: CpuSet, need: CpuSet, fits: bool| {
            assert_eq!(have.covers(&need), fits, "{have:?} for {need:?}");
        };
        let avx2 = || set("AMD", 0b01, 7, 832);
        let avx512 = || set("AMD", 0b11, 0xe7, 2440);
        check(avx2(), avx2(), true);
        // Its loader's area is too small for more, and the compact form would name it.
        check(avx512(), avx2(), false);
        check(avx2(), avx512(), false);
        // No loader saves protection keys.
        check(set("AMD", 1, 0x207, 2696), avx2(), true);
        check(avx2(), set("Intel", 0b01, 7, 832), true);
        // The same flags, but the state could be elsewhere in the area.
        check(avx512(), set("Intel", 0b01, 7, 832), false);
        check(avx2(), set("AMD", 0b01, 7, 900), false);
        check(avx2(), CpuSet::default(), false);
    }

    #[test]
    fn common_set_is_contained_in_both() {
        let (a, b) = (set("AMD", 0b110, 7, 832), set("AMD", 0b011, 0xe7, 2440));
        assert_eq!(a.common(&b).flags[2], 0b010);
        assert_eq!(a.common(&b).xcr0, 7);
        assert_eq!(a.common(&b).xsave_bytes, 832);
    }

    #[test]
    fn common_features_run_on_both_vendors() {
        // Started on the first: `there` if its loader has space for all components of the second.
        let check = |a: CpuSet, b: CpuSet, xcr0: u64, there: bool| {
            let both = a.common(&b);
            assert_eq!(both.xcr0, xcr0, "{a:?} and {b:?}");
            assert_eq!(both, b.common(&both), "{both:?}");
            let needs = a.portable(&both);
            assert!(a.covers(&needs), "{needs:?}");
            assert_eq!(b.covers(&needs), there, "{needs:?} on {b:?}");
        };
        let avx2 = || set("AMD", 1, 7, 832);
        let avx512 = || set("AMD", 3, 0xe7, 2440);
        check(avx2(), avx512(), 7, false);
        check(avx512(), avx2(), 7, true);
        check(avx512(), set("AMD", 3, 0x2e7, 2440), 0xe7, true);
        check(
            set("Intel", 3, 0x2e7, 2696),
            set("AMD", 1, 0x2e7, 2440),
            7,
            true,
        );
        check(
            set("AMD", 1, 0x2e7, 2440),
            set("Intel", 3, 0x2e7, 2696),
            7,
            false,
        );
        check(set("Intel", 3, 7, 832), avx2(), 7, true);
        check(set("Intel", 0, 3, 576), set("AMD", 1, 0x207, 2696), 3, true);
        check(
            set("Intel", 0, 3, 576),
            set("AMD", 1, 0x2e7, 2440),
            3,
            false,
        );
        // An emulated processor with the registers of MPX: a loader wrote them over the frames of its callers.
        check(avx2(), set("AMD", 1, 0x21f, 2696), 7, false);
        check(set("AMD", 1, 0x21f, 2696), avx2(), 7, true);
        check(set("AMD", 1, 0x207, 2696), avx512(), 7, true);
    }

    #[test]
    fn missing_features_are_named() {
        let mut have = set("AMD", 1 << 5 | 1 << 16 | 1 << 9, 0xe7, 2440);
        let need = have.clone();
        assert!(have.lacking(&need).is_empty());
        have.without("avx512f,avx2 nonsense");
        assert_eq!(have.lacking(&need), ["avx2", "avx512f"]);
        assert_eq!(need.hwcaps_off(&have), "-AVX2,-AVX512F");
        assert_eq!(need.hwcaps_off(&need), "");
        have.xcr0 = 7;
        assert_eq!(need.hwcaps_off(&have), "-AVX2,-AVX512F,-XSAVEC");
        let other = set("Intel", u32::MAX, 0xe7, 2688);
        let said = other.lacking(&need).join(" ");
        assert_eq!(
            said,
            "the same XSAVE layout (components 0xe7, 2440 bytes; here components 0xe7, 2688 bytes)"
        );
        assert_eq!(names(2, 1 << 1).next().as_deref(), Some("bit 1 of word 2"));
    }
}
