//! The web console: files that the program has built in, served at `/`. Their scripts use the HTTP API like any other client.

use std::io::Read as _;

use axum::{
    body::Body,
    extract::{Path, State},
    http::{HeaderMap, HeaderName, Method, StatusCode, Uri, header},
    response::{IntoResponse, Response},
};
use bytes::Bytes;
use flate2::read::GzDecoder;
use tidelake_format::Error;
use tidelake_protocol::http::{Api, routes};
use tidelake_routes::Routes;

use super::operations;

/// Returns a file of the console, compressed with gzip, by its path, such as `index.html` or `assets/index-1a2b.js`.
pub type Assets = fn(&str) -> Option<&'static [u8]>;

/// The page may run its own scripts and styles and connect to its own server, and nothing else.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; \
                      font-src 'self'; manifest-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'";
/// The names of these files have a hash of their content.
const FOREVER: &str = "public, max-age=31536000, immutable";
/// Path of the page.
const PAGE: &str = "index.html";
/// Folder of the other files.
const FOLDER: &str = "assets/";

#[derive(Clone)]
struct Console {
    assets: Assets,
}

/// `/` and `/assets/…`.
pub(super) fn routes(assets: Assets) -> Routes {
    Routes::new().on(&routes::CONSOLE, page).on(&routes::CONSOLE_FILE, file).with_state(Console { assets })
}

/// The page takes no parameters. A client of ClickHouse sends statements to `/?query=…`; the error names the route to use.
async fn page(State(console): State<Console>, method: Method, uri: Uri, headers: HeaderMap) -> Response {
    if uri.query().is_some_and(|query| !query.is_empty()) {
        return operations::unknown(method, uri).await;
    }
    console.send(PAGE, &headers)
}

async fn file(State(console): State<Console>, Path(name): Path<String>, headers: HeaderMap) -> Response {
    console.send(&format!("{FOLDER}{name}"), &headers)
}

impl Console {
    fn send(&self, path: &str, request: &HeaderMap) -> Response {
        let Some(content) = (self.assets)(path) else {
            let error = Error::not_found("no such file of the console").with("found", format!("/{path}"));
            return Api::Tidelake.answer(&error).map(Body::from);
        };
        let cached = if path == PAGE { "no-cache" } else { FOREVER };
        let mut headers: Vec<(HeaderName, &str)> = vec![
            (header::CONTENT_TYPE, content_type(path)),
            (header::CACHE_CONTROL, cached),
            (header::CONTENT_SECURITY_POLICY, POLICY),
            (header::REFERRER_POLICY, "no-referrer"),
            (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
            (header::VARY, "accept-encoding"),
        ];
        let accepts = request.get_all(header::ACCEPT_ENCODING).into_iter().filter_map(|value| value.to_str().ok());
        let is_gzip = |name: &str| name.split(';').next().is_some_and(|name| name.trim().eq_ignore_ascii_case("gzip"));
        let body = match accepts.flat_map(|value| value.split(',')).any(is_gzip) {
            true => {
                headers.push((header::CONTENT_ENCODING, "gzip"));
                Bytes::from_static(content)
            }
            false => {
                let mut plain = Vec::new();
                GzDecoder::new(content).read_to_end(&mut plain).expect("the program was built with whole files");
                plain.into()
            }
        };
        let mut response = (StatusCode::OK, Body::from(body)).into_response();
        for (name, value) in headers {
            response.headers_mut().insert(name, header::HeaderValue::from_str(value).expect("constant and visible"));
        }
        response
    }
}

/// The media type of a file, by its extension.
fn content_type(path: &str) -> &'static str {
    match path.rsplit_once('.').map_or("", |(_, extension)| extension) {
        "html" => "text/html; charset=utf-8",
        "js" => "text/javascript; charset=utf-8",
        "css" => "text/css; charset=utf-8",
        "svg" => "image/svg+xml",
        "json" => "application/json",
        "txt" => "text/plain; charset=utf-8",
        _ => "application/octet-stream",
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use axum::{body::to_bytes, http::Request};
    use flate2::{Compression, write::GzEncoder};
    use tidelake_format::auth::Gate;
    use tower::ServiceExt as _;

    use super::*;

    fn assets(path: &str) -> Option<&'static [u8]> {
        let text = match path {
            "index.html" => "<script src=\"./assets/a-1.js\"></script>",
            "assets/a-1.js" => "let a = 1;",
            _ => return None,
        };
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(text.as_bytes()).unwrap();
        Some(encoder.finish().unwrap().leak())
    }

    async fn get(path: &str, encoding: Option<&str>) -> (u16, HeaderMap, Vec<u8>) {
        let mut request = Request::get(path);
        if let Some(encoding) = encoding {
            request = request.header(header::ACCEPT_ENCODING, encoding);
        }
        let response = routes(assets).behind(&Gate::Off).oneshot(request.body(Body::empty()).unwrap()).await.unwrap();
        let (parts, body) = response.into_parts();
        (parts.status.as_u16(), parts.headers, to_bytes(body, 1 << 20).await.unwrap().to_vec())
    }

    #[tokio::test]
    async fn the_page_and_its_files_are_sent_with_a_policy_and_their_type() {
        for (path, kind, cached) in [
            ("/", "text/html; charset=utf-8", "no-cache"),
            ("/assets/a-1.js", "text/javascript; charset=utf-8", FOREVER),
        ] {
            let (status, headers, plain) = get(path, None).await;
            assert_eq!(status, 200, "{path}");
            assert_eq!(headers[header::CONTENT_TYPE], kind);
            assert_eq!(headers[header::CACHE_CONTROL], cached);
            let policy = headers[header::CONTENT_SECURITY_POLICY].to_str().unwrap();
            assert!(policy.starts_with("default-src 'none'") && !policy.contains("unsafe"), "{policy}");
            let (_, headers, packed) = get(path, Some("br;q=1.0, GZIP;q=0.8")).await;
            assert_eq!(headers[header::CONTENT_ENCODING], "gzip");
            let mut unpacked = Vec::new();
            GzDecoder::new(&packed[..]).read_to_end(&mut unpacked).unwrap();
            assert_eq!(unpacked, plain, "{path}");
        }
        let (_, headers, _) = get("/", Some("br")).await;
        assert!(!headers.contains_key(header::CONTENT_ENCODING));
    }

    #[tokio::test]
    async fn other_paths_are_no_files_of_the_console() {
        let (status, _, body) = get("/?query=select+1", None).await;
        assert_eq!(status, 404);
        assert!(String::from_utf8(body).unwrap().contains("POST /api/v1/sql"), "a client of ClickHouse");
        for path in ["/assets/b.js", "/assets/../index.html", "/assets/%2e%2e/index.html", "/assets/a-1.js/x"] {
            assert_eq!(get(path, None).await.0, 404, "{path}");
        }
    }
}
