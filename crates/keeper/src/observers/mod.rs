pub(crate) mod cpu_sleepers;
pub(crate) mod descriptors;
pub(crate) mod proc_files;
