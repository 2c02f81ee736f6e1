use axum::{
    body::to_bytes,
    extract::RawQuery,
    http::{Method, StatusCode},
};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use lambda_http::RequestExt as _;
use serde_json::json;
use tidelake_format::{
    access::{Right, User, hash_password},
    auth::Authenticator,
    meta::{Draft, Root},
    store::Store,
};
use tidelake_protocol::http::{Api, Body as BodyOf, routes};

use super::*;
use crate::testing::context;

/// Route of the path `/`.
static ROOT: Route = Route {
    method: Method::POST,
    path: "/",
    right: Right::AnyUser,
    api: Api::Tidelake,
    body: BodyOf::None,
    parameters: &[],
    ignored: &[],
    document: None,
};

/// An event of a function URL.
fn url_event(stage: &str, path: &str, query: &str, body: &str) -> lambda_http::Request {
    let event = json!({
        "version": "2.0", "routeKey": "$default", "rawPath": path, "rawQueryString": query,
        "headers": {"content-type": "text/plain", "host": "x.lambda-url.eu-west-1.on.aws", "x-one": "1"},
        "requestContext": {
            "accountId": "1", "apiId": "x", "domainName": "x.lambda-url.eu-west-1.on.aws", "domainPrefix": "x",
            "http": {"method": "POST", "path": path, "protocol": "HTTP/1.1", "sourceIp": "1.2.3.4", "userAgent": "t"},
            "requestId": "r", "routeKey": "$default", "stage": stage, "time": "t", "timeEpoch": 1
        },
        "body": body, "isBase64Encoded": false
    });
    with_time(&event.to_string(), 30_000)
}

fn with_time(event: &str, left_ms: u64) -> lambda_http::Request {
    lambda_http::request::from_str(event).unwrap().with_lambda_context(context(left_ms))
}

fn silent() -> &'static Telemetry {
    Box::leak(Box::new(Telemetry::silent()))
}

/// Routes that respond with the request's path, query and body.
fn echo() -> Routes {
    let echo = |uri: Uri, RawQuery(query): RawQuery, body: axum::body::Bytes| async move {
        format!("{} {} {}", uri.path(), query.unwrap_or_default(), String::from_utf8_lossy(&body))
    };
    Routes::new().on(&routes::WRITE, echo).on(&routes::SQL_POST, echo).on(&ROOT, echo)
}

fn function(open: impl Fn() -> Result<Routes> + Send + Sync + Clone + 'static) -> HttpFunction {
    let open: Open = Box::new(move || {
        let open = open.clone();
        Box::pin(async move { Ok((open()?, Authenticator::new(Root::open(Store::in_memory()).await?)?)) })
    });
    HttpFunction::new(open, Admits::Anyone, silent())
}

async fn answer(function: &HttpFunction, request: lambda_http::Request) -> (StatusCode, String) {
    let response = function.answer(request).await;
    let status = response.status();
    assert_eq!(response.headers()["x-content-type-options"], "nosniff");
    let body = to_bytes(response.into_body(), 1 << 20).await.unwrap();
    (status, String::from_utf8(body.to_vec()).unwrap())
}

#[tokio::test]
async fn an_event_of_a_function_url_reaches_its_route_with_query_and_body() {
    let function = function(|| Ok(echo()));
    let found = answer(&function, url_event("$default", "/write", "db=a%20b&x=1", "m v=1")).await;
    assert_eq!(found, (StatusCode::OK, "/write db=a%20b&x=1 m v=1".to_owned()));
    assert_eq!(answer(&function, url_event("$default", "/none", "", "")).await.0, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn the_stage_of_an_api_is_not_a_part_of_the_path() {
    let function = function(|| Ok(echo()));
    for path in ["/prod/write", "/write"] {
        assert_eq!(answer(&function, url_event("prod", path, "", "")).await.1, "/write  ", "{path}");
    }
}

#[tokio::test]
async fn binary_bodies_and_a_load_balancers_events_arrive_whole() {
    let function = function(|| Ok(echo()));
    let event = json!({
        "requestContext": {"elb": {"targetGroupArn": "arn:aws:elasticloadbalancing:eu-west-1:1:targetgroup/t/1"}},
        "httpMethod": "POST", "path": "/write", "queryStringParameters": {"db": "a", "precision": "ms"},
        "headers": {"content-type": "application/octet-stream", "host": "lb.example.org"},
        "body": "bSB2PTE=", "isBase64Encoded": true
    });
    let (status, body) = answer(&function, with_time(&event.to_string(), 30_000)).await;
    assert_eq!(status, StatusCode::OK);
    assert!(body.ends_with(" m v=1") && body.contains("db=a") && body.contains("precision=ms"), "{body}");
}

#[tokio::test]
async fn an_event_of_a_rest_api_reaches_its_route_with_repeated_parameters() {
    let function = function(|| Ok(echo()));
    let event = json!({
        "resource": "/{proxy+}", "path": "/write", "httpMethod": "POST",
        "headers": {"Host": "x.execute-api.eu-west-1.amazonaws.com", "X-Forwarded-For": "9.9.9.9, 1.2.3.4", "X-Many": "2"},
        "multiValueHeaders": {
            "Host": ["x.execute-api.eu-west-1.amazonaws.com"], "X-Forwarded-For": ["9.9.9.9, 1.2.3.4"], "X-Many": ["1", "2"]
        },
        "queryStringParameters": {"db": "a b", "precision": "ms"},
        "multiValueQueryStringParameters": {"db": ["a b"], "precision": ["s", "ms"]},
        "pathParameters": {"proxy": "write"}, "stageVariables": null,
        "requestContext": {
            "accountId": "1", "apiId": "x", "domainName": "x.execute-api.eu-west-1.amazonaws.com", "domainPrefix": "x",
            "extendedRequestId": "e", "httpMethod": "POST", "identity": {"sourceIp": "5.6.7.8", "userAgent": "t"},
            "path": "/prod/write", "protocol": "HTTP/1.1", "requestId": "r", "requestTime": "t",
            "requestTimeEpoch": 1, "resourceId": "i", "resourcePath": "/{proxy+}", "stage": "prod"
        },
        "body": "m v=1", "isBase64Encoded": false
    });
    let (status, body) = answer(&function, with_time(&event.to_string(), 30_000)).await;
    assert_eq!(status, StatusCode::OK, "{body}");
    let [path, query, rows] = body.splitn(3, ' ').collect::<Vec<_>>().try_into().unwrap();
    assert_eq!((path, rows), ("/write", "m v=1"));
    let mut pairs: Vec<_> = form_urlencoded::parse(query.as_bytes()).into_owned().collect();
    pairs.sort();
    let expected = [("db", "a b"), ("precision", "ms"), ("precision", "s")];
    assert_eq!(pairs, expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
}

#[tokio::test]
async fn a_load_balancer_hands_on_queries_as_they_were_sent() {
    let function = function(|| Ok(echo()));
    for many in [false, true] {
        // it decodes nothing
        let (db, rows) = ("a%26b%20c", "50%25");
        let mut event = json!({
            "requestContext": {"elb": {"targetGroupArn": "arn:aws:elasticloadbalancing:eu-west-1:1:targetgroup/t/1"}},
            "httpMethod": "POST", "path": "/write", "body": "m v=1", "isBase64Encoded": false
        });
        if many {
            event["multiValueQueryStringParameters"] = json!({"db": [db], "rows": [rows]});
            event["multiValueHeaders"] = json!({"host": ["lb.example.org"], "x-many": ["1", "2"]});
        } else {
            event["queryStringParameters"] = json!({"db": db, "rows": rows});
            event["headers"] = json!({"host": "lb.example.org"});
        }
        let (status, body) = answer(&function, with_time(&event.to_string(), 30_000)).await;
        assert_eq!(status, StatusCode::OK, "{body}");
        let query = body.strip_prefix("/write ").and_then(|rest| rest.strip_suffix(" m v=1")).unwrap();
        let mut pairs: Vec<_> = form_urlencoded::parse(query.as_bytes()).into_owned().collect();
        pairs.sort();
        assert_eq!(pairs, [("db".to_owned(), "a&b c".to_owned()), ("rows".to_owned(), "50%".to_owned())], "{query}");
    }
}

#[tokio::test]
async fn a_root_that_does_not_open_is_tried_again_by_the_next_request() {
    let tries = Arc::new(std::sync::atomic::AtomicU32::new(0));
    let counted = tries.clone();
    let function = function(move || match counted.fetch_add(1, std::sync::atomic::Ordering::Relaxed) {
        0 | 1 => Err(Error::unavailable("no bucket")),
        _ => Ok(echo()),
    });
    function.start().await;
    let refused = function.answer(url_event("$default", "/api/v1/sql", "", "")).await;
    assert_eq!(refused.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(refused.headers()[header::RETRY_AFTER], "1");
    for _ in 0..2 {
        assert_eq!(answer(&function, url_event("$default", "/write", "", "x")).await.0, StatusCode::OK);
    }
    assert_eq!(tries.load(std::sync::atomic::Ordering::Relaxed), 3);
}

#[tokio::test]
async fn a_request_that_takes_too_long_is_answered_before_the_platform_ends_it() {
    let slow = || {
        let never = || async { tokio::time::sleep(Duration::from_secs(60)).await };
        Ok(Routes::new().on(&routes::SQL_POST, never).on(&routes::WRITE, never))
    };
    let function = function(slow);
    let begun = std::time::Instant::now();
    let event = |path: &str| url_event("$default", path, "", "").with_lambda_context(context(300));
    let (status, body) = answer(&function, event("/api/v1/sql")).await;
    assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
    assert!(body.contains("ran out of time"), "{body}");
    assert!(begun.elapsed() < Duration::from_millis(300), "{:?}", begun.elapsed());
    // The text on which InfluxDB 1 clients retry.
    let (status, body) = answer(&function, event("/write")).await;
    assert_eq!((status, body.as_str()), (StatusCode::INTERNAL_SERVER_ERROR, r#"{"error":"timeout"}"#));
}

#[tokio::test]
async fn users_of_the_root_are_let_in_by_their_names_from_wherever_the_platform_says() {
    let root = Root::open(Store::in_memory()).await.unwrap();
    let hash = hash_password("correct horse").unwrap();
    let add = |draft: &mut Draft| draft.users_mut().add("ada", User::new(Some(hash.clone()), true)?);
    root.commit(&[], add).await.unwrap();
    let open: Open = Box::new(move || {
        let root = root.clone();
        Box::pin(async move { Ok((echo(), Authenticator::new(root)?)) })
    });
    let function = HttpFunction::new(open, Admits::Users { has_sources: true }, silent());
    let event = |authorization: Option<&str>| {
        let mut request = url_event("$default", "/write", "", "x");
        if let Some(value) = authorization {
            request.headers_mut().insert("authorization", value.parse().unwrap());
        }
        request
    };
    let basic = |password: &str| format!("Basic {}", STANDARD.encode(format!("ada:{password}")));
    assert_eq!(answer(&function, event(None)).await.0, StatusCode::UNAUTHORIZED);
    assert_eq!(answer(&function, event(Some(&basic("wrong")))).await.0, StatusCode::UNAUTHORIZED);
    assert_eq!(answer(&function, event(Some(&basic("correct horse")))).await.0, StatusCode::OK);
    let (parts, _) = event(None).into_parts();
    assert_eq!(peer_of(&parts).unwrap().0.to_string(), "1.2.3.4");
    assert!(Admits::of(&mut Variables::default()).open().is_ok());
}

#[test]
fn the_address_in_an_event_is_believed_unless_everybody_may_write_events() {
    let has_sources = |value: Option<&str>| {
        let get = |name: &str| match name {
            "TIDELAKE_AUTH" => Some("users".to_owned()),
            "TIDELAKE_SOURCE_ADDRESS" => value.map(str::to_owned),
            _ => None,
        };
        let mut variables = Variables::new(get);
        let admits = Admits::of(&mut variables).open().unwrap();
        let Admits::Users { has_sources } = admits else { panic!("it asks for users") };
        variables.finish().map(|()| has_sources).ok()
    };
    assert_eq!(has_sources(None), Some(true));
    assert_eq!(has_sources(Some("trusted")), Some(true));
    assert_eq!(has_sources(Some("ignored")), Some(false));
    assert_eq!(has_sources(Some("no")), None);
}
