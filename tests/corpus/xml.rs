//! Whether a text is well-formed XML, as far as pages and drawings use it: elements, attributes in
//! double quotes, the five entities, and a declaration of the type of document.

/// What is wrong with it.
pub fn problem(text: &str) -> Option<String> {
    let is_allowed = |c: char| matches!(c, '\t' | '\n' | '\r' | ' '..='\u{fffd}' | '\u{10000}'..);
    if let Some(c) = text.chars().find(|&c| !is_allowed(c)) {
        return Some(format!("a character that XML does not have: {c:?}"));
    }
    let mut open = Vec::new();
    let mut rest = text;
    while let Some((words, tag)) = rest.split_once('<') {
        if let Some(problem) = problem_of_words(words) {
            return Some(problem);
        }
        let Some((tag, after)) = tag.split_once('>') else {
            return Some(format!("a tag without an end: {tag:.40}"));
        };
        rest = after;
        if let Some(name) = tag.strip_prefix('/') {
            if open.pop() != Some(name) {
                return Some(format!("</{name}> ends another element"));
            }
        } else if !tag.starts_with('!') {
            let (tag, is_empty) = match tag.strip_suffix('/') {
                Some(tag) => (tag, true),
                None => (tag, false),
            };
            let mut values = tag.split('"').skip(1).step_by(2);
            if tag.matches('"').count() % 2 != 0 || tag.contains('<') {
                return Some(format!("<{tag}> has half a value"));
            }
            if let Some(problem) = values.find_map(problem_of_words) {
                return Some(problem);
            }
            open.extend((!is_empty).then(|| tag.split([' ', '\n']).next().unwrap_or_default()));
        }
    }
    let end = open.pop().map(|name| format!("<{name}> has no end"));
    end.or_else(|| problem_of_words(rest))
}

fn problem_of_words(words: &str) -> Option<String> {
    let mut entities = words.split('&').skip(1);
    let is_known = |text: &&str| {
        let known = ["amp;", "lt;", "gt;", "quot;", "apos;"];
        known.iter().any(|entity| text.starts_with(entity))
    };
    let unknown = entities.find(|text| !is_known(text));
    unknown.map(|text| format!("no entity: &{text:.20}"))
}
