//! Saved queries: what each owner sees, limits, conditions, concurrent nodes.

use super::*;
use crate::{
    access::User,
    error::Result,
    meta::{Expected, SavedQuery},
};

fn query(statement: &str) -> SavedQuery {
    SavedQuery { statement: statement.to_owned(), database: None, updated_ms: 7 }
}

/// A root with the users `ada`, an administrator, and `bob`.
async fn root_with_users() -> Root {
    let root = Root::open(Store::in_memory()).await.unwrap();
    let add = |draft: &mut Draft| {
        draft.users_mut().add("ada", User::new(None, true)?)?;
        draft.users_mut().add("bob", User::new(None, false)?)
    };
    root.commit(&[], add).await.unwrap();
    root
}

async fn save(root: &Root, owner: Option<&str>, name: &str, statement: &str, expected: Expected) -> Result<Version> {
    let saved = root.commit(&[], |draft| draft.save_query(owner, name, query(statement), expected)).await;
    saved.map(|((), catalog)| catalog.version)
}

async fn listed(root: &Root, owner: Option<&str>) -> Vec<(String, String)> {
    let saved = root.saved_queries(owner).await.unwrap();
    saved.into_iter().map(|(name, query, _)| (name, query.statement)).collect()
}

fn pairs(expected: &[(&str, &str)]) -> Vec<(String, String)> {
    expected.iter().map(|(name, statement)| ((*name).to_owned(), (*statement).to_owned())).collect()
}

#[tokio::test]
async fn each_owner_has_a_list_which_ends_with_the_user() {
    let root = root_with_users().await;
    for (owner, name) in [(Some("ada"), "a/b"), (Some("ada"), "a"), (Some("bob"), "a"), (None, "bob/x"), (None, "ü")] {
        save(&root, owner, name, &format!("{owner:?} {name}"), Expected::Absent).await.unwrap();
    }
    // Another node reads what this one has saved.
    let other = Root::open(root.store().clone()).await.unwrap();
    assert_eq!(listed(&other, Some("ada")).await, pairs(&[("a", r#"Some("ada") a"#), ("a/b", r#"Some("ada") a/b"#)]));
    assert_eq!(listed(&other, Some("bob")).await, pairs(&[("a", r#"Some("bob") a"#)]));
    assert_eq!(listed(&other, None).await, pairs(&[("bob/x", "None bob/x"), ("ü", "None ü")]));
    // A later user of the same name does not see the queries of the earlier one, also if one commit does both.
    let again = |draft: &mut Draft| {
        draft.save_query(Some("bob"), "late", query("select 1"), Expected::Any)?;
        draft.remove_user("bob")?;
        draft.users_mut().add("bob", User::new(None, false)?)
    };
    root.commit(&[], again).await.unwrap();
    assert_eq!(listed(&other, Some("bob")).await, []);
    assert_eq!(listed(&other, None).await.len(), 2);
    root.commit(&[], |draft| draft.remove_user("bob")).await.unwrap();
    let error = save(&root, Some("bob"), "a", "select 1", Expected::Any).await.unwrap_err();
    assert_eq!((error.kind(), error.context("user")), (Kind::NotFound, Some("bob")));
}

#[tokio::test]
async fn nodes_that_save_at_the_same_time_lose_nothing() {
    let root = root_with_users().await;
    let nodes = [root.clone(), Root::open(root.store().clone()).await.unwrap()];
    let names: Vec<String> = (0..20).map(|number| format!("q{number:02}")).collect();
    let saves =
        names.iter().enumerate().map(|(at, name)| save(&nodes[at % 2], Some("ada"), name, name, Expected::Absent));
    assert!(futures::future::join_all(saves).await.iter().all(Result::is_ok));
    let expected: Vec<(String, String)> = names.iter().map(|name| (name.clone(), name.clone())).collect();
    for node in &nodes {
        assert_eq!(listed(node, Some("ada")).await, expected);
    }
    // Exactly one of two that create the same name does.
    let (first, second) = tokio::join!(
        save(&nodes[0], None, "same", "first", Expected::Absent),
        save(&nodes[1], None, "same", "second", Expected::Absent)
    );
    let winner = if first.is_ok() { "first" } else { "second" };
    assert_ne!(first.is_ok(), second.is_ok());
    assert_eq!(first.err().or(second.err()).unwrap().kind(), Kind::Conflict);
    assert_eq!(listed(&root, None).await, pairs(&[("same", winner)]));
}

#[tokio::test]
async fn a_condition_names_the_state_that_a_change_replaces() {
    let root = root_with_users().await;
    let of = |version| Expected::Of(version);
    assert_eq!(save(&root, None, "x", "1", Expected::Present).await.unwrap_err().kind(), Kind::Conflict);
    let first = save(&root, None, "x", "1", Expected::Any).await.unwrap();
    // Commits of others leave the state of the query, though they may carry its section to a new object.
    save(&root, None, "y", "1", Expected::Any).await.unwrap();
    assert_eq!(root.saved_queries(None).await.unwrap()[0].2, first);
    let second = save(&root, None, "x", "2", of(first)).await.unwrap();
    assert_eq!(save(&root, None, "x", "3", of(first)).await.unwrap_err().kind(), Kind::Conflict);
    assert_eq!(save(&root, None, "x", "3", Expected::Absent).await.unwrap_err().kind(), Kind::Conflict);
    let delete = |expected| root.commit(&[], move |draft| draft.delete_saved_query(None, "x", expected));
    assert_eq!(delete(of(first)).await.unwrap_err().kind(), Kind::Conflict);
    delete(of(second)).await.unwrap();
    let error = delete(Expected::Any).await.unwrap_err();
    assert_eq!((error.kind(), error.context("name")), (Kind::NotFound, Some("x")));
    assert_eq!(listed(&root, None).await, pairs(&[("y", "1")]));
}

#[tokio::test]
async fn names_statements_and_their_number_are_limited() {
    let root = root_with_users().await;
    let longest = "x".repeat(SavedQuery::MAX_NAME);
    for wrong in ["", " a", "a ", "a\nb", &format!("{longest}x")] {
        let error = save(&root, None, wrong, "select 1", Expected::Any).await.unwrap_err();
        assert_eq!(error.kind(), Kind::Invalid, "{wrong:?}");
        assert!(error.context("found").unwrap().ends_with(&format!("({} bytes)", wrong.len())), "{error}");
    }
    for wrong in [String::new(), "  ".to_owned(), "x".repeat(SavedQuery::MAX_STATEMENT + 1)] {
        let error = save(&root, None, "a", &wrong, Expected::Any).await.unwrap_err();
        assert_eq!(error.context("found"), Some(format!("{} bytes", wrong.len()).as_str()));
    }
    save(&root, None, &longest, &"x".repeat(SavedQuery::MAX_STATEMENT), Expected::Any).await.unwrap();
    let fill = |draft: &mut Draft| {
        (1..SavedQuery::MOST).try_for_each(|at| draft.save_query(None, &format!("{at}"), query("1"), Expected::Any))
    };
    root.commit(&[], fill).await.unwrap();
    let error = save(&root, None, "one more", "1", Expected::Any).await.unwrap_err();
    assert_eq!((error.kind(), error.context("found")), (Kind::Invalid, Some("100")));
    save(&root, None, "1", "2", Expected::Present).await.unwrap();
    save(&root, Some("ada"), "one more", "1", Expected::Any).await.unwrap();
    assert_eq!(root.saved_queries(None).await.unwrap().len(), SavedQuery::MOST);
}
