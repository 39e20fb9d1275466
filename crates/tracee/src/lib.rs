//! armento-tracee
