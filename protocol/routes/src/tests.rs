#![allow(clippy::unwrap_used)]

use axum::{body::to_bytes, routing::get};
use tidelake_format::{
    access::{Rights, User, hash_password},
    auth::Authenticator,
    meta::Root,
    store::Store,
};
use tidelake_protocol::http::Document;
use tower::ServiceExt as _;

use super::*;

async fn whoami(Caller(principal): Caller) -> String {
    principal.to_string()
}

/// A test route.
const fn route(method: Method, path: &'static str, right: Right, body: BodyOf) -> Route {
    Route { method, path, right, api: Api::Tidelake, body, parameters: &[], ignored: &[], document: None }
}

static OPEN: Route = route(Method::GET, "/open", Right::Open, BodyOf::None);
static LOGIN: Route = route(Method::GET, "/login", Right::Login, BodyOf::None);
static USER: Route = route(Method::GET, "/user", Right::AnyUser, BodyOf::None);
static USER_POST: Route = route(Method::POST, "/user", Right::AnyUser, BodyOf::Short(4, "Name"));
static ADMIN: Route = route(Method::POST, "/admin", Right::Administrator, BodyOf::None);

fn routes() -> Routes {
    Routes::new()
        .on(&OPEN, || async { "open" })
        .on(&LOGIN, whoami)
        .on(&USER, whoami)
        .on(&USER_POST, |caller: Caller, _: String| whoami(caller))
        .on(&ADMIN, whoami)
}

async fn send(router: &Router, method: Method, path: &str, prepare: impl FnOnce(&mut Request)) -> (u16, String) {
    let mut request = Request::builder().method(method).uri(path).body(Body::empty()).unwrap();
    prepare(&mut request);
    let response = router.clone().oneshot(request).await.unwrap();
    let status = response.status().as_u16();
    let body = to_bytes(response.into_body(), 1 << 20).await.unwrap();
    (status, String::from_utf8(body.to_vec()).unwrap())
}

#[tokio::test]
async fn a_handler_without_a_gate_refuses_the_request() {
    let router: Router = Router::new().route("/user", get(whoami));
    let (status, body) = send(&router, Method::GET, "/user", |_| ()).await;
    assert_eq!(status, 500);
    assert!(body.contains("no authentication layer ran"), "{body}");
}

#[tokio::test]
async fn where_another_layer_decides_a_request_that_it_left_out_is_refused() {
    let router = routes().behind(&Gate::Decided);
    for (method, path) in
        [(Method::GET, "/user"), (Method::GET, "/login"), (Method::POST, "/admin"), (Method::GET, "/x")]
    {
        let (status, body) = send(&router, method, path, |_| ()).await;
        assert_eq!(status, 500, "{path}");
        assert!(body.contains("no authentication layer ran"), "{path}: {body}");
    }
    assert_eq!(send(&router, Method::GET, "/open", |_| ()).await.0, 200);
    let ada = Principal::new("ada", Rights::Granted(Default::default()));
    let sent = |request: &mut Request| drop(request.extensions_mut().insert(ada.clone()));
    assert_eq!(send(&router, Method::GET, "/user", sent).await, (200, "ada".to_owned()));
    assert_eq!(send(&router, Method::POST, "/admin", sent).await.0, 403);
    assert_eq!(send(&router, Method::GET, "/x", sent).await.0, 404);
}

#[tokio::test]
async fn with_authentication_off_a_request_says_so() {
    let router = routes().behind(&Gate::Off);
    for (method, path) in [(Method::GET, "/user"), (Method::GET, "/login"), (Method::POST, "/admin")] {
        assert_eq!(send(&router, method, path, |_| ()).await, (200, "auth off".to_owned()), "{path}");
    }
    let (status, body) = send(&router, Method::DELETE, "/user", |_| ()).await;
    assert_eq!(status, 405);
    assert!(body.contains("found: DELETE"), "{body}");
    let put = |length: usize| move |request: &mut Request| *request.body_mut() = Body::from("x".repeat(length));
    assert_eq!(send(&router, Method::POST, "/user", put(4)).await.0, 200);
    assert_eq!(send(&router, Method::POST, "/user", put(5)).await.0, 413, "the limit of the route");
    assert_eq!(send(&router, Method::GET, "/x", |_| ()).await.0, 404);
}

#[tokio::test]
async fn a_route_without_query_parameters_refuses_them() {
    static DESCRIBED: Route = Route {
        method: Method::GET,
        path: "/described",
        right: Right::Open,
        api: Api::Tidelake,
        body: BodyOf::None,
        parameters: &[],
        ignored: &[],
        document: Some(Document { operation: "d", tag: "d", summary: "d", description: "", answers: &[] }),
    };
    let router = Routes::new().on(&DESCRIBED, || async { "described" }).behind(&Gate::Off);
    for path in ["/described", "/described?", "/described?token=x&u=ada&p=y"] {
        assert_eq!(send(&router, Method::GET, path, |_| ()).await, (200, "described".to_owned()), "{path}");
    }
    let (status, body) = send(&router, Method::GET, "/described?un%74il=now", |_| ()).await;
    assert!(status == 400 && body.contains("until"), "{status} {body}");
}

#[tokio::test]
async fn each_route_is_for_those_whom_its_right_names_whatever_the_method() {
    let root = Root::open(Store::in_memory()).await.unwrap();
    let hash = hash_password("correct horse").unwrap();
    let add = |draft: &mut tidelake_format::meta::Draft| {
        draft.users_mut().add("ada", User::new(Some(hash.clone()), true)?)?;
        draft.users_mut().add("bob", User::new(Some(hash.clone()), false)?)
    };
    root.commit(&[], add).await.unwrap();
    let router = routes().behind(&Gate::Users(Authenticator::new(root).unwrap()));
    // Basic ada:correct horse, bob:correct horse
    let [ada, bob] = ["YWRhOmNvcnJlY3QgaG9yc2U=", "Ym9iOmNvcnJlY3QgaG9yc2U="].map(|text| format!("Basic {text}"));
    let (nobody, bob, ada) = (None, Some(bob.as_str()), Some(ada.as_str()));
    for (method, path, expected) in [
        (Method::GET, "/open", [200, 200, 200]),
        (Method::GET, "/login", [401, 200, 200]),
        (Method::GET, "/user", [401, 200, 200]),
        (Method::POST, "/user", [401, 200, 200]),
        (Method::PUT, "/user", [401, 405, 405]),
        (Method::POST, "/admin", [401, 403, 200]),
        (Method::GET, "/admin", [401, 403, 405]),
        (Method::GET, "/x", [401, 404, 404]),
    ] {
        for (credentials, expected) in [nobody, bob, ada].into_iter().zip(expected) {
            let sent = |request: &mut Request| {
                if let Some(value) = credentials {
                    request.headers_mut().insert(header::AUTHORIZATION, value.parse().unwrap());
                }
            };
            let found = send(&router, method.clone(), path, sent).await.0;
            assert_eq!(found, expected, "{method} {path} {credentials:?}");
        }
    }
}
