//! Names on the command line: a challenge's slug, or a kernel's path or the end of one. Unknown names list near matches.

use crate::ladder::ladders;
use crate::subject::Subject;
use crate::subject::challenge::{Challenge, challenges};
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

/// What cannot be built as it is written: its name, and why.
pub struct Unbuilt {
    /// The challenge's slug, or the kernel's path.
    pub name: String,
    /// The mistake.
    pub error: String,
}

/// The subjects of names, or all: every challenge, and every kernel of which neither a challenge nor a ladder uses any instance; girih's own are
/// parts of its algorithms, and mean nothing by themselves. Of all, those that cannot be built stand apart:
/// the others are worth the command's work all the same.
///
/// # Errors
/// As [`subject`]; also where neither names nor `all` are given, or nothing is linked.
pub fn subjects(names: &[String], all: bool) -> Result<(Vec<Subject>, Vec<Unbuilt>), String> {
    if !all {
        return match names {
            [] => Err("name a challenge or kernel, or say --all (see `list`)".into()),
            names => Ok((names.iter().map(|n| subject(n)).collect::<Result<_, _>>()?, Vec::new())),
        };
    }
    let used = in_programs();
    let part = |d: &KernelDef| d.module.starts_with("girih::algorithms") || used.iter().any(|u| (u.module, u.name) == (d.module, d.name));
    let bare: Vec<KernelDef> = kernels().into_iter().filter(|d| !part(d)).collect();
    let (found, unbuilt) = built(&challenges(), &bare);
    if found.is_empty() && unbuilt.is_empty() { Err(EMPTY.into()) } else { Ok((found, unbuilt)) }
}

/// Subjects of challenges and kernels, and those that cannot be built.
fn built(challenges: &[Challenge], bare: &[KernelDef]) -> (Vec<Subject>, Vec<Unbuilt>) {
    let (mut found, mut unbuilt) = (Vec::new(), Vec::new());
    let mut add = |name: String, made: Result<Subject, String>| match made {
        Ok(subject) => found.push(subject),
        Err(error) => unbuilt.push(Unbuilt { name, error }),
    };
    challenges.iter().for_each(|c| add(c.slug.into(), Subject::of_challenge(c)));
    bare.iter().for_each(|d| add(d.path(), Subject::of_kernel(d)));
    (found, unbuilt)
}

/// The kernels that challenges launch, and rungs of ladders.
fn in_programs() -> Vec<KernelDef> {
    let of_ladders = ladders().into_iter().flat_map(|ladder| ladder.rungs).filter_map(|rung| rung.program);
    let programs = challenges().into_iter().map(|c| c.program).chain(of_ladders).filter_map(|def| (def.build)().ok());
    programs.flat_map(|p| p.sites()).collect()
}

/// Tells of what could not be built; how much that is.
pub fn tell(unbuilt: &[Unbuilt]) -> usize {
    unbuilt.iter().for_each(|u| eprintln!("{}: {}", u.name, u.error));
    unbuilt.len()
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

/// A subject, and the only launch site of it that is meant.
pub type SubjectSite = (Subject, Option<String>);

/// As [`subjects`], where a name may be that of one launch site.
///
/// # Errors
/// As [`subjects`] and [`subject_site`].
pub fn subjects_sites(names: &[String], all: bool) -> Result<(Vec<SubjectSite>, Vec<Unbuilt>), String> {
    if all || names.is_empty() {
        let (subjects, unbuilt) = subjects(names, all)?;
        return Ok((subjects.into_iter().map(|s| (s, None)).collect(), unbuilt));
    }
    Ok((names.iter().map(|n| subject_site(n)).collect::<Result<_, _>>()?, Vec::new()))
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
                Err(format!("`{name}` is the end of several kernels' paths: {}; {}", paths.join(", "), how_to_tell(name, &found)))
            }
        },
    }
}

/// What to write for one of several kernels that a name fits.
fn how_to_tell(name: &str, found: &[&KernelDef]) -> String {
    let end = |d: &KernelDef| d.path()[d.module.len() + 2..].to_string();
    match found {
        [one, other, ..] if one.module == other.module && end(one).contains('<') => format!("write '{}', with quotes", end(one)),
        [one, ..] => format!("write more of the path, as in '{}'", one.path()),
        [] => format!("there is no `{name}`"),
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

/// An error with the name of what it is about, unless it begins with it.
pub fn named(name: &str, error: &str) -> String {
    if error.starts_with(name) { error.to_string() } else { format!("{name}: {error}") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use girih::prelude::*;
    use girih_core::error::{CompileError, Diagnostic};
    use girih_core::loc::SourceLoc;

    /// Any kernel that can be built.
    #[kernel(tile(T = 32))]
    pub fn copied(x: &Tensor<f32, 1>, y: &mut Tensor<f32, 1>) {
        for t in y.tiles([T]) {
            y.store(t, x.load(t));
        }
    }

    #[test]
    fn what_cannot_be_built_keeps_nothing_else_from_it() {
        let wrong = || Err(CompileError::Kernel(vec![Diagnostic::new(SourceLoc::NONE, "no such thing")]));
        let good = copied::Kernel::def();
        let (found, unbuilt) = built(&[], &[good, KernelDef { name: "wrong", build: wrong, ..good }, good]);
        assert_eq!((found.len(), unbuilt.len()), (2, 1));
        assert!(unbuilt[0].name.ends_with("wrong") && unbuilt[0].error.contains("no such thing"), "{}", unbuilt[0].error);
    }

    #[test]
    fn ends_of_several_paths_are_told_apart() {
        let good = copied::Kernel::def();
        let (bytes, floats) = (KernelDef { instance: &[("T", "u8")], ..good }, KernelDef { instance: &[("T", "f32")], ..good });
        assert_eq!(how_to_tell("copied", &[&bytes, &floats]), "write 'copied<u8>', with quotes");
        let elsewhere = KernelDef { module: "other", ..good };
        assert_eq!(how_to_tell("copied", &[&elsewhere, &good]), "write more of the path, as in 'other::copied'");
    }

    #[test]
    fn unknown_names_list_near_ones() {
        let known: Vec<String> = ["vector_add", "matrix_copy", "gallery::relu::relu"].map(String::from).to_vec();
        assert_eq!(unknown("vectoradd", &known), "there is no challenge or kernel `vectoradd`; did you mean vector_add?");
        assert_eq!(unknown("rellu", &known), "there is no challenge or kernel `rellu`; did you mean gallery::relu::relu?");
        assert_eq!(unknown("zzzzzz", &known), "there is no challenge or kernel `zzzzzz`; `list` shows all 3");
    }
}
