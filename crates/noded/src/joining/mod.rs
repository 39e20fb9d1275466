//! What is looked at while a node joins, so that a join that cannot work is refused and leaves nothing behind: whether
//! the member reaches the joiner (`way_back.rs`), whether its machine is a farm's already (`machine.rs`), how far the
//! clocks are apart (`offset.rs`), and what a connection that fails says (`reach.rs`).

pub(crate) mod machine;
pub(crate) mod offset;
pub(crate) mod reach;
pub(crate) mod way_back;
