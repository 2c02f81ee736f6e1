//! Typical mistakes of users of other systems, and the answers to them.
//!
//! `mistakes/*.txt` has one block a mistake: what is sent (`sql:` to the SQL endpoint, or `request:` and `body:`), `at:` the word
//! that is wrong, `next:` words of the answer that say what to do, `works:` a statement that does what was meant, and
//! `answer:` the status and the whole message. Each answer is graded by what a user needs: **w**hat is wrong, in words that are
//! not the engine's; w**h**ere, compared with the place of `at` in the text; what was **e**xpected; what was **f**ound; the **n**ext step.
//! Four of the five are grade A, three grade B, and none may be below.
//!
//! `TIDELAKE_WRITE_DOCS=1` writes the answers into the files, to be read in a diff.

use std::{fmt::Write as _, fs, path::PathBuf};

use serde_json::{Value, json};
use tidelake_tests::Server;

/// Words of the engine and of the parser that no user has to know.
const ENGINE: [&str; 12] = [
    "DataFusion",
    "datafusion",
    "Internal error",
    "Error during planning",
    "Schema error",
    "Execution error",
    "Arrow error",
    "sql parser",
    "sqlparser",
    "Word(Word",
    "Utf8",
    "Float64",
];

/// One block of a file.
#[derive(Default)]
struct Mistake {
    sent: Vec<(String, String)>,
    at: String,
    next: String,
    works: String,
    answer: String,
}

impl Mistake {
    fn parse(block: &str) -> Self {
        let mut mistake = Self::default();
        for line in block.lines() {
            let (key, value) = line.split_once(':').unwrap_or_else(|| panic!("a line without a key: {line}"));
            let value = value.strip_prefix(' ').unwrap_or(value).to_owned();
            match key {
                "sql" | "request" | "body" => mistake.sent.push((key.to_owned(), value)),
                "at" => mistake.at = value,
                "next" => mistake.next = value,
                "works" => mistake.works = value,
                "answer" => mistake.answer = value,
                other => panic!("unknown key {other}: {line}"),
            }
        }
        mistake
    }

    fn sent(&self, key: &str) -> Option<&str> {
        self.sent.iter().find(|(k, _)| k == key).map(|(_, value)| value.as_str())
    }

    fn write(&self, out: &mut String) {
        let given = self.sent.iter().map(|(key, value)| (key.as_str(), value));
        let rest = [("at", &self.at), ("next", &self.next), ("works", &self.works), ("answer", &self.answer)];
        for (key, value) in given.chain(rest).filter(|(_, value)| !value.is_empty()) {
            writeln!(out, "{key}: {value}").unwrap();
        }
    }

    /// The letters of what a message has.
    fn grade(&self, message: &str) -> String {
        let text = self.sent("sql").or(self.sent("body")).unwrap_or_default();
        let place = text.find(&self.at).filter(|_| !self.at.is_empty()).map(|at| text[..at].chars().count() + 1);
        let is_located = match (self.sent("request"), place) {
            (None, Some(column)) => {
                [')', ','].iter().any(|end| message.contains(&format!("line: 1, column: {column}{end}")))
            }
            (None, None) => false,
            (Some(request), _) => {
                let path = request.split(['?', ' ']).nth(1).unwrap();
                message.contains(path) || !self.at.is_empty() && message.contains(&self.at)
            }
        };
        let finds = |what: &str| !what.is_empty() && message.to_lowercase().contains(&what.to_lowercase());
        let is_found = finds(&self.at) || message.contains("found: ") || message.contains("found ");
        let has_next = !self.next.is_empty()
            && (message.contains("use: ") || message.contains("did you mean: ") || message.contains("expected"))
            && message.contains(&self.next);
        let letters = [
            ('W', !message.is_empty() && !ENGINE.iter().any(|word| message.contains(word))),
            ('L', is_located),
            ('E', ["expected", "did you mean", "already exists as type"].iter().any(|word| message.contains(word))),
            ('F', is_found),
            ('N', has_next),
        ];
        letters.into_iter().filter(|(_, has)| *has).map(|(letter, _)| letter).collect()
    }
}

struct Client {
    http: reqwest::Client,
    url: String,
}

impl Client {
    async fn send(&self, method: &str, path: &str, body: String) -> (u16, String) {
        let method = reqwest::Method::from_bytes(method.as_bytes()).unwrap();
        let reply = self.http.request(method, format!("{}{path}", self.url)).body(body).send().await.unwrap();
        (reply.status().as_u16(), reply.text().await.unwrap())
    }

    async fn sql(&self, sql: &str) -> (u16, String) {
        let body = json!({ "sql": sql, "database": "home" }).to_string();
        let (status, text) = self.send("POST", "/api/v1/sql", body).await;
        (status, message_of(&text))
    }

    async fn make(&self, mistake: &Mistake) -> (u16, String) {
        match (mistake.sent("sql"), mistake.sent("request")) {
            (Some(sql), _) => self.sql(sql).await,
            (None, Some(request)) => {
                let (method, path) = request.split_once(' ').unwrap();
                let (status, text) = self.send(method, path, mistake.sent("body").unwrap_or_default().to_owned()).await;
                (status, message_of(&text))
            }
            (None, None) => panic!("a mistake without sql and request"),
        }
    }
}

/// The message in an error of any of the APIs; the whole text of other answers.
fn message_of(text: &str) -> String {
    let Ok(json) = serde_json::from_str::<Value>(text) else { return text.trim().replace('\n', " ") };
    // OpenTSDB's texts are fixed; the point that is wrong stands beside them.
    if let point @ Value::Object(_) = &json["errors"][0] {
        return point.to_string();
    }
    let message = [&json["error"]["message"], &json["error"], &json["desc"], &json["message"]];
    let message = message.into_iter().find_map(Value::as_str).map(str::to_owned);
    message.unwrap_or_else(|| text.to_owned()).replace('\n', " ")
}

#[tokio::test(flavor = "multi_thread")]
async fn typical_mistakes_are_answered_with_place_cause_and_remedy() {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start(directory.path().join("root").to_str().unwrap(), [] as [&str; 0]);
    let client = Client { http: reqwest::Client::new(), url: server.url() };
    for sql in [
        "create database home precision 'ms'",
        "create table home.climate (ts timestamp, temperature double, humidity int, state varchar(20)) \
         tags (room varchar(20), floor int)",
        "insert into home.k1 using home.climate tags('kitchen', 1) values('2026-01-01 00:00:00', 20.5, 40, 'ok') \
         ('2026-01-01 00:01:00', 21.5, 41, 'ok')('2026-01-01 00:03:00', 21.0, 42, 'bad')",
        "insert into home.b1 using home.climate tags('bath', 2) values('2026-01-01 00:00:00', 24.5, 60, 'ok')",
    ] {
        let (status, text) = client.send("POST", "/rest/sql", sql.to_owned()).await;
        assert!(status == 200 && text.contains("\"code\":0"), "{sql}: {text}");
    }
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("it/mistakes");
    let mut files: Vec<PathBuf> = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let is_written = std::env::var_os("TIDELAKE_WRITE_DOCS").is_some();
    let (mut faults, mut grades) = (String::new(), [0_usize; 2]);
    for file in files {
        let text = fs::read_to_string(&file).unwrap();
        let mut written = String::new();
        for block in text.trim().split("\n\n") {
            let mut mistake = Mistake::parse(block);
            let (status, message) = client.make(&mistake).await;
            let answer = format!("{status} {message}");
            let grade = mistake.grade(&message);
            let name = format!("{}: {}", file.file_stem().unwrap().to_string_lossy(), mistake.sent[0].1);
            let mut fault = |text: String| writeln!(faults, "{name}\n    {text}\n    {answer}").unwrap();
            match grade.len() {
                4.. => grades[0] += 1,
                3 => grades[1] += 1,
                _ => fault(format!("grade below B: it has only {grade}")),
            }
            if !grade.contains('W') || status < 400 && !message.contains("(") {
                fault("not an error in the words of users".to_owned());
            }
            if !message.contains(&mistake.next) {
                fault(format!("does not contain: {}", mistake.next));
            }
            if !mistake.works.is_empty() {
                let (status, text) = client.sql(&mistake.works).await;
                if status != 200 {
                    fault(format!("the statement that should work fails: {} => {text}", mistake.works));
                }
            }
            if !is_written && mistake.answer != answer {
                fault(format!("another answer than recorded: {}", mistake.answer));
            }
            mistake.answer = answer.clone();
            mistake.write(&mut written);
            written.push('\n');
        }
        if is_written {
            fs::write(&file, format!("{}\n", written.trim_end())).unwrap();
        }
    }
    println!("{} mistakes: {} of grade A, {} of grade B", grades[0] + grades[1], grades[0], grades[1]);
    assert!(grades[0] + grades[1] >= 150, "at least 150 mistakes: {grades:?}");
    assert!(faults.is_empty(), "{faults}");
}
