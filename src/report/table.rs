//! A table for people: aligned columns of text.

/// The heading and the rows, every column as wide as its widest cell.
pub(super) fn table<const N: usize>(
    columns: &[(&str, bool); N],
    rows: impl Iterator<Item = [String; N]>,
) -> Vec<String> {
    let mut cells = vec![columns.map(|(heading, _)| heading.to_owned())];
    cells.extend(rows);
    let width = |column: usize| cells.iter().map(|row| row[column].len()).max().unwrap_or(0);
    let widths: [usize; N] = std::array::from_fn(width);
    let pad = |((cell, width), (_, is_number)): ((&String, &usize), &(&str, bool))| {
        if *is_number {
            format!("{cell:>width$}")
        } else {
            format!("{cell:<width$}")
        }
    };
    let aligned = |row: &[String; N]| {
        let cells: Vec<_> = row.iter().zip(&widths).zip(columns).map(pad).collect();
        cells.join("  ").trim_end().to_owned()
    };
    cells.iter().map(aligned).collect()
}
