//! The layout of a thread's extended state on a processor.

use serde::{Deserialize, Serialize};

/// The XSAVE area of one machine, standard form. SDM vol. 1, 13.4: x87 and SSE come first and a header after them, the
/// same everywhere; the rest is where CPUID says.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Xsave {
    /// Size of the whole area.
    pub bytes: u32,
    /// Enabled components from number 2 on, in order of their numbers.
    pub parts: Vec<Part>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Part {
    /// Its bit in XCR0.
    pub number: u8,
    pub at: u32,
    pub bytes: u32,
}

/// The kernel sets it for every thread, with the same value unless the program changes it; only the kernel saves it. It
/// is the only component that may have another offset.
const PKRU: u8 = 9;
/// KERNEL: init_pkru_value, arch/x86/mm/pkeys.c: key 0 is open, all others are closed. On x86 also: all open.
const PKRU_USUAL: [u32; 2] = [0x5555_5554, 0];

/// SDM vol. 1, 13.4.2: bitmap of the components in use.
const IN_USE: usize = 512;
/// Legacy area and header.
const FIRST: usize = 576;
/// No area is larger: tile registers are 8 KiB.
pub const XSAVE_MAX: u32 = 64 << 10;
/// Number of bits of XCR0.
const PARTS_MAX: usize = 62;

impl Xsave {
    fn part(&self, number: u8) -> Option<&Part> {
        self.parts.iter().find(|p| p.number == number)
    }

    /// Whether a machine could have this layout. For a layout received from another node.
    pub fn is_sane(&self) -> bool {
        let fits = |p: &Part| {
            let end = u64::from(p.at) + u64::from(p.bytes);
            (2..64).contains(&p.number) && p.at as usize >= FIRST && end <= self.bytes.into()
        };
        self.bytes <= XSAVE_MAX && self.parts.len() <= PARTS_MAX && self.parts.iter().all(fits)
    }

    /// Why a program that started with `needed` (XCR0) and comes from a machine with the layout `from` cannot run here.
    /// A program may have saved its registers itself, and the kernel saves them for signal handlers: every component
    /// that it may use must have the same offset.
    pub fn refuses(&self, from: &Xsave, needed: u64) -> Option<String> {
        let may_use = from.parts.iter().filter(|p| needed >> p.number & 1 == 1);
        let mut wrong = may_use.filter_map(|p| self.misfit(p));
        let first = wrong.next()?;
        Some(wrong.fold(first, |all, one| all + ", " + &one))
    }

    fn misfit(&self, p: &Part) -> Option<String> {
        let name = name(p.number);
        let Some(own) = self.part(p.number) else {
            return Some(format!("no room for {name}"));
        };
        if own.bytes != p.bytes {
            let (own, its) = (own.bytes, p.bytes);
            return Some(format!("{name} of {own} bytes, not {its}"));
        }
        let same = own.at == p.at || p.number == PKRU;
        (!same).then(|| format!("{name} at byte {}, not {}", own.at, p.at))
    }

    /// `area` of a thread, which may lack zeros at its end, in this machine's layout. An error names a component in use
    /// that has no place here.
    pub fn fit(&self, area: &[u8], from: &Xsave) -> Result<Vec<u8>, String> {
        let mut whole = area.to_vec();
        whole.resize((from.bytes as usize).max(FIRST), 0);
        let mut fitted = vec![0u8; (self.bytes as usize).max(FIRST)];
        fitted[..FIRST].copy_from_slice(&whole[..FIRST]);
        let in_use = u64::from_le_bytes(whole[IN_USE..IN_USE + 8].try_into().unwrap_or_default());
        let mut kept = in_use & 3;
        for p in from.parts.iter().filter(|p| in_use >> p.number & 1 == 1) {
            let bytes = &whole[p.at as usize..(p.at + p.bytes) as usize];
            match self.part(p.number).filter(|own| own.bytes == p.bytes) {
                Some(own) => {
                    fitted[own.at as usize..(own.at + own.bytes) as usize].copy_from_slice(bytes);
                    kept |= 1 << p.number;
                }
                // The value at a thread's start: nothing is lost.
                None if usual(p.number, bytes) => {}
                None => return Err(format!("{} in use", name(p.number))),
            }
        }
        fitted[IN_USE..IN_USE + 8].copy_from_slice(&kept.to_le_bytes());
        Ok(fitted)
    }
}

fn usual(number: u8, bytes: &[u8]) -> bool {
    let word = bytes.first_chunk().map(|b| u32::from_le_bytes(*b));
    let rights = number == PKRU && word.is_some_and(|w| PKRU_USUAL.contains(&w));
    rights || bytes.iter().all(|b| *b == 0)
}

/// KERNEL: enum xfeature, arch/x86/include/asm/fpu/types.h.
fn name(number: u8) -> String {
    let known = match number {
        2 => "AVX",
        3 => "BNDREGS",
        4 => "BNDCSR",
        5 => "AVX-512 opmask",
        6 => "AVX-512 ZMM_Hi256",
        7 => "AVX-512 Hi16_ZMM",
        9 => "PKRU",
        17 => "AMX TILECFG",
        18 => "AMX TILEDATA",
        _ => return format!("component {number}"),
    };
    known.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layout(bytes: u32, parts: &[(u8, u32, u32)]) -> Xsave {
        let parts = parts
            .iter()
            .map(|&(number, at, bytes)| Part { number, at, bytes });
        let parts = parts.collect();
        Xsave { bytes, parts }
    }

    /// The layouts of AMD and Intel with AVX-512 and protection keys.
    fn amd() -> Xsave {
        layout(
            2440,
            &[
                (2, 576, 256),
                (5, 832, 64),
                (6, 896, 512),
                (7, 1408, 1024),
                (9, 2432, 8),
            ],
        )
    }

    fn intel() -> Xsave {
        layout(
            2696,
            &[
                (2, 576, 256),
                (5, 1088, 64),
                (6, 1152, 512),
                (7, 1664, 1024),
                (9, 2688, 8),
            ],
        )
    }

    fn avx() -> Xsave {
        layout(832, &[(2, 576, 256)])
    }

    #[test]
    fn usable_components_must_have_the_same_offset() {
        let check = |to: Xsave, from: Xsave, needed: u64, want: &str| {
            assert_eq!(to.refuses(&from, needed).unwrap_or_default(), want);
        };
        check(amd(), amd(), 0x2e7, "");
        check(amd(), intel(), 0x207, "");
        check(amd(), avx(), 7, "");
        check(avx(), amd(), 7, "");
        check(avx(), amd(), 0x27, "no room for AVX-512 opmask");
        check(
            intel(),
            amd(),
            0xe7,
            "AVX-512 opmask at byte 1088, not 832, AVX-512 ZMM_Hi256 at byte 1152, not 896, \
             AVX-512 Hi16_ZMM at byte 1664, not 1408",
        );
        check(
            layout(896, &[(2, 640, 256)]),
            avx(),
            7,
            "AVX at byte 640, not 576",
        );
        check(
            layout(704, &[(2, 576, 128)]),
            avx(),
            7,
            "AVX of 128 bytes, not 256",
        );
    }

    /// An area with these components in use, each filled with its number.
    fn area(of: &Xsave, used: &[u8]) -> Vec<u8> {
        let mut area = vec![0; of.bytes as usize];
        let bits = used.iter().fold(3u64, |all, n| all | 1 << n);
        area[512..520].copy_from_slice(&bits.to_le_bytes());
        area[..8].fill(1);
        for p in of.parts.iter().filter(|p| used.contains(&p.number)) {
            area[p.at as usize..(p.at + p.bytes) as usize].fill(p.number);
        }
        area
    }

    #[test]
    fn registers_are_converted_between_layouts() {
        let (amd, intel) = (amd(), intel());
        let used = [2, 5, 6, 7, 9];
        let there = amd.fit(&area(&intel, &used), &intel);
        assert_eq!(there, Ok(area(&amd, &used)));
        assert_eq!(intel.fit(&area(&amd, &used), &amd), Ok(area(&intel, &used)));
        // Zeros at the end may be missing.
        let short = area(&amd, &[2])[..700].to_vec();
        let mut want = area(&avx(), &[2]);
        want[700..].fill(0);
        assert_eq!(avx().fit(&short, &amd), Ok(want));
        assert_eq!(avx().fit(&[], &amd).map(|a| a.len()), Ok(832));
    }

    #[test]
    fn component_in_use_is_never_dropped() {
        let fit = |area: &[u8]| avx().fit(area, &amd());
        let lost = fit(&area(&amd(), &[2, 6]));
        assert_eq!(lost, Err("AVX-512 ZMM_Hi256 in use".into()));
        assert_eq!(fit(&area(&amd(), &[9])), Err("PKRU in use".into()));
        let mut usual = area(&amd(), &[2, 5, 9]);
        usual[832..896].fill(0);
        usual[2432..2440].copy_from_slice(&0x5555_5554u64.to_le_bytes());
        assert_eq!(fit(&usual), Ok(area(&avx(), &[2])));
    }

    #[test]
    fn received_layouts_are_checked() {
        assert!(amd().is_sane() && Xsave::default().is_sane());
        for part in [
            (1, 576, 8),
            (64, 576, 8),
            (2, 575, 8),
            (2, 576, 257),
            (2, u32::MAX, 8),
        ] {
            assert!(!layout(832, &[part]).is_sane(), "{part:?}");
        }
        assert!(!layout(XSAVE_MAX + 1, &[]).is_sane());
    }
}
