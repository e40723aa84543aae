//! include/circulant.h is what cbindgen makes of circulant's own C functions.

#![allow(clippy::expect_used)] // That is how a test fails.

use std::path::Path;

const HEADER: &str = "include/circulant.h";

/// Where the functions are.
const SOURCES: [&str; 3] = [
    "src/api.rs",
    "src/extensions/growing/api.rs",
    "src/extensions/successive/api.rs",
];

fn generate() -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let config = cbindgen::Config::from_file(root.join("cbindgen.toml")).expect("cbindgen.toml");
    let builder = cbindgen::Builder::new().with_config(config);
    let sources = SOURCES.iter().map(|source| root.join(source));
    let builder = sources.fold(builder, cbindgen::Builder::with_src);
    let bindings = builder.generate().expect("C functions can be bound");
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
