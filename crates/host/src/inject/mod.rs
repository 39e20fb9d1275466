//! What the tracer thread does inside a held guest process or the zygote, by calls that it makes there: map files and the
//! vDSO, make children.
//!
//! It never touches another guest, nor home. Start at `zygote.rs`, from which every body is made.

mod allowed_calls;
mod clone;
mod mapping;
mod vdso;
mod zygote;

pub use allowed_calls::{AllowedCalls, Origin};
pub use clone::{STACK_SIZE, begin_child, clone_args, made, wait_first_stop};
pub use mapping::{map_call, map_file, pass_in};
pub use vdso::{ForeignVdso, map_vdso};
pub use zygote::{new_body, prepare};
