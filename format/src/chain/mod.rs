//! The versioned-object protocol: sections by name, copy-on-write, free of its payload.
