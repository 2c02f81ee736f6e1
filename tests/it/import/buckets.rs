//! Imports of objects of a bucket, and exports into one.

use std::{
    collections::BTreeSet,
    io::Write as _,
    process::{Command, Output, Stdio},
};

use tidelake_tests::{S3Server, process};

use super::{Scene, cells, csv, done, err, expected, failed, fleet, listed, resumed::interrupted, stored};

/// A server, a bucket and its credentials.
struct Bucket {
    scene: Scene,
    s3: S3Server,
}

impl Bucket {
    fn new() -> Option<Self> {
        let s3 = S3Server::start()?;
        Some(Self { scene: Scene::new(&[]), s3 })
    }

    fn command(&self, command: &str, arguments: &[&str]) -> Command {
        let mut process = Command::new(process::binary());
        process.args([command, "--url", &self.scene.server.url(), "-d", "d"]).args(arguments);
        process.envs(self.s3.environment()).stdin(Stdio::null());
        process
    }

    fn import(&self, arguments: &[&str]) -> Output {
        let base = ["-t", "t", "--precision", "s", "--tags", "host"];
        self.command("import", &[&base[..], arguments].concat()).output().unwrap()
    }

    fn export(&self, arguments: &[&str]) -> Output {
        self.command("export", arguments).output().unwrap()
    }

    /// The objects of the bucket, and the parts of unfinished uploads.
    fn objects(&self) -> BTreeSet<String> {
        listed(self.s3.directory().to_str().unwrap())
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn objects_are_imported_like_files() {
    let Some(bucket) = Bucket::new() else { return };
    let parts =
        [fleet(1_767_254_401..1_767_254_411), fleet(1_767_254_411..1_767_254_421), fleet(1_767_254_421..1_767_254_431)];
    std::fs::create_dir_all(bucket.scene.path("in/deeper")).unwrap();
    bucket.scene.write("in/a b.csv", &(csv(&parts[0]) + "1767254500,h0,oops\n"));
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    packed.write_all(csv(&parts[1]).as_bytes()).unwrap();
    std::fs::write(bucket.scene.path("in/b.csv.gz"), packed.finish().unwrap()).unwrap();
    bucket.scene.write("in/deeper/c.csv", &csv(&parts[2]));
    bucket.s3.upload(std::path::Path::new(&bucket.scene.path("in")), "in");

    // A star does not cross a slash.
    let rejects = bucket.scene.path("rejects.csv");
    let output = bucket.import(&["--types", "v:double", "--reject-file", &rejects, "s3://tidelake/in/*.csv*"]);
    assert_eq!(done(&output).trim(), "100 rows imported: 100 written, 0 replaced, 0 refused, 1 rejected");
    assert_eq!(stored(&bucket.scene.http, "t").await, expected(&parts[..2].concat()));
    let found = cells(&std::fs::read_to_string(&rejects).unwrap());
    assert_eq!((found[1][0].as_str(), found[1][1].as_str()), ("s3://tidelake/in/a b.csv", "52"));
    done(&bucket.import(&["s3://tidelake/in/deeper/c.csv"]));
    assert_eq!(stored(&bucket.scene.http, "t").await, expected(&parts.concat()));

    // Line protocol.
    bucket.scene.write("in/lines.lp", "m,h=a v=1i 1\nm,h=b v=2i 2\n");
    bucket.s3.upload(std::path::Path::new(&bucket.scene.path("in/lines.lp")), "in/lines.lp");
    let output = bucket.command("import", &["s3://tidelake/in/lines.lp"]).output().unwrap();
    assert_eq!(done(&output).trim(), "2 rows imported: 2 written, 0 replaced, 0 refused");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_import_of_an_object_is_resumed_unless_the_object_changed() {
    let Some(bucket) = Bucket::new() else { return };
    let rows = fleet(1_767_254_401..1_767_255_401);
    let file = bucket.scene.write("rows.csv", &csv(&rows));
    done(&bucket.import(&[&file]));
    done(&bucket.export(&["-q", "select ts, host, v from t", "s3://tidelake/rows.csv"]));
    let state = bucket.scene.path("state");
    let resumed = ["-t", "u", "--tags", "host", "--part-rows", "500", "--resume", &state, "s3://tidelake/rows.csv"];
    let import = || bucket.command("import", &resumed);
    let sent = interrupted(&mut import(), &state, 1_000);
    assert!((1_000..5_000).contains(&sent), "{sent}");
    let output = import().output().unwrap();
    assert_eq!(done(&output).trim(), "5000 rows imported: 5000 written, 0 replaced, 0 refused");
    assert!(err(&output).contains(&format!("continuing: {sent} rows")), "{}", err(&output));
    assert_eq!(stored(&bucket.scene.http, "u").await, expected(&rows));

    // Another object of the same size.
    interrupted(&mut import(), &state, 500);
    std::fs::remove_file(bucket.s3.directory().join("tidelake/rows.csv")).unwrap();
    done(&bucket.export(&["-q", "select ts, host, v from t order by v", "s3://tidelake/rows.csv"]));
    let output = import().output().unwrap();
    let told = failed(&output);
    assert!(
        told.contains("s3://tidelake/rows.csv has changed since the import began") && told.contains("version"),
        "{told}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn an_export_fills_a_bucket_and_one_that_fails_leaves_nothing() {
    let Some(bucket) = Bucket::new() else { return };
    // Four days, and more bytes than a part of an upload has.
    let seconds = [1_769_731_200, 1_769_817_600, 1_769_904_000, 1_770_163_200];
    let rows: Vec<_> = seconds.iter().flat_map(|begin| fleet(*begin..begin + 20_000)).collect();
    let file = bucket.scene.write("rows.csv", &csv(&rows));
    done(&bucket.import(&[&file]));
    let expected = expected(&rows);
    let back = async |table: &'static str, name: &str| {
        let arguments = ["-t", table, "--tags", "host", name];
        done(&bucket.command("import", &arguments).output().unwrap());
        assert!(stored(&bucket.scene.http, table).await == expected, "{name}");
    };
    for (table, name) in [("whole", "s3://tidelake/out/t.parquet"), ("text", "s3://tidelake/out/t.csv")] {
        assert!(done(&bucket.export(&["-t", "t", name])).contains(&format!("400000 rows exported to {name}")));
        back(table, name).await;
        let told = failed(&bucket.export(&["-t", "t", name]));
        assert!(told.contains(&format!("{name} exists: expected a new object")), "{told}");
    }
    assert!(std::fs::metadata(bucket.s3.directory().join("tidelake/out/t.csv")).unwrap().len() > 9 << 20);

    done(&bucket.export(&["-t", "t", "--partition-by", "day", "s3://tidelake/days"]));
    let days = bucket.objects().into_iter().filter(|name| name.starts_with("tidelake/days/")).collect::<Vec<_>>();
    assert!(days.len() >= 4 && days[0] == "tidelake/days/date=2026-01-30/part-0.parquet", "{days:?}");
    back("days", "s3://tidelake/days/*/*.parquet").await;
    // The shell queries the same files without a server.
    let query = "select count(*) as n, sum(v) as s from 's3://tidelake/days/*/*.parquet'";
    let mut sql = Command::new(process::binary());
    sql.args(["sql", "--files", "-f", "csv", "-c", query]).envs(bucket.s3.environment()).stdin(Stdio::null());
    let sum: f64 = rows.iter().map(|(_, _, v)| v).sum();
    assert_eq!(done(&sql.output().unwrap()).trim(), format!("n,s\n{},{sum:?}", rows.len()));
    let told = failed(&bucket.export(&["-t", "t", "--partition-by", "day", "s3://tidelake/days"]));
    assert!(told.contains("new or empty, but s3://tidelake/days/date=2026-01-30/part-0.parquet exists"), "{told}");

    // A query that fails after rows were sent.
    let before = bucket.objects();
    let query = "select ts, v, 1 / case when ts < '2026-02-04T01:00:00Z' then 1 else 0 end as w from t order by ts";
    for more in [&["s3://tidelake/bad/x.csv"][..], &["--partition-by", "day", "--time", "ts", "s3://tidelake/bad"]] {
        let told = failed(&bucket.export(&[&["-q", query], more].concat()));
        assert!(told.to_lowercase().contains("zero"), "{told}");
        assert_eq!(bucket.objects(), before);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn faults_of_buckets_are_named_with_what_is_expected() {
    let Some(bucket) = Bucket::new() else { return };
    std::fs::create_dir(bucket.scene.path("in")).unwrap();
    bucket.scene.write("in/a.csv", "ts,host,v\n1767254401,h0,1\n");
    bucket.s3.upload(std::path::Path::new(&bucket.scene.path("in")), "in");
    for (url, part) in [
        ("s3://tidelake/none.csv", "no such object: s3://tidelake/none.csv"),
        ("s3://tidelake/in/*.parquet", "no object matches \"s3://tidelake/in/*.parquet\""),
        ("s3://tidelake/in", "found a prefix: name its objects, such as 's3://tidelake/in/*.csv'"),
        ("s3://tidelake/", "expected the key of an object"),
        ("s3://elsewhere/a.csv", "no such bucket"),
        ("s3://elsewhere/*.csv", "no such bucket"),
        ("s3:///a.csv", "expected 's3://bucket/key'"),
        ("s3://user:secret@tidelake/a.csv", "without credentials"),
        ("s3://tidelake/in/[.csv", "invalid pattern"),
    ] {
        let told = failed(&bucket.import(&[url]));
        assert!(told.contains(part) && !told.contains("secret"), "{url}: {told}");
    }
    let told = failed(&bucket.export(&["-q", "select 1 as x", "s3://elsewhere/a.csv"]));
    assert!(told.contains("no such bucket"), "{told}");

    let denied = |command: &str, arguments: &[&str]| {
        failed(&bucket.command(command, arguments).env("AWS_SECRET_ACCESS_KEY", "wrong").output().unwrap())
    };
    for told in [
        denied("import", &["-t", "t", "s3://tidelake/in/a.csv"]),
        denied("import", &["-t", "t", "s3://tidelake/in/*.csv"]),
        denied("export", &["-q", "select 1 as x", "s3://tidelake/x.csv"]),
    ] {
        assert!(told.contains("access denied") && told.contains("expected credentials with the right s3:"), "{told}");
    }

    // The server reads no URLs.
    let reply =
        bucket.scene.http.post("/api/v1/import?db=d&table=x&format=csv", &[], "s3://tidelake/in/a.csv").await.unwrap();
    assert!(reply.status >= 400, "{}", reply.body);
    assert_eq!(bucket.scene.tables().await, 0);
}
