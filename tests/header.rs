//! include/circulant.h is what cbindgen makes of src/api/.

#![allow(clippy::expect_used)] // That is how a test fails.

use std::path::{Path, PathBuf};

const HEADER: &str = "include/circulant.h";

/// Its files, always in the same order: the first is that of the module itself.
fn sources(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).expect("src/api/");
    let paths = entries.map(|entry| entry.expect("a file").path());
    let mut paths: Vec<_> = paths.collect();
    paths.sort_by_key(|path| (!path.ends_with("mod.rs"), path.clone()));
    paths
}

fn generate() -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let config = cbindgen::Config::from_file(root.join("cbindgen.toml")).expect("cbindgen.toml");
    let builder = cbindgen::Builder::new().with_config(config);
    let bindings = sources(&root.join("src/api"))
        .into_iter()
        .fold(builder, cbindgen::Builder::with_src)
        .generate()
        .expect("src/api/ can be bound");
    let mut text = Vec::new();
    bindings.write(&mut text);
    String::from_utf8(text).expect("a header is text")
}

#[test]
fn committed_header_is_current() {
    let committed = std::fs::read_to_string(HEADER).expect("include/circulant.h is committed");
    assert_eq!(
        committed,
        generate(),
        "{HEADER} is out of date: run `make header`"
    );
}

/// Not a check: `make header` runs it to write the header anew.
#[test]
#[ignore = "writes include/circulant.h"]
fn bless() {
    std::fs::write(HEADER, generate()).expect("include/circulant.h can be written");
}
