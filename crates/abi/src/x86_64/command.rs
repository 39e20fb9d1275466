//! Arguments that have a kind which depends on a command.

use crate::Arg::{self, In, Out};
use crate::Len::Const;

/// One command and the kind of its argument.
pub(super) type Command = (u32, Arg);

/// Pointers to an int, the most common shape.
pub(super) const IN_INT: Arg = In(Const(4));
pub(super) const OUT_INT: Arg = Out(Const(4));
