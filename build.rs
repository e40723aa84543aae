//! Reads from the MPI's own header what mpi-sys does not bind: the handles and addresses that are
//! constants there, and whether the large-count functions exist.
//!
//! For SimGrid's SMPI and the standard ABI of MPI, whose headers mpi-sys cannot read, also the
//! declarations of the functions.
//!
//! Open MPI's handle constants are addresses of data symbols. Referring to them from the library
//! would make it need libmpi at load time, in every process that it is preloaded into, so they are
//! passed on by name and looked up at run time (`src/mpi/library.rs`).
//!
//! For the command-line program, compiles the paper's algorithms in C, which ours are timed
//! against.

// A build script reports its errors by panicking; cargo shows them.
#![allow(clippy::expect_used, clippy::panic)]

use std::path::PathBuf;
use std::{env, fs};

/// Constants of mpi.h: handles, special addresses and special integers.
const CONSTANTS: &[&str] = &[
    "MPI_COMM_WORLD",
    "MPI_COMM_SELF",
    "MPI_COMM_NULL",
    "MPI_DATATYPE_NULL",
    "MPI_BYTE",
    "MPI_DOUBLE",
    "MPI_OP_NULL",
    "MPI_MAX",
    "MPI_MIN",
    "MPI_SUM",
    "MPI_PROD",
    "MPI_LAND",
    "MPI_BAND",
    "MPI_LOR",
    "MPI_BOR",
    "MPI_LXOR",
    "MPI_BXOR",
    "MPI_MINLOC",
    "MPI_MAXLOC",
    "MPI_REPLACE",
    "MPI_NO_OP",
    "MPI_REQUEST_NULL",
    "MPI_ERRORS_ARE_FATAL",
    "MPI_ERRORS_RETURN",
    "MPI_IN_PLACE",
    "MPI_BOTTOM",
    "MPI_STATUS_IGNORE",
    "MPI_THREAD_MULTIPLE",
    "MPI_KEYVAL_INVALID",
    "MPI_ANY_SOURCE",
    "MPI_ANY_TAG",
    "MPI_PROC_NULL",
    "MPI_ROOT",
    "MPI_UNDEFINED",
    "MPI_ERR_ARG",
    "MPI_ERR_BUFFER",
    "MPI_ERR_COMM",
    "MPI_ERR_COUNT",
    "MPI_ERR_NO_MEM",
    "MPI_ERR_OP",
    "MPI_ERR_TRUNCATE",
    "MPI_ERR_TYPE",
];

/// The datatypes of numbers, of those that MPIs have, and what they are of.
const NUMBERS: &[(&str, &str)] = &[
    ("MPI_BYTE", "Unsigned"),
    ("MPI_SIGNED_CHAR", "Signed"),
    ("MPI_UNSIGNED_CHAR", "Unsigned"),
    ("MPI_SHORT", "Signed"),
    ("MPI_UNSIGNED_SHORT", "Unsigned"),
    ("MPI_INT", "Signed"),
    ("MPI_UNSIGNED", "Unsigned"),
    ("MPI_LONG", "Signed"),
    ("MPI_UNSIGNED_LONG", "Unsigned"),
    ("MPI_LONG_LONG_INT", "Signed"),
    ("MPI_UNSIGNED_LONG_LONG", "Unsigned"),
    ("MPI_INT8_T", "Signed"),
    ("MPI_INT16_T", "Signed"),
    ("MPI_INT32_T", "Signed"),
    ("MPI_INT64_T", "Signed"),
    ("MPI_UINT8_T", "Unsigned"),
    ("MPI_UINT16_T", "Unsigned"),
    ("MPI_UINT32_T", "Unsigned"),
    ("MPI_UINT64_T", "Unsigned"),
    ("MPI_AINT", "Signed"),
    ("MPI_COUNT", "Signed"),
    ("MPI_OFFSET", "Signed"),
    ("MPI_INTEGER", "Signed"),
    ("MPI_INTEGER1", "Signed"),
    ("MPI_INTEGER2", "Signed"),
    ("MPI_INTEGER4", "Signed"),
    ("MPI_INTEGER8", "Signed"),
    ("MPI_C_BOOL", "Logical"),
    ("MPI_FLOAT", "Floating"),
    ("MPI_DOUBLE", "Floating"),
    ("MPI_LONG_DOUBLE", "Extended"),
    ("MPI_REAL", "Floating"),
    ("MPI_DOUBLE_PRECISION", "Floating"),
    ("MPI_REAL4", "Floating"),
    ("MPI_REAL8", "Floating"),
    ("MPI_C_FLOAT_COMPLEX", "Complex"),
    ("MPI_C_DOUBLE_COMPLEX", "Complex"),
    ("MPI_COMPLEX", "Complex"),
    ("MPI_DOUBLE_COMPLEX", "Complex"),
    ("MPI_COMPLEX8", "Complex"),
    ("MPI_COMPLEX16", "Complex"),
];

/// How the header tells which ABI it is of (`src/abi.rs`), the most specific first.
const ABIS: &[(&str, &str)] = &[
    ("OMPI_MAJOR_VERSION", "OpenMpi"),
    ("I_MPI_VERSION", "Mpich"),
    ("MPICH_VERSION", "Mpich"),
    ("SMPI_H", "Smpi"),
    ("MPI_ABI_VERSION", "Standard"),
];

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-check-cfg=cfg(bindings, large_count, idup_with_info, smpi)");
    if env::var_os("CARGO_FEATURE_CLI").is_some() {
        compile_transcription();
    }
    let with = |feature| env::var_os(feature).is_some();
    let bindings = with("CARGO_FEATURE_BINDINGS") && !with("CARGO_FEATURE_MPI");
    if bindings {
        println!("cargo::rustc-cfg=bindings");
    } else if !with("CARGO_FEATURE_MPI") {
        // The command-line program is not built anew for another MPI.
        return;
    }
    println!("cargo::rerun-if-env-changed=MPICC");
    let header = preprocess();
    if is_macro(&header, "SMPI_H") {
        println!("cargo::rustc-cfg=smpi");
    }
    if header.contains("PMPI_Bcast_c") {
        println!("cargo::rustc-cfg=large_count");
    }
    if header.contains("PMPI_Comm_idup_with_info") {
        println!("cargo::rustc-cfg=idup_with_info");
    }
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    fs::write(out.join("constants.rs"), constants(&header)).expect("OUT_DIR can be written");
    #[cfg(feature = "bindings")]
    if bindings {
        bind(&out.join("bindings.rs"));
    }
}

/// The declarations as mpi-sys makes them.
#[cfg(feature = "bindings")]
fn bind(file: &std::path::Path) {
    let shown = std::process::Command::new(mpicc()).arg("-show").output();
    let shown = String::from_utf8(shown.expect("MPICC runs").stdout).expect("a command line");
    bindgen::builder()
        .header_contents("bindings.h", "#include <mpi.h>")
        .clang_args(
            shown
                .split_whitespace()
                .filter(|word| word.starts_with("-I") || word.starts_with("-D")),
        )
        .allowlist_item("P?MPI_.*")
        .new_type_alias("MPI_(Comm|Datatype|Errhandler|Group|Info|Op|Request)")
        .derive_partialeq(true)
        .generate()
        .expect("libclang reads mpi.h")
        .write_to_file(file)
        .expect("OUT_DIR can be written");
}

fn mpicc() -> std::ffi::OsString {
    env::var_os("MPICC").unwrap_or_else(|| "mpicc".into())
}

/// Makes the archive that `src/bin/circulant/transcription.rs` links with. cargo is told where it
/// is, not to link with it: that would bring it into the library.
fn compile_transcription() {
    const SOURCE: &str = "src/bin/circulant/transcription.c";
    println!("cargo::rerun-if-changed={SOURCE}");
    println!("cargo::rerun-if-env-changed=CC");
    let mut build = cc::Build::new();
    build.file(SOURCE).std("c11").extra_warnings(true);
    build.opt_level(3).cargo_metadata(false);
    build.compile("transcription");
    let version = build.get_compiler().to_command().arg("--version").output();
    let version = version.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    let version = version.unwrap_or_default();
    let compiler = version.lines().next().unwrap_or("unknown compiler");
    println!("cargo::rustc-env=TRANSCRIPTION_COMPILER={compiler} -O3");
    let out = env::var("OUT_DIR").expect("cargo sets OUT_DIR");
    println!("cargo::rustc-link-search=native={out}");
}

/// Runs the MPI's compiler wrapper over its header, with one marked line a constant.
fn preprocess() -> String {
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    let probe = out.join("constants.c");
    let mut source = String::from("#include <mpi.h>\n");
    for name in CONSTANTS
        .iter()
        .copied()
        .chain(NUMBERS.iter().map(|&(name, _)| name))
        .chain(ABIS.iter().map(|&(name, _)| name))
    {
        source += &format!("circulant_constant {name} = \"{name}\" {name}\n");
    }
    fs::write(&probe, source).expect("OUT_DIR can be written");
    // Without line markers, which would cut lines where a macro of a system header begins.
    let expanded = cc::Build::new()
        .compiler(mpicc())
        .flag("-P")
        .file(&probe)
        .try_expand();
    match expanded {
        Ok(text) => String::from_utf8_lossy(&text).into_owned(),
        Err(error) => {
            panic!("the MPI compiler wrapper (MPICC, or mpicc) cannot read mpi.h: {error}")
        }
    }
}

/// The Rust source of the constants, and of the ABI.
fn constants(header: &str) -> String {
    let mut text = String::new();
    for name in CONSTANTS {
        let value = source(header, expansion(header, name))
            .unwrap_or_else(|| panic!("mpi.h defines {name} in a way that is not understood"));
        let short = name.trim_start_matches("MPI_");
        text += &format!("/// `{name}`.\npub const {short}: Source = {value};\n");
    }
    let numbers: Vec<String> = NUMBERS
        .iter()
        .filter_map(|(name, kind)| {
            let value = source(header, expansion(header, name))?;
            Some(format!("({value}, NumberKind::{kind})"))
        })
        .collect();
    text += &format!(
        "/// Datatypes of numbers.\npub const NUMBERS: &[(Source, NumberKind)] = &[{}];\n",
        numbers.join(", ")
    );
    let (_, abi) = ABIS
        .iter()
        .find(|(name, _)| is_macro(header, name))
        .expect("mpi.h is Open MPI's, MPICH's, SMPI's, or that of the standard ABI");
    text + &format!(
        "/// That of the header that this was built with.\npub const ABI: Abi = Abi::{abi};\n"
    )
}

/// Whether the header defines the macro `name`.
fn is_macro(header: &str, name: &str) -> bool {
    expansion(header, name) != name
}

/// What the preprocessor made of constant `name`.
fn expansion<'a>(header: &'a str, name: &str) -> &'a str {
    let marker = format!("\"{name}\"");
    let found = header
        .lines()
        .filter(|line| line.starts_with("circulant_constant"))
        .find_map(|line| line.split_once(&marker));
    found.map_or("", |(_, text)| text.trim())
}

/// The value of a name in an enumeration that gives none.
fn place_in_enumeration(declarations: &str, name: &str) -> Option<usize> {
    declarations
        .split("enum")
        .skip(1)
        .filter_map(|rest| rest.split_once('{')?.1.split_once('}'))
        .find_map(|(body, _)| {
            let mut names = body.split(',').map(str::trim);
            let place = names.clone().position(|other| other == name)?;
            names.all(|other| !other.contains('=')).then_some(place)
        })
}

/// An expansion as a Rust expression: the name of a data symbol, of a variable or of a function, or
/// a number, which an enumeration may give.
fn source(header: &str, expansion: &str) -> Option<String> {
    if let Some((_, symbol)) = expansion.split_once('&') {
        let name = symbol.trim_matches(|c: char| !c.is_alphanumeric() && c != '_');
        return Some(format!("Source::Symbol(c\"{name}\")"));
    }
    if let Some(function) = expansion.strip_suffix("()") {
        return Some(format!("Source::Function(c\"{function}\")"));
    }
    let is_name = expansion.starts_with(|c: char| c.is_alphabetic() || c == '_');
    if is_name && header.contains(&format!(" {expansion};")) {
        return Some(format!("Source::Variable(c\"{expansion}\")"));
    }
    let declarations = header.split("circulant_constant").next()?;
    let enumerator = declarations.split_once(&format!(" {expansion} = "));
    let expansion = match enumerator.filter(|_| !expansion.is_empty()) {
        Some((_, value)) => value.split([',', '}']).next()?.trim(),
        None => expansion,
    };
    if let Some(place) = place_in_enumeration(declarations, expansion) {
        return Some(format!("Source::Value({place})"));
    }
    let bare = expansion.replace(['(', ')'], " ");
    let number = bare.split_whitespace().next_back()?;
    let value = match number.strip_prefix("0x") {
        Some(hex) => i64::from_str_radix(hex, 16).ok()?,
        None => number.parse().ok()?,
    };
    Some(format!("Source::Value({value})"))
}
