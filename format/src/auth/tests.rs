#![allow(clippy::unwrap_used)]

mod sessions;

use std::{
    net::{IpAddr, Ipv4Addr},
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::{Duration, Instant},
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use http::HeaderMap;

use super::{
    failures::{Failures, LONGEST, Turn},
    *,
};
use crate::{
    access::{secret::is_password, *},
    error::{Kind, Result},
    ids::DatabaseId,
    meta::Root,
    schema::Database,
    store::{Ambient, Store, System},
    types::Precision,
};

const PASSWORD: &str = "correct horse";
const HERE: Option<IpAddr> = Some(IpAddr::V4(Ipv4Addr::LOCALHOST));

/// A wall clock that a test can advance.
#[derive(Debug, Default)]
struct Later(AtomicI64);

impl Ambient for Later {
    fn wall_ns(&self) -> i64 {
        System.wall_ns() + self.0.load(Ordering::SeqCst) * 1_000_000_000
    }

    fn random(&self) -> u64 {
        System.random()
    }
}

fn user(password: Option<&str>, admin: bool) -> User {
    User::new(password.map(|p| hash_password(p).unwrap()), admin).unwrap()
}

fn database(id: u32, name: &str) -> Database {
    Database {
        id: DatabaseId(id),
        name: name.into(),
        precision: Precision::Milli,
        keep_ms: Database::DEFAULT_KEEP_MS,
        partition_ms: Database::DEFAULT_PARTITION_MS,
    }
}

struct Place {
    root: Root,
    clock: Arc<Later>,
    authenticator: Authenticator,
}

impl Place {
    /// A root with the administrator `ada`, and `bob`, who may read database 0.
    async fn new() -> Self {
        let clock = Arc::new(Later::default());
        let root = Root::open(Store::in_memory().with_ambient(clock.clone())).await.unwrap();
        let authenticator = Authenticator::new(root.clone()).unwrap();
        let place = Self { root, clock, authenticator };
        place
            .change(|users| {
                users.add("ada", user(Some(PASSWORD), true))?;
                let mut bob = user(Some("battery staple"), false);
                bob.grant(Scope::Database(DatabaseId(0)), Privileges { read: true, write: false });
                users.add("bob", bob)
            })
            .await;
        place
    }

    /// Changes users, as another node would.
    async fn change(&self, mut change: impl FnMut(&mut Users) -> Result<()> + Send) {
        self.root.commit(&[], |draft| change(draft.users_mut())).await.unwrap();
    }

    async fn log_in(&self, name: &str, password: &str) -> Result<LoggedIn> {
        let credentials = Credentials::Password { user: name.into(), password: password.into() };
        self.authenticator.log_in(&credentials, HERE).await
    }

    async fn by_token(&self, token: &str) -> Result<Principal> {
        self.authenticator.authenticate(&Credentials::Token(token.into()), HERE).await
    }

    async fn add_token(&self, of: &str, name: &str, expires_ms: Option<i64>, grants: Option<Grants>) -> Secret {
        let (id, text, digest) = new_token().unwrap();
        let token = ApiToken { name: name.into(), digest, created_ms: 0, expires_ms, grants };
        self.change(|users| users.get_mut(of).map(|user| drop(user.tokens.insert(id.clone(), token.clone())))).await;
        text
    }
}

fn refused<T: std::fmt::Debug>(result: Result<T>) -> String {
    let error = result.unwrap_err();
    assert_eq!(error.kind(), Kind::Unauthenticated, "{error}");
    error.to_string()
}

#[tokio::test]
async fn passwords_and_session_tokens_authenticate_until_the_password_changes() {
    let place = Place::new().await;
    let ada = place.log_in("ada", PASSWORD).await.unwrap();
    assert!(ada.principal.is_admin() && ada.principal.user() == Some("ada"));
    assert_eq!(place.by_token(&ada.token).await.unwrap(), ada.principal);
    // As sent by clients that support passwords only.
    assert_eq!(place.log_in("anybody", &ada.token).await.unwrap().principal, ada.principal);
    let bob = place.log_in("bob", "battery staple").await.unwrap();
    assert!(!bob.principal.is_admin());
    let user = |token: &str| token.split('.').nth(1).unwrap().to_owned();
    let forged = bob.token.replace(&user(&bob.token), &user(&ada.token));
    assert_ne!(forged, bob.token);
    for wrong in [&forged, "tls_", "tls_a.b.c.d", "tl_0123456789abcdef_x", "", "Bearer"] {
        refused(place.by_token(wrong).await);
    }
    for (name, password) in [("ada", "battery staple"), ("ada", ""), ("eve", PASSWORD), ("", ""), ("Ada", PASSWORD)] {
        refused(place.log_in(name, password).await);
    }
    refused(place.authenticator.authenticate(&Credentials::None, HERE).await);
    place.change(|users| users.get_mut("ada").map(|ada| ada.set_password(hash_password("another one").unwrap()))).await;
    refused(place.by_token(&ada.token).await);
    refused(place.log_in("ada", PASSWORD).await);
    let again = place.log_in("ada", "another one").await.unwrap();
    place.clock.0.store(LoggedIn::SECONDS as i64 + 1, Ordering::SeqCst);
    refused(place.by_token(&again.token).await);
}

#[tokio::test]
async fn a_token_has_at_most_the_current_rights_of_its_user_until_it_expires() {
    let place = Place::new().await;
    let (zero, one) = (database(0, "zero"), database(1, "one"));
    let whole = place.add_token("bob", "whole", None, None).await;
    let wide = Grants::from([(Scope::Everywhere, Privileges::ALL)]);
    let wide = place.add_token("bob", "wide", None, Some(wide)).await;
    let other = Grants::from([(Scope::Database(one.id), Privileges::ALL)]);
    let other = place.add_token("ada", "other", None, Some(other)).await;
    for token in [&whole, &wide] {
        let found = place.by_token(token.expose()).await.unwrap();
        let may = [(Privilege::Read, &zero), (Privilege::Write, &zero), (Privilege::Read, &one)]
            .map(|(p, d)| found.may(p, d));
        assert_eq!(may, [true, false, false]);
    }
    let found = place.by_token(other.expose()).await.unwrap();
    assert!(!found.is_admin() && found.may(Privilege::Write, &one) && !found.may(Privilege::Read, &zero));
    assert_eq!(found.check_create("new").unwrap_err().kind(), Kind::Forbidden);
    // A login with an API token returns the same token.
    assert_eq!(place.log_in("x", other.expose()).await.unwrap().token, other.expose());

    let brief = place.add_token("ada", "brief", Some(System.wall_ms() + 60_000), None).await;
    assert!(place.by_token(brief.expose()).await.unwrap().is_admin());
    place.clock.0.store(61, Ordering::SeqCst);
    assert_eq!(refused(place.by_token(brief.expose()).await), "this token has expired");
    place.change(|users| users.get_mut("bob").map(|bob| bob.disabled = true)).await;
    refused(place.by_token(whole.expose()).await);
    refused(place.log_in("bob", "battery staple").await);
    place.change(|users| users.get_mut("ada").map(|ada| ada.tokens.clear())).await;
    refused(place.by_token(other.expose()).await);
}

#[tokio::test]
async fn changes_by_another_node_apply_after_the_probe_age() {
    let store = Store::in_memory();
    let (here, there) = (Root::open(store.clone()).await.unwrap(), Root::open(store).await.unwrap());
    there.commit(&[], |draft| draft.users_mut().add("ada", user(Some(PASSWORD), true))).await.unwrap();
    let authenticator = Authenticator::new(here).unwrap();
    tokio::time::sleep(crate::meta::PROBE_AGE).await;
    let credentials = Credentials::Password { user: "ada".into(), password: PASSWORD.into() };
    assert!(authenticator.authenticate(&credentials, None).await.is_ok());
    there.commit(&[], |draft| draft.users_mut().add("eve", user(None, true))).await.unwrap();
    there.commit(&[], |draft| draft.users_mut().remove("ada")).await.unwrap();
    tokio::time::sleep(crate::meta::PROBE_AGE).await;
    refused(authenticator.authenticate(&credentials, None).await);
}

#[tokio::test]
async fn after_many_wrong_passwords_a_right_one_waits_for_its_turn_but_not_from_another_address() {
    let place = Place::new().await;
    assert!(place.log_in("ada", PASSWORD).await.is_ok());
    let known = std::time::Instant::now();
    for name in ["bob", "ada"] {
        for _ in 0..10 {
            refused(place.log_in(name, "wrong again").await);
        }
    }
    for _ in 0..1_000 {
        refused(place.by_token("wrong").await);
    }
    assert!(place.log_in("ada", PASSWORD).await.is_ok(), "a recently valid password is still accepted");
    let elsewhere = Some(IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1)));
    let bob = Credentials::Password { user: "bob".into(), password: "battery staple".into() };
    for _ in 0..2 {
        refused(place.log_in("bob", "wrong again").await);
    }
    assert!(place.log_in("bob", "battery staple").await.is_ok(), "nobody is locked out");
    assert!(known.elapsed() >= Duration::from_secs(2), "but tries take turns");
    assert!(place.authenticator.authenticate(&bob, elsewhere).await.is_ok());
}

#[tokio::test]
async fn many_concurrent_requests_with_the_right_password_are_all_admitted() {
    let place = Place::new().await;
    let all = futures::future::join_all((0..40).map(|_| place.log_in("bob", "battery staple"))).await;
    assert!(all.iter().all(Result::is_ok), "{all:?}");
    let again = place.log_in("bob", "battery staples").await;
    assert_eq!(refused(again), "wrong user, password or token", "nothing was counted");
}

#[test]
fn tries_take_turns_after_many_failures_and_those_are_forgiven_one_by_one() {
    let (failures, start) = (Failures::default(), Instant::now());
    let seconds = Duration::from_secs;
    let now = Turn::In(Duration::ZERO);
    for _ in 0..10 {
        assert_eq!(failures.begin(HERE, "bob", start), now);
    }
    for turn in 1..=4 {
        assert_eq!(failures.begin(HERE, "bob", start), Turn::In(seconds(turn)));
    }
    for _ in 0..100 {
        assert_eq!(failures.begin(HERE, "bob", start), Turn::Never(seconds(5)), "and does not take a turn");
    }
    assert_eq!(failures.begin(HERE, "ada", start), now);
    failures.forgive(HERE, "ada");
    let elsewhere = Some(IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1)));
    assert_eq!(failures.begin(elsewhere, "bob", start), now);
    assert_eq!(failures.begin(HERE, "bob", start + seconds(4)), Turn::In(seconds(1)));
    assert_eq!(failures.begin(HERE, "bob", start + seconds(12)), now, "two are forgiven");
    let later = start + seconds(1_000);
    for _ in 0..10 {
        assert_eq!(failures.begin(HERE, "bob", later), now, "all are forgiven");
    }
    let network = |last: u16| Some(IpAddr::V6([0x2001, 0xdb8, 0, 0, 0, 0, 0, last].into()));
    let tries = (0..20).filter(|n| failures.begin(network(*n), "carol", start) == now);
    assert_eq!(tries.count(), 10, "one network");
}

#[test]
fn an_address_that_tries_many_users_and_a_user_whom_many_addresses_try_are_slowed_down() {
    let (failures, start) = (Failures::default(), Instant::now());
    for n in 0..100 {
        assert_eq!(failures.begin(HERE, &n.to_string(), start), Turn::In(Duration::ZERO));
    }
    assert_eq!(failures.begin(HERE, "ada", start), Turn::In(Duration::from_millis(100)));
    assert_eq!(failures.begin(HERE, "eve", start), Turn::In(Duration::from_millis(200)));
    let address = |n: u32| Some(IpAddr::V4(Ipv4Addr::from_bits(n)));
    for n in 0..100 {
        assert_eq!(failures.begin(address(n), "bob", start), Turn::In(Duration::ZERO));
    }
    // Always a delay, and never a refusal.
    for n in 1_000..3_000 {
        assert_eq!(failures.begin(address(n), "bob", start), Turn::In(Duration::from_secs(1)));
    }
}

#[test]
fn a_right_password_gets_its_turn_within_seconds_beside_three_that_guess_without_a_pause() {
    let (failures, start) = (Failures::default(), Instant::now());
    let mut free = [Duration::ZERO; 3];
    let mut looked_at = 0_u64;
    for ms in (0..600_000).step_by(10) {
        let at = Duration::from_millis(ms);
        for free in free.iter_mut().filter(|free| **free <= at) {
            let turn = failures.begin(HERE, "admin", start + at);
            let Turn::In(wait) = turn else { panic!("{turn:?}") };
            looked_at += 1;
            *free = at + wait.max(Duration::from_millis(10));
        }
        if ms % 60_000 == 30_000 {
            assert!(matches!(failures.begin(HERE, "admin", start + at), Turn::In(wait) if wait <= LONGEST), "{at:?}");
        }
    }
    assert!((500..=800).contains(&looked_at), "about one a second: {looked_at}");
}

#[test]
fn refused_tries_that_do_not_wait_bring_no_turn_forward() {
    let (failures, start) = (Failures::default(), Instant::now());
    assert_eq!((0..20).filter(|_| failures.begin_at_once(None, "eve", start).is_ok()).count(), 10);
    // Ten at once, then about one a second, however many tries are refused between.
    let verified =
        (0..60_000).filter(|ms| failures.begin_at_once(None, "ada", start + Duration::from_millis(*ms)).is_ok());
    let count = verified.count();
    assert!((60..=80).contains(&count), "{count}");
}

#[test]
fn credentials_of_all_supported_clients_are_read() {
    let of = |authorization: Option<&str>, uri: &str| {
        let mut headers = HeaderMap::new();
        if let Some(value) = authorization {
            headers.insert("authorization", value.parse().unwrap());
        }
        Credentials::of(&headers, &uri.parse().unwrap())
    };
    let ada = Credentials::Password { user: "ada".into(), password: "a:b c".into() };
    let basic = format!("Basic {}", STANDARD.encode("ada:a:b c"));
    for found in [
        of(Some(&basic), "/write?u=x&p=y"),
        of(Some("Token ada:a:b c"), "/"),
        of(None, "/write?db=d&u=ada&p=a%3Ab+c"),
        of(None, "/rest/login/ada/a%3Ab%20c"),
    ] {
        assert_eq!(found, ada);
    }
    assert_eq!(
        of(None, "/rest/login/ada/a+b%26c%3Dd"),
        Credentials::Password { user: "ada".into(), password: "a+b&c=d".into() }
    );
    for found in
        [of(Some("Bearer T"), "/"), of(Some("token  T"), "/"), of(Some("Taosd T"), "/"), of(None, "/rest/sql?token=T")]
    {
        assert_eq!(found, Credentials::Token("T".into()));
    }
    for nothing in [Some("Bearer None"), Some("Bearer"), Some("Digest x"), Some("Basic ###"), None] {
        assert_eq!(of(nothing, "/write?db=p"), Credentials::None, "{nothing:?}");
    }
    assert!(!format!("{ada:?}").contains("a:b c"));
    let padded = format!("Basic {}", STANDARD.encode("eve:pass"));
    assert!(padded.ends_with('='));
    assert_eq!(of(Some(&padded), "/"), of(Some(padded.trim_end_matches('=')), "/"));
    assert_ne!(of(Some(&padded), "/"), Credentials::None);
}

#[test]
fn stored_users_and_debug_output_contain_no_secret() {
    let mut users = Users::default();
    users.add("ada", user(Some(PASSWORD), true)).unwrap();
    let (id, text, digest) = new_token().unwrap();
    let token = ApiToken { name: "t".into(), digest, created_ms: 0, expires_ms: None, grants: None };
    users.get_mut("ada").unwrap().tokens.insert(id.clone(), token);
    let kept = serde_json::to_string(&users).unwrap();
    assert!(!kept.contains(PASSWORD) && !kept.contains(text.expose()));
    let secret = text.expose().rsplit_once('_').unwrap().1;
    let hash = users.get("ada").unwrap().password.clone().unwrap();
    let shown = format!("{users:?} {text:?}");
    assert!(!shown.contains(&hash) && !shown.contains(secret) && !kept.contains(secret), "{shown}");
    assert_eq!(serde_json::from_str::<Users>(&kept).unwrap(), users);
    assert!(is_password(PASSWORD, Some(&hash)) && !is_password(PASSWORD, None) && !is_password("", Some(&hash)));
    for short in ["", "1234567", &"x".repeat(MAX_PASSWORD + 1)] {
        assert_eq!(hash_password(short).unwrap_err().kind(), Kind::Invalid);
    }
}

#[test]
fn the_last_administrator_cannot_be_removed_and_names_are_validated() {
    let mut users = Users::default();
    users.add("ada", user(None, true)).unwrap();
    users.add("bob", user(None, false)).unwrap();
    assert_eq!(users.clone().remove("ada").unwrap_err().kind(), Kind::Invalid);
    assert_eq!(users.add("bob", user(None, true)).unwrap_err().kind(), Kind::Invalid);
    users.get_mut("ada").unwrap().disabled = true;
    assert!(users.check().is_err());
    for wrong in ["", "a b", "a:b", "a/b", "x\n", &"x".repeat(65)] {
        assert_eq!(users.add(wrong, user(None, false)).unwrap_err().kind(), Kind::Invalid, "{wrong:?}");
    }
}

#[test]
fn narrowing_gives_what_both_allow() {
    let grants = |of: &[(Option<u32>, bool, bool)]| -> Grants {
        let scope = |id: Option<u32>| id.map_or(Scope::Everywhere, |id| Scope::Database(DatabaseId(id)));
        of.iter().map(|(id, read, write)| (scope(*id), Privileges { read: *read, write: *write })).collect()
    };
    let all: Vec<_> = [None, Some(0), Some(1)]
        .into_iter()
        .flat_map(|id| [(false, false), (true, false), (false, true), (true, true)].map(|(r, w)| (id, r, w)))
        .collect();
    let pairs: Vec<Grants> =
        all.iter().flat_map(|a| all.iter().map(move |b| [*a, *b])).map(|pair| grants(&pair)).collect();
    for own in &pairs {
        for by in &pairs {
            let both = Rights::Granted(own.clone()).narrowed(by);
            for database in [0, 1, 2].map(|id| database(id, "any")) {
                for privilege in [Privilege::Read, Privilege::Write] {
                    let may = |grants: &Grants| Rights::Granted(grants.clone()).may(privilege, &database);
                    assert_eq!(both.may(privilege, &database), may(own) && may(by), "{own:?} {by:?}");
                }
            }
        }
    }
    assert_eq!(Rights::Admin.narrowed(&pairs[7]), Rights::Granted(pairs[7].clone()));
}

#[test]
fn rights_by_name_hold_for_databases_of_those_names_alone_and_make_no_administrator() {
    let read = Privileges { read: true, write: false };
    let service = Principal::service("service:queue", Named::write(["home"]).with(read, ["weather"]));
    let may = |name: &str| {
        let database = database(7, name);
        (service.may(Privilege::Read, &database), service.may(Privilege::Write, &database))
    };
    let found = ["home", "weather", "Home", "other", "*"].map(may);
    assert_eq!(found, [(false, true), (true, false), (false, false), (false, false), (false, false)]);
    assert!(service.check_create("home").is_ok());
    for name in ["weather", "Home", "other", "*", ""] {
        assert_eq!(service.check_create(name).unwrap_err().kind(), Kind::Forbidden, "{name}");
    }
    assert_eq!(service.check_admin("do this").unwrap_err().kind(), Kind::Forbidden);
    assert!(!service.is_admin() && !service.is_whole() && service.user().is_none());
    let everywhere = Principal::service("service:queue", Named::write(["*"]));
    let other = database(7, "other");
    assert!(everywhere.may(Privilege::Write, &other) && !everywhere.may(Privilege::Read, &other));
    assert!(everywhere.check_create("new").is_ok() && everywhere.check_admin("do this").is_err());
}
