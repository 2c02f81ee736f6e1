//! Walks over the syntax tree of a statement.
//!
//! The parser's `visit` is generic: each type of visitor compiles into a copy of the whole walk, some thousand functions. Here all
//! visitors go through one type, so that the walk is compiled once for reading and once for rewriting.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{Expr, ObjectName, Query, Select, Visit, VisitMut, Visitor, VisitorMut};
use tidelake_format::Error;

/// Visits every node of a tree. Of the visitor's methods these are called: `pre_visit_query`, `post_visit_query`,
/// `pre_visit_select`, `pre_visit_relation`, `pre_visit_expr` and `post_visit_expr`.
pub(super) fn visit(node: &impl Visit, visitor: &mut dyn Visitor<Break = ()>) -> ControlFlow<()> {
    node.visit(&mut Reading(visitor))
}

/// Visits every node of a tree, which the visitor may change. Of its methods these are called: `pre_visit_query`,
/// `post_visit_query`, `pre_visit_select`, `pre_visit_expr` and `post_visit_expr`.
pub(super) fn visit_mut(
    node: &mut impl VisitMut,
    visitor: &mut dyn VisitorMut<Break = Box<Error>>,
) -> ControlFlow<Box<Error>> {
    node.visit(&mut Rewriting(visitor))
}

/// Looks at the name of every relation of a tree.
pub(super) fn visit_relations(node: &impl Visit, look: &mut dyn FnMut(&ObjectName)) {
    struct Relations<'a>(&'a mut dyn FnMut(&ObjectName));
    impl Visitor for Relations<'_> {
        type Break = ();

        fn pre_visit_relation(&mut self, name: &ObjectName) -> ControlFlow<()> {
            (self.0)(name);
            ControlFlow::Continue(())
        }
    }
    let _ = visit(node, &mut Relations(look));
}

struct Reading<'a>(&'a mut dyn Visitor<Break = ()>);

impl Visitor for Reading<'_> {
    type Break = ();

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<()> {
        self.0.pre_visit_query(query)
    }

    fn post_visit_query(&mut self, query: &Query) -> ControlFlow<()> {
        self.0.post_visit_query(query)
    }

    fn pre_visit_relation(&mut self, name: &ObjectName) -> ControlFlow<()> {
        self.0.pre_visit_relation(name)
    }

    fn pre_visit_select(&mut self, select: &Select) -> ControlFlow<()> {
        self.0.pre_visit_select(select)
    }

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        self.0.pre_visit_expr(expr)
    }

    fn post_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        self.0.post_visit_expr(expr)
    }
}

struct Rewriting<'a>(&'a mut dyn VisitorMut<Break = Box<Error>>);

impl VisitorMut for Rewriting<'_> {
    type Break = Box<Error>;

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<Self::Break> {
        self.0.pre_visit_query(query)
    }

    fn post_visit_query(&mut self, query: &mut Query) -> ControlFlow<Self::Break> {
        self.0.post_visit_query(query)
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<Self::Break> {
        self.0.pre_visit_select(select)
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Self::Break> {
        self.0.pre_visit_expr(expr)
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Self::Break> {
        self.0.post_visit_expr(expr)
    }
}
