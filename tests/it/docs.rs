//! Code in the docs is what girih writes: blocks below `<!-- cuda KERNEL KNOBS -->`, `<!-- source KERNEL -->` and `<!-- file PATH -->` are
//! made anew and compared; so are `<!-- page KERNEL KNOBS -->`, pages of block IR, and lists below `<!-- legal GROUPS -->`: what the table of rules says of these groups of knobs.
//!
//! `KNOBS` is a schedule as `autotune show --set` reads it, or `naive`. Words behind it choose facts (`none`, `packed`, `fitting`, `aligned` for packed
//! and aligned tensors of any length; `best` without) and an excerpt (`body`: what the function's braces hold). `GIRIH_UPDATE_DOCS=1 cargo test -p girih-tests docs` rewrites the blocks.

use super::launches::best_facts;
use super::rungs::all_kernels;
use girih_core::cuda::emit;
use girih_core::facts::{Facts, MAX_ALIGN};
use girih_core::lower::{lower, page};
use girih_core::schedule::legality::Rule;
use girih_core::schedule::parse::parse_schedule;
use girih_core::schedule::space::Space;
use girih_core::target::Target;
use girih_core::tile::Kernel;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("tests/ lies in the workspace").to_path_buf()
}

/// README and everything in docs/.
fn pages() -> Vec<PathBuf> {
    let docs = std::fs::read_dir(root().join("docs")).expect("docs/").map(|e| e.expect("an entry").path());
    let mut pages: Vec<PathBuf> = docs.filter(|p| p.extension().is_some_and(|e| e == "md")).collect();
    pages.sort();
    pages.insert(0, root().join("README.md"));
    pages
}

/// All kernels that have tests of their own, and those of ladders' lower rungs.
fn shown() -> Vec<Kernel> {
    let rungs = girih_core::registry::kernels().into_iter().filter(|d| d.module.contains("::ladders::"));
    all_kernels().into_iter().chain(rungs.map(|d| (d.build)().unwrap_or_else(|e| panic!("{}: {e}", d.path())))).collect()
}

/// Packed and aligned tensors of any length.
fn aligned(kernel: &Kernel) -> Facts {
    let mut facts = Facts::packed(kernel, true);
    facts.tensors.iter_mut().flatten().for_each(|t| t.align = MAX_ALIGN);
    facts
}

/// The function as it stands in its file, with its attribute.
fn source(kernel: &Kernel) -> String {
    let path = root().join(kernel.loc.file);
    let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let lines: Vec<&str> = text.lines().collect();
    let first = kernel.loc.line as usize - 1;
    let attribute = lines[..first].iter().rposition(|l| l.starts_with("#[kernel")).expect("a kernel has its attribute");
    let end = first + lines[first..].iter().position(|l| *l == "}").expect("a function ends");
    lines[attribute..=end].join("\n")
}

/// A file without its head comment.
fn whole_file(path: &Path) -> String {
    let text = std::fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let lines: Vec<&str> = text.lines().skip_while(|l| l.starts_with("//!") || l.is_empty()).collect();
    lines.join("\n")
}

/// The text of a marker's block.
fn block(marker: &str, kernels: &[Kernel]) -> String {
    let words: Vec<&str> = marker.split_whitespace().collect();
    let [what, name, rest @ ..] = &words[..] else { panic!("`{marker}` names no kernel") };
    if *what == "file" {
        return whole_file(&root().join(name));
    }
    let kernel = kernels
        .iter()
        .find(|k| k.name == *name || k.full_name().replace(' ', "") == *name)
        .unwrap_or_else(|| panic!("no kernel is called `{name}`"));
    if *what == "source" {
        return source(kernel);
    }
    let facts = match rest.iter().find(|w| ["none", "packed", "aligned", "fitting"].contains(w)) {
        Some(&"none") => Facts::none(kernel),
        Some(&"aligned") => aligned(kernel),
        Some(&"fitting") => {
            let schedule = parse_schedule(kernel, rest[0]).unwrap_or_else(|e| panic!("{marker}: {e}"));
            best_facts(kernel).fitting(kernel, &schedule)
        }
        Some(_) => Facts::packed(kernel, true),
        None => best_facts(kernel),
    };
    let schedule = match rest.first() {
        Some(&"naive") => Space::new(kernel, &facts, Target::h200()).naive().unwrap_or_else(|e| panic!("{marker}: {e}")),
        Some(knobs) => parse_schedule(kernel, knobs).unwrap_or_else(|e| panic!("{marker}: {e}")),
        None => panic!("`{marker}` names no schedule"),
    };
    if *what == "page" {
        let page = page(kernel, &facts, &schedule, Target::h200(), None).unwrap_or_else(|e| panic!("{marker}: {e}"));
        return page.expect("a page behind the last pass").trim_end().to_string();
    }
    let text = emit(&lower(kernel, &facts, &schedule, Target::h200()).unwrap_or_else(|e| panic!("{marker}: {e}")));
    if !rest.contains(&"body") {
        return text.trim_end().to_string();
    }
    // Behind the helpers.
    let kernel = text.split_once("extern \"C\"").expect("a kernel").1;
    let body = kernel.split_once("\n{\n").expect("a function's body").1.trim_end().trim_end_matches('}').trim_end();
    body.lines().map(|l| l.strip_prefix("    ").unwrap_or(l)).collect::<Vec<_>>().join("\n")
}

/// What the table of rules says of groups of knobs, of all knobs where there are none. A rule stands at the first group that it is about;
/// the others name that one.
fn legal(groups: &[&str]) -> String {
    let (mut items, mut elsewhere) = (Vec::new(), Vec::new());
    for row in Rule::ALL.iter().map(|r| r.row()) {
        let named = format!("`{}`", row.knobs.first().unwrap_or(&""));
        match row.knobs {
            [] if groups.is_empty() => items.push(row.legal.to_string()),
            [first, ..] if groups.contains(first) => items.push(row.legal.to_string()),
            all if all.iter().any(|k| groups.contains(k)) && !elsewhere.contains(&named) => elsewhere.push(named),
            _ => {}
        }
    }
    if !elsewhere.is_empty() {
        items.push(format!("And what is said at {}.", elsewhere.join(", ")));
    }
    match &items[..] {
        [] => "- **Legal**: all that [the rules of the game](#the-rules-of-the-game) leave.\n".to_string(),
        [one] => format!("- **Legal**: {one}\n"),
        all => format!("- **Legal**:\n{}", all.iter().map(|item| format!("  - {item}\n")).collect::<String>()),
    }
}

/// The page with its blocks made anew.
fn renewed(text: &str, kernels: &[Kernel]) -> String {
    let mut out = String::new();
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        out.push_str(line);
        out.push('\n');
        let marker = line.trim().strip_prefix("<!-- ").and_then(|l| l.strip_suffix(" -->"));
        if let Some(groups) = marker.and_then(|m| m.strip_prefix("legal")) {
            while lines.next_if(|l| l.starts_with("- **Legal**") || l.starts_with("  - ")).is_some() {}
            out.push_str(&legal(&groups.split_whitespace().collect::<Vec<_>>()));
            continue;
        }
        let Some(marker) = marker.filter(|m| ["cuda ", "page ", "source ", "file "].iter().any(|w| m.starts_with(w))) else { continue };
        let fence = lines.next().unwrap_or("");
        assert!(fence.starts_with("```"), "below `{marker}` stands no block");
        for old in lines.by_ref() {
            if old.starts_with("```") {
                break;
            }
        }
        out.push_str(&format!("{fence}\n{}\n```\n", block(marker, kernels)));
    }
    out
}

#[test]
fn code_in_the_docs_is_what_girih_writes() {
    let kernels = shown();
    let update = std::env::var_os("GIRIH_UPDATE_DOCS").is_some();
    let mut stale = Vec::new();
    for page in pages() {
        let text = std::fs::read_to_string(&page).unwrap_or_else(|e| panic!("{}: {e}", page.display()));
        let new = renewed(&text, &kernels);
        if new != text && update {
            std::fs::write(&page, new).unwrap_or_else(|e| panic!("{}: {e}", page.display()));
        } else if new != text {
            let line = text.lines().zip(new.lines()).position(|(a, b)| a != b).unwrap_or(0);
            stale.push(format!("{}:{}", page.display(), line + 1));
        }
    }
    assert!(
        stale.is_empty(),
        "code in the docs is not what girih writes now: {}\nGIRIH_UPDATE_DOCS=1 cargo test -p girih-tests docs",
        stale.join(", ")
    );
}

/// Where a page leaves a kernel to `autotune show`, there is something to show.
#[test]
fn schedules_that_pages_name_are_legal() {
    let (kernels, mut found) = (all_kernels(), 0);
    let text = std::fs::read_to_string(root().join("docs/SCHEDULE.md")).expect("docs/SCHEDULE.md");
    for command in text.split("`autotune show ").skip(1).filter_map(|rest| rest.split('`').next()) {
        let Some((name, knobs)) = command.split_once(" --set ") else { continue };
        block(&format!("cuda {name} {knobs}"), &kernels);
        found += 1;
    }
    assert!(found >= 5, "{found} commands");
}

#[test]
fn links_and_tests_named_in_the_docs_exist() {
    let mut functions = String::new();
    for (_, text) in super::tidy::sources() {
        functions.push_str(&text);
    }
    let mut missing = Vec::new();
    for page in pages() {
        let text = std::fs::read_to_string(&page).unwrap_or_else(|e| panic!("{}: {e}", page.display()));
        for part in text.split("](").skip(1) {
            let link = part.split([')', '#']).next().unwrap_or("");
            let there = link.is_empty() || link.contains("://") || page.parent().expect("a folder").join(link).exists();
            if !there {
                missing.push(format!("{}: link to {link}", page.display()));
            }
        }
        // Where a page says which test holds a decision.
        for line in text.lines().filter(|l| l.starts_with("Held by ")) {
            for name in line.split('`').skip(1).step_by(2) {
                if !functions.contains(&format!("fn {name}(")) {
                    missing.push(format!("{}: test {name}", page.display()));
                }
            }
        }
    }
    assert!(missing.is_empty(), "{}", missing.join("\n"));
}

#[test]
fn every_knob_is_described() {
    let text = std::fs::read_to_string(root().join("docs/SCHEDULE.md")).expect("docs/SCHEDULE.md");
    let headings: Vec<&str> = text.lines().filter_map(|l| l.strip_prefix("## ")).collect();
    let kernels = all_kernels();
    let groups = kernels.iter().flat_map(|k| &k.knobs).map(|k| k.kind.group());
    let told: Vec<&str> = text.lines().filter_map(|l| l.strip_prefix("<!-- legal")).flat_map(str::split_whitespace).collect();
    assert!(text.contains("<!-- legal -->"), "docs/SCHEDULE.md has no list of what holds for all knobs");
    let of_rules = Rule::ALL.iter().flat_map(|r| r.row().knobs.iter().copied());
    for group in groups.chain(["threads", "warps", "unit"]).chain(of_rules) {
        let described = headings.iter().any(|h| h.split_whitespace().any(|word| word == group));
        assert!(described, "docs/SCHEDULE.md has no section on `{group}`");
        assert!(told.contains(&group), "docs/SCHEDULE.md does not say what is legal: `<!-- legal {group} -->` is missing");
    }
}
