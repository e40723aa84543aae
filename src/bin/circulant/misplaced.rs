//! A launcher behind `circulant run`, where the program belongs. The library would be loaded into
//! the launcher, which has no collective operations, and launchers pass it on to some processes
//! only. Wrappers, as in `env X=1 mpirun`, do not change that.

use std::borrow::Cow;
use std::env;
use std::ffi::{OsStr, OsString};
use std::path::Path;

use crate::program::Program;

/// Launchers, whatever follows behind a point, as in mpirun.openmpi and mpiexec.hydra.
const LAUNCHERS: [&str; 8] = [
    "mpirun", "mpiexec", "orterun", "prterun", "prun", "srun", "aprun", "jsrun",
];

/// Commands that run another, each with the letters of its options that have a value which may be
/// taken for a command, as the file in `time -o mpirun.log ./app`. Numbers are never taken for one.
const WRAPPERS: [(&str, &str); 12] = [
    ("chrt", ""),
    ("env", "CSau"),
    ("ionice", "c"),
    ("nice", ""),
    ("nohup", ""),
    ("numactl", "CNPcimpw"),
    ("setsid", ""),
    ("stdbuf", "eio"),
    ("strace", "EOPSUXbeou"),
    ("taskset", ""),
    ("time", "fo"),
    ("timeout", "s"),
];

/// The long forms of such options: of env, stdbuf, strace, time and timeout. Of other long options
/// no value can look like a command.
const WITH_VALUE: [&str; 11] = [
    "--argv0",
    "--attach",
    "--chdir",
    "--error",
    "--format",
    "--input",
    "--output",
    "--signal",
    "--split-string",
    "--unset",
    "--user",
];

/// What is wrong, if the command is a launcher's; with the command as it should be.
pub fn complaint(command: &[OsString]) -> Option<String> {
    let launcher = launcher(command)?;
    let name = file_name(&command[launcher]);
    let before: Vec<_> = env::args_os().collect();
    let before = &before[..before.len().saturating_sub(command.len())];
    let is_program = |word: &OsStr| Program::find(word).is_some();
    let corrected = corrected(before, command, launcher, is_program);
    Some(format!(
        "{name} starts the processes, so it comes first: {corrected}"
    ))
}

/// Where the launcher stands, if the command is that of one, or of wrappers around one.
fn launcher(command: &[OsString]) -> Option<usize> {
    let mut at = 0;
    while let Some(behind) = wrapped(&command[at..]) {
        at += behind;
    }
    let name = file_name(command.get(at)?);
    LAUNCHERS.contains(&name.split('.').next()?).then_some(at)
}

/// Where the command stands that a wrapper runs; none if there is none, or it is no wrapper.
fn wrapped(command: &[OsString]) -> Option<usize> {
    let wrapper = file_name(command.first()?);
    let (name, letters) = WRAPPERS.iter().find(|(name, _)| wrapper == *name)?;
    // Options, durations, priorities and lists of processors. Only env sets variables: elsewhere
    // the path of a program may have a = in it.
    let is_own = |word: &str| {
        word.starts_with(|c: char| c == '-' || c.is_ascii_digit())
            || (*name == "env" && word.contains('='))
    };
    (1..command.len()).find(|&at| {
        let [previous, word] = [at - 1, at].map(|at| command[at].to_string_lossy());
        !is_own(&word) && !wants_value(&previous, letters)
    })
}

/// Whether the word behind `word` is the value of an option: one of the `letters` ends it. Behind
/// an earlier one, the rest of the word is the value.
fn wants_value(word: &str, letters: &str) -> bool {
    if WITH_VALUE.contains(&word) {
        return true;
    }
    let options = word.strip_prefix('-').filter(|rest| !rest.starts_with('-'));
    options.is_some_and(|options| {
        let value = options.find(|c| letters.contains(c));
        value.is_some_and(|at| at + 1 == options.len())
    })
}

/// The last component of a path.
fn file_name(word: &OsStr) -> Cow<'_, str> {
    let name = Path::new(word).file_name();
    name.unwrap_or_default().to_string_lossy()
}

/// The command line with the words `before` the command between the launcher and the program.
fn corrected(
    before: &[OsString],
    command: &[OsString],
    launcher: usize,
    is_program: impl Fn(&OsStr) -> bool,
) -> String {
    let line = |words: &[OsString]| words.iter().map(quoted).collect::<Vec<_>>().join(" ");
    let before = line(before);
    match place(&command[launcher..], is_program) {
        Some(at) => {
            let (front, program) = command.split_at(launcher + at);
            format!("{} {before} {}", line(front), line(program))
        }
        None => format!("{} OPTIONS {before} PROGRAM", line(&command[..=launcher])),
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

    fn words(line: &str) -> Vec<OsString> {
        line.split(' ').map(OsString::from).collect()
    }

    fn correct(line: &str) -> Option<String> {
        let is_program = |word: &OsStr| ["./app", "python3", "node"].iter().any(|p| word == *p);
        let (before, command) = (words("circulant run"), words(line));
        let launcher = launcher(&command)?;
        Some(corrected(&before, &command, launcher, is_program))
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
            assert_eq!(correct(&command.replace("| ", "")), Some(expected));
        }
        assert_eq!(
            correct("mpirun -n 4 ./missing").unwrap(),
            "mpirun OPTIONS circulant run PROGRAM"
        );
    }

    #[test]
    fn a_launcher_is_found_behind_wrappers() {
        let wrappers = [
            "env X=1 Y=/opt/app",
            "env -i -u X -C /tmp",
            "/usr/bin/env timeout -k 1 -s KILL 5m",
            "nice",
            "nice -n -5",
            "nice -10 ionice -c best-effort -n 7",
            "numactl --localalloc",
            "numactl -N 0 -i all",
            "taskset -c 0,3,7-11",
            "taskset 0xf chrt -f 10 nohup setsid -w",
            "stdbuf -oL -e 0 time -p",
            "time -vo out strace -ff -eopen -o out",
            "time --format %e --output out timeout --signal KILL 5m env --unset X",
        ];
        for wrappers in wrappers {
            for launcher in ["mpirun", "/opt/bin/mpiexec.hydra"] {
                let expected = format!("{wrappers} {launcher} -n 2 circulant run ./app");
                let line = format!("{wrappers} {launcher} -n 2 ./app");
                assert_eq!(correct(&line), Some(expected));
            }
        }
        assert_eq!(
            correct("nice -n 5 mpirun -n 4 ./missing").unwrap(),
            "nice -n 5 mpirun OPTIONS circulant run PROGRAM"
        );
    }

    #[test]
    fn programs_are_no_launchers_behind_wrappers_either() {
        let commands = [
            "numactl --localalloc ./app",
            "numactl --localalloc ./app mpirun",
            "nice ./n=4/app mpirun",
            "env MPI=/opt/bin/mpirun ./app",
            "time -o mpirun.log ./app",
            "time --output mpirun.log ./app",
            "strace -fo srun.log ./app",
            "./time.sh mpirun",
            "env -",
            "env",
            "timeout -s",
            "/",
        ];
        for command in commands {
            assert_eq!(launcher(&words(command)), None, "{command}");
        }
        assert_eq!(launcher(&[]), None);
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
