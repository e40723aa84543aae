//! The map in `lib.rs` is true: every module is on it, and imports only from those below it.

#![allow(clippy::expect_used)] // That is how a test fails.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

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

/// Adds the modules that the code in `path` names.
fn imports(path: &Path, found: &mut BTreeSet<String>) {
    if path.is_dir() {
        let inside = fs::read_dir(path).expect("a folder of sources");
        inside.for_each(|entry| imports(&entry.expect("a source").path(), found));
        return;
    }
    let text = fs::read_to_string(path).expect("a source");
    let code = text
        .lines()
        .filter(|line| !line.trim_start().starts_with("//"));
    for line in code.take_while(|line| *line != "#[cfg(test)]") {
        for (start, marker) in line.match_indices("crate::") {
            let name = &line[start + marker.len()..];
            let end = name
                .find(|c: char| !c.is_alphanumeric() && c != '_')
                .unwrap_or(name.len());
            found.insert(name[..end].to_owned());
        }
    }
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
    for (row, modules) in map.iter().enumerate() {
        let below: BTreeSet<_> = map[row + 1..].iter().flatten().collect();
        for module in modules {
            let file = sources.join(format!("{module}.rs"));
            let path = if file.exists() {
                file
            } else {
                sources.join(module)
            };
            let mut found = BTreeSet::new();
            imports(&path, &mut found);
            for name in found {
                let is_below = name == *module || below.contains(&name);
                assert!(is_below, "{module} imports from {name}");
            }
        }
    }
}
