//! The command-line program as a user meets it: what it prints, and what it says of wrong options.

#![cfg(feature = "cli")]
#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot go on panics, helpers included"
)]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// A folder for the files of one test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let folder = std::env::temp_dir().join(format!("circulant-{name}-{}", std::process::id()));
        fs::create_dir(&folder).unwrap();
        Folder(folder)
    }

    fn join(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Compiles a file of C.
    fn compile(&self, name: &str, code: &str, options: &[&str]) -> PathBuf {
        let source = self.join("source.c");
        fs::write(&source, code).unwrap();
        let file = self.join(name);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        let mut compiler = Command::new("cc");
        compiler.current_dir(&self.0).arg("-o").arg(&file);
        let done = compiler.arg(&source).args(options).status();
        assert!(done.unwrap().success(), "{name}");
        file
    }

    /// A build of the library that does nothing.
    fn build(&self, name: &str) -> PathBuf {
        let library = format!("builds/{name}/libcirculant.so");
        self.compile(&library, "int nothing;", &["-shared", "-fPIC"])
    }

    /// A program that needs Open MPI 4.1.4, or what says so, beside itself.
    fn program(&self) -> PathBuf {
        const HANDLE: &str = "char ompi_mpi_comm_world;";
        self.program_of("libmpi.so.40", "Open MPI v4.1.4, of a test", HANDLE)
    }

    /// A program that needs an MPI library of this name, which says that it is this version, beside
    /// itself. It prints what is preloaded. `more` is what else is in the library.
    fn program_of(&self, name: &str, version: &str, more: &str) -> PathBuf {
        let mpi = format!(
            "#include <string.h>
            {more}
            int MPI_Get_library_version(char *text, int *length) {{
                strcpy(text, \"{version}\");
                *length = (int)strlen(text);
                return 0;
            }}"
        );
        const PROGRAM: &str = "#include <stdio.h>
            #include <stdlib.h>
            int MPI_Get_library_version(char *text, int *length);
            int main(void) {
                char text[100];
                int length;
                const char *preloaded = getenv(\"LD_PRELOAD\");
                printf(\"runs with %s\\n\", preloaded ? preloaded : \"nothing\");
                return MPI_Get_library_version(text, &length);
            }";
        let soname = format!("-Wl,-soname,{name}");
        self.compile(name, &mpi, &["-shared", "-fPIC", &soname]);
        let needed = format!("-l:{name}");
        let incomplete = "-Wl,--allow-shlib-undefined";
        let options = ["-L.", &needed, "-Wl,-rpath,$ORIGIN", incomplete];
        self.compile("app", PROGRAM, &options)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// The program, without settings and what launchers set.
fn circulant() -> Command {
    let mut circulant = Command::new(env!("CARGO_BIN_EXE_circulant"));
    circulant.env_clear().env("PATH", "/usr/bin:/bin");
    circulant
}

/// Status, standard output and standard error.
fn texts(output: Output) -> (Option<i32>, String, String) {
    let [out, err] = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap());
    (output.status.code(), out, err)
}

/// What `circulant run` does with these options and a program, with the builds of a folder.
fn run(folder: &Folder, options: &[&str], program: &Path) -> (Option<i32>, String, String) {
    let mut circulant = circulant();
    circulant
        .arg("run")
        .arg("--libraries")
        .arg(folder.join("builds"));
    texts(circulant.args(options).arg(program).output().unwrap())
}

/// The same of `circulant which`, with variables of a launcher.
fn which(
    folder: &Folder,
    options: &[&str],
    program: &Path,
    variables: &[(&str, &str)],
) -> (Option<i32>, String, String) {
    let mut circulant = circulant();
    circulant.envs(variables.iter().copied());
    circulant
        .arg("which")
        .arg("--libraries")
        .arg(folder.join("builds"));
    texts(circulant.args(options).arg(program).output().unwrap())
}

#[test]
fn which_build_a_program_would_use_and_why() {
    let folder = Folder::new("which");
    let app = folder.program();
    for name in ["openmpi-4.1.4", "openmpi-4.1.6", "openmpi-5.0.7"] {
        folder.build(name);
    }
    let mpi = folder.join("libmpi.so.40");
    let line = |name: &str| folder.join("builds").join(name).join("libcirculant.so");
    let (app_text, mpi) = (app.display(), mpi.display());
    let first = format!("program  {app_text}\nMPI      Open MPI 4.1.4: it needs {mpi}\n");
    let build = |name: &str, why: &str| format!("build    {}: {why}\n", line(name).display());
    let why = "the build for the ABI of this MPI";
    let same = first.clone() + &build("openmpi-4.1.4", why);
    assert_eq!(
        which(&folder, &[], &app, &[]),
        (Some(0), same, String::new())
    );
    // As `run` does.
    let preloaded = line("openmpi-4.1.4");
    let ran = format!("runs with {}\n", preloaded.display());
    assert_eq!(
        run(&folder, &["--require"], &app),
        (Some(0), ran, String::new())
    );

    for (gone, next) in [
        ("openmpi-4.1.4", "openmpi-4.1.6"),
        ("openmpi-4.1.6", "openmpi-5.0.7"),
    ] {
        fs::remove_file(line(gone)).unwrap();
        let nearest = first.clone() + &build(next, why);
        assert_eq!(which(&folder, &[], &app, &[]).1, nearest);
    }
    folder.build("mpich");
    let (_, named, _) = which(&folder, &["--build", "mpich"], &app, &[]);
    let refused = "but not with --require: ";
    let expected = first.clone() + &build("mpich", "named by --build") + refused;
    assert!(named.starts_with(&expected), "{named}");
    assert!(
        named.ends_with("--build names a build for MPICH\n"),
        "{named}"
    );

    fs::remove_file(line("openmpi-5.0.7")).unwrap();
    let (status, none, _) = which(&folder, &[], &app, &[]);
    let why = format!("build    none: {app_text} uses Open MPI 4.1.4, for which there is no build");
    assert!(none.starts_with(&(first + &why)), "{none}");
    assert_eq!(status, Some(1));
}

/// By what is in the library, whatever it is called and says; by its number where it cannot be
/// loaded.
#[test]
fn which_mpi_a_library_is() {
    const HANDLE: &str = "char ompi_mpi_comm_world;";
    // A library that lacks something is not loaded.
    const BROKEN: &str = "extern char missing; char *lacks = &missing;";
    let folder = Folder::new("families");
    for (name, version, more, told) in [
        (
            "libmpi.so.12",
            "MVAPICH2 Version:\\t2.3.7",
            "",
            "MPICH 2.3.7",
        ),
        ("libmpi.so.12", "MVAPICH Version: 4.0", BROKEN, "MPICH"),
        (
            "libmpi_cray.so.12",
            "MPI VERSION : CRAY MPICH version 8.1.29",
            "",
            "MPICH 8.1.29",
        ),
        (
            "libmpi_ibm.so.3",
            "IBM Spectrum MPI v10.4.0",
            HANDLE,
            "Open MPI 10.4.0",
        ),
        ("libmpi.so.40", "something else v1.2", BROKEN, "Open MPI"),
        (
            "libmpi.so.12",
            "Intel(R) MPI Library 2021.18 for Linux* OS",
            "",
            "Intel MPI 2021.18",
        ),
    ] {
        let app = folder.program_of(name, version, more);
        let (_, text, err) = which(&folder, &[], &app, &[]);
        let line = format!("\nMPI      {told}: it needs ");
        assert!(text.contains(&line), "{version} {text} {err}");
    }
}

/// The program of `circulant tune` names the MPI library as it was built, and has that of the
/// launcher on the PATH. Its file may have another name, and need others at places below its own.
#[test]
fn the_program_that_tunes_finds_the_mpi_of_the_launcher() {
    let folder = Folder::new("tunes");
    let library = folder.build("mpich");
    let program = folder.program_of("libmpi.so.12", "MPICH Version: 4.0.2", "");
    fs::rename(program, library.with_file_name("circulant-tune")).unwrap();
    fs::remove_file(folder.join("libmpi.so.12")).unwrap();
    let shared = ["-shared", "-fPIC"];
    folder.compile("mpi/lib/mpich/libbelow.so", "int below;", &shared);
    let place = [
        "-Lmpi/lib/mpich",
        "-l:libbelow.so",
        "-Wl,-rpath,$ORIGIN/mpich",
    ];
    let mpi = "extern int below;
        int MPI_Get_library_version(char *text, int *length) {
            *text = 0;
            return *length = below;
        }";
    folder.compile(
        "mpi/lib/libmpich.so.12",
        mpi,
        &[&shared[..], &place].concat(),
    );
    let there = folder.join("mpi");
    fs::create_dir(there.join("bin")).unwrap();
    fs::copy("/bin/true", there.join("bin/mpiexec")).unwrap();
    let mut circulant = circulant();
    circulant.env("PATH", format!("{}/bin:/usr/bin:/bin", there.display()));
    circulant.env("MPI_LOCALNRANKS", "1").arg("tune");
    circulant.arg("--libraries").arg(folder.join("builds"));
    circulant.arg("--output").arg(folder.join("profile.toml"));
    let (status, _, err) = texts(circulant.output().unwrap());
    // It has run; this one measures nothing.
    assert_eq!(status, Some(1), "{err}");
    assert!(err.contains("report.json"), "{err}");
}

#[test]
fn which_mpi_a_launcher_tells() {
    let folder = Folder::new("told");
    folder.build("openmpi-5.0.7");
    let sh = Path::new("sh");
    let launcher = [("OMPI_COMM_WORLD_RANK", "0"), ("OMPI_VERSION", "5.0.7")];
    let (status, told, _) = which(&folder, &[], sh, &launcher);
    assert_eq!(status, Some(0));
    assert!(
        told.contains("Open MPI 5.0.7: a launcher has set OMPI_COMM_WORLD_RANK"),
        "{told}"
    );
    assert!(told.ends_with("the ABI of this MPI\n"), "{told}");
    // The folder of an Intel MPI is in the environment wherever its module is loaded.
    let of_module = ("I_MPI_ROOT", "/opt/intel");
    let (_, told, _) = which(&folder, &[], sh, &[of_module, ("MPI_LOCALNRANKS", "2")]);
    assert!(told.contains("MPI      Intel MPI: a launcher"), "{told}");
    let (status, told, _) = which(&folder, &[], sh, &[of_module]);
    assert_eq!(status, Some(0));
    assert!(told.contains("MPI      unknown"), "{told}");
    assert!(told.contains("that the program loads\n"), "{told}");
    assert!(told.contains("not with --require: nothing says"), "{told}");
    let (status, told, err) = which(&folder, &[], Path::new("./missing"), &[]);
    assert_eq!((status, &*told), (Some(1), ""));
    assert_eq!(
        err,
        "circulant: ./missing: no such program, or not executable\n"
    );
}

/// With `--require` the program is not run, there is one line, and the status is 125.
fn is_refused(folder: &Folder, options: &[&str], program: &Path, why: &str) {
    let all = [&["--require"], options].concat();
    let (status, out, err) = run(folder, &all, program);
    assert_eq!((status, &*out), (Some(125), ""), "{options:?} {err}");
    assert_eq!(err.lines().count(), 1, "{err}");
    assert!(err.starts_with("circulant: ") && err.contains(why), "{err}");
}

#[test]
fn nothing_runs_that_is_not_sure_where_that_is_required() {
    let folder = Folder::new("required");
    let app = folder.program();
    is_refused(&folder, &[], &app, "builds: No such file");
    folder.build("mpich");
    is_refused(&folder, &[], &app, "no build");
    is_refused(
        &folder,
        &["--build", "openmpi"],
        &app,
        "there is no such build",
    );
    is_refused(&folder, &["--build", "mpich"], &app, "a build for MPICH");
    let (status, out, _) = run(&folder, &["--build", "mpich"], &app);
    assert_eq!((status, &out[..10]), (Some(0), "runs with "));

    // What is not known: the MPI of a program that need not be one of MPI.
    is_refused(&folder, &[], Path::new("true"), "nothing says which MPI");
    assert_eq!(run(&folder, &[], Path::new("true")).0, Some(0));

    // A library that is none.
    let library = folder.build("openmpi-4.1.4");
    assert_eq!(run(&folder, &["--require"], &app).0, Some(0));
    fs::write(library, "no library").unwrap();
    is_refused(&folder, &[], &app, "cannot be preloaded");
}

#[test]
fn nothing_runs_that_takes_no_library_where_that_is_required() {
    let folder = Folder::new("untakeable");
    let app = folder.program();
    folder.build("openmpi-4.1.4");
    let build = ["--build", "openmpi-4.1.4"];
    let code = "void _start(void) { for (;;) {} }";
    let linked = folder.compile("static", code, &["-static", "-nostdlib"]);
    is_refused(&folder, &build, &linked, "linked statically");
    let set = |mode| fs::set_permissions(&app, PermissionsExt::from_mode(mode)).unwrap();
    set(0o4755);
    is_refused(&folder, &[], &app, "set-user-ID");
    set(0o311);
    // Root reads everything.
    if fs::File::open(&app).is_err() {
        is_refused(&folder, &build, &app, "cannot be read");
    }
    set(0o755);
    assert_eq!(run(&folder, &["--require"], &app).0, Some(0));
}

#[test]
fn a_launcher_belongs_before_the_command() {
    let folder = Folder::new("misplaced");
    let app = folder.program();
    folder.build("openmpi-4.1.4");
    for launcher in ["mpirun", "/opt/bin/mpiexec.hydra", "srun"] {
        let mut circulant = circulant();
        circulant.args(["run", "--report", "stderr", launcher, "-n", "4"]);
        let (status, out, err) = texts(circulant.arg(&app).arg("a b").output().unwrap());
        assert_eq!((status, &*out), (Some(2), ""));
        let name = launcher.rsplit('/').next().unwrap();
        let (program, app) = (env!("CARGO_BIN_EXE_circulant"), app.display());
        assert_eq!(
            err,
            format!(
                "circulant: {name} starts the processes, so it comes first: {launcher} -n 4 \
                 {program} run --report stderr {app} 'a b'\n"
            )
        );
    }
}

#[test]
fn a_launcher_behind_wrappers_belongs_before_the_command() {
    let folder = Folder::new("wrapped");
    let app = folder.program();
    folder.build("openmpi-4.1.4");
    let run = |wrappers: &[&str]| {
        let mut circulant = circulant();
        circulant.arg("run").args(wrappers).arg(&app);
        texts(circulant.output().unwrap())
    };
    let wrappers = ["env", "X=1", "timeout", "5", "/opt/bin/mpirun.openmpi"];
    let (status, out, err) = run(&wrappers);
    assert_eq!((status, &*out), (Some(2), ""));
    let (program, app) = (env!("CARGO_BIN_EXE_circulant"), app.display());
    assert_eq!(
        err,
        format!(
            "circulant: mpirun.openmpi starts the processes, so it comes first: {} {program} run \
             {app}\n",
            wrappers.join(" ")
        )
    );
    assert_eq!(run(&["env", "X=1", "timeout", "5"]).0, Some(0));
}

/// Status, standard output and standard error of `circulant schedule`.
fn schedule(options: &[&str]) -> (bool, String, String) {
    let mut circulant = Command::new(env!("CARGO_BIN_EXE_circulant"));
    let output = circulant.arg("schedule").args(options).output().unwrap();
    let [out, err] = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap());
    (output.status.success(), out, err)
}

/// The cells of the Markdown tables in `text`, without their rules.
fn tables(text: &str) -> Vec<Vec<Vec<&str>>> {
    let mut tables = vec![Vec::new()];
    for line in text.lines() {
        match line
            .strip_prefix('|')
            .and_then(|line| line.strip_suffix('|'))
        {
            Some(cells) if !cells.contains("--") => {
                let cells = cells.split('|').map(str::trim).collect();
                tables.last_mut().unwrap().push(cells);
            }
            Some(_) => {}
            None => tables.push(Vec::new()),
        }
    }
    tables.retain(|table| !table.is_empty());
    tables
}

/// Table 4 of the paper, but for its total of 44714.9 in the last row, which is a misprint there.
const TABLE_4: [[&str; 5]; 8] = [
    ["1 to 17000", "443.8", "50.0", "2.769", "0.334"],
    ["16000 to 33000", "1567.2", "152.8", "3.763", "0.370"],
    ["64000 to 73000", "3206.0", "282.6", "5.187", "0.454"],
    ["131000 to 140000", "7595.0", "653.2", "6.226", "0.534"],
    ["262000 to 267000", "9579.4", "726.6", "7.242", "0.548"],
    ["524000 to 529000", "21580.2", "1492.9", "8.196", "0.566"],
    ["1048000 to 1050000", "18934.3", "1083.8", "9.024", "0.516"],
    ["2097000 to 2099000", "44714.9", "2554.6", "10.656", "0.608"],
];

#[test]
fn the_papers_table_4_stands_beside_what_was_measured() {
    let (success, out, err) = schedule(&["--bench", "0"]);
    assert!(success && err.is_empty(), "{err}");
    let [times, samples] = tables(&out).try_into().unwrap();
    let head = [
        "range of p",
        "paper old, s",
        "paper new, s",
        "C, s",
        "ours, s",
        "paper old, µs",
        "paper new, µs",
        "C, µs",
        "ours, µs",
        "ours / C",
    ];
    assert_eq!(times[0], head);
    assert_eq!((times.len(), samples.len()), (9, 9));
    for (row, paper) in times[1..].iter().zip(TABLE_4) {
        assert_eq!([0, 1, 2, 5, 6].map(|i| row[i]), paper);
        // All of a range take as many times longer than one in C as they do in ours.
        let [all_in_c, all, one_in_c, one, ratio] =
            [3, 4, 7, 8, 9].map(|i| row[i].parse::<f64>().unwrap());
        assert!((one / one_in_c - ratio).abs() < 0.02, "{row:?}");
        let (schedules, in_c) = (all / one, all_in_c / one_in_c);
        assert!((schedules / in_c - 1.0).abs() < 0.05, "{row:?}");
    }
    for (row, paper) in samples[1..].iter().zip(TABLE_4) {
        assert_eq!(row[0], paper[0]);
        assert!(row[1].starts_with("1 of "), "{row:?}");
    }
}

#[test]
fn wrong_options_are_named() {
    for (options, complaint) in [
        (&[][..], "<--processes <P>|--bench [<SECONDS>]>"),
        (
            &["--bench", "soon"],
            "'soon' for '--bench [<SECONDS>]': not a whole number of seconds",
        ),
        (&["--bench", "1.5"], "not a whole number of seconds"),
        (&["--bench", "--processes", "5"], "cannot be used with"),
        (&["--bench", "--rank", "3"], "cannot be used with"),
        (
            &["--processes", "0"],
            "not a whole number from 1 to 2147483647",
        ),
        (
            &["--processes", "5", "--rank", "5"],
            "rank 5 is not one of 5 processes (0 to 4)",
        ),
    ] {
        let (success, out, err) = schedule(options);
        assert!(!success && out.is_empty(), "{options:?}");
        assert!(err.contains(complaint), "{options:?}: {err}");
    }
}

/// The long options in the lines of a manual page that begin with one of these requests.
fn long_options(page: &str, requests: &[&str]) -> Vec<String> {
    let lines = page
        .lines()
        .filter(|line| requests.iter().any(|request| line.starts_with(request)));
    let mut options: Vec<_> = lines
        .flat_map(|line| line.split("Fl -").skip(1))
        .filter_map(|rest| rest.split_whitespace().next())
        .map(str::to_owned)
        .collect();
    options.sort();
    options.dedup();
    options
}

#[test]
fn the_manual_page_has_the_options_of_each_subcommand() {
    let page = include_str!("../docs/man/circulant.1");
    let (_, description) = page.split_once(".Sh DESCRIPTION").unwrap();
    let subcommands = [
        "run",
        "which",
        "report",
        "compare",
        "tune",
        "info",
        "schedule",
        "verify",
        "trace",
        "completion",
    ];
    for subcommand in subcommands {
        let mut circulant = Command::new(env!("CARGO_BIN_EXE_circulant"));
        let output = circulant.args([subcommand, "--help"]).output().unwrap();
        let help = String::from_utf8(output.stdout).unwrap();
        let mut offered: Vec<_> = help
            .lines()
            .skip_while(|line| *line != "Options:")
            .filter_map(|line| line.split("--").nth(1)?.split_whitespace().next())
            .filter(|option| *option != "help")
            .map(str::to_owned)
            .collect();
        offered.sort();
        let start = format!(".Ss circulant {subcommand}\n");
        let (_, section) = description.split_once(&start).unwrap();
        let section = section.split("\n.S").next().unwrap();
        assert_eq!(long_options(section, &[".It"]), offered, "{subcommand}");
    }
    let (_, synopsis) = page.split_once(".Cm run\n").unwrap();
    let synopsis = synopsis.split(".Nm").next().unwrap();
    let (_, section) = description.split_once(".Ss circulant run\n").unwrap();
    let section = section.split("\n.S").next().unwrap();
    assert_eq!(
        long_options(synopsis, &[".Op"]),
        long_options(section, &[".It"])
    );
}

const REPORT: &str = r#"{
    "circulant": "0.1.0", "mpi": "Open MPI v4.1.4", "processes": 16, "rank": 0,
    "settings": {}, "operations": [],
    "sizes": [
        {"operation": "bcast", "bytes": 1048576, "native_calls": 2, "native_seconds": 0.25,
         "circulant_calls": 10, "circulant_seconds": 0.5, "native_seconds_a_call": 0.125,
         "circulant_seconds_a_call": 0.05, "is_predicted": false, "saved_seconds": 0.75,
         "could_save_seconds": 0.15},
        {"operation": "bcast", "bytes": 2097152, "native_calls": 4, "native_seconds": 1.0,
         "circulant_calls": 0, "circulant_seconds": 0.0, "native_seconds_a_call": 0.25,
         "circulant_seconds_a_call": 0.0625, "is_predicted": true, "saved_seconds": null,
         "could_save_seconds": 0.75}
    ],
    "learned": [
        {"operation": "bcast", "bytes": 1048576, "irregularity": 1, "is_exact": true,
         "processes": 16, "nodes": 4, "run": "n/2", "is_measured": true, "native_seconds": 0.125,
         "circulant_seconds": 0.05, "tried": {"native": 0.125, "n": 0.06, "n/2": 0.05}}
    ]
}"#;

/// Status, standard output and standard error of `circulant report` of this text.
fn report(name: &str, text: &str, svg: bool) -> (bool, String, String, Option<String>) {
    let folder = std::env::temp_dir().join(format!("circulant-{name}-{}", std::process::id()));
    std::fs::create_dir(&folder).unwrap();
    let (file, drawing) = (folder.join("report.json"), folder.join("times.svg"));
    std::fs::write(&file, text).unwrap();
    let mut circulant = Command::new(env!("CARGO_BIN_EXE_circulant"));
    circulant.arg("report").arg(&file);
    if svg {
        circulant.arg("--svg").arg(&drawing);
    }
    let output = circulant.output().unwrap();
    let drawn = std::fs::read_to_string(&drawing).ok();
    std::fs::remove_dir_all(&folder).unwrap();
    let [out, err] = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap());
    (output.status.success(), out, err, drawn)
}

#[test]
fn a_report_is_shown_and_drawn() {
    let (success, out, err, drawn) = report("shown", REPORT, true);
    assert!(success && err.is_empty(), "{err}");
    let [sizes, learned] = tables(&out).try_into().unwrap();
    let expected = [
        "bcast", "1048576", "2", "10", "125.000", "50.000", "0.750", "0.150",
    ];
    assert_eq!(sizes[1], expected);
    let expected = [
        "bcast",
        "2097152",
        "4",
        "0",
        "250.000",
        "about 62.500",
        "",
        "0.750",
    ];
    assert_eq!(sizes[2], expected);
    let expected = [
        "bcast",
        "1048576",
        "1",
        "any",
        "16",
        "4",
        "n/2",
        "125.000",
        "50.000",
        "n 60.000, n/2 50.000, native 125.000",
    ];
    assert_eq!(learned[1], expected);
    assert!(out.contains("saved 0.750 s, and could save 0.900 s more"));
    let drawn = drawn.unwrap();
    for part in ["<svg", "bcast", "native", "circulant", "ms a call"] {
        assert!(drawn.contains(part), "{part}");
    }
}

/// A report over all ranks: of a broadcast on all, and of an operation of circulant's own on some.
fn over_ranks() -> String {
    let ranks = r#""ranks": {
        "processes": 16, "nodes": 4, "run_seconds": {"least": 9.5, "mean": 10.0, "most": 11.0},
        "sizes": [
            {"operation": "bcast", "bytes": 1048576, "processes": 16, "fewest_processes": 16,
             "nodes": 4, "ranks": 16, "calls": 12,
             "calls_of_rank": {"least": 12, "mean": 12, "most": 12}, "sum_of_bytes": 12582912.0,
             "seconds": {"least": 0.5, "mean": 0.75, "most": 1.0}, "share_of_run": 0.075,
             "waiting_seconds": 0.25,
             "ran": {"circulant": {"calls": 10, "seconds": 8.0}, "native": {"calls": 2, "seconds": 4.0}}},
            {"operation": "allreduce_v", "bytes": null, "processes": 8, "fewest_processes": 2,
             "nodes": null, "ranks": 8, "calls": 3,
             "calls_of_rank": {"least": 3, "mean": 3, "most": 3}, "sum_of_bytes": 300.0,
             "seconds": {"least": 0.5, "mean": 0.5, "most": 0.5}, "share_of_run": 0.025,
             "waiting_seconds": 0.0, "ran": {"growing": {"calls": 3, "seconds": 4.0}}}
        ]
    }, "sizes""#;
    REPORT.replacen("\"sizes\"", ranks, 1)
}

#[test]
fn a_report_over_all_ranks_is_shown() {
    let (success, out, err, _) = report("ranks", &over_ranks(), false);
    assert!(success && err.is_empty(), "{err}");
    assert!(
        out.contains("Over all 16 ranks on 4 nodes, which ran for 10.000 s (9.500 to 11.000):"),
        "{out}"
    );
    let [_, ranks, _] = tables(&out).try_into().unwrap();
    let expected = [
        [
            "bcast", "1048576", "16", "4", "16", "12", "0.500", "0.750", "1.000", "0.250",
        ],
        [
            "allreduce_v",
            "",
            "2 to 8",
            "",
            "8",
            "3",
            "0.500",
            "0.500",
            "0.500",
            "0.000",
        ],
    ];
    for (row, expected) in ranks[1..].iter().zip(expected) {
        assert_eq!(row[..10], expected);
    }
    assert_eq!(ranks[1][10..], ["7.5%", "circulant 10, native 2"]);
    let missing = REPORT.replacen(
        "\"sizes\"",
        "\"ranks\": null, \"ranks_missing\": \"of a <fault>\", \"sizes\"",
        1,
    );
    let (success, out, ..) = report("missing", &missing, false);
    assert!(
        success && out.contains("This is of one rank alone: of a <fault>."),
        "{out}"
    );
}

#[test]
fn a_report_is_drawn_on_a_page() {
    let missing = REPORT.replacen(
        "\"sizes\"",
        "\"ranks\": null, \"ranks_missing\": \"of a <fault>\", \"sizes\"",
        1,
    );
    for (name, text, parts) in [
        (
            "page",
            over_ranks(),
            [
                "Of all 16 ranks on 4 nodes",
                "waiting: 0.250000 s",
                "allreduce_v",
            ],
        ),
        (
            "missing-page",
            missing,
            [
                "alone: of a &lt;fault&gt;",
                "native: 2 calls",
                "could save 0.900",
            ],
        ),
        (
            "old-page",
            REPORT.to_owned(),
            ["Of rank 0 of 16.", "native: 2 calls", "bcast 1 MiB"],
        ),
    ] {
        let folder = Folder::new(name);
        fs::write(folder.join("report.json"), text).unwrap();
        let mut circulant = circulant();
        circulant.current_dir(&folder.0);
        circulant.args(["report", "report.json", "--html", "page.html"]);
        let (status, _, err) = texts(circulant.output().unwrap());
        assert_eq!((status, &*err), (Some(0), ""));
        let page = fs::read_to_string(folder.join("page.html")).unwrap();
        for part in parts {
            assert!(page.contains(part), "{part}: {page}");
        }
        assert!(
            !page.contains("<script") && !page.contains("href"),
            "{page}"
        );
    }
}

#[test]
fn two_runs_are_compared_over_all_ranks() {
    let second = over_ranks()
        .replace("\"mean\": 0.75", "\"mean\": 0.375")
        .replace("\"mean\": 10.0", "\"mean\": 8.0");
    let (status, out, err) = compare("compared-ranks", &over_ranks(), &second);
    assert_eq!((status, &*err), (Some(0), ""));
    assert!(
        out.contains("run time: 10.000 s, then 8.000 s: 1.25\n"),
        "{out}"
    );
    let [rows] = tables(&out).try_into().unwrap();
    // Means over all ranks: the second operation was called by half of them.
    assert_eq!(
        rows[1][..11],
        [
            "allreduce_v",
            "",
            "2 to 8",
            "",
            "3",
            "3",
            "0.250",
            "0.250",
            "1.00",
            "0.000",
            "0.000"
        ]
    );
    assert_eq!(
        rows[2][..11],
        [
            "bcast", "1048576", "16", "4", "12", "12", "0.750", "0.375", "2.00", "0.250", "0.250"
        ]
    );
    assert_eq!(rows[3][6..9], ["1.000", "0.625", "1.60"]);
    assert_eq!(
        rows[2][11..],
        ["circulant 10, native 2", "circulant 10, native 2"]
    );
    // With a report of one rank alone, that rank is compared.
    let (status, out, _) = compare("compared-rank", &over_ranks(), REPORT);
    assert_eq!(status, Some(0));
    assert!(!out.contains("Over all ranks"), "{out}");
}

/// A logarithmic axis has no place for them.
#[test]
fn calls_of_no_bytes_are_not_drawn() {
    let nothing = REPORT.replace("1048576", "0").replace("2097152", "0");
    let (success, out, err, drawn) = report("nothing", &nothing, true);
    assert!(success && err.is_empty(), "{err}");
    assert_eq!(tables(&out)[0][1][..2], ["bcast", "0"]);
    assert!(drawn.unwrap().contains("<svg"));
}

#[test]
fn a_drawing_of_nothing_is_named() {
    let mut none: serde_json::Value = serde_json::from_str(REPORT).unwrap();
    none["sizes"] = serde_json::json!([]);
    let (success, out, err, drawn) = report("none", &none.to_string(), true);
    assert!(success && drawn.is_none());
    assert!(out.contains("No collective operation was called."), "{out}");
    assert!(err.contains("times.svg is not written"), "{err}");
}

/// Its launcher is told only by what each process of a job runs. A script of a job may call the
/// others.
#[test]
fn a_report_that_cannot_be_read_ends_no_job() {
    let end = |command: &[&str]| {
        let mut circulant = circulant();
        let hydra = [
            ("MPI_LOCALNRANKS", "2"),
            ("PMI_FD", "1"),
            ("PMI_RANK", "1"),
            ("PMI_SIZE", "2"),
        ];
        circulant.envs(hydra).args(command);
        texts(circulant.output().unwrap())
    };
    let (status, out, err) = end(&["report", "/nowhere/report.json"]);
    assert_eq!((status, out.as_str()), (Some(1), ""));
    assert!(err.contains("/nowhere/report.json"), "{err}");
    let (status, out, _) = end(&["run", "/nowhere/program"]);
    assert_eq!(status, Some(127));
    assert!(out.contains("cmd=abort exitcode=127"), "{out}");
}

#[test]
fn what_is_no_report_is_named() {
    for text in ["", "{}", "[1, 2", &REPORT.replace("\"sizes\"", "\"sises\"")] {
        let (success, out, err, _) = report("broken", text, false);
        assert!(!success && out.is_empty(), "{out}");
        assert!(
            err.contains("report.json is no report of this version"),
            "{err}"
        );
    }
}

/// What `circulant info` says with these options and settings, of a folder without builds but one.
fn info(folder: &Folder, options: &[&str], settings: &[(&str, &str)]) -> (String, String) {
    let mut circulant = circulant();
    circulant
        .arg("info")
        .arg("--libraries")
        .arg(folder.join("builds"));
    circulant.args(options).envs(settings.iter().copied());
    let (status, out, err) = texts(circulant.output().unwrap());
    assert_eq!(status, Some(0), "{err}");
    (out, err)
}

#[test]
fn info_begins_with_what_differs_from_the_defaults() {
    let folder = Folder::new("info");
    folder.build("openmpi-4.1.4");
    let (out, err) = info(&folder, &[], &[]);
    assert_eq!(err, "");
    let (first, rest) = out.split_once("\nBuilds in ").unwrap();
    assert!(
        first.ends_with("\n\nAll settings are the defaults.\n"),
        "{first}"
    );
    assert!(rest.contains("  Open MPI 4.1.4  "), "{rest}");
    assert!(rest.contains("  CIRCULANT_SENDS=2  "), "{rest}");
    // One that is set to its default does not differ.
    let set = [("CIRCULANT_BLOCKS", "7"), ("CIRCULANT_SENDS", "2")];
    let (out, _) = info(&folder, &[], &set);
    let (first, rest) = out.split_once("\nBuilds in ").unwrap();
    let (_, differing) = first
        .split_once("that differ from the defaults:\n")
        .unwrap();
    let differing: Vec<_> = differing.split_whitespace().collect();
    assert_eq!(differing, ["CIRCULANT_BLOCKS=7", "environment"]);
    let sends = rest.lines().find(|line| line.contains("CIRCULANT_SENDS=2"));
    assert!(sends.unwrap().ends_with("environment"), "{rest}");
    assert!(!rest.contains("CIRCULANT_BLOCKS="), "{rest}");
}

#[test]
fn info_for_programs() {
    let folder = Folder::new("json");
    let library = folder.build("openmpi-4.1.4");
    let set = [("CIRCULANT_SENDS", "3"), ("CIRCULANT_FROCE", "1")];
    let (out, err) = info(&folder, &["--json"], &set);
    assert_eq!(err, "");
    let info: serde_json::Value = serde_json::from_str(&out).unwrap();
    let build = serde_json::json!({
        "mpi": "Open MPI", "version": "4.1.4", "library": library.to_str().unwrap(),
        "problem": null,
    });
    assert_eq!(info["builds"], serde_json::json!([build]));
    let settings = info["settings"].as_array().unwrap();
    let sends = settings
        .iter()
        .find(|setting| setting["name"] == "CIRCULANT_SENDS");
    let expected = serde_json::json!({
        "name": "CIRCULANT_SENDS", "value": "3", "default": "2", "origin": "environment",
    });
    assert_eq!(sends, Some(&expected));
    let complaints = info["complaints"].as_array().unwrap();
    assert_eq!(complaints.len(), 1);
    assert!(complaints[0].as_str().unwrap().contains("CIRCULANT_FORCE"));

    fs::write(&library, "no library").unwrap();
    let (out, _) = self::info(&folder, &["--json"], &[]);
    let info: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!(info["builds"][0]["problem"], "it is no shared library");
    let (out, err) = self::info(&folder, &[], &[("CIRCULANT_WINDOW", "0")]);
    assert!(err.contains("CIRCULANT_WINDOW"), "{err}");
    assert!(
        out.contains("No setting that was accepted differs"),
        "{out}"
    );
    assert!(
        out.contains("libcirculant.so  cannot be loaded: it is no shared library\n"),
        "{out}"
    );
}

/// Status, standard output and standard error of `circulant compare` of these reports.
fn compare(name: &str, first: &str, second: &str) -> (Option<i32>, String, String) {
    let folder = Folder::new(name);
    let mut circulant = circulant();
    circulant.current_dir(&folder.0).arg("compare");
    for (file, text) in [("a.json", first), ("b.json", second)] {
        fs::write(folder.join(file), text).unwrap();
        circulant.arg(file);
    }
    texts(circulant.output().unwrap())
}

#[test]
fn two_runs_are_compared_by_operation_and_size() {
    let native = REPORT
        .replace(
            "\"settings\": {}",
            "\"settings\": {\"CIRCULANT_DISABLE\": \"1\"}",
        )
        .replace(
            "\"native_calls\": 2, \"native_seconds\": 0.25",
            "\"native_calls\": 12, \"native_seconds\": 1.5",
        )
        .replace(
            "\"circulant_calls\": 10, \"circulant_seconds\": 0.5",
            "\"circulant_calls\": 0, \"circulant_seconds\": 0.0",
        );
    assert_eq!(native.matches("1.5").count(), 1);
    let (status, out, err) = compare("compared", &native, REPORT);
    assert_eq!((status, &*err), (Some(0), ""));
    let heading = "first:  a.json, rank 0 of 16, Open MPI v4.1.4\n\
                   second: b.json, rank 0 of 16, Open MPI v4.1.4\n\
                   CIRCULANT_DISABLE: 1, then nothing\n\n";
    assert!(out.starts_with(heading), "{out}");
    let [rows] = tables(&out).try_into().unwrap();
    assert_eq!(
        rows[1..],
        [
            ["bcast", "1048576", "12", "12", "1.500", "0.750", "2.00"],
            ["bcast", "2097152", "4", "4", "1.000", "1.000", "1.00"],
            ["total", "", "16", "16", "2.500", "1.750", "1.43"],
        ]
    );
    assert!(!out.contains("did not make the same calls"), "{out}");
}

#[test]
fn runs_with_other_calls_are_said_to_be() {
    let other = REPORT.replace("2097152", "4194304");
    let (status, out, _) = compare("others", REPORT, &other);
    assert_eq!(status, Some(0));
    let [rows] = tables(&out).try_into().unwrap();
    assert_eq!(
        rows[2],
        ["bcast", "2097152", "4", "0", "1.000", "0.000", ""]
    );
    assert_eq!(
        rows[3],
        ["bcast", "4194304", "0", "4", "0.000", "1.000", ""]
    );
    assert!(out.contains("did not make the same calls"), "{out}");
    let (status, _, err) = compare("none", REPORT, "{}");
    assert_eq!(status, Some(1));
    assert!(err.starts_with("circulant: b.json is no report"), "{err}");
}

#[test]
fn shells_complete_the_command() {
    for shell in ["bash", "zsh", "fish"] {
        let output = circulant().args(["completion", shell]).output();
        let (status, out, err) = texts(output.unwrap());
        assert_eq!((status, &*err), (Some(0), ""), "{shell}");
        assert!(
            out.contains("compare") && out.contains("require"),
            "{shell}"
        );
    }
    let (status, _, err) = texts(circulant().args(["completion", "csh"]).output().unwrap());
    assert_eq!(status, Some(2));
    assert!(err.contains("bash, zsh, fish"), "{err}");
    let circulant = env!("CARGO_BIN_EXE_circulant");
    let script = format!(
        "eval \"$({circulant} completion bash)\"
        COMP_WORDS=(circulant run --req) COMP_CWORD=2
        _circulant circulant --req run
        echo \"${{COMPREPLY[@]}}\""
    );
    let bash = Command::new("bash").args(["-c", &script]).output().unwrap();
    assert_eq!(
        texts(bash),
        (Some(0), "--require\n".to_owned(), String::new())
    );
}
