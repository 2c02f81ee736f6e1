//! Random requests, decoded by a naive line reader as well, and random bytes.

use std::collections::BTreeMap;

use rand::{Rng, SeedableRng, rngs::StdRng, seq::IndexedRandom};

use tidelake_format::rows::Block;

use super::*;

#[derive(Debug, Clone)]
enum Field {
    Float(f64),
    Int(i64),
    UInt(u64),
    Bool(bool),
    Text(String),
}

#[derive(Debug)]
struct Line {
    measurement: String,
    tags: BTreeMap<String, String>,
    fields: BTreeMap<String, Field>,
    ts: i64,
}

fn text(rng: &mut StdRng, letters: &[char], longest: usize) -> String {
    (0..rng.random_range(1..=longest)).map(|_| *letters.choose(rng).unwrap()).collect()
}

fn escape(text: &str, which: &[char]) -> String {
    text.chars().flat_map(|c| which.contains(&c).then_some('\\').into_iter().chain([c])).collect()
}

const NAMES: [char; 9] = ['a', 'b', 'z', ' ', ',', '=', '"', '\u{e4}', '\u{1f600}'];
const TEXTS: [char; 9] = ['a', '"', '\\', '\n', ' ', ',', '=', '#', '\u{4e2d}'];

fn line(rng: &mut StdRng) -> Line {
    let tags = (0..rng.random_range(0..4)).map(|_| (format!("t{}", text(rng, &NAMES, 3)), text(rng, &NAMES, 4)));
    let tags: BTreeMap<_, _> = tags.collect();
    let mut fields = BTreeMap::new();
    for _ in 0..rng.random_range(1..5) {
        // The first letter determines the type, so that no two lines conflict.
        let (kind, value) = match rng.random_range(0..5) {
            0 => ("f", Field::Float(rng.random_range(-1e6..1e6))),
            1 => ("i", Field::Int(rng.random())),
            2 => ("u", Field::UInt(rng.random())),
            3 => ("b", Field::Bool(rng.random())),
            _ => ("s", Field::Text(text(rng, &TEXTS, 6))),
        };
        fields.insert(format!("{kind}{}", text(rng, &NAMES, 2)), value);
    }
    Line {
        measurement: format!("m{}", text(rng, &NAMES, 2)),
        tags,
        fields,
        ts: rng.random_range(-1_000_000..1_000_000),
    }
}

fn write(line: &Line, rng: &mut StdRng) -> String {
    let mut out = escape(&line.measurement, &[' ', ',']);
    let mut tags: Vec<_> = line.tags.iter().collect();
    if rng.random() {
        tags.reverse();
    }
    for (name, value) in tags {
        out += &format!(",{}={}", escape(name, &[' ', ',', '=']), escape(value, &[' ', ',', '=']));
    }
    out += if rng.random() { " " } else { "  " };
    let fields = line.fields.iter().map(|(name, value)| {
        let value = match value {
            Field::Float(v) => format!("{v:?}"),
            Field::Int(v) => format!("{v}i"),
            Field::UInt(v) => format!("{v}u"),
            Field::Bool(v) => if *v { "T" } else { "false" }.to_owned(),
            Field::Text(v) => format!("\"{}\"", escape(v, &['"', '\\'])),
        };
        format!("{}={value}", escape(name, &[' ', ',', '=']))
    });
    let fields: Vec<_> = fields.collect();
    out += &fields.join(",");
    out + &format!(" {}", line.ts)
}

/// The expected row, as text.
fn expected(line: &Line) -> String {
    let escaped = |text: &str| escape(text, &['\\', ',', '=']);
    let name: Vec<_> = line.tags.iter().map(|(k, v)| format!("{}={}", escaped(k), escaped(v))).collect();
    let name = if name.is_empty() {
        if line.measurement.contains('=') { escaped(&line.measurement) } else { line.measurement.clone() }
    } else {
        name.join(",")
    };
    let tags: Vec<_> = line.tags.iter().map(|(k, v)| format!("{k}={v}")).collect();
    let fields = line.fields.iter().map(|(k, v)| match v {
        Field::Float(v) => format!("{k}={v:?}"),
        Field::Int(v) => format!("{k}={v}"),
        Field::UInt(v) => format!("{k}={v}"),
        Field::Bool(v) => format!("{k}={v}"),
        Field::Text(v) => format!("{k}={v}"),
    });
    format!("{}|{name}|{}|{}|{}", line.measurement, tags.join(" "), line.ts, fields.collect::<Vec<_>>().join(" "))
}

#[test]
fn random_requests_decode_to_what_was_written() {
    for seed in 0..300 {
        let mut rng = StdRng::seed_from_u64(seed);
        let mut lines: Vec<Line> = Vec::new();
        for _ in 0..rng.random_range(1..40) {
            let mut line = line(&mut rng);
            // Series repeat, in runs and in turns.
            if let Some(earlier) = lines.choose(&mut rng).filter(|_| seed % 3 > 0) {
                (line.measurement, line.tags) = (earlier.measurement.clone(), earlier.tags.clone());
            }
            lines.push(line);
        }
        let mut body = String::new();
        for line in &lines {
            body += &write(line, &mut rng);
            body += ["\n", "\r\n", "\n\n# note\n"].choose(&mut rng).unwrap();
        }
        let mut fixture = nano();
        let decoded = settled(&mut fixture, body.as_bytes());
        assert_eq!(decoded.rejected, [], "seed {seed}");
        let mut wanted: Vec<_> = lines.iter().map(expected).collect();
        let mut found = fixture.rows(&decoded.blocks);
        wanted.sort();
        found.sort();
        assert_eq!(found, wanted, "seed {seed}");
    }
}

#[test]
fn no_bytes_make_the_decoder_panic_or_lose_count() {
    let seeds: [&[u8]; 4] = [
        b"devices,devid=1,devname=dev_1,devgroup=1 temperature=40i,humidity=12 1563249700000\n",
        b"m\\,x,a\\=b=c\\ d f=1.5e-3,s=\"a\\\"\nb\",b=TRUE,u=7u -12\r\n# comment\nm v=1\n",
        "m\u{e4},t=\u{4e2d} s=\"\u{1f600}\\\\\",i=-9223372036854775808i 9223372036854775806\n".as_bytes(),
        b"devices temperature=40i\ndevices,devgroup=2 humidity=1,new=t 5\n",
    ];
    let alphabet = b" ,=\"\\\n\r\t#0-9eE.iutfT\0\xff\xc3\xa4m";
    let mut rng = StdRng::seed_from_u64(3);
    for round in 0..20_000 {
        let mut body = seeds.choose(&mut rng).unwrap().repeat(rng.random_range(1..3));
        for _ in 0..rng.random_range(0..6) {
            let at = rng.random_range(0..body.len());
            match rng.random_range(0..4) {
                0 => body[at] = *alphabet.choose(&mut rng).unwrap(),
                1 => body.insert(at, *alphabet.choose(&mut rng).unwrap()),
                2 => {
                    body.remove(at);
                }
                _ => body.truncate(at.max(1)),
            }
            if body.is_empty() {
                break;
            }
        }
        let mut fixture = Fixture::devices();
        let decoded = fixture.settle(|f| decode(&body, f, &f.database, LinePrecision::Milli, 0));
        let stored: usize = decoded.blocks.iter().map(|b| b.len()).sum();
        assert_eq!(stored, decoded.accepted, "round {round}: {:?}", String::from_utf8_lossy(&body));
    }
}

#[test]
fn gathered_lines_equal_one_request_with_all_lines() {
    for seed in 0..300 {
        let mut rng = StdRng::seed_from_u64(seed);
        let lines: Vec<String> = (0..40)
            .map(|_| {
                let line = line(&mut rng);
                write(&line, &mut rng)
            })
            .collect();
        // The catalog has the schema that half of them need.
        let mut fixture = nano();
        settled(&mut fixture, lines[..20].join("\n").as_bytes());
        let (mut gathered, mut taken) = (Gathered::default(), Vec::new());
        for _ in 0..120 {
            let mut body = lines.choose(&mut rng).unwrap().clone().into_bytes();
            match rng.random_range(0..10) {
                0 => body.truncate(rng.random_range(0..=body.len())),
                1 => body[0] = rng.random(),
                2 => body = [&body[..], b"\n", lines.choose(&mut rng).unwrap().as_bytes()].concat(),
                3 => body = b"# a comment".to_vec(),
                _ => {}
            }
            if rng.random() {
                body.push(b'\n');
            }
            let alone = decode(&body, &fixture, &fixture.database, LinePrecision::Nano, NOW);
            let line = body.strip_suffix(b"\n").unwrap_or(&body);
            let is_good_line = (alone.accepted, alone.rejected.len(), alone.missing.len()) == (1, 0, 0)
                && !line.contains(&b'\n')
                && std::str::from_utf8(line).is_ok();
            let added = gathered.add(&body, &fixture, &fixture.database, LinePrecision::Nano, NOW);
            assert_eq!(added, is_good_line, "seed {seed}: {:?}", String::from_utf8_lossy(&body));
            if added {
                taken.push(String::from_utf8(line.to_vec()).unwrap());
            }
        }
        assert_eq!(gathered.len(), taken.len());
        let together = decode(taken.join("\n").as_bytes(), &fixture, &fixture.database, LinePrecision::Nano, NOW);
        assert_eq!(together.accepted, taken.len());
        // Rejected lines may have named a table before.
        let sorted = |mut blocks: Vec<Block>| {
            blocks.sort_by_key(|block| block.table);
            blocks
        };
        let [blocks, together] = [gathered.finish().unwrap(), together.blocks].map(sorted);
        assert_eq!(fixture.rows(&blocks), fixture.rows(&together), "seed {seed}");
        let series = |blocks: &[Block]| blocks.iter().map(|b| (b.table, b.series.batch().clone())).collect::<Vec<_>>();
        assert_eq!(series(&blocks), series(&together), "seed {seed}");
    }
}
