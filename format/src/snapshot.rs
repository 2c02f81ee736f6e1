//! (owner META fills this in)
/// SnapshotReader.
pub struct SnapshotReader;
