pub(crate) mod exec;
pub(crate) mod scan;
