#![allow(clippy::unwrap_used)]

use rand::{Rng, SeedableRng, rngs::StdRng};

use super::*;

const RUN: u64 = 7;

/// A segment's key and bytes; the sizes include ends on and off block boundaries.
fn segment(n: usize) -> (Path, Vec<u8>) {
    let len = [0, 1, 100, SECTOR, 3 * SECTOR + 1, ALIGN - 60, ALIGN, 9 * ALIGN + 7][n % 8];
    (Path::from(format!("log/w{}/{n}", n % 3)), (0..len).map(|i| (i * 7 + n + 1) as u8 | 1).collect())
}

fn modified(n: usize) -> SystemTime {
    UNIX_EPOCH + Duration::from_nanos(1_700_000_000_123_456_789 + n as u64)
}

/// A journal that holds segments 0..count; their files are not created.
fn journal(root: &FsPath, count: usize) -> Journal {
    let journal = Journal::with(root, RUN, false);
    let mut written = 0;
    let begun = Instant::now();
    while written < count {
        let (key, bytes) = segment(written);
        written += usize::from(journal.append(&key, &bytes.into(), modified(written)).is_some());
        assert!(begun.elapsed() < Duration::from_secs(60), "no journal begins");
        if written == 0 {
            thread::sleep(Duration::from_micros(100));
        }
    }
    journal
}

/// Copies a root as another machine would find it: no process holds a lock in it.
fn copy(root: &FsPath, target: &FsPath) {
    fs::create_dir_all(target).unwrap();
    for entry in fs::read_dir(root).unwrap() {
        let path = entry.unwrap().path();
        let target = target.join(path.file_name().unwrap());
        if path.is_dir() { copy(&path, &target) } else { fs::copy(&path, &target).map(drop).unwrap() }
    }
}

fn settled(root: &FsPath) -> Settled {
    settle(root, RUN + 1, &root.join("staging")).unwrap()
}

#[test]
fn segments_come_back_with_their_bytes_and_times() {
    let all = tempfile::tempdir().unwrap();
    let (root, left) = (all.path().join("root"), all.path().join("left"));
    fs::create_dir(&root).unwrap();
    let journal = journal(&root, 100);
    let put = |n| {
        let (key, bytes) = segment(n);
        while journal.append(&key, &bytes.clone().into(), modified(n)).is_none() {
            thread::sleep(Duration::from_millis(1));
        }
    };
    thread::scope(|scope| {
        for thread in 0..4 {
            scope.spawn(move || (100 + thread..500).step_by(4).for_each(put));
        }
    });
    copy(&root, &left);
    assert_eq!(settled(&left), Settled { restored: 500, is_stalled: false });
    for n in 0..500 {
        let (key, bytes) = segment(n);
        let path = left.join(key.as_ref());
        assert_eq!(fs::read(&path).unwrap(), bytes, "{n}");
        assert_eq!(fs::metadata(&path).unwrap().modified().unwrap(), modified(n));
    }
    // Segments folded and deleted since do not come back again.
    fs::remove_file(left.join("log/w0/0")).unwrap();
    assert_eq!(settled(&left), Settled::default());
}

#[test]
fn torn_files_are_made_whole_and_objects_of_others_stay() {
    let all = tempfile::tempdir().unwrap();
    let (root, left) = (all.path().join("root"), all.path().join("left"));
    fs::create_dir(&root).unwrap();
    let _held = journal(&root, 64);
    copy(&root, &left);
    let mut random = StdRng::seed_from_u64(1);
    let mut others = 0;
    for n in 0..64 {
        let (key, whole) = segment(n);
        let path = left.join(key.as_ref());
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let mut found = whole.clone();
        match n / 16 {
            0 => found.truncate(random.random_range(0..=whole.len())),
            // a sector is present or was never written
            1 => found.chunks_mut(SECTOR).filter(|_| random.random()).for_each(|sector| sector.fill(0)),
            2 if !found.is_empty() => {
                found[0] ^= 2;
                others += 1;
            }
            _ => found.extend(b"longer"),
        }
        fs::write(&path, &found).unwrap();
    }
    settled(&left);
    let mut kept = 0;
    for n in 0..64 {
        let (key, whole) = segment(n);
        let found = fs::read(left.join(key.as_ref())).unwrap();
        if n < 32 {
            assert_eq!(found, whole, "{n}");
        } else if n < 48 {
            kept += usize::from(found != whole && found.len() == whole.len());
        } else {
            assert_eq!(found.len(), whole.len() + 6, "{n}");
        }
    }
    assert_eq!(kept, others);
}

#[test]
fn a_torn_record_hides_no_other_record() {
    let all = tempfile::tempdir().unwrap();
    let _held = journal(all.path(), 40);
    let directory = all.path().join(LOG).join(JOURNAL);
    let files = fs::read_dir(&directory).unwrap().map(|entry| fs::read(entry.unwrap().path()).unwrap());
    let whole = files.max_by_key(|file| records(file).len()).unwrap();
    let all: Vec<_> = records(&whole).iter().map(|r| r.key.to_owned()).collect();
    assert!(all.len() > 20);
    let mut at = ALIGN;
    for missing in 0..all.len() {
        let len = decode(&whole[at..], &whole[8..24]).unwrap().1;
        for byte in [at, at + 17, at + 33, at + len - 1] {
            let mut torn = whole.clone();
            torn[byte] ^= 1;
            let found: Vec<_> = records(&torn).iter().map(|r| r.key.to_owned()).collect();
            let rest: Vec<_> = all.iter().enumerate().filter(|(i, _)| *i != missing).map(|(_, k)| k.clone()).collect();
            assert_eq!(found, rest);
        }
        at += len.next_multiple_of(ALIGN);
    }
    // records of an earlier use
    let mut begun = whole.clone();
    begun[8..24].fill(9);
    assert_eq!(records(&begun), []);
    assert_eq!(records(&[]), []);
}

#[test]
fn journals_of_a_running_process_are_left_alone_and_removed_when_it_ends() {
    let all = tempfile::tempdir().unwrap();
    let journal = journal(all.path(), 10);
    let directory = all.path().join(LOG).join(JOURNAL);
    let files = || fs::read_dir(&directory).unwrap().filter(|e| e.as_ref().unwrap().file_name() != TURN).count();
    assert_eq!(settled(all.path()), Settled::default());
    assert!(files() > 0);
    let age = |which: fn(&[Record<'_>]) -> bool| {
        for entry in fs::read_dir(&directory).unwrap() {
            let path = entry.unwrap().path();
            if which(&records(&fs::read(&path).unwrap())) {
                let file = File::options().write(true).open(path).unwrap();
                file.set_modified(SystemTime::now() - 2 * STALLED).unwrap();
            }
        }
    };
    age(|records| records.is_empty());
    assert_eq!(settled(all.path()), Settled::default());
    age(|records| !records.is_empty());
    assert_eq!(settled(all.path()), Settled { restored: 0, is_stalled: true });
    drop(journal);
    let begun = Instant::now();
    while files() > 0 {
        assert!(begun.elapsed() < Duration::from_secs(60), "its files stay");
        thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn files_are_reused_and_only_unsettled_segments_are_restored() {
    let all = tempfile::tempdir().unwrap();
    let root = all.path().join("root");
    fs::create_dir(&root).unwrap();
    let journal = journal(&root, 1);
    let big: PutPayload = vec![1; 1 << 20].into();
    let (mut journaled, mut refused) = (0, 0);
    let begun = Instant::now();
    while journaled < 4 * MAX_FILES * (FILE_BYTES >> 20) {
        match journal.append(&Path::from(format!("log/w/{journaled}")), &big, modified(0)) {
            Some(_) => journaled += 1,
            None => {
                refused += 1;
                thread::sleep(Duration::from_millis(1));
            }
        }
        assert!(begun.elapsed() < Duration::from_secs(120), "only {journaled}, {refused} refused");
    }
    assert!(fs::read_dir(root.join(LOG).join(JOURNAL)).unwrap().count() <= MAX_FILES);
    let left = all.path().join("left");
    copy(&root, &left);
    settled(&left);
    let numbers: Vec<usize> = fs::read_dir(left.join("log/w"))
        .unwrap()
        .map(|e| e.unwrap().file_name().to_str().unwrap().parse().unwrap())
        .collect();
    assert_eq!(numbers.iter().max(), Some(&(journaled - 1)));
    assert!(numbers.len() <= MAX_FILES * (FILE_BYTES >> 20), "{} came back", numbers.len());
}
