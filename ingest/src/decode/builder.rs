//! The columnar builder of one block.
