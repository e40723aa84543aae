//! The map in `lib.rs` is true: every module is on it, and imports only from those below it. Files
//! import in no circles.

#![allow(clippy::expect_used)] // That is how a test fails.

#[path = "modules/sources.rs"]
mod sources;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use sources::{Module, Sources};

/// The modules of each line of the map, from the top.
fn map(lib: &str) -> Vec<Vec<String>> {
    let rows = lib.lines().filter_map(|line| line.strip_prefix("//! | "));
    let names = rows.map(|row| {
        let first = row.split(" | ").next().unwrap_or_default();
        let names = first
            .split(", ")
            .map(|name| name.trim_matches(['[', ']', '`']));
        names.map(str::to_owned).collect::<Vec<_>>()
    });
    names
        .filter(|names| names[0] != "module" && !names[0].starts_with("---"))
        .collect()
}

fn of_library() -> Sources {
    Sources::read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"))
}

#[test]
fn modules_import_from_below() {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let lib = fs::read_to_string(sources.join("lib.rs")).expect("lib.rs");
    let map = map(&lib);
    let declared = lib
        .lines()
        .filter_map(|line| line.split("mod ").nth(1)?.strip_suffix(';'));
    let declared: BTreeSet<_> = declared.collect();
    let named: BTreeSet<_> = map.iter().flatten().map(String::as_str).collect();
    assert_eq!(
        declared, named,
        "the modules of lib.rs, and those on its map"
    );
    let row = |module: &String| map.iter().position(|modules| modules.contains(module));
    for (file, paths) in of_library().paths() {
        for path in paths.iter().filter(|path| path[0] != file[0]) {
            let is_below = row(&path[0]) > row(&file[0]);
            assert!(is_below, "{} imports {}", file.join("/"), path.join("::"));
        }
    }
}

fn assert_no_circles(sources: &Sources) {
    let circles = sources.circles();
    let shown: Vec<_> = circles.iter().map(|circle| sources.shown(circle)).collect();
    assert!(circles.is_empty(), "circles: {}", shown.join("\n"));
}

#[test]
fn files_import_in_no_circles() {
    assert_no_circles(&of_library());
}

#[test]
fn files_of_the_program_import_in_no_circles() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/bin/circulant");
    let program = Sources::read(&folder);
    assert!(program.paths().count() > 1);
    assert_no_circles(&program);
}

/// The circles of a crate of these files.
fn circles(files: &[(&str, &str)]) -> Vec<String> {
    let texts = files.iter().map(|(file, text)| {
        let module: Module = file.split('/').map(str::to_owned).collect();
        (module, (*text).to_owned())
    });
    let sources = Sources::from_texts(texts.collect::<BTreeMap<_, _>>());
    let circles = sources.circles().into_iter();
    circles.map(|circle| circle.join(" ")).collect()
}

/// However an import is written.
#[test]
fn every_way_to_import_is_seen() {
    let ways = [
        "use crate::m::b::B;",
        "use super::b::B;",
        "use super::{c::{C, D}, b::B};",
        "use super::B;",
        "use self::super::b::B as Other;",
        "use super::b; fn f() -> b::B { todo!() }",
        "pub(super) use super::b::*;",
        "fn f<'a>(x: &'a str) -> char { super::b::f(x); '\"' }",
        "const TEXT: &str = \"// {\"; fn f() { super::b::f() }",
        "mod inner { use super::super::b::B; }",
        "#[cfg(test)]\nmod tests { fn f() { if true {} } }\nuse super::B;",
        "#[cfg(test)]\nuse std::fmt;\nuse super::B;",
        "fn f() { crate::m::B::new() }",
    ];
    for way in ways {
        let files = [
            ("m", "mod a; mod b; mod c; pub use b::B; pub use a::A;"),
            ("m/a", way),
            ("m/b", "use super::A; pub struct B;"),
            ("m/c", "pub struct C; pub struct D;"),
        ];
        assert_eq!(circles(&files), ["m/a m/b"], "{way}");
    }
}

#[test]
fn what_is_no_import_is_not_seen() {
    let texts = [
        "",
        "// use super::b::B;\n/* super::b::f() */",
        "const TEXT: &str = r#\"use super::b::B;\"#;",
        "#[cfg(test)]\nmod tests { use super::super::b::B; }",
        "fn f() { self.b::<u8>() }",
        "mod inner { use super::b::B; } mod b { pub struct B; }",
        "use super::c::C;",
        "use super::M;",
    ];
    for text in texts {
        let files = [
            (
                "m",
                "mod a; mod b; mod c; pub use b::B; pub use a::A; pub struct M;",
            ),
            ("m/a", text),
            ("m/b", "use super::A; pub struct B;"),
            ("m/c", "pub struct C;"),
        ];
        assert_eq!(circles(&files), [""; 0], "{text}");
    }
}

/// A module that uses what is below it is a file like others.
#[test]
fn a_module_may_be_in_a_circle() {
    let files = [
        ("m", "use b::B; pub struct M(B);"),
        ("m/b", "use super::M;"),
    ];
    assert_eq!(circles(&files), ["m m/b"]);
    let through_others = [
        ("a", "use crate::b::B;"),
        ("b", "use crate::c::C;"),
        ("c", "use crate::a::A;"),
        ("d", "use crate::a::A;"),
    ];
    assert_eq!(circles(&through_others), ["a b c"]);
}
