//! Whether two results of one reduction of floating-point numbers differ by more than rounding.
//!
//! Who combines operands in another order rounds otherwise. Let ε be the distance from 1 to the
//! next number, and x the p operands of an element.
//!
//! - **Sums** differ by less than p ε Σ|x| (Higham, *Accuracy and Stability of Numerical
//!   Algorithms*, 4.2). Allowed is twice that.
//! - **Products** differ by less than p ε of the product, if no product on the way leaves the range
//!   of normal numbers. It cannot, where Σ|log₂|x|| is less than the largest exponent. Allowed is
//!   twice that; of complex numbers, whose parts are sums, eight times.
//! - **The largest and the smallest** are numbers among the operands. Allowed are two zeros.
//!
//! Where an operand is no number or infinite, or a result on the way may overflow, nothing is
//! compared: then two orders may give anything. Numbers are read as `f64`. So those of C's `long
//! double` are compared as if they had been rounded to `double`.

#![forbid(unsafe_code)]

/// How numbers are stored.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Format {
    /// `float`
    Single,
    /// `double`
    Double,
    /// `long double` of x86, in 16 bytes.
    Extended,
    /// Two of `float`.
    ComplexSingle,
    /// Two of `double`.
    ComplexDouble,
}

/// What combines numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Combining {
    /// Addition.
    Sum,
    /// Multiplication.
    Product,
    /// The largest or the smallest.
    Extreme,
}

/// How results of a reduction are compared.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rounding {
    /// How its numbers are stored.
    pub format: Format,
    /// What combines them.
    pub combining: Combining,
    /// p
    pub operands: usize,
}

impl Format {
    /// Bytes of a number: of a part, where it is complex.
    fn width(self) -> usize {
        match self {
            Format::Single | Format::ComplexSingle => 4,
            Format::Double | Format::ComplexDouble => 8,
            Format::Extended => 16,
        }
    }

    fn is_complex(self) -> bool {
        matches!(self, Format::ComplexSingle | Format::ComplexDouble)
    }

    fn is_single(self) -> bool {
        matches!(self, Format::Single | Format::ComplexSingle)
    }

    fn epsilon(self) -> f64 {
        if self.is_single() {
            f64::from(f32::EPSILON)
        } else {
            f64::EPSILON
        }
    }

    /// The largest number, and the smallest normal one.
    fn range(self) -> (f64, f64) {
        if self.is_single() {
            (f64::from(f32::MAX), f64::from(f32::MIN_POSITIVE))
        } else {
            (f64::MAX, f64::MIN_POSITIVE)
        }
    }

    /// Numbers between 2 to the power of this and of its negative are normal. (Of complex ones, the
    /// products of their parts are.)
    fn exponents(self) -> f64 {
        if self.is_single() { 124.0 } else { 1020.0 }
    }

    /// The number in as many bytes as it has.
    fn read(self, bytes: &[u8]) -> f64 {
        match self.width() {
            4 => f64::from(f32::from_ne_bytes(first(bytes))),
            8 => f64::from_ne_bytes(first(bytes)),
            _ => {
                let fraction = u64::from_le_bytes(first(bytes));
                let sign_and_exponent = u16::from_le_bytes(first(&bytes[8..]));
                let exponent = i32::from(sign_and_exponent & 0x7FFF) - 16383;
                let magnitude = match (sign_and_exponent & 0x7FFF, fraction << 1) {
                    (0x7FFF, 0) => f64::INFINITY,
                    (0x7FFF, _) => f64::NAN,
                    _ => fraction as f64 / 2f64.powi(63) * 2f64.powi(exponent),
                };
                if sign_and_exponent & 0x8000 == 0 {
                    magnitude
                } else {
                    -magnitude
                }
            }
        }
    }

    fn all(self, bytes: &[u8]) -> impl Iterator<Item = f64> {
        let numbers = bytes.chunks_exact(self.width());
        numbers.map(move |number| self.read(number))
    }
}

fn first<const N: usize>(bytes: &[u8]) -> [u8; N] {
    let mut all = [0; N];
    all.copy_from_slice(&bytes[..N]);
    all
}

impl Rounding {
    /// How many numbers are in `bytes` bytes.
    pub fn numbers(&self, bytes: usize) -> usize {
        bytes / self.format.width()
    }

    /// Appends what is to be summed over the operands, so that results can be compared: one for
    /// each number in `operand`.
    #[expect(
        clippy::disallowed_methods,
        reason = "a bound, which one process decides by"
    )]
    pub fn weigh(&self, operand: &[u8], weights: &mut Vec<f64>) {
        let numbers = self.format.all(operand);
        if self.combining != Combining::Product {
            weights.extend(numbers.map(f64::abs));
        } else if !self.format.is_complex() {
            weights.extend(numbers.map(exponent));
        } else {
            let (width, read) = (self.format.width(), |bytes: &[u8]| self.format.read(bytes));
            for number in operand.chunks_exact(2 * width) {
                let (real, imaginary) = number.split_at(width);
                weights.extend([exponent(read(real).hypot(read(imaginary))); 2]);
            }
        }
    }

    /// The first byte of the first number in which two results differ by more than rounding. `sums`
    /// are those of the [weights](Rounding::weigh) of all operands.
    pub fn first_difference(&self, ours: &[u8], theirs: &[u8], sums: &[f64]) -> Option<usize> {
        let width = self.format.width();
        let pairs = self.format.all(ours).zip(self.format.all(theirs));
        let differs = pairs.zip(sums).enumerate().find(|(index, (pair, sum))| {
            let scale = || {
                let of = |index: usize| self.format.read(&theirs[index * width..]).abs();
                if self.format.is_complex() {
                    of(index & !1) + of(index | 1)
                } else {
                    of(*index)
                }
            };
            !self.are_alike(*pair, **sum, scale)
        });
        differs.map(|(index, _)| index * width)
    }

    fn are_alike(&self, (a, b): (f64, f64), sum: f64, scale: impl Fn() -> f64) -> bool {
        let (largest, smallest) = self.format.range();
        let unit = 2.0 * self.operands as f64 * self.format.epsilon();
        // Some processors take numbers below the normal ones for zero.
        let is_within = |bound: f64| (a - b).abs() <= bound + self.operands as f64 * smallest;
        match self.combining {
            Combining::Sum => sum.is_nan() || sum >= largest || is_within(unit * sum),
            Combining::Product => {
                let factor = if self.format.is_complex() { 4.0 } else { 1.0 };
                sum.is_nan() || sum >= self.format.exponents() || is_within(factor * unit * scale())
            }
            Combining::Extreme => sum.is_nan() || a == b,
        }
    }
}

/// How far from 1 a factor is; 0 is no danger on the way.
#[expect(clippy::disallowed_methods, reason = "as above")]
fn exponent(factor: f64) -> f64 {
    if factor == 0.0 {
        0.0
    } else {
        factor.abs().log2().abs()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(numbers: &[f64]) -> Vec<u8> {
        numbers.iter().flat_map(|x| x.to_ne_bytes()).collect()
    }

    fn singles(numbers: &[f32]) -> Vec<u8> {
        numbers.iter().flat_map(|x| x.to_ne_bytes()).collect()
    }

    fn rounding(format: Format, combining: Combining, operands: usize) -> Rounding {
        Rounding {
            format,
            combining,
            operands,
        }
    }

    /// The sums over operands of their weights.
    fn sums(rounding: Rounding, operands: &[Vec<u8>]) -> Vec<f64> {
        let weigh = |operand: &Vec<u8>| {
            let mut weights = Vec::new();
            rounding.weigh(operand, &mut weights);
            weights
        };
        let all: Vec<_> = operands.iter().map(weigh).collect();
        let of = |index: usize| all.iter().map(|weights| weights[index]).sum();
        (0..all[0].len()).map(of).collect()
    }

    /// Numbers of all magnitudes and both signs.
    fn drawn(seed: u64, index: u64) -> f64 {
        let mut word = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ index.wrapping_mul(0xD1B5_4A32);
        for _ in 0..3 {
            word ^= word >> 31;
            word = word.wrapping_mul(0x9FB2_1C65_1E98_DF25);
        }
        let magnitude = 2f64.powi((word % 40) as i32 - 20);
        let fraction = 1.0 + (word >> 12) as f64 / (1u64 << 52) as f64;
        if word & 1 << 11 == 0 {
            magnitude * fraction
        } else {
            -magnitude * fraction
        }
    }

    #[test]
    fn two_orders_of_combination_are_alike() {
        for p in [2, 3, 5, 17, 100] {
            let operands: Vec<Vec<f64>> = (0..p)
                .map(|rank| (0..50).map(|index| drawn(rank, index)).collect())
                .collect();
            let of = |index: usize| operands.iter().map(move |operand| operand[index]);
            let packed: Vec<_> = operands.iter().map(|operand| bytes(operand)).collect();
            let sum = rounding(Format::Double, Combining::Sum, p as usize);
            let up: Vec<f64> = (0..50).map(|index| of(index).sum()).collect();
            let down: Vec<f64> = (0..50).map(|index| of(index).rev().sum()).collect();
            assert!(p == 2 || up != down);
            let sums_of = sums(sum, &packed);
            let (up, down) = (bytes(&up), bytes(&down));
            assert_eq!(sum.first_difference(&up, &down, &sums_of), None);
            let product = rounding(Format::Double, Combining::Product, p as usize);
            let up: Vec<f64> = (0..50).map(|index| of(index).product()).collect();
            let down: Vec<f64> = (0..50).map(|index| of(index).rev().product()).collect();
            let (up, down) = (bytes(&up), bytes(&down));
            let sums_of = sums(product, &packed);
            assert_eq!(product.first_difference(&up, &down, &sums_of), None);
        }
    }

    #[test]
    fn a_wrong_number_is_found_where_it_is() {
        let operands = [[1.0, -2.0, 3.0], [4.0, 5.0, -6.0], [7.0, 8.0, 9.0]];
        let packed = operands.map(|operand| bytes(&operand));
        let sum = rounding(Format::Double, Combining::Sum, 3);
        let sums_of = sums(sum, &packed);
        assert_eq!(sums_of, [12.0, 15.0, 18.0]);
        let right = bytes(&[12.0, 11.0, 6.0]);
        for wrong in [f64::NAN, f64::INFINITY, 11.0001, 0.0, 11.0 + 1e-13] {
            let wrong = bytes(&[12.0, wrong, 6.0]);
            assert_eq!(sum.first_difference(&wrong, &right, &sums_of), Some(8));
        }
        let almost = bytes(&[12.0, 11.0 + 1e-14, 6.0]);
        assert_eq!(sum.first_difference(&almost, &right, &sums_of), None);
    }

    #[test]
    fn an_operand_that_is_missing_is_a_difference() {
        for p in [2u64, 5, 64] {
            let operands: Vec<_> = (0..p).map(|rank| bytes(&[drawn(rank, 1)])).collect();
            let sum = rounding(Format::Double, Combining::Sum, p as usize);
            let sums_of = sums(sum, &operands);
            let all: f64 = (0..p).map(|rank| drawn(rank, 1)).sum();
            let few: f64 = (1..p).map(|rank| drawn(rank, 1)).sum();
            let (all, few) = (bytes(&[all]), bytes(&[few]));
            assert_eq!(sum.first_difference(&few, &all, &sums_of), Some(0));
        }
    }

    #[test]
    fn singles_have_bounds_of_their_own() {
        let sum = rounding(Format::Single, Combining::Sum, 2);
        let sums_of = sums(sum, &[singles(&[1.0]), singles(&[2.0])]);
        let right = singles(&[3.0]);
        assert_eq!(sum.numbers(right.len()), 1);
        let near = singles(&[3.0 + 2.0 * f32::EPSILON]);
        let far = singles(&[3.0 + 16.0 * f32::EPSILON]);
        assert_eq!(sum.first_difference(&near, &right, &sums_of), None);
        assert_eq!(sum.first_difference(&far, &right, &sums_of), Some(0));
        let overflow = sums(sum, &[singles(&[f32::MAX]), singles(&[f32::MAX])]);
        let infinite = singles(&[f32::INFINITY]);
        assert_eq!(sum.first_difference(&infinite, &right, &overflow), None);
    }

    #[test]
    fn products_that_overflow_on_the_way_are_not_compared() {
        let product = rounding(Format::Double, Combining::Product, 3);
        let operands = [1e200, 1e200, 1e-300].map(|x| bytes(&[x]));
        let sums_of = sums(product, &operands);
        let (one, other) = (bytes(&[f64::INFINITY]), bytes(&[1e100]));
        assert_eq!(product.first_difference(&one, &other, &sums_of), None);
        let sums_of = sums(product, &[2.0, 3.0, 0.0].map(|x| bytes(&[x])));
        let (zero, six) = (bytes(&[0.0]), bytes(&[6.0]));
        assert_eq!(product.first_difference(&zero, &zero, &sums_of), None);
        assert_eq!(product.first_difference(&six, &zero, &sums_of), Some(0));
    }

    #[test]
    fn the_largest_may_be_either_zero() {
        let extreme = rounding(Format::Double, Combining::Extreme, 2);
        let sums_of = sums(extreme, &[bytes(&[0.0, 1.0]), bytes(&[-0.0, 2.0])]);
        let ours = bytes(&[-0.0, 2.0]);
        let theirs = bytes(&[0.0, 2.0]);
        assert_eq!(extreme.first_difference(&ours, &theirs, &sums_of), None);
        let next = bytes(&[0.0, 2.0 + 2.0 * f64::EPSILON]);
        assert_eq!(extreme.first_difference(&next, &theirs, &sums_of), Some(8));
        let sums_of = sums(extreme, &[bytes(&[f64::NAN]), bytes(&[1.0])]);
        let (one, nan) = (bytes(&[1.0]), bytes(&[f64::NAN]));
        assert_eq!(extreme.first_difference(&one, &nan, &sums_of), None);
    }

    /// The imaginary part of (1 + i)(1 - i) is 0 by cancellation, and may be as wrong as the whole.
    #[test]
    fn parts_of_complex_products_are_compared_with_the_whole() {
        let product = rounding(Format::ComplexDouble, Combining::Product, 2);
        let operands = [bytes(&[1.0, 1.0]), bytes(&[1.0, -1.0])];
        let sums_of = sums(product, &operands);
        assert_eq!(sums_of.len(), 2);
        let right = bytes(&[2.0, 0.0]);
        let near = bytes(&[2.0, f64::EPSILON]);
        let far = bytes(&[2.0, 1e-9]);
        assert_eq!(product.first_difference(&near, &right, &sums_of), None);
        assert_eq!(product.first_difference(&far, &right, &sums_of), Some(8));
    }

    #[test]
    fn extended_numbers_are_read() {
        let extended = |fraction: u64, sign_and_exponent: u16| {
            let mut bytes = [0xAA; 16];
            bytes[..8].copy_from_slice(&fraction.to_le_bytes());
            bytes[8..10].copy_from_slice(&sign_and_exponent.to_le_bytes());
            Format::Extended.read(&bytes)
        };
        assert_eq!(extended(1 << 63, 16383), 1.0);
        assert_eq!(extended(3 << 62, 16383 + 1), 3.0);
        assert_eq!(extended(1 << 63, 0x8000 | (16383 - 1)), -0.5);
        assert_eq!(extended(0, 0), 0.0);
        assert_eq!(extended(1 << 63, 16383 + 1023), 2f64.powi(1023));
        assert_eq!(extended(1 << 63, 16383 - 1022), f64::MIN_POSITIVE);
        assert_eq!(extended(1 << 63, 0x7FFF), f64::INFINITY);
        assert!(extended(3 << 62, 0x7FFF).is_nan());
    }
}
