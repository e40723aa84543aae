//! A Markdown table, in columns of one width for those who read it as it is.

use std::io::{self, Write};

/// The head of a column, and what is in it for a row.
pub type Column<Row> = (&'static str, fn(&Row) -> String);

pub fn print<Row>(out: &mut impl Write, columns: &[Column<Row>], rows: &[Row]) -> io::Result<()> {
    let columns: Vec<Vec<String>> = columns.iter().map(|column| lines(column, rows)).collect();
    for line in 0..rows.len() + 2 {
        for cells in &columns {
            write!(out, "| {} ", cells[line])?;
        }
        writeln!(out, "|")?;
    }
    Ok(())
}

/// Head, rule and cells of a column, all of one width, with its numbers on the right.
fn lines<Row>((head, cell): &Column<Row>, rows: &[Row]) -> Vec<String> {
    let cells: Vec<String> = rows.iter().map(cell).collect();
    let widths = cells.iter().map(|cell| cell.chars().count());
    let width = widths.fold(head.chars().count(), usize::max);
    let mut lines = vec![format!("{head:>width$}"), format!("{:->1$}", ":", width)];
    lines.extend(cells.iter().map(|cell| format!("{cell:>width$}")));
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let columns: [Column<u32>; 2] = [
            ("µs", |row| row.to_string()),
            ("twice", |row| (2 * row).to_string()),
        ];
        let mut out = Vec::new();
        print(&mut out, &columns, &[7, 1000]).unwrap();
        let expected = "|   µs | twice |\n| ---: | ----: |\n|    7 |    14 |\n| 1000 |  2000 |\n";
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }
}
