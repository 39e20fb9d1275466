mod keeper;
mod options;
mod start;

pub use options::{Birth, BirthError, Storm};
pub use start::{adopt, run, run_native};
