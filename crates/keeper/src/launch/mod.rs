pub(crate) mod keeper;
pub(crate) mod options;
pub(crate) mod start;
