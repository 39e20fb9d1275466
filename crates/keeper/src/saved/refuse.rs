//! Why no checkpoint file was written, as a user reads it.

use armento_client::api::Refusal;
use armento_migrate::MigrateError;
use armento_model::Pid;

pub fn refused(code: &str, message: String, hint: &str) -> Refusal {
    Refusal {
        code: code.into(),
        message,
        hint: hint.into(),
    }
}

pub fn not_copied(pid: Pid, e: &MigrateError) -> Refusal {
    let (stay, detail) = (e.stay(), e.detail());
    let why = match detail.is_empty() {
        true => stay.explain().to_owned(),
        false => detail,
    };
    let what = format!("process {pid} cannot be copied: {why}; it goes on, nothing was written");
    refused(stay.code(), what, stay.remedy())
}
