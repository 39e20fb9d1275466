pub(crate) mod descriptors;
