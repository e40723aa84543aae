//! A launcher behind `circulant run`, where the program belongs. The library would be loaded into
//! the launcher, which has no collective operations, and launchers pass it on to some processes
//! only.

use std::env;
use std::ffi::{OsStr, OsString};
use std::path::Path;

use crate::program::Program;

/// Launchers, whatever follows behind a point, as in mpirun.openmpi and mpiexec.hydra.
const LAUNCHERS: [&str; 8] = [
    "mpirun", "mpiexec", "orterun", "prterun", "prun", "srun", "aprun", "jsrun",
];

/// What is wrong, if the command is a launcher's; with the command as it should be.
pub fn complaint(command: &[OsString]) -> Option<String> {
    let name = Path::new(command.first()?).file_name()?.to_string_lossy();
    let base = name.split('.').next()?;
    LAUNCHERS.contains(&base).then(|| {
        let before: Vec<_> = env::args_os().collect();
        let before = &before[..before.len().saturating_sub(command.len())];
        let is_program = |word: &OsStr| Program::find(word).is_some();
        let corrected = corrected(before, command, is_program);
        format!("{name} starts the processes, so it comes first: {corrected}")
    })
}

/// The command line with the words `before` the launcher's command between the launcher and the
/// program.
fn corrected(
    before: &[OsString],
    command: &[OsString],
    is_program: impl Fn(&OsStr) -> bool,
) -> String {
    let line = |words: &[OsString]| words.iter().map(quoted).collect::<Vec<_>>().join(" ");
    let before = line(before);
    match place(command, is_program) {
        Some(at) => {
            let (launcher, program) = command.split_at(at);
            format!("{} {before} {}", line(launcher), line(program))
        }
        None => format!("{} OPTIONS {before} PROGRAM", line(&command[..1])),
    }
}

/// Where the program stands in a launcher's command. Options may have values: of the words that are
/// programs it is the first that is no such value or has a slash, or else the first.
fn place(command: &[OsString], is_program: impl Fn(&OsStr) -> bool) -> Option<usize> {
    let is_option = |at: usize| command[at].to_string_lossy().starts_with('-');
    let places = || (1..command.len()).filter(|&at| !is_option(at) && is_program(&command[at]));
    let is_sure = |at: &usize| {
        let has_slash = command[*at].to_string_lossy().contains('/');
        has_slash || !is_option(at - 1) || command[at - 1].to_string_lossy().contains('=')
    };
    places().find(is_sure).or_else(|| places().next())
}

/// A word as a shell takes it.
fn quoted(word: &OsString) -> String {
    let word = word.to_string_lossy();
    let is_plain = |c: char| c.is_alphanumeric() || "-_=./:,@%+".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        word.into_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn correct(line: &str) -> String {
        let words = |line: &str| line.split(' ').map(OsString::from).collect::<Vec<_>>();
        let is_program = |word: &OsStr| ["./app", "python3", "node"].iter().any(|p| word == *p);
        corrected(&words("circulant run"), &words(line), is_program)
    }

    #[test]
    fn the_program_is_found_behind_the_options_of_the_launcher() {
        let commands = [
            "mpirun -n 4 | ./app a b",
            "mpirun --map-by node | python3 x.py",
            "mpirun --oversubscribe | python3 x.py",
            "mpirun --oversubscribe | ./app python3",
            "srun --mpi=pmix | python3 x.py node",
        ];
        for command in commands {
            let expected = command.replace('|', "circulant run");
            assert_eq!(correct(&command.replace("| ", "")), expected);
        }
        assert_eq!(
            correct("mpirun -n 4 ./missing"),
            "mpirun OPTIONS circulant run PROGRAM"
        );
    }

    #[test]
    fn words_are_quoted_where_a_shell_would_change_them() {
        let quoted = |word: &str| quoted(&word.into());
        assert_eq!(quoted("BCAST=native"), "BCAST=native");
        assert_eq!(quoted("a b"), "'a b'");
        assert_eq!(quoted("it's"), r"'it'\''s'");
        assert_eq!(quoted(""), "''");
    }
}
