//! Tables that are kept, so that a change of what they say shows in a diff.

use std::fs;
use std::path::Path;

/// Fails if a table is not the kept one, and says where the new one is.
pub fn compare(name: &str, kept: &str, found: &str) {
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let is_written = fs::write(&file, found).is_ok();
    assert!(is_written, "{} cannot be written", file.display());
    let mut lines = kept.lines().zip(found.lines());
    let different = lines.find(|(before, now)| before != now);
    assert!(
        kept == found,
        "{different:?}\nIf all that differs is better, measured, keep it: cp {} tests/tables/",
        file.display()
    );
}
