mod exec;
mod scan;

pub(crate) use exec::image_replaced;
pub(crate) use scan::{process_gone, scan_children};
