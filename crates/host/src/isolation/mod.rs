pub mod namespaces;
pub mod privileges;
