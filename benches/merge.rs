//! Nanoseconds an element of the merge of two sorted sequences, beside a plain one with a branch an
//! element.
//!
//! Inputs are new in each repetition: a processor learns to guess the branches of one that it has
//! seen.

use std::hint::black_box;
use std::time::Instant;

use circulant::extensions::growing::merge::{Float64, Number, merge};

/// What is compared with.
fn plain<T: Number>(left: &[T], right: &[T], out: &mut [T]) {
    let (mut i, mut j) = (0, 0);
    for out in out {
        let is_left = j == right.len() || i < left.len() && !right[j].is_before(left[i]);
        if is_left {
            *out = left[i];
            i += 1;
        } else {
            *out = right[j];
            j += 1;
        }
    }
}

type Merge<T> = fn(&[T], &[T], &mut [T]);

/// The least time of several repetitions, since others use the processor as well; in nanoseconds an
/// element.
fn timed<T: Number>(merge: Merge<T>, (a, b): (usize, usize), number: impl Fn(u64) -> T) -> f64 {
    let mut state = 1u64;
    let mut input = |length| {
        let next = || {
            state = state.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(1);
            number(state >> 11)
        };
        let mut numbers: Vec<T> = std::iter::repeat_with(next).take(length).collect();
        numbers.sort_by(|a, b| b.is_before(*a).cmp(&a.is_before(*b)));
        numbers
    };
    let repetition = |_| {
        let (left, right) = (input(a), input(b));
        let mut out = [&left[..], &right[..]].concat();
        let start = Instant::now();
        merge(black_box(&left), black_box(&right), black_box(&mut out));
        start.elapsed().as_nanos() as f64 / (a + b) as f64
    };
    (0..15).map(repetition).fold(f64::INFINITY, f64::min)
}

fn row<T: Number>(name: &str, lengths: (usize, usize), number: impl Fn(u64) -> T) {
    let branches = timed(plain, lengths, &number);
    let without = timed(merge, lengths, &number);
    let (a, b) = lengths;
    println!(
        "| {name} | {a} + {b} | {branches:.2} | {without:.2} | {:.1} |",
        branches / without
    );
}

fn main() {
    println!("| numbers | elements | plain, ns | merge, ns | plain / merge |");
    println!("| --- | ---: | ---: | ---: | ---: |");
    let lengths = [
        (100, 100),
        (4096, 4096),
        (65536, 65536),
        (1 << 20, 1 << 20),
        (65536, 4096),
    ];
    for lengths in lengths {
        row("i32", lengths, |x| x as i32);
        row("u64", lengths, |x| x);
        row("f64", lengths, |x| Float64((x as f64).to_bits()));
    }
}
