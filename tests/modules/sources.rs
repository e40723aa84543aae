//! What the files of a crate import from one another, as far as a simple scanner can tell.
//!
//! It reads `use` declarations, and paths in the code that begin with `crate`, `super`, `self`, a
//! module or an imported name, and follows re-exports to the file that defines a name. It skips
//! comments, texts and `#[cfg(test)] mod` blocks. It does not see methods, what macros make, what
//! `*` brings, nor where a module uses, by its name alone, what it makes public of files below it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// The path of a module, from the root of its crate.
pub type Module = Vec<String>;

/// The files of a crate, by module.
#[derive(Default)]
pub struct Sources {
    files: BTreeMap<Module, Source>,
}

/// What one file says.
#[derive(Default)]
struct Source {
    /// The names that it imports, and where they are from.
    bound: BTreeMap<String, Module>,
    /// The paths that its code names, from the root.
    named: Vec<Module>,
}

impl Sources {
    /// Reads the files of the crate in `folder`, except its root and its binaries.
    pub fn read(folder: &Path) -> Sources {
        let mut texts = BTreeMap::new();
        collect(folder, &Module::new(), &mut texts);
        Sources::from_texts(texts)
    }

    pub fn from_texts(texts: BTreeMap<Module, String>) -> Sources {
        let modules: BTreeSet<_> = texts.keys().cloned().collect();
        let sources = texts.into_iter().map(|(module, text)| {
            let mut scanner = Scanner::new(&text, module.clone(), &modules);
            scanner.scan();
            (module, scanner.source)
        });
        Sources {
            files: sources.collect(),
        }
    }

    /// The paths that each file names.
    pub fn paths(&self) -> impl Iterator<Item = (&Module, &[Module])> {
        let files = self.files.iter();
        files.map(|(file, source)| (file, &source.named[..]))
    }

    /// The files from which each file imports.
    fn imports(&self) -> BTreeMap<&Module, BTreeSet<Module>> {
        let files = self.paths().map(|(file, paths)| {
            let from = paths.iter().filter_map(|path| self.definition(path));
            (file, from.filter(|from| from != file).collect())
        });
        files.collect()
    }

    /// The file that defines the item of `path`. A module of files is no item.
    fn definition(&self, path: &[String]) -> Option<Module> {
        let mut module = Module::new();
        for (index, name) in path.iter().enumerate() {
            module.push(name.clone());
            if self.files.contains_key(&module) {
                continue;
            }
            module.pop();
            let bound = self.files.get(&module)?.bound.get(name);
            return match bound {
                Some(from) => self.definition(&[from, &path[index + 1..]].concat()),
                None => Some(module),
            };
        }
        let is_inside = |file: &Module| file.len() > module.len() && file.starts_with(&module);
        let is_folder = self.files.keys().any(is_inside);
        (!is_folder).then_some(module)
    }

    /// The sets of several files each of which imports from all others, perhaps through others.
    pub fn circles(&self) -> BTreeSet<Vec<String>> {
        let imports = self.imports();
        let reached = imports.keys().map(|file| (*file, reach(file, &imports)));
        let reached: BTreeMap<_, _> = reached.collect();
        let circles = reached.iter().map(|(file, from_here)| {
            let circle = from_here
                .iter()
                .filter(|other| reached[other].contains(*file));
            circle.map(|file| file.join("/")).collect::<Vec<_>>()
        });
        circles.filter(|circle| circle.len() > 1).collect()
    }

    /// A circle, with the paths that make it one.
    pub fn shown(&self, circle: &[String]) -> String {
        let is_in = |file: &Module| circle.contains(&file.join("/"));
        let mut lines = vec![circle.join(", ")];
        for (file, paths) in self.paths().filter(|(file, _)| is_in(file)) {
            let others = paths.iter().filter(|path| {
                let from = self.definition(path);
                from.is_some_and(|from| from != *file && is_in(&from))
            });
            lines
                .extend(others.map(|path| format!("{} names {}", file.join("/"), path.join("::"))));
        }
        lines.join("\n    ")
    }
}

/// What `file` imports from, and from what those do.
fn reach(file: &Module, imports: &BTreeMap<&Module, BTreeSet<Module>>) -> BTreeSet<Module> {
    let mut reached = BTreeSet::new();
    let mut waiting = vec![file];
    while let Some(file) = waiting.pop() {
        let next = imports.get(file).into_iter().flatten();
        waiting.extend(next.filter(|from| reached.insert((*from).clone())));
    }
    reached
}

fn collect(folder: &Path, module: &Module, texts: &mut BTreeMap<Module, String>) {
    for entry in fs::read_dir(folder).expect("a folder of sources") {
        let path = entry.expect("a source").path();
        let name = path
            .file_stem()
            .expect("a name")
            .to_string_lossy()
            .into_owned();
        let inside = [&module[..], std::slice::from_ref(&name)].concat();
        let is_root = module.is_empty() && ["lib", "bin"].contains(&&*name);
        if is_root {
            continue;
        } else if path.is_dir() {
            collect(&path, &inside, texts);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let module = if name == "mod" {
                module.clone()
            } else {
                inside
            };
            texts.insert(module, fs::read_to_string(&path).expect("a source"));
        }
    }
}

/// Reads one file.
struct Scanner<'a> {
    tokens: Vec<String>,
    at: usize,
    module: Module,
    /// The modules that are open in the file, and how many braces are around each.
    inline: Vec<(String, usize)>,
    depth: usize,
    modules: &'a BTreeSet<Module>,
    source: Source,
}

impl<'a> Scanner<'a> {
    fn new(text: &str, module: Module, modules: &'a BTreeSet<Module>) -> Self {
        Scanner {
            tokens: tokens(text),
            at: 0,
            module,
            inline: Vec::new(),
            depth: 0,
            modules,
            source: Source::default(),
        }
    }

    fn token(&self, ahead: usize) -> &str {
        self.tokens.get(self.at + ahead).map_or("", |token| token)
    }

    fn is_next(&self, tokens: &[&str]) -> bool {
        (tokens.iter().enumerate()).all(|(ahead, token)| self.token(ahead) == *token)
    }

    fn scan(&mut self) {
        while self.at < self.tokens.len() {
            if self.is_next(&["#", "[", "cfg", "(", "test", ")", "]", "mod"]) {
                self.at += 9;
                self.skip_block();
            } else if self.is_next(&["mod"]) && self.token(2) == "{" {
                self.inline.push((self.token(1).to_owned(), self.depth));
                self.at += 2;
            } else if self.is_next(&["mod"]) {
                self.at += 2;
            } else if self.is_next(&["use"]) {
                self.declaration();
            } else if self.is_next(&["."]) && self.token(1) != "." {
                self.at += 2;
            } else if is_name(self.token(0)) {
                self.path();
            } else {
                self.braces();
                self.at += 1;
            }
        }
    }

    fn braces(&mut self) {
        match self.token(0) {
            "{" => self.depth += 1,
            "}" => {
                self.depth = self.depth.saturating_sub(1);
                if (self.inline.last()).is_some_and(|(_, depth)| *depth == self.depth) {
                    self.inline.pop();
                }
            }
            _ => {}
        }
    }

    fn skip_block(&mut self) {
        let depth = self.depth;
        loop {
            self.braces();
            self.at += 1;
            if self.depth == depth || self.at >= self.tokens.len() {
                return;
            }
        }
    }

    /// A `use` declaration. Where a module makes public what is below it, it imports nothing.
    fn declaration(&mut self) {
        let is_public = self.at > 0 && ["pub", ")"].contains(&&*self.tokens[self.at - 1]);
        self.at += 1;
        let mut paths = Vec::new();
        self.tree(&[], &mut paths);
        for (path, name) in paths {
            let Some(path) = self.absolute(&path) else {
                continue;
            };
            if !(is_public && path.starts_with(&self.module)) {
                self.source.named.push(path.clone());
            }
            if self.inline.is_empty() {
                self.source.bound.insert(name, path);
            }
        }
    }

    /// The paths of a tree of `use`, each with the name that it binds.
    fn tree(&mut self, prefix: &[String], paths: &mut Vec<(Module, String)>) {
        let mut path = prefix.to_vec();
        loop {
            match self.token(0) {
                "{" => {
                    while self.token(0) != "}" {
                        self.at += 1;
                        if self.token(0) != "}" {
                            self.tree(&path, paths);
                        }
                    }
                    self.at += 1;
                    return;
                }
                "*" => self.at += 1,
                "self" if !path.is_empty() => self.at += 1,
                name => {
                    path.push(name.to_owned());
                    self.at += 1;
                }
            }
            if self.token(0) != "::" {
                break;
            }
            self.at += 1;
        }
        let mut name = path.last().cloned().unwrap_or_default();
        if self.token(0) == "as" {
            name = self.token(1).to_owned();
            self.at += 2;
        }
        paths.push((path, name));
    }

    /// A path in the code, or a name alone.
    fn path(&mut self) {
        let mut path = vec![self.token(0).to_owned()];
        self.at += 1;
        while self.token(0) == "::" && is_name(self.token(1)) {
            path.push(self.token(1).to_owned());
            self.at += 2;
        }
        if path.len() > 1 {
            self.source.named.extend(self.absolute(&path));
        }
    }

    /// The path from the root, if it is one of this crate.
    fn absolute(&self, path: &[String]) -> Option<Module> {
        let inline = self.inline.iter().map(|(name, _)| name.clone());
        let mut base: Module = self.module.iter().cloned().chain(inline).collect();
        let mut rest = path;
        match &*path[0] {
            "crate" => base.clear(),
            "self" if path.len() > 1 => {}
            "super" => {
                base.pop();
            }
            name => {
                base = match self.source.bound.get(name) {
                    Some(bound) => bound.clone(),
                    None => [&self.module[..], &path[..1]].concat(),
                };
                let is_bound = self.source.bound.contains_key(name);
                if !is_bound && !self.modules.contains(&base) {
                    return None;
                }
            }
        }
        rest = &rest[1..];
        while rest.first().is_some_and(|name| name == "super") {
            base.pop();
            rest = &rest[1..];
        }
        Some([&base, rest].concat())
    }
}

fn is_name(token: &str) -> bool {
    token.starts_with(|c: char| c.is_alphabetic() || c == '_')
}

/// The names and signs of `text`, without comments, texts and numbers.
fn tokens(text: &str) -> Vec<String> {
    let mut tokens = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let length = if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if rest.starts_with("/*") {
            rest.find("*/").map_or(rest.len(), |end| end + 2)
        } else if let Some(length) = literal(rest) {
            length
        } else if first.is_alphanumeric() || first == '_' {
            let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_');
            let end = end.unwrap_or(rest.len());
            tokens.push(rest[..end].to_owned());
            end
        } else if rest.starts_with("::") {
            tokens.push("::".to_owned());
            2
        } else {
            if !first.is_whitespace() {
                tokens.push(first.to_string());
            }
            first.len_utf8()
        };
        rest = &rest[length..];
    }
    tokens
}

/// The length of the text or character that `rest` begins with.
fn literal(rest: &str) -> Option<usize> {
    let quoted = rest.trim_start_matches(['b', 'c']);
    let prefix = rest.len() - quoted.len();
    if let Some(raw) = quoted.strip_prefix('r') {
        let inner = raw.trim_start_matches('#');
        let end = format!("\"{}", &raw[..raw.len() - inner.len()]);
        let inner = inner.strip_prefix('"')?;
        return Some(rest.len() - inner.len() + inner.find(&end)? + end.len());
    }
    let quote = quoted.chars().next().filter(|c| ['"', '\''].contains(c))?;
    let inner = &quoted[1..];
    let is_lifetime = quote == '\'' && !inner.starts_with('\\') && {
        let mut next = inner.chars();
        next.next();
        next.next() != Some('\'')
    };
    if is_lifetime {
        return Some(prefix + 1 + inner.find(|c: char| !c.is_alphanumeric() && c != '_')?);
    }
    let mut escaped = false;
    for (index, c) in inner.char_indices() {
        if c == quote && !escaped {
            return Some(prefix + 1 + index + 1);
        }
        escaped = c == '\\' && !escaped;
    }
    None
}
