//! include/circulant.h is what cbindgen makes of src/api/.

#![allow(clippy::expect_used)] // That is how a test fails.

use std::path::Path;

const HEADER: &str = "include/circulant.h";

fn generate() -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let config = cbindgen::Config::from_file(root.join("cbindgen.toml")).expect("cbindgen.toml");
    // It finds the other files by their `mod`.
    let bindings = cbindgen::Builder::new()
        .with_config(config)
        .with_src(root.join("src/api/mod.rs"))
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
