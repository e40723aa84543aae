//! A stable merge of two sorted sequences of numbers, without branches that depend on the numbers.
//!
//! ```text
//! right = R[j] < L[i];  out[k] = right ? R[j] : L[i];  j += right;  i += !right
//! ```
//!
//! In a merge, a processor mispredicts half of the branches on which number is the smaller one.
//! Here the comparison is a number that is added. What is left is the latency of a step: load,
//! compare, add. So the output is cut into `STREAMS` parts of the same length, whose inputs a
//! binary search finds (`split`). The steps of the parts take turns and do not wait for each other.
//!
//! The ends of the inputs are not checked in each step. After a check, as many steps are taken as
//! the shortest rest of an input has numbers. If both inputs are about as long, that rest halves
//! each time.
//!
//! Cost: n steps, and 2 log n comparisons to cut and to check.
//!
//! **Order.** Integers ascend. So do floating-point numbers, where -0 and 0 are equal. NaNs come
//! after all numbers, and are equal to each other. Equal elements keep their order, those of the
//! left input first.

#![forbid(unsafe_code)]

/// A number that can be merged.
pub trait Number: Copy {
    /// Whether it comes before `other`, and is not equal to it.
    fn is_before(self, other: Self) -> bool;
}

macro_rules! integers {
    ($($type:ty)*) => {$(
        impl Number for $type {
            #[inline(always)]
            fn is_before(self, other: Self) -> bool {
                self < other
            }
        }
    )*};
}

integers! { i8 u8 i16 u16 i32 u32 i64 u64 }

macro_rules! floating {
    ($($name:ident($bits:ty): $type:ty;)*) => {$(
        /// A floating-point number, by its bits. In integer registers, one of two numbers can be
        /// chosen without a branch.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        #[repr(transparent)]
        pub struct $name(pub $bits);

        impl $name {
            /// The number.
            #[inline(always)]
            pub fn value(self) -> $type {
                <$type>::from_bits(self.0)
            }
        }

        impl Number for $name {
            /// `b <= a` is false if one of them is a NaN. Then the number comes first.
            #[inline(always)]
            #[allow(clippy::eq_op, clippy::neg_cmp_op_on_partial_ord)]
            fn is_before(self, other: Self) -> bool {
                let (a, b) = (self.value(), other.value());
                (a == a) & !(b <= a)
            }
        }
    )*};
}

floating! {
    Float32(u32): f32;
    Float64(u64): f64;
}

/// A number of 80 bits in 16 bytes, whose leading 1 of the fraction is stored: C's `long double` on
/// x86. The other bytes mean nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C, align(16))]
pub struct Extended {
    /// The fraction.
    pub fraction: u64,
    /// The sign and the exponent, in its lower half.
    pub sign_and_exponent: u32,
    /// Nothing.
    pub padding: u32,
}

impl Extended {
    /// Ascends as the numbers do.
    #[inline(always)]
    fn key(self) -> i128 {
        let exponent = self.sign_and_exponent & 0x7FFF;
        let magnitude = i128::from(exponent) << 64 | i128::from(self.fraction);
        let is_negative = self.sign_and_exponent & 0x8000 != 0;
        let is_number = exponent != 0x7FFF || self.fraction << 1 == 0;
        match (is_number, is_negative) {
            (false, _) => i128::MAX,
            (true, true) => -magnitude,
            (true, false) => magnitude,
        }
    }
}

impl Number for Extended {
    #[inline(always)]
    fn is_before(self, other: Self) -> bool {
        self.key() < other.key()
    }
}

/// How many parts are merged at once. While one of four waits, the others load and compare. The
/// state of more parts does not fit into the registers.
const STREAMS: usize = 4;

/// Fewer elements than this are not worth cutting.
const SMALL: usize = 64;

/// Fewer steps than this are not worth taking together.
const FEW: usize = 8;

/// Merges two sorted sequences into `out`, which is as long as both together.
pub fn merge<T: Number>(left: &[T], right: &[T], out: &mut [T]) {
    debug_assert_eq!(left.len() + right.len(), out.len());
    if out.len() < SMALL {
        finish(left, right, out);
        return;
    }
    let mut streams = cut(left, right, out);
    loop {
        let shortest = |stream: &Stream<T>| stream.left.len().min(stream.right.len());
        let steps = streams.iter().map(shortest).min().unwrap_or(0);
        if steps < FEW {
            break;
        }
        take(&mut streams, steps);
    }
    for stream in streams {
        finish(stream.left, stream.right, stream.out);
    }
}

/// The rest of one part.
struct Stream<'a, T> {
    left: &'a [T],
    right: &'a [T],
    out: &'a mut [T],
}

/// The parts.
fn cut<'a, T: Number>(
    mut left: &'a [T],
    mut right: &'a [T],
    out: &'a mut [T],
) -> [Stream<'a, T>; STREAMS] {
    let length = out.len().div_ceil(STREAMS);
    let mut outs = out.chunks_mut(length);
    std::array::from_fn(|_| {
        let out = outs.next().unwrap_or_default();
        let from_left = split(left, right, out.len());
        let (of_left, rest_of_left) = left.split_at(from_left);
        let (of_right, rest_of_right) = right.split_at(out.len() - from_left);
        (left, right) = (rest_of_left, rest_of_right);
        Stream {
            left: of_left,
            right: of_right,
            out,
        }
    })
}

/// How many of the first `count` elements of the merge are from the left.
fn split<T: Number>(left: &[T], right: &[T], count: usize) -> usize {
    let (mut low, mut high) = (count.saturating_sub(right.len()), count.min(left.len()));
    while low < high {
        let middle = (low + high) / 2;
        // If so, left[middle] is not one of them.
        if right[count - middle - 1].is_before(left[middle]) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    low
}

/// Takes `steps` steps of each stream, in turn. No input is shorter than that.
fn take<T: Number>(streams: &mut [Stream<'_, T>; STREAMS], steps: usize) {
    let lefts: [&[T]; STREAMS] = std::array::from_fn(|stream| &streams[stream].left[..steps]);
    let rights: [&[T]; STREAMS] = std::array::from_fn(|stream| &streams[stream].right[..steps]);
    let outs = streams.each_mut().map(|stream| &mut stream.out[..steps]);
    let (mut i, mut j) = ([0; STREAMS], [0; STREAMS]);
    #[allow(clippy::needless_range_loop)] // k is the step of all streams.
    for k in 0..steps {
        for stream in 0..STREAMS {
            let (left, right, out) = (lefts[stream], rights[stream], &mut outs[stream][k]);
            step(left, right, &mut i[stream], &mut j[stream], out);
        }
    }
    for (stream, (i, j)) in streams.iter_mut().zip(i.into_iter().zip(j)) {
        stream.left = &stream.left[i..];
        stream.right = &stream.right[j..];
        stream.out = &mut std::mem::take(&mut stream.out)[steps..];
    }
}

#[inline(always)]
fn step<T: Number>(left: &[T], right: &[T], i: &mut usize, j: &mut usize, out: &mut T) {
    let (of_left, of_right) = (left[*i], right[*j]);
    let takes_right = of_right.is_before(of_left);
    *out = if takes_right { of_right } else { of_left };
    *j += usize::from(takes_right);
    *i += usize::from(!takes_right);
}

/// Merges the rest of one part.
fn finish<T: Number>(mut left: &[T], mut right: &[T], mut out: &mut [T]) {
    loop {
        let steps = left.len().min(right.len());
        if steps == 0 {
            break;
        }
        let (now, later) = out.split_at_mut(steps);
        let (mut i, mut j) = (0, 0);
        let (of_left, of_right) = (&left[..steps], &right[..steps]);
        for out in now {
            step(of_left, of_right, &mut i, &mut j, out);
        }
        (left, right, out) = (&left[i..], &right[j..], later);
    }
    let rest = if left.is_empty() { right } else { left };
    out.copy_from_slice(rest);
}

#[cfg(test)]
mod tests {
    use std::cmp::Ordering;
    use std::fmt::Debug;

    use super::*;

    fn merged<T: Number + Default>(left: &[T], right: &[T]) -> Vec<T> {
        let mut out = vec![T::default(); left.len() + right.len()];
        merge(left, right, &mut out);
        out
    }

    /// Knows where it comes from; only the key is compared.
    #[derive(Clone, Copy, Debug, Default, PartialEq)]
    struct Record(i32, usize);

    impl Number for Record {
        fn is_before(self, other: Record) -> bool {
            self.0 < other.0
        }
    }

    fn random(state: &mut u64) -> u64 {
        *state = state.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(1);
        *state >> 33
    }

    fn lengths() -> impl Iterator<Item = (usize, usize)> {
        let lengths = [
            0, 1, 2, 3, 7, 8, 31, 32, 33, 63, 64, 65, 100, 257, 1000, 4099,
        ];
        // Miri is some thousand times slower.
        let most = if cfg!(miri) { 8 } else { usize::MAX };
        let lengths = lengths.into_iter().filter(move |length| *length <= most);
        let others = lengths.clone();
        lengths.flat_map(move |a| others.clone().map(move |b| (a, b)))
    }

    /// Few keys and many; interleaved, and one input before the other.
    #[test]
    fn a_merge_is_a_stable_sort() {
        let mut state = 1;
        for (a, b) in lengths() {
            for (keys, shift) in [(1, 0), (3, 0), (1000, 0), (1 << 30, 0), (50, 40), (50, -60)] {
                let mut input = |length: usize, shift: i32, tag: usize| {
                    let mut keys: Vec<i32> = (0..length)
                        .map(|_| (random(&mut state) % keys) as i32 + shift)
                        .collect();
                    keys.sort_unstable();
                    let tagged = keys.into_iter().zip(tag..);
                    tagged
                        .map(|(key, tag)| Record(key, tag))
                        .collect::<Vec<_>>()
                };
                let (left, right) = (input(a, 0, 0), input(b, shift, 1 << 20));
                let mut expected = [left.clone(), right.clone()].concat();
                expected.sort_by_key(|record| record.0);
                assert_eq!(merged(&left, &right), expected, "{a} {b} {keys} {shift}");
            }
        }
    }

    fn check<T: Number + Default + Debug + PartialEq>(
        all: impl Fn(u64) -> T,
        order: impl Fn(&T, &T) -> Ordering,
        show: impl Fn(&T) -> String,
    ) {
        let mut state = 7;
        for (a, b) in lengths() {
            let mut input = |length| {
                let mut input: Vec<T> = (0..length).map(|_| all(random(&mut state))).collect();
                input.sort_by(&order);
                input
            };
            let (left, right) = (input(a), input(b));
            let mut expected = [&left[..], &right[..]].concat();
            expected.sort_by(&order);
            let shown = |of: &[T]| of.iter().map(&show).collect::<Vec<_>>();
            assert_eq!(shown(&merged(&left, &right)), shown(&expected), "{a} {b}");
        }
    }

    #[test]
    fn integers_of_all_kinds() {
        check(|x| (x << 7) as i8, i8::cmp, i8::to_string);
        check(|x| x as u8, u8::cmp, u8::to_string);
        check(|x| x as i16, i16::cmp, i16::to_string);
        check(|x| x as u16, u16::cmp, u16::to_string);
        check(|x| (x << 3) as i32, i32::cmp, i32::to_string);
        check(|x| (x << 3) as u32, u32::cmp, u32::to_string);
        check(|x| (x << 35) as i64, i64::cmp, i64::to_string);
        check(|x| x << 35, u64::cmp, u64::to_string);
    }

    /// Zeros of both signs are equal, and what is no number comes last: the bits show in which
    /// order.
    #[test]
    fn floating_point_numbers() {
        let some = |x: u64| match x % 8 {
            0 => 0.0,
            1 => -0.0,
            2 => f64::NAN,
            3 => -f64::NAN,
            4 => f64::INFINITY,
            5 => f64::NEG_INFINITY,
            _ => x as f64 - 1e9,
        };
        let order = |a: f64, b: f64| match (a.is_nan(), b.is_nan()) {
            (false, false) => a.partial_cmp(&b).unwrap_or(Ordering::Equal),
            (a, b) => a.cmp(&b),
        };
        check(
            |x| Float64(some(x).to_bits()),
            |a, b| order(a.value(), b.value()),
            |x| format!("{:x}", x.0),
        );
        check(
            |x| Float32((some(x) as f32).to_bits()),
            |a, b| order(a.value().into(), b.value().into()),
            |x| format!("{:x}", x.0),
        );
    }

    impl Default for Extended {
        fn default() -> Extended {
            extended(0)
        }
    }

    /// A whole number.
    fn extended(number: i64) -> Extended {
        let magnitude = number.unsigned_abs();
        let zeros = magnitude.leading_zeros();
        let exponent = if magnitude == 0 {
            0
        } else {
            16383 + 63 - zeros
        };
        Extended {
            fraction: magnitude.checked_shl(zeros).unwrap_or(0),
            sign_and_exponent: exponent | u32::from(number < 0) << 15 | 0xABCD_0000,
            padding: 0x1234_5678,
        }
    }

    #[test]
    fn extended_numbers_ascend_as_numbers_do() {
        let numbers = [i64::MIN, -3, -2, -1, 0, 1, 2, 3, 1000, 1 << 40, i64::MAX];
        for (a, b) in numbers.into_iter().flat_map(|a| numbers.map(|b| (a, b))) {
            assert_eq!(extended(a).is_before(extended(b)), a < b, "{a} {b}");
        }
        let special = |sign_and_exponent: u32, fraction: u64| Extended {
            fraction,
            sign_and_exponent,
            padding: 0,
        };
        let (infinite, lowest) = (special(0x7FFF, 1 << 63), special(0xFFFF, 1 << 63));
        let (none, other) = (special(0x7FFF, 3 << 62), special(0xFFFF, 3 << 62));
        let ascending = [
            lowest,
            extended(i64::MIN),
            extended(i64::MAX),
            infinite,
            none,
        ];
        assert!(ascending.windows(2).all(|pair| pair[0].is_before(pair[1])));
        assert!(!none.is_before(other) && !other.is_before(none));
        let negative_zero = special(0x8000, 0);
        assert!(!negative_zero.is_before(extended(0)) && !extended(0).is_before(negative_zero));
    }
}
