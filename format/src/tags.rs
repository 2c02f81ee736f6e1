//! (owner fills this in)
