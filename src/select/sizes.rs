//! Sizes: the largest that there are, and how one is written.

/// The most bytes of one round's message: 1 GiB, well inside the int counts of MPI-3 even when
/// each of the many blocks in it is rounded up to an element.
pub const MESSAGE_MAX: u64 = 1 << 30;

/// The most blocks, except where [`MESSAGE_MAX`] needs more.
pub const BLOCKS_MAX: u64 = 1 << 20;

/// The suffixes of sizes and their shifts, the largest first.
const UNITS: [(char, u32); 3] = [('G', 30), ('M', 20), ('K', 10)];

/// A number of bytes, with an optional suffix. `None` if it is no number or does not fit.
pub(super) fn parse_size(text: &str) -> Option<u64> {
    let unit = UNITS
        .iter()
        .find(|(suffix, _)| text.ends_with([*suffix, suffix.to_ascii_lowercase()]));
    let (number, shift) = match unit {
        Some((_, shift)) => (&text[..text.len() - 1], *shift),
        None => (text, 0),
    };
    let is_plain = number.bytes().all(|digit| digit.is_ascii_digit());
    let number = number.parse::<u64>().ok().filter(|_| is_plain);
    number?.checked_mul(1 << shift)
}

/// A number of bytes, with the largest suffix that needs no fraction.
pub(super) fn show_size(bytes: u64) -> String {
    let whole = |shift: &u32| bytes != 0 && bytes.trailing_zeros() >= *shift;
    match UNITS.iter().find(|(_, shift)| whole(shift)) {
        Some((suffix, shift)) => format!("{}{suffix}", bytes >> shift),
        None => bytes.to_string(),
    }
}
