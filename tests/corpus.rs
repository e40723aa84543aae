//! The corpus of coverage-guided fuzzing: every input that is kept in `corpus/`, in a folder for each
//! target, through the target's function in `corpus/targets.rs`.
//!
//! `fuzz/` is a crate of its own, whose library is this file: it runs the same functions on inputs
//! that libFuzzer makes. `scripts/fuzz` does that.

#![cfg_attr(
    not(test),
    allow(dead_code, missing_docs, reason = "only the targets are used")
)]

// What the command-line program reads, and what it makes of that.
#[allow(dead_code)]
#[path = "../src/bin/circulant/builds.rs"]
mod builds;
#[allow(dead_code)]
#[path = "../src/bin/circulant/compare.rs"]
mod compare;
#[allow(dead_code)]
#[path = "../src/bin/circulant/contents.rs"]
mod contents;
#[allow(dead_code)]
#[path = "../src/bin/circulant/elf.rs"]
mod elf;
#[path = "../src/bin/circulant/markdown.rs"]
mod markdown;
#[path = "../src/bin/circulant/page.rs"]
mod page;
#[allow(dead_code)]
#[path = "../src/bin/circulant/report.rs"]
mod report;

// What other tests check with.
#[path = "schedule/library.rs"]
mod library;
#[allow(dead_code)]
#[path = "schedule/oracle.rs"]
mod oracle;
#[path = "simulate/serial.rs"]
mod serial;
#[allow(dead_code, unused_imports)]
#[path = "simulate/simulator/mod.rs"]
mod simulator;

#[path = "corpus/choices.rs"]
mod choices;
#[path = "corpus/targets.rs"]
pub mod targets;
#[path = "corpus/xml.rs"]
mod xml;

#[cfg(test)]
mod tests {
    #![allow(
        clippy::unwrap_used,
        reason = "a test that cannot go on panics, helpers included"
    )]

    use std::collections::BTreeSet;
    use std::fs;
    use std::panic;
    use std::path::{Path, PathBuf};
    use std::time::{Duration, Instant};

    use super::targets::TARGETS;

    /// No input may take longer, on any machine that runs the tests.
    const LONGEST: Duration = Duration::from_secs(20);

    fn root() -> &'static Path {
        Path::new(env!("CARGO_MANIFEST_DIR"))
    }

    fn files(folder: &Path) -> Vec<PathBuf> {
        let entries = fs::read_dir(folder).unwrap_or_else(|error| {
            unreachable!("{}: {error}", folder.display());
        });
        let mut files: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
        files.sort();
        files
    }

    fn names(files: &[PathBuf]) -> BTreeSet<&str> {
        let stems = files.iter().map(|file| file.file_stem().unwrap());
        stems.map(|stem| stem.to_str().unwrap()).collect()
    }

    /// What is wrong is printed as it is found; the inputs, at the end.
    #[test]
    fn every_input_of_the_corpus() {
        let mut failed = Vec::new();
        for (name, target) in TARGETS {
            let inputs = files(&root().join("tests/corpus").join(name));
            assert!(!inputs.is_empty(), "{name} has no corpus");
            for input in inputs {
                let (data, begin) = (fs::read(&input).unwrap(), Instant::now());
                let outcome = panic::catch_unwind(|| target(&data));
                if outcome.is_err() || begin.elapsed() > LONGEST {
                    failed.push(input);
                }
            }
        }
        assert_eq!(failed, [""; 0].map(PathBuf::from));
    }

    #[test]
    fn every_target_has_a_program_and_a_corpus() {
        let targets: BTreeSet<_> = TARGETS.iter().map(|(name, _)| *name).collect();
        let programs = files(&root().join("fuzz/fuzz_targets"));
        assert_eq!(names(&programs), targets);
        let all = files(&root().join("tests/corpus"));
        let folders: Vec<_> = all.into_iter().filter(|file| file.is_dir()).collect();
        assert_eq!(names(&folders), targets);
    }
}
