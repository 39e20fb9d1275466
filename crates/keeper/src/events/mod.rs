pub(crate) mod dispatch;
pub(crate) mod exec;
pub(crate) mod housekeeping;
pub(crate) mod report;
