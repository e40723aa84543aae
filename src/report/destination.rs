//! Where the report of a process goes, and when it is written.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use super::page::{Header, json, prefixed, render_text};
use crate::files;
use crate::signals::HeldBack;

/// Where a report goes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Destination {
    /// Standard output, as text.
    Stdout,
    /// Standard error, as text.
    Stderr,
    /// A file, as JSON; what it held before is lost.
    File(PathBuf),
}

impl Destination {
    /// Where the process `rank` writes its report, given the value of `CIRCULANT_REPORT`; `None`
    /// if it writes none. Only rank 0 writes, unless the value is a file name with `%r` in it,
    /// which stands for the rank.
    ///
    /// Processes that MPI_Comm_spawn started have ranks of their own, and the environment of those
    /// that started them: `spawned`, the number of such a process, keeps their files apart.
    pub fn of_rank(setting: &str, rank: usize, spawned: Option<u32>) -> Option<Destination> {
        let writes = rank == 0 || setting.contains("%r");
        if !writes {
            return None;
        }
        match setting {
            "stdout" => return Some(Destination::Stdout),
            "stderr" => return Some(Destination::Stderr),
            _ => {}
        }
        let suffix = spawned.map(|number| format!(".spawned-{number}"));
        let name = setting.replace("%r", &rank.to_string()) + &suffix.unwrap_or_default();
        Some(Destination::File(name.into()))
    }
}

/// Writes the report of this process.
///
/// # Errors
/// Those of opening and writing the file, or of writing to the stream.
pub fn write(destination: &Destination, header: &Header) -> io::Result<()> {
    match destination {
        Destination::File(path) => write_json(files::create(path)?, header),
        Destination::Stdout | Destination::Stderr => print(destination, &render_text(header)),
    }
}

/// The same as far as it can be written before the calls of all processes are known: should one of
/// them end without MPI_Finalize, that much is there. [`complete`] writes the rest.
///
/// # Errors
/// As of [`write()`].
pub fn write_first(destination: &Destination, header: &Header) -> io::Result<()> {
    match destination {
        Destination::File(path) if !is_rewritable(path) => Ok(()),
        _ => write(destination, header),
    }
}

/// What is left to write after [`write_first`].
///
/// # Errors
/// As of [`write()`].
pub fn complete(destination: &Destination, header: &Header) -> io::Result<()> {
    match destination {
        Destination::File(_) => write(destination, header),
        Destination::Stdout | Destination::Stderr => {
            print(destination, &prefixed(&header.all.lines()))
        }
    }
}

/// Whether what is written there later replaces what was written before: not in a pipe or a device.
fn is_rewritable(path: &Path) -> bool {
    !files::is_of_the_system(path) && fs::metadata(path).map_or(true, |metadata| metadata.is_file())
}

/// Piece by piece: where memory is short, there may be none for the whole text.
fn write_json(file: File, header: &Header) -> io::Result<()> {
    let _held_back = HeldBack::new();
    let mut file = BufWriter::new(file);
    serde_json::to_writer_pretty(&mut file, &json(header))?;
    writeln!(file)?;
    file.flush()
}

fn print(stream: &Destination, text: &str) -> io::Result<()> {
    let _held_back = HeldBack::new();
    if *stream == Destination::Stderr {
        return io::stderr().write_all(text.as_bytes());
    }
    let mut out = io::stdout();
    out.write_all(text.as_bytes())?;
    out.flush()
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::super::page::All;
    use super::super::page::tests::{header, two_ranks};
    use super::*;
    use crate::select::Settings;

    #[test]
    fn only_rank_0_writes_unless_the_rank_is_in_the_file_name() {
        let file = |name: &str| Some(Destination::File(name.into()));
        let first = |setting, rank| Destination::of_rank(setting, rank, None);
        assert_eq!(first("stderr", 0), Some(Destination::Stderr));
        assert_eq!(first("stderr", 1), None);
        assert_eq!(first("stdout", 0), Some(Destination::Stdout));
        assert_eq!(first("stdout", 1), None);
        assert_eq!(first("./stdout", 0), file("./stdout"));
        assert_eq!(first("a.json", 0), file("a.json"));
        assert_eq!(first("a.json", 1), None);
        assert_eq!(first("a.%r.json", 0), file("a.0.json"));
        assert_eq!(first("%r/%r", 12), file("12/12"));
        let spawned = |setting, rank| Destination::of_rank(setting, rank, Some(77));
        assert_eq!(spawned("stderr", 0), Some(Destination::Stderr));
        assert_eq!(spawned("stdout", 0), Some(Destination::Stdout));
        assert_eq!(spawned("a.json", 0), file("a.json.spawned-77"));
        assert_eq!(spawned("a.json", 1), None);
        assert_eq!(spawned("a.%r.json", 3), file("a.3.json.spawned-77"));
    }

    #[test]
    fn a_report_file_is_written_or_the_reason_is_returned() {
        let settings = Settings::default();
        let folder = std::env::temp_dir().join(format!("circulant-{}", std::process::id()));
        std::fs::create_dir(&folder).unwrap();
        let file = folder.join("report.json");
        write(&Destination::File(file.clone()), &header(&settings)).unwrap();
        let report = std::fs::read_to_string(&file).unwrap();
        std::fs::remove_dir_all(&folder).unwrap();
        assert_eq!(
            serde_json::from_str::<Value>(&report).unwrap()["processes"],
            5
        );
        let error = write(&Destination::File(file), &header(&settings)).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn what_a_rank_knows_by_itself_is_written_before() {
        let (settings, over) = (Settings::default(), two_ranks());
        let awaited = header(&settings);
        let known = Header {
            all: All::Known(&over),
            ..awaited
        };
        let folder = std::env::temp_dir().join(format!("circulant-first-{}", std::process::id()));
        std::fs::create_dir(&folder).unwrap();
        let file = folder.join("report.json");
        let read = || {
            let report = std::fs::read_to_string(&file).unwrap();
            serde_json::from_str::<Value>(&report).unwrap()
        };
        let destination = Destination::File(file.clone());
        write_first(&destination, &awaited).unwrap();
        assert_eq!(read()["ranks"], Value::Null);
        complete(&destination, &known).unwrap();
        assert_eq!(read()["ranks"]["processes"], 2);
        std::fs::remove_dir_all(&folder).unwrap();
        // What is written to a device stays.
        assert!(!is_rewritable(Path::new("/dev/null")));
        assert!(write_first(&Destination::File(file), &awaited).is_err());
    }
}
