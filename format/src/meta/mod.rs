//! (owner META fills this in)
/// Root.
#[derive(Clone)]
pub struct Root;
