//! TDengine's statements that write.

pub mod insert;
pub mod statement;

pub use insert::{Inserted, Session, create_subtables, insert};
pub use statement::{
    Alter, AlterAction, CreateDatabase, CreateSubtable, CreateTable, DropTables, Insert, Literal, Statement, TableName,
    parse, writes,
};
