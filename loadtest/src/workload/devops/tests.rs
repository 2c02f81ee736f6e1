#![allow(clippy::unwrap_used)]

use super::*;

const FLEET: Fleet = Fleet { hosts: 12, steps: 8_640, seed: 123 };

#[test]
fn the_set_has_the_size_of_the_papers() {
    let paper = Fleet { hosts: 100, ..FLEET };
    assert_eq!((paper.lines(), paper.values()), (7_776_000, 87_264_000));
    let bytes = {
        let mut body = Vec::new();
        let (lines, values) = Feed::new(paper, 0..1).next(usize::MAX, &mut body);
        assert_eq!((lines as u64, values as u64), (paper.lines() / 100, paper.values() / 100));
        body.len() as f64 / lines as f64
    };
    // 3 463 801 419 bytes for 7 776 000 lines in the original.
    assert!((380.0..500.0).contains(&bytes), "{bytes} bytes a line");
}

#[test]
fn lines_come_in_time_and_do_not_depend_on_how_they_are_cut() {
    let fleet = Fleet { hosts: 3, steps: 7, seed: 5 };
    let mut whole = Vec::new();
    assert_eq!(Feed::new(fleet, 0..3).next(usize::MAX, &mut whole).0 as u64, fleet.lines());
    let (mut parts, mut feed) = (Vec::new(), Feed::new(fleet, 0..3));
    while feed.next(10, &mut parts).0 > 0 {}
    assert_eq!(whole, parts);
    let text = String::from_utf8(whole).unwrap();
    let times: Vec<i64> = text.lines().map(|line| line.rsplit(' ').next().unwrap().parse().unwrap()).collect();
    assert!(times.is_sorted() && times[0] == FIRST_TS * 1_000_000);
    let host = text.lines().find(|line| line.starts_with("redis,hostname=host_2,")).unwrap();
    assert_eq!(host.split(' ').nth(1).unwrap().split(',').count(), 31);
    assert!(host.contains(",port=") && host.contains(",server=redis_"), "{host}");
}

#[test]
fn a_field_alone_is_what_stands_in_the_lines() {
    let mut body = Vec::new();
    Feed::new(FLEET, 3..4).next(900, &mut body);
    let text = String::from_utf8(body).unwrap();
    let user =
        |line: &str| -> f64 { line.split_once("usage_user=").unwrap().1.split(',').next().unwrap().parse().unwrap() };
    let found: Vec<f64> = text.lines().filter(|line| line.starts_with("cpu,")).map(user).collect();
    assert_eq!(found[..], FLEET.series(3, "cpu", "usage_user")[..100]);
    assert!(found.iter().all(|v| (0.0..=100.0).contains(v)));
    assert!(FLEET.series(3, "net", "bytes_sent").is_sorted());
    let filling = FLEET.series(3, "redis", "connected_clients");
    assert!(filling.is_sorted() && filling[..190].iter().all(|v| *v < 10_000.0), "{:?}", &filling[..190]);
    assert!(filling[210..].iter().all(|v| *v == 10_000.0), "{:?}", &filling[210..220]);
}

#[test]
fn steps_are_about_normal() {
    let mut draws = Draws(9);
    let steps: Vec<f64> = (0..100_000).map(|_| draws.normal()).collect();
    let mean = steps.iter().sum::<f64>() / steps.len() as f64;
    let variance = steps.iter().map(|s| s * s).sum::<f64>() / steps.len() as f64;
    assert!(mean.abs() < 0.02 && (variance - 1.0).abs() < 0.02, "{mean} {variance}");
}

#[test]
fn questions_and_their_answers_fit_together() {
    for form in Form::ALL {
        for nth in 0..20 {
            let asked = Asked::random(&FLEET, form, nth);
            let (sql, values) = asked.parameters();
            assert_eq!(sql.matches('?').count(), values.len(), "{sql}");
            assert!(!asked.sql().contains('?'), "{}", asked.sql());
            let rows = answer(&FLEET, &asked).len();
            match form {
                Form::OneHostOneHour | Form::EightHostsOneHour => assert!((60..=61).contains(&rows), "{rows}"),
                Form::OneHostTwelveHours => assert!((720..=721).contains(&rows), "{rows}"),
                Form::HighCpu => assert!(rows <= 4_320),
                Form::LastPoint => assert_eq!(rows, 12),
                Form::GroupByOrderByLimit => assert_eq!(rows, 5),
            }
        }
    }
    let (a, b) = (Asked::random(&FLEET, Form::OneHostOneHour, 1), Asked::random(&FLEET, Form::OneHostOneHour, 2));
    assert_ne!(a, b);
}
