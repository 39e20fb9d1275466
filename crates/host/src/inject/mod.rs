pub mod allowed_calls;
pub mod vdso;
pub mod zygote;
