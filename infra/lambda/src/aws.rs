//! A function's own requests to AWS: reading a secret, invoking a function.

use std::{sync::Arc, time::Duration};

use axum::http::{HeaderValue, Method, header};
use object_store::{
    ClientOptions,
    aws::{AmazonS3Builder, AmazonS3ConfigKey, AwsAuthorizer, AwsCredentialProvider},
    client::{HttpClient, HttpConnector, HttpRequestBody, ReqwestConnector},
};
use serde_json::{Value, json};
use tidelake_format::{Error, Result};

/// Timeout of one request, without the time that credentials take.
const LIMIT: Duration = Duration::from_secs(5);
/// Maximum size of a response body, in bytes.
const MOST: usize = 256 << 10;

/// Signs requests with the function's role and sends them to AWS services.
#[derive(Debug, Clone)]
pub struct Aws {
    client: HttpClient,
    credentials: AwsCredentialProvider,
    region: String,
    /// A single endpoint for all services, used by test platforms.
    endpoint: Option<String>,
}

impl Aws {
    /// Configures from the environment: role, region and, if set, `AWS_ENDPOINT_URL`.
    ///
    /// # Errors
    /// Invalid if the variables are inconsistent.
    pub fn from_env() -> Result<Self> {
        Self::by(AmazonS3Builder::from_env())
    }

    pub(crate) fn by(builder: AmazonS3Builder) -> Result<Self> {
        let unfit = |e: object_store::Error| {
            Error::invalid("inconsistent AWS settings in the environment").with("reason", &e).source(e)
        };
        let builder = builder.with_bucket_name("none");
        let region = builder.get_config_value(&AmazonS3ConfigKey::Region).unwrap_or_else(|| "us-east-1".to_owned());
        let endpoint = builder.get_config_value(&AmazonS3ConfigKey::Endpoint);
        let options = ClientOptions::new().with_allow_http(endpoint.is_some()).with_timeout(LIMIT);
        let client = ReqwestConnector::default().connect(&options).map_err(unfit)?;
        let store = builder.with_allow_http(endpoint.is_some()).build().map_err(unfit)?;
        let endpoint = endpoint.map(|url| url.trim_end_matches('/').to_owned());
        Ok(Self { client, credentials: Arc::clone(store.credentials()), region, endpoint })
    }

    /// Reads the text of a secret in Secrets Manager.
    ///
    /// # Errors
    /// Unavailable if the secret cannot be read, with the platform's reason.
    pub async fn secret(&self, id: &str) -> Result<String> {
        let headers = [
            ("x-amz-target", "secretsmanager.GetSecretValue"),
            (header::CONTENT_TYPE.as_str(), "application/x-amz-json-1.1"),
        ];
        let body = json!({ "SecretId": id }).to_string();
        let reply = self.post("secretsmanager", "/", &headers, body).await?;
        let reply: Value = serde_json::from_slice(&reply).unwrap_or_default();
        let text = reply["SecretString"].as_str().map(str::to_owned);
        text.ok_or_else(|| Error::unavailable("secret has no text").with("secret", id))
    }

    /// Invokes a function asynchronously.
    ///
    /// # Errors
    /// Unavailable if the platform does not accept the event, with its reason.
    pub async fn invoke_later(&self, function: &str, event: &Value) -> Result<()> {
        let headers = [("x-amz-invocation-type", "Event"), (header::CONTENT_TYPE.as_str(), "application/json")];
        let path = format!("/2015-03-31/functions/{function}/invocations");
        self.post("lambda", &path, &headers, event.to_string()).await.map(|_| ())
    }

    async fn post(&self, service: &str, path: &str, headers: &[(&str, &str)], body: String) -> Result<Vec<u8>> {
        let failed = |reason: String| {
            Error::unavailable("request to an AWS service failed").with("service", service).with("reason", reason)
        };
        let base = self.endpoint.clone();
        let base = base.unwrap_or_else(|| format!("https://{service}.{}.amazonaws.com", self.region));
        let mut request = axum::http::Request::new(HttpRequestBody::from(body));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = format!("{base}{path}").parse().map_err(|e| failed(format!("{e}")))?;
        for (name, value) in headers {
            let name = header::HeaderName::from_bytes(name.as_bytes()).map_err(|e| failed(e.to_string()))?;
            let value = HeaderValue::from_str(value).map_err(|e| failed(e.to_string()))?;
            request.headers_mut().insert(name, value);
        }
        let credential = self.credentials.get_credential().await.map_err(|e| failed(e.to_string()))?;
        AwsAuthorizer::new(&credential, service, &self.region).authorize(&mut request, None);
        let answer = async {
            let reply = self.client.execute(request).await.map_err(|e| failed(e.to_string()))?;
            let status = reply.status();
            let body = http_body_util::Limited::new(reply.into_body(), MOST);
            let body = http_body_util::BodyExt::collect(body).await.map_err(|e| failed(e.to_string()))?.to_bytes();
            Ok::<_, Error>((status, body))
        };
        let (status, body) =
            tokio::time::timeout(LIMIT, answer).await.map_err(|_| failed(format!("no answer in {LIMIT:?}")))??;
        if !status.is_success() {
            let text = String::from_utf8_lossy(&body[..body.len().min(300)]).into_owned();
            return Err(failed(format!("{status}: {text}")));
        }
        Ok(body.to_vec())
    }
}
