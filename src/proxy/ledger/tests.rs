use super::*;

#[test]
fn the_last_slot_is_given_and_the_next_is_not() {
  let slots = Slots::default();
  let held: Vec<_> = (0..3).map(|_| slots.take(3).unwrap()).collect();
  assert!(slots.take(3).is_none());
  drop(held);
  assert!(slots.take(1).is_some());
  assert!(slots.take(0).is_none());
}

#[test]
fn a_session_counts_its_own_requests_and_those_of_its_run() {
  let quotas = Quotas { max_requests: 2, max_network_requests: 5, ..Quotas::default() };
  let used = RunCounts { requests: 2, bytes: 0 };
  let first = Ledger::new(used);
  assert_eq!([first.count_request(&quotas), first.count_request(&quotas)], [Ok(()), Ok(())]);
  assert_eq!(first.count_request(&quotas), Err(Refusal::Quota(Quota::SessionRequests(2))));
  assert_eq!(first.counts().requests, 4);
  let second = Ledger::new(first.counts());
  assert_eq!(second.count_request(&quotas), Ok(()));
  assert_eq!(second.count_request(&quotas), Err(Refusal::Quota(Quota::RunRequests(5))));
  assert_eq!(second.counts().requests, 5);
}

#[test]
fn the_last_byte_is_granted_and_the_next_is_not() {
  let quotas = Quotas { max_network_bytes: 10, ..Quotas::default() };
  let ledger = Ledger::new(RunCounts { requests: 0, bytes: 3 });
  assert_eq!(ledger.take_bytes(4, &quotas), 4);
  assert_eq!(ledger.count_request(&quotas), Ok(()));
  assert_eq!(ledger.take_bytes(4, &quotas), 3);
  assert_eq!(ledger.take_bytes(4, &quotas), 0);
  assert_eq!(ledger.counts(), RunCounts { requests: 1, bytes: 10 });
  assert_eq!(ledger.count_request(&quotas), Err(Refusal::Quota(Quota::RunBytes(10))));
}

#[test]
fn counts_beyond_a_smaller_quota_grant_nothing() {
  let quotas = Quotas { max_network_bytes: 10, max_network_requests: 1, ..Quotas::default() };
  let ledger = Ledger::new(RunCounts { requests: u64::MAX, bytes: u64::MAX });
  assert_eq!(ledger.take_bytes(1, &quotas), 0);
  assert_eq!(ledger.count_request(&quotas), Err(Refusal::Quota(Quota::RunRequests(1))));
}

#[test]
fn bytes_are_exact_however_many_take_them() {
  let quotas = Quotas { max_network_bytes: 100_000, ..Quotas::default() };
  let ledger = Ledger::new(RunCounts::default());
  let taken: u64 = std::thread::scope(|scope| {
    let take = || (0..10_000).map(|_| ledger.take_bytes(7, &quotas)).sum::<u64>();
    let threads: Vec<_> = (0..4).map(|_| scope.spawn(take)).collect();
    threads.into_iter().map(|thread| thread.join().unwrap()).sum()
  });
  assert_eq!((taken, ledger.counts().bytes), (100_000, 100_000));
}
