//! The library's schedules of one process, and what their computation takes.

use circulant::schedule::{
    Counts, MAX_Q, Skips, receive_schedule, receive_schedule_with, schedules, send_schedule,
    send_schedule_with,
};

/// The library's schedules of one process, computed in each way that there is.
pub fn of_process(skips: &Skips, r: usize) -> (Vec<i64>, Vec<i64>) {
    let q = skips.q();
    let [mut recv, mut send, mut recv_too, mut send_too] = [[0; MAX_Q]; 4];
    receive_schedule(skips, r, &mut recv[..q]);
    send_schedule(skips, r, &mut send[..q]);
    schedules(skips, r, &mut recv_too[..q], &mut send_too[..q]);
    assert_eq!(
        (recv, send),
        (recv_too, send_too),
        "p = {}, r = {r}",
        skips.processes()
    );
    let wide = |entries: &[i8]| entries.iter().copied().map(i64::from).collect();
    (wide(&recv[..q]), wide(&send[..q]))
}

/// The library's counterparts of Theorem 2's recursive calls and Theorem 3's violations, and the
/// total of both schedules in levels of a descent.
pub fn within_bounds(skips: &Skips, r: usize) {
    let (p, q) = (skips.processes(), skips.q());
    let (mut receiving, mut sending) = (Counts::default(), Counts::default());
    let mut entries = [0; MAX_Q];
    receive_schedule_with(skips, r, &mut entries, &mut receiving);
    send_schedule_with(skips, r, &mut entries, &mut sending);
    let searched = receiving.contested + receiving.searches;
    assert!(q == 0 || searched < q, "p = {p}, r = {r}: {receiving:?}");
    // The theorem says four. Some p of 2^48 and more have five.
    let most = if q < 49 { 4 } else { 5 };
    assert!(sending.violations <= most, "p = {p}, r = {r}: {sending:?}");
    assert!(
        receiving.levels == q && sending.levels <= (1 + most) * q,
        "p = {p}, r = {r}: {sending:?}"
    );
}
