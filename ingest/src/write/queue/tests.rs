use super::{
    turns::{AT_ONCE, LULL},
    *,
};
use crate::write::budget::Budget;

async fn entry(bytes: usize, waits: bool) -> Entry {
    let reservation = Budget::new(1 << 20, Duration::ZERO).reserve(1).await.unwrap();
    let waiter = waits.then(|| oneshot::channel().0);
    Entry { blocks: Vec::new(), gathering: None, bytes, resolved: None, reservation, claim: None, waiter }
}

#[tokio::test]
async fn a_group_has_the_requests_that_fit_and_at_least_one() {
    let queue = Queue::new(100, Duration::ZERO, false);
    for bytes in [60, 30, 30, 500] {
        queue.push(entry(bytes, true).await).unwrap();
    }
    let mut sizes = Vec::new();
    for _ in 0..3 {
        sizes.push(queue.take(Takes::Any, Duration::ZERO).await.unwrap().iter().map(|e| e.bytes).collect::<Vec<_>>());
    }
    assert_eq!(sizes, [vec![60, 30], vec![30], vec![500]]);
    queue.close();
    assert!(queue.take(Takes::Any, Duration::ZERO).await.is_none());
    assert!(queue.push(entry(1, true).await).is_err());
}

#[tokio::test]
async fn a_lane_for_large_groups_leaves_small_ones_to_others() {
    let queue = std::sync::Arc::new(Queue::new(2 * PLENTY, Duration::ZERO, false));
    let second = tokio::spawn({
        let queue = queue.clone();
        async move {
            let mut sizes = Vec::new();
            while let Some(group) = queue.take(Takes::Plenty, Duration::ZERO).await {
                sizes.push(group.iter().map(|e| e.bytes).sum::<usize>());
            }
            sizes
        }
    });
    tokio::task::yield_now().await;
    queue.push(entry(PLENTY - 1, true).await).unwrap();
    tokio::task::yield_now().await;
    assert_eq!(queue.take(Takes::Any, Duration::ZERO).await.unwrap().len(), 1);
    // Together these are large; the last does not fit the same group.
    for bytes in [PLENTY - 1, 1, 2 * PLENTY] {
        queue.push(entry(bytes, true).await).unwrap();
    }
    while queue.state.lock().bytes > 0 {
        tokio::task::yield_now().await;
    }
    queue.push(entry(1, true).await).unwrap();
    queue.close();
    assert_eq!(second.await.unwrap(), [PLENTY, 2 * PLENTY]);
    assert_eq!(queue.take(Takes::Any, Duration::ZERO).await.unwrap().len(), 1);
    assert!(queue.take(Takes::Any, Duration::ZERO).await.is_none());
}

#[tokio::test]
async fn nothing_is_taken_until_all_expected_requests_have_arrived() {
    let queue = std::sync::Arc::new(Queue::new(100, Duration::ZERO, false));
    let places = Queue::hold(&queue, &[None; 3]);
    let lane = tokio::spawn({
        let queue = queue.clone();
        async move { queue.take(Takes::Any, Duration::ZERO).await.unwrap().len() }
    });
    for place in &places[..2] {
        queue.push(entry(1, true).await).unwrap();
        place.taken();
        place.taken();
        for _ in 0..10 {
            tokio::task::yield_now().await;
        }
        assert!(!lane.is_finished());
    }
    // The third request has nothing to write.
    drop(places);
    assert_eq!(lane.await.unwrap(), 2);

    let places = Queue::hold(&queue, &[None; 3]);
    let third = tokio::spawn({
        let mut places = places;
        let third = places.pop().unwrap();
        async move {
            let (first, second) = (places.remove(0), places);
            let turn = third.turn();
            tokio::pin!(turn);
            assert!(futures::poll!(turn.as_mut()).is_pending());
            drop(first);
            assert!(futures::poll!(turn.as_mut()).is_pending());
            second[0].turn().await.unwrap();
            second[0].taken();
            turn.await.unwrap();
        }
    });
    third.await.unwrap();

    let _never = Queue::hold(&queue, &[None]);
    queue.push(entry(1, true).await).unwrap();
    queue.close();
    assert_eq!(queue.take(Takes::Any, Duration::ZERO).await.unwrap().len(), 1);
}

#[tokio::test]
async fn only_requests_after_a_failed_one_of_their_order_are_refused() {
    let queue = std::sync::Arc::new(Queue::new(100, Duration::ZERO, false));
    let mut refused = Vec::new();
    for (at, place) in
        Queue::hold(&queue, &[Some("a"), Some("b"), Some("a"), None, Some("b"), Some("a")]).into_iter().enumerate()
    {
        let turn = place.turn().await;
        if let Err(error) = &turn {
            assert_eq!(error.kind(), tidelake_format::Kind::Unavailable);
            refused.push(at);
        }
        // The first request is written in part.
        if at == 0 || turn.is_err() {
            place.failed();
        }
        place.taken();
    }
    assert_eq!(refused, [2, 5]);
}

#[tokio::test]
async fn requests_without_a_waiter_linger_until_one_with_a_waiter_arrives() {
    let queue = Queue::new(100, Duration::ZERO, false);
    queue.push(entry(1, false).await).unwrap();
    let before = tokio::time::Instant::now();
    assert_eq!(queue.take(Takes::Any, Duration::from_millis(10)).await.unwrap().len(), 1);
    assert!(before.elapsed() >= Duration::from_millis(10));
    queue.push(entry(1, false).await).unwrap();
    queue.push(entry(1, true).await).unwrap();
    assert_eq!(queue.take(Takes::Any, Duration::from_secs(3_600)).await.unwrap().len(), 2);
}

#[tokio::test]
async fn a_lingering_lane_is_woken_by_a_waiting_request_and_by_a_full_group() {
    let queue = std::sync::Arc::new(Queue::new(100, Duration::ZERO, false));
    for (later, expected) in [(entry(1, true).await, 3), (entry(98, false).await, 3)] {
        queue.push(entry(1, false).await).unwrap();
        let lane = tokio::spawn({
            let queue = queue.clone();
            async move { queue.take(Takes::Any, Duration::from_secs(3_600)).await.unwrap().len() }
        });
        tokio::task::yield_now().await;
        queue.push(entry(1, false).await).unwrap();
        tokio::task::yield_now().await;
        assert!(!lane.is_finished());
        queue.push(later).unwrap();
        let taken = tokio::time::timeout(Duration::from_secs(60), lane).await;
        assert_eq!(taken.expect("the lane was not woken").unwrap(), expected);
    }
}

#[tokio::test]
async fn small_groups_take_turns_while_requests_keep_coming() {
    let interval = Duration::from_millis(400);
    let queue = std::sync::Arc::new(Queue::new(1_000, interval, false));
    let groups = tokio::spawn({
        let queue = queue.clone();
        async move {
            let mut groups = Vec::new();
            while let Some(group) = queue.take(Takes::Any, Duration::ZERO).await {
                groups.push((group.len(), Instant::now()));
            }
            groups
        }
    });
    // One request each 5 ms, none waiting for a reply before the next.
    let begun = Instant::now();
    let mut sent = 0;
    while begun.elapsed() < interval * 3 {
        queue.push(entry(1, true).await).unwrap();
        sent += 1;
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let took = begun.elapsed();
    queue.close();
    let groups = groups.await.unwrap();
    assert_eq!(groups.iter().map(|(len, _)| len).sum::<usize>(), sent);
    // If the machine stalls for longer than a lull, there are more groups.
    let lulls = (took.as_millis() as usize / 5).saturating_sub(sent);
    let turns = AT_ONCE as usize + 3 + 1;
    assert!(groups.len() <= turns + lulls, "{} groups of {sent} requests in {took:?}", groups.len());
    assert!(groups[..AT_ONCE as usize].iter().all(|(len, _)| *len <= 1 + lulls), "{groups:?}");
}

#[tokio::test]
async fn clients_that_send_requests_in_sequence_do_not_wait_for_a_turn() {
    let queue = Queue::new(100, Duration::from_secs(3_600), false);
    let begun = Instant::now();
    for n in 0..AT_ONCE + 5 {
        queue.push(entry(1, true).await).unwrap();
        queue.push(entry(1, true).await).unwrap();
        assert_eq!(queue.take(Takes::Any, Duration::ZERO).await.unwrap().len(), 2);
        assert!(begun.elapsed() >= LULL * (n + 1).saturating_sub(AT_ONCE));
        queue.answered();
    }
    // While a group is being answered, other requests wait for the next requests of its clients.
    for _ in 0..2 {
        queue.push(entry(1, true).await).unwrap();
    }
    let group = queue.take(Takes::Any, Duration::ZERO).await.unwrap();
    queue.push(entry(1, true).await).unwrap();
    let before = Instant::now();
    let (_, next) = tokio::join!(
        async {
            tokio::time::sleep(5 * LULL).await;
            queue.answered();
            queue.push(entry(1, true).await).unwrap();
        },
        queue.take(Takes::Any, Duration::ZERO)
    );
    assert_eq!((group.len(), next.unwrap().len()), (2, 2));
    assert!(before.elapsed() >= 6 * LULL);
    queue.answered();
    assert!(begun.elapsed() < Duration::from_secs(600));
    // A full group uses no turn, and waits for none.
    let turn = queue.state.lock().turns.next();
    queue.push(entry(100, true).await).unwrap();
    assert_eq!(queue.take(Takes::Any, Duration::ZERO).await.unwrap().len(), 1);
    assert!(turn.is_some() && queue.state.lock().turns.next() == turn);
    // After the close nothing waits.
    queue.push(entry(1, false).await).unwrap();
    queue.close();
    assert_eq!(queue.take(Takes::Any, Duration::from_secs(3_600)).await.unwrap().len(), 1);
}

/// A lane with its own thread that takes one group; returns the number of entries.
fn takes_one(queue: &Arc<Queue>, linger: Duration) -> std::thread::JoinHandle<usize> {
    let (runtime, queue) = (tokio::runtime::Handle::current(), queue.clone());
    std::thread::spawn(move || runtime.block_on(queue.take(Takes::Any, linger)).unwrap().len())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_lane_with_a_thread_waits_for_the_senders_of_the_previous_group() {
    let queue = Arc::new(Queue::new(1_000, Duration::ZERO, true));
    let far = Instant::now() + Duration::from_secs(3_600);
    // Waits until enough senders are back, until much is queued, or until the queue is closed.
    for last in [Some(1), Some(1_000), None] {
        queue.state.lock().regroup = Some(Regroup::expecting(3, far));
        queue.push(entry(1, true).await).unwrap();
        let lane = takes_one(&queue, Duration::ZERO);
        queue.push(entry(1, true).await).unwrap();
        tokio::time::sleep(Duration::from_millis(50)).await;
        assert!(!lane.is_finished());
        match last {
            Some(bytes) => queue.push(entry(bytes, true).await).unwrap(),
            None => queue.close(),
        }
        let (took, group) = (Instant::now(), if last == Some(1) { 3 } else { 2 });
        assert_eq!(tokio::task::spawn_blocking(|| lane.join().unwrap()).await.unwrap(), group, "{last:?}");
        assert!(took.elapsed() < Duration::from_secs(600));
        queue.state.lock().entries.clear();
        queue.state.lock().waiters = 0;
        queue.state.lock().bytes = 0;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_request_is_taken_at_once_after_the_wait_for_senders_has_expired() {
    let queue = Arc::new(Queue::new(1_000, Duration::ZERO, true));
    queue.state.lock().regroup = Some(Regroup::expecting(3, Instant::now()));
    queue.push(entry(1, false).await).unwrap();
    let lane = takes_one(&queue, Duration::from_secs(3_600));
    tokio::time::sleep(Duration::from_millis(50)).await;
    let before = Instant::now();
    queue.push(entry(1, true).await).unwrap();
    assert_eq!(tokio::task::spawn_blocking(|| lane.join().unwrap()).await.unwrap(), 2);
    assert!(before.elapsed() < Duration::from_secs(600));
}

#[tokio::test]
async fn a_large_request_is_taken_at_once_while_small_ones_take_turns() {
    let queue = Queue::new(16 << 20, Duration::from_secs(3_600), false);
    let begun = Instant::now();
    for bytes in [[PLENTY, 1], [1, PLENTY]] {
        for bytes in bytes {
            queue.push(entry(bytes, true).await).unwrap();
        }
        assert_eq!(queue.take(Takes::Plenty, Duration::ZERO).await.unwrap().len(), 2);
        assert_eq!(queue.state.lock().large, 0);
    }
    // Gathered rows together become large.
    let catalog = Arc::new(Catalog::default());
    let budget = Budget::new(1 << 20, Duration::ZERO);
    for _ in 0..3 {
        let reservation = budget.reserve(1).await.unwrap();
        let left = queue.gather(&catalog, DatabaseId(1), PLENTY / 2, reservation, |_| true).unwrap();
        assert!(left.is_none());
    }
    assert_eq!(queue.state.lock().large, 1);
    assert_eq!(queue.take(Takes::Plenty, Duration::ZERO).await.unwrap().len(), 1);
    assert_eq!(queue.state.lock().large, 0);
    assert!(begun.elapsed() < Duration::from_secs(600));
}
