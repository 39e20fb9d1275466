//! Compiles the table to the seccomp filter of bodies.
//!
//! Calls that always run at the body are recognised by their number alone, so that the kernel (since 5.11) keeps them
//! in a bitmap and never runs the filter for them; only calls that depend on arguments have the cost of the filter.
//!
//! ```text
//! arch? ─ x32? ─ futex? ─ binary search over runs of equal places ─ leaf
//!                                        leaf: ALLOW, USER_NOTIF, or a test of arguments
//! ```

use crate::cond::Cond;
use crate::row::Place;
use crate::x86_64::{AUDIT_ARCH, NR_LIMIT, X32_BIT, nr, row};

/// struct sock_filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct SockFilter {
    pub code: u16,
    pub jt: u8,
    pub jf: u8,
    pub k: u32,
}

/// KERNEL: SECCOMP_RET_ALLOW.
pub const ALLOW: u32 = 0x7fff_0000;
/// KERNEL: SECCOMP_RET_USER_NOTIF.
pub const NOTIFY: u32 = 0x7fc0_0000;
/// KERNEL: BPF_MAXINSNS.
pub const INSNS_MAX: usize = 4096;

// KERNEL: linux/bpf_common.h: class | size or operation | mode or source.
pub const LD_ABS: u16 = 0x20;
pub const ALU_AND: u16 = 0x54;
pub const JEQ: u16 = 0x15;
pub const JGE: u16 = 0x35;
pub const JSET: u16 = 0x45;
pub const RET: u16 = 0x06;
/// The jump with 32 bits.
pub const JA: u16 = 0x05;

/// Offsets in struct seccomp_data.
const NR: u32 = 0;
const ARCH: u32 = 4;
const ARGS: u32 = 16;

fn insn(code: u16, k: u32) -> SockFilter {
    branch(code, k, 0, 0)
}

fn branch(code: u16, k: u32, jt: u8, jf: u8) -> SockFilter {
    SockFilter { code, jt, jf, k }
}

/// The filter's action for a number.
#[derive(Clone, Copy)]
enum Leaf {
    Allow,
    Notify,
    Test(&'static Cond),
}

impl Leaf {
    fn of(call: u64) -> Leaf {
        match row(call).map(|row| row.place) {
            Some(Place::Body) => Leaf::Allow,
            Some(Place::BodyIf(cond, _)) => Leaf::Test(cond),
            Some(Place::Host | Place::Home | Place::ComeHome) | None => Leaf::Notify,
        }
    }

    /// Whether neighbouring numbers can share a leaf.
    fn joins(self, other: Leaf) -> bool {
        matches!(
            (self, other),
            (Leaf::Allow, Leaf::Allow) | (Leaf::Notify, Leaf::Notify)
        )
    }
}

/// The filter for bodies.
pub fn program() -> Vec<SockFilter> {
    let mut program = vec![
        insn(LD_ABS, ARCH),
        branch(JEQ, AUDIT_ARCH, 1, 0),
        insn(RET, NOTIFY),
        insn(LD_ABS, NR),
        branch(JGE, X32_BIT, 0, 1),
        insn(RET, NOTIFY),
    ];
    // The only frequent call that depends on an argument.
    let futex = leaf(Leaf::of(nr::FUTEX));
    program.push(branch(JEQ, nr::FUTEX as u32, 0, futex.len() as u8));
    program.extend(futex);
    program.extend(search(&runs()));
    program
}

/// Runs of equal leaves; each starts at its number, the last one has no end.
fn runs() -> Vec<(u32, Leaf)> {
    let mut runs: Vec<(u32, Leaf)> = Vec::new();
    for call in 0..=NR_LIMIT as u64 {
        let leaf = Leaf::of(call);
        if runs.last().is_none_or(|(_, last)| !last.joins(leaf)) {
            runs.push((call as u32, leaf));
        }
    }
    runs
}

/// Binary search by the number in the accumulator.
fn search(runs: &[(u32, Leaf)]) -> Vec<SockFilter> {
    let [(_, only)] = runs else {
        let (low, high) = runs.split_at(runs.len() / 2);
        let low_code = search(low);
        let mut code = Vec::new();
        match u8::try_from(low_code.len()) {
            Ok(far) => code.push(branch(JGE, high[0].0, far, 0)),
            // Too far for a conditional jump: use a conditional jump over an unconditional one.
            Err(_) => {
                code.push(branch(JGE, high[0].0, 0, 1));
                code.push(insn(JA, low_code.len() as u32));
            }
        }
        code.extend(low_code);
        code.extend(search(high));
        return code;
    };
    leaf(*only)
}

fn leaf(leaf: Leaf) -> Vec<SockFilter> {
    match leaf {
        Leaf::Allow => vec![insn(RET, ALLOW)],
        Leaf::Notify => vec![insn(RET, NOTIFY)],
        Leaf::Test(cond) => {
            let mut code = test(cond, 0, 1);
            code.extend([insn(RET, ALLOW), insn(RET, NOTIFY)]);
            code
        }
    }
}

/// Code that continues `yes` instructions after itself if the condition is true, else `no`. Conditions are a few
/// instructions long, far below the 255 that a jump reaches.
fn test(cond: &Cond, yes: usize, no: usize) -> Vec<SockFilter> {
    let (y, n) = (yes as u8, no as u8);
    match *cond {
        Cond::Bits { arg, mask, value } => {
            let mut code = vec![insn(LD_ABS, low(arg))];
            if mask != u32::MAX {
                code.push(insn(ALU_AND, mask));
            }
            code.push(branch(JEQ, value, y, n));
            code
        }
        Cond::OneOf { arg, set } => {
            let mut code = vec![insn(LD_ABS, low(arg))];
            for (i, &value) in set.iter().enumerate() {
                let left = (set.len() - 1 - i) as u8;
                let miss = if left == 0 { n } else { 0 };
                code.push(branch(JEQ, value, left + y, miss));
            }
            code
        }
        Cond::Null { arg } => vec![
            insn(LD_ABS, low(arg)),
            branch(JEQ, 0, 0, 2 + n),
            insn(LD_ABS, low(arg) + 4),
            branch(JEQ, 0, y, n),
        ],
        Cond::Not(cond) => test(cond, no, yes),
        Cond::All(all) => chain(all, yes, no, |cond, rest| test(cond, 0, no + rest)),
        Cond::Any(any) => chain(any, yes, no, |cond, rest| test(cond, yes + rest, 0)),
    }
}

/// Tests in sequence. `early` compiles all but the last, which falls through to the next test or jumps over the `rest`
/// after it.
fn chain(
    conds: &[Cond],
    yes: usize,
    no: usize,
    early: impl Fn(&Cond, usize) -> Vec<SockFilter>,
) -> Vec<SockFilter> {
    let Some((last, others)) = conds.split_last() else {
        return Vec::new();
    };
    let mut code = test(last, yes, no);
    for cond in others.iter().rev() {
        let mut first = early(cond, code.len());
        first.append(&mut code);
        code = first;
    }
    code
}

/// Low word of an argument, little-endian.
fn low(arg: u8) -> u32 {
    ARGS + 8 * u32::from(arg)
}
