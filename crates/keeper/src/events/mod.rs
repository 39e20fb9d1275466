mod dispatch;
mod exec;
mod housekeeping;
mod report;

pub(crate) use report::report_processes;
