//! Names on the command line: a challenge's slug, or a kernel's path or the end of one. Unknown names list near matches.

use crate::challenge::challenges;
use crate::subject::Subject;
use girih_core::registry::{KernelDef, kernels};

/// What a reader who sees no kernels must know: binaries link only what they mention.
pub const EMPTY: &str = "no kernels are linked into this program.\n\
    A binary sees only the crates that it mentions: if your kernels live in a library crate, add `use my_kernels as _;` to main.rs.";

/// The subject of a name.
///
/// # Errors
/// The name is unknown (with near matches) or not unique, or its program or kernel is wrong.
pub fn subject(name: &str) -> Result<Subject, String> {
    if let Some(challenge) = challenges().iter().find(|c| c.slug == name) {
        return Subject::of_challenge(challenge);
    }
    Subject::of_kernel(&kernel(name)?)
}

/// The subjects of names, or all: every challenge, and every kernel that no challenge uses.
///
/// # Errors
/// As [`subject`]; also where neither names nor `all` are given, or nothing is linked.
pub fn subjects(names: &[String], all: bool) -> Result<Vec<Subject>, String> {
    if !all {
        return match names {
            [] => Err("name a challenge or kernel, or say --all (see `list`)".into()),
            names => names.iter().map(|n| subject(n)).collect(),
        };
    }
    let mut found: Vec<Subject> = challenges().iter().map(Subject::of_challenge).collect::<Result<_, _>>()?;
    let used: Vec<String> = found.iter().flat_map(|s| s.program.sites()).map(|d| d.path()).collect();
    for def in kernels().iter().filter(|d| !used.contains(&d.path())) {
        found.push(Subject::of_kernel(def)?);
    }
    if found.is_empty() { Err(EMPTY.into()) } else { Ok(found) }
}

/// The subject of a name, or of a name and one of its program's launch sites: `softmax.stats`.
///
/// # Errors
/// As [`subject`]; or the program has no such site, with those it has.
pub fn subject_site(name: &str) -> Result<(Subject, Option<String>), String> {
    let Some((program, site)) = name.rsplit_once('.') else { return Ok((subject(name)?, None)) };
    let subject = subject(program)?;
    let mut sites: Vec<String> = Vec::new();
    for way in subject.ways() {
        sites.extend(way.program.site_names().into_iter().filter(|n| !sites.contains(n)).collect::<Vec<_>>());
    }
    match sites.iter().any(|s| s == site) {
        true => Ok((subject, Some(site.to_string()))),
        false => Err(format!("{program} has no launch site `{site}`; it has {}", sites.join(", "))),
    }
}

/// As [`subjects`], where a name may be that of one launch site.
///
/// # Errors
/// As [`subjects`] and [`subject_site`].
pub fn subjects_sites(names: &[String], all: bool) -> Result<Vec<(Subject, Option<String>)>, String> {
    if all || names.is_empty() {
        return Ok(subjects(names, all)?.into_iter().map(|s| (s, None)).collect());
    }
    names.iter().map(|n| subject_site(n)).collect()
}

/// The kernel of a path, or of the end of exactly one path.
///
/// # Errors
/// As [`subject`].
pub fn kernel(name: &str) -> Result<KernelDef, String> {
    let all = kernels();
    if all.is_empty() {
        return Err(EMPTY.into());
    }
    let fits = |path: &str| path == name || path.strip_suffix(name).is_some_and(|rest| rest.ends_with("::"));
    let found: Vec<&KernelDef> = all.iter().filter(|d| fits(&d.path()) || fits(&format!("{}::{}", d.module, d.name))).collect();
    match found[..] {
        [one] => Ok(*one),
        [] => {
            let paths = all.iter().map(|d| d.path());
            let known: Vec<String> = challenges().iter().map(|c| c.slug.to_string()).chain(paths).collect();
            Err(unknown(name, &known))
        }
        _ => match found.iter().find(|d| d.path() == name) {
            Some(exact) => Ok(**exact),
            None => {
                let paths: Vec<String> = found.iter().map(|d| d.path()).collect();
                Err(format!("`{name}` is the end of several kernels' paths: {}", paths.join(", ")))
            }
        },
    }
}

/// A sentence about an unknown name, with the known names nearest to it.
pub fn unknown(name: &str, known: &[String]) -> String {
    let short = |n: &str| n.rsplit("::").next().unwrap_or(n).to_string();
    let mut near: Vec<(usize, &String)> = known.iter().map(|k| (distance(name, k).min(distance(name, &short(k))), k)).collect();
    near.sort_by_key(|(d, k)| (*d, k.len()));
    let contains = known.iter().filter(|k| k.contains(name));
    let close = near.iter().filter(|(d, _)| *d <= 1 + name.len() / 3).map(|(_, k)| *k);
    let mut list: Vec<&str> = Vec::new();
    for k in close.chain(contains) {
        if !list.contains(&k.as_str()) && list.len() < 5 {
            list.push(k);
        }
    }
    match list[..] {
        [] => format!("there is no challenge or kernel `{name}`; `list` shows all {}", known.len()),
        _ => format!("there is no challenge or kernel `{name}`; did you mean {}?", list.join(", ")),
    }
}

/// Edits (insert, delete, replace) between two texts.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, y) in b.iter().enumerate() {
            let replace = diagonal + (x != *y) as usize;
            diagonal = row[j + 1];
            row[j + 1] = replace.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_names_list_near_ones() {
        let known: Vec<String> = ["vector_add", "matrix_copy", "gallery::relu::relu"].map(String::from).to_vec();
        assert_eq!(unknown("vectoradd", &known), "there is no challenge or kernel `vectoradd`; did you mean vector_add?");
        assert_eq!(unknown("rellu", &known), "there is no challenge or kernel `rellu`; did you mean gallery::relu::relu?");
        assert_eq!(unknown("zzzzzz", &known), "there is no challenge or kernel `zzzzzz`; `list` shows all 3");
    }
}
