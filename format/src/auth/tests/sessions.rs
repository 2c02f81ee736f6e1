//! Sessions: who can create one, where it is accepted and what ends it.

use std::{collections::BTreeSet, io::Read as _};

use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::{
    hmac,
    signature::{Ed25519KeyPair, KeyPair as _},
};
use serde_json::{Value, json};

use super::*;
use crate::access::sessions::{SessionKeys, Signer};

const HOUR_MS: i64 = 3_600_000;

/// Builds tokens from the bytes of a root, without the code that creates and checks tokens.
#[derive(Default)]
struct Forger {
    /// Candidate secrets: every text of every section, as it is and decoded.
    secrets: BTreeSet<Vec<u8>>,
    /// The same as text: candidate IDs, hashes and tokens.
    texts: BTreeSet<String>,
    generations: BTreeSet<u64>,
}

impl Forger {
    /// Reads every object under `meta/`.
    async fn of(store: &Store) -> Self {
        let mut forger = Self::default();
        for object in store.list("meta/").await.unwrap() {
            let bytes = store.get(object.location.as_ref()).await.unwrap();
            for at in 0..bytes.len().saturating_sub(4) {
                if bytes[at..at + 4] != [0x28, 0xb5, 0x2f, 0xfd] {
                    continue;
                }
                let mut content = Vec::new();
                let frame = zstd::stream::Decoder::new(&bytes[at..]).unwrap().single_frame();
                if frame.take(1 << 20).read_to_end(&mut content).is_ok()
                    && let Ok(value) = serde_json::from_slice::<Value>(&content)
                {
                    forger.learn(&value);
                }
            }
        }
        forger
    }

    fn learn(&mut self, value: &Value) {
        match value {
            Value::String(text) => self.text(text),
            Value::Array(values) => values.iter().for_each(|value| self.learn(value)),
            Value::Object(members) => members.iter().for_each(|(name, value)| {
                self.text(name);
                self.generations.extend(value.as_u64().filter(|_| name == "generation"));
                self.learn(value);
            }),
            _ => {}
        }
    }

    fn text(&mut self, text: &str) {
        let parts = text.split('$').filter(|part| !part.is_empty());
        for part in parts.chain([text]) {
            self.texts.insert(part.to_owned());
            self.secrets.insert(part.as_bytes().to_vec());
            self.secrets.extend(URL_SAFE_NO_PAD.decode(part).ok());
            self.secrets.extend(STANDARD.decode(part).ok());
        }
    }

    /// A session token of the current format, signed by `sign`.
    fn session(key: &str, user: &str, generation: u64, until_ms: i64, sign: impl Fn(&[u8]) -> Vec<u8>) -> String {
        let told = format!("tls_{key}.{}.{generation}.{until_ms}", URL_SAFE_NO_PAD.encode(user));
        format!("{told}.{}", URL_SAFE_NO_PAD.encode(sign(told.as_bytes())))
    }

    /// All candidate tokens for a user.
    fn tokens(&self, user: &str, now_ms: i64) -> Vec<String> {
        let mut tokens = Vec::new();
        let ids: Vec<_> = self.texts.iter().filter(|text| text.len() == 16).collect();
        let untils = [now_ms + HOUR_MS, now_ms + 31 * 365 * 24 * HOUR_MS];
        for text in &self.texts {
            tokens.extend([text.clone(), format!("tls_{text}")]);
            tokens.extend(ids.iter().map(|id| format!("tl_{id}_{text}")));
        }
        for secret in &self.secrets {
            let key = hmac::Key::new(hmac::HMAC_SHA256, secret);
            let by_hmac = |told: &[u8]| hmac::sign(&key, told).as_ref().to_vec();
            let pair = Ed25519KeyPair::from_seed_unchecked(secret).ok();
            for generation in self.generations.iter().copied().chain([0]) {
                for until_ms in untils {
                    // The format of earlier versions, signed with the key that the section held.
                    let told = format!("{}.{generation}.{until_ms}", URL_SAFE_NO_PAD.encode(user));
                    tokens.push(format!("tls_{told}.{}", URL_SAFE_NO_PAD.encode(by_hmac(told.as_bytes()))));
                    for id in ids.iter().filter(|_| until_ms == untils[0]) {
                        tokens.push(Self::session(id, user, generation, until_ms, by_hmac));
                        if let Some(pair) = &pair {
                            let by_pair = |told: &[u8]| pair.sign(told).as_ref().to_vec();
                            tokens.push(Self::session(id, user, generation, until_ms, by_pair));
                        }
                    }
                }
            }
        }
        tokens
    }
}

#[tokio::test]
async fn nobody_makes_a_session_from_what_the_root_holds() {
    let place = Place::new().await;
    let text = place.add_token("ada", "of a program", None, None).await;
    let session = place.log_in("ada", PASSWORD).await.unwrap().token;
    let forger = Forger::of(place.root.store()).await;
    let kept = |text: &str| forger.texts.iter().any(|found| found.contains(text));
    assert!(kept("$argon2id$") && forger.texts.len() > 15, "it reads the section: {:?}", forger.texts);
    assert!(!kept(&session) && !kept(text.expose()));
    let tokens = forger.tokens("ada", place.clock.wall_ms());
    assert!(tokens.len() > 500 && forger.generations.len() > 1, "{}", tokens.len());
    for token in &tokens {
        refused(place.by_token(token).await);
    }
    for text in &forger.texts {
        if text.contains("argon2id") {
            refused(place.log_in("ada", text).await);
        }
    }
    assert!(place.by_token(&session).await.is_ok());
}

/// The section of users with other session keys.
fn with_keys(users: &Users, keys: Value) -> Users {
    let mut section = serde_json::to_value(users).unwrap();
    section["sessions"] = keys;
    serde_json::from_value(section).unwrap()
}

#[tokio::test]
async fn a_session_ends_at_its_end_and_one_that_ends_later_than_a_session_may_is_none() {
    let place = Place::new().await;
    let pair = Ed25519KeyPair::from_seed_unchecked(&[7; 32]).unwrap();
    let now_ms = place.clock.wall_ms();
    let public = URL_SAFE_NO_PAD.encode(pair.public_key());
    let keys = json!({ "0123456789abcdef": { "public": public, "until_ms": now_ms + 24 * HOUR_MS } });
    place.change(|users| Ok(*users = with_keys(users, keys.clone()))).await;
    let generation = place.root.catalog().users().get("ada").unwrap().generation;
    let sign = |told: &[u8]| pair.sign(told).as_ref().to_vec();
    let until = |ms: i64| Forger::session("0123456789abcdef", "ada", generation, now_ms + ms, sign);
    assert!(
        place.by_token(&until(11 * HOUR_MS)).await.unwrap().is_admin(),
        "a private key is enough to create sessions"
    );
    for ms in [-1, 13 * HOUR_MS, 23 * HOUR_MS, 25 * HOUR_MS, 31 * 365 * 24 * HOUR_MS, i64::MAX - now_ms] {
        refused(place.by_token(&until(ms)).await);
    }
    refused(place.by_token(&Forger::session("0123456789abcdef", "ada", generation + 1, now_ms + HOUR_MS, sign)).await);
    refused(place.by_token(&Forger::session("0123456789abcdee", "ada", generation, now_ms + HOUR_MS, sign)).await);
    // Sessions must not outlive their key.
    place.clock.0.store(20 * 3_600, Ordering::SeqCst);
    assert!(place.by_token(&until(23 * HOUR_MS)).await.is_ok());
    refused(place.by_token(&until(25 * HOUR_MS)).await);
}

#[tokio::test]
async fn the_key_of_an_old_root_signs_nothing_and_is_removed_by_the_next_change_of_users() {
    let place = Place::new().await;
    let ada = serde_json::to_value(place.root.catalog().users().get("ada").unwrap()).unwrap();
    let generation = ada["generation"].as_u64().unwrap();
    // The section as earlier versions wrote it.
    let old = json!({ "key": URL_SAFE_NO_PAD.encode([9; 32]), "users": { "ada": ada } }).to_string();
    let users: Users = serde_json::from_str(&old).unwrap();
    place.change(|found| Ok(*found = users.clone())).await;
    let until_ms = place.clock.wall_ms() + HOUR_MS;
    let told = format!("{}.{generation}.{until_ms}", URL_SAFE_NO_PAD.encode("ada"));
    let key = hmac::Key::new(hmac::HMAC_SHA256, URL_SAFE_NO_PAD.encode([9; 32]).as_bytes());
    let signature = URL_SAFE_NO_PAD.encode(hmac::sign(&key, told.as_bytes()));
    refused(place.by_token(&format!("tls_{told}.{signature}")).await);
    assert!(place.log_in("ada", PASSWORD).await.is_ok(), "passwords of old roots are valid");
    let forger = Forger::of(place.root.store()).await;
    assert!(!forger.texts.contains(&URL_SAFE_NO_PAD.encode([9; 32])));
    // Earlier versions cannot read a section without this member, and with an empty key accept no session.
    assert_eq!(serde_json::to_value(place.root.catalog().users().as_ref()).unwrap()["key"], "");
}

#[tokio::test]
async fn a_session_is_good_at_once_on_every_node_and_after_a_restart_and_a_login_costs_no_commit() {
    let place = Place::new().await;
    let there = Authenticator::new(Root::open(place.root.store().clone()).await.unwrap()).unwrap();
    let reader = Authenticator::read_only(Root::open(place.root.store().clone()).await.unwrap()).unwrap();
    for other in [&there, &reader] {
        let bob = Credentials::Password { user: "bob".into(), password: "battery staple".into() };
        assert!(other.authenticate(&bob, HERE).await.is_ok(), "its catalog does not have the key yet");
    }
    let before = place.root.catalog().version;
    let mut sessions = BTreeSet::new();
    for _ in 0..20 {
        sessions.insert(place.log_in("ada", PASSWORD).await.unwrap().token);
        sessions.insert(place.log_in("bob", "battery staple").await.unwrap().token);
    }
    assert_eq!(place.root.catalog().version, before.next(), "one commit for all of them");
    for session in &sessions {
        let credentials = Credentials::Token(session.clone());
        for other in [&there, &reader] {
            assert!(other.authenticate(&credentials, HERE).await.is_ok());
        }
    }
    let again = Authenticator::new(Root::open(place.root.store().clone()).await.unwrap()).unwrap();
    for session in &sessions {
        assert!(again.authenticate(&Credentials::Token(session.clone()), HERE).await.is_ok());
    }
    let bob = Credentials::Password { user: "bob".into(), password: "battery staple".into() };
    assert_eq!(reader.log_in(&bob, HERE).await.unwrap_err().kind(), Kind::Forbidden, "it cannot write to the root");
    let there = there.log_in(&bob, HERE).await.unwrap();
    assert!(place.by_token(&there.token).await.is_ok());
    // A key signs for twelve hours; then a new one is committed.
    let before = place.root.catalog().version;
    place.clock.0.store(12 * 3_600, Ordering::SeqCst);
    let late = place.log_in("bob", "battery staple").await.unwrap();
    assert!(place.by_token(&late.token).await.is_ok());
    refused(place.by_token(&there.token).await);
    assert_eq!(place.root.catalog().version, before.next());
}

#[tokio::test]
async fn ended_sessions_stay_invalid_and_new_ones_are_valid() {
    let place = Place::new().await;
    let ada = place.log_in("ada", PASSWORD).await.unwrap().token;
    let bob = place.log_in("bob", "battery staple").await.unwrap().token;
    place.change(|users| users.end_sessions(Some("bob"))).await;
    refused(place.by_token(&bob).await);
    assert!(place.by_token(&ada).await.is_ok());
    let bob = place.log_in("bob", "battery staple").await.unwrap().token;
    place.change(|users| users.end_sessions(None)).await;
    for _ in 0..2 {
        refused(place.by_token(&ada).await);
        refused(place.by_token(&bob).await);
        // A later login does not make the old sessions valid again.
        let ada = place.log_in("ada", PASSWORD).await.unwrap().token;
        assert!(place.by_token(&ada).await.is_ok());
    }
    let unknown = |users: &mut Users| {
        assert_eq!(users.end_sessions(Some("eve")).unwrap_err().kind(), Kind::NotFound);
        Ok(())
    };
    place.change(unknown).await;
}

#[test]
fn the_number_of_session_keys_is_bounded_and_ended_ones_are_removed() {
    let mut keys = SessionKeys::default();
    let signers: Vec<_> = (0..1_100).map(|n| Signer::new(n).unwrap()).collect();
    for signer in &signers {
        keys.publish(signer, 1_100);
    }
    let kept: Vec<_> = signers.iter().map(|signer| keys.has(signer.id())).collect();
    assert_eq!(kept.iter().filter(|kept| **kept).count(), 1_024);
    assert!(kept[76..].iter().all(|kept| *kept), "keys that end first are removed");
    let last = Signer::new(25 * HOUR_MS).unwrap();
    keys.publish(&last, 25 * HOUR_MS);
    assert!(keys.has(last.id()) && !signers.iter().any(|signer| keys.has(signer.id())));
}
