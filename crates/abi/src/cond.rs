//! Tests on arguments that classic BPF can express too.

/// A test on the six arguments of a call.
#[derive(Clone, Copy, Debug)]
pub enum Cond {
    /// Low word of the argument, masked, equals the value.
    Bits {
        arg: u8,
        mask: u32,
        value: u32,
    },
    /// Low word of the argument is one of these.
    OneOf {
        arg: u8,
        set: &'static [u32],
    },
    /// All 64 bits of the argument are zero.
    Null {
        arg: u8,
    },
    /// None of the lists is empty.
    All(&'static [Cond]),
    Any(&'static [Cond]),
    Not(&'static Cond),
}

impl Cond {
    pub fn eval(&self, args: &[u64; 6]) -> bool {
        match *self {
            Cond::Bits { arg, mask, value } => args[arg as usize] as u32 & mask == value,
            Cond::OneOf { arg, set } => set.contains(&(args[arg as usize] as u32)),
            Cond::Null { arg } => args[arg as usize] == 0,
            Cond::All(all) => all.iter().all(|c| c.eval(args)),
            Cond::Any(any) => any.iter().any(|c| c.eval(args)),
            Cond::Not(cond) => !cond.eval(args),
        }
    }
}
