//! The pages of docs/BLOCK_IR.md say what is lowered: what can be counted in them is counted in SIMT IR.

use super::launches::best_facts;
use super::rungs::gallery;
use girih_core::lower::lower;
use girih_core::schedule::Schedule;
use girih_core::schedule::parse::parse_settings;
use girih_core::simt::{Barrier, Kernel, ParamKind, Stmt};
use girih_core::target::Target;
use girih_core::types::DType;
use std::collections::BTreeSet;

/// What a launch has that can be counted.
#[derive(PartialEq, Eq, Debug, Default)]
struct Counted {
    threads: u32,
    shared_bytes: u32,
    /// Types and elements of the arrays in shared memory, sorted.
    arrays: Vec<(DType, u32)>,
    block_barriers: usize,
    warp_barriers: usize,
    /// The numbers of groups of copies that waits leave pending.
    pending: BTreeSet<u32>,
    workspaces: usize,
}

impl Counted {
    /// A launch as it is lowered.
    fn lowered(kernel: &Kernel) -> Counted {
        let mut counted = Counted { threads: kernel.launch.block, shared_bytes: kernel.shared_bytes(), ..Counted::default() };
        counted.arrays = kernel.shared.iter().map(|a| (a.dtype, a.len)).collect();
        counted.arrays.sort();
        counted.workspaces = kernel.params.iter().filter(|p| matches!(p.kind, ParamKind::Workspace { .. })).count();
        counted.block(&kernel.body);
        counted
    }

    fn block(&mut self, body: &[Stmt]) {
        for stmt in body {
            match stmt {
                Stmt::Barrier(Barrier::Block) => self.block_barriers += 1,
                Stmt::Barrier(Barrier::Warp) => self.warp_barriers += 1,
                Stmt::AsyncWait { pending } => drop(self.pending.insert(*pending)),
                Stmt::If { then, otherwise, .. } => [then, otherwise].into_iter().for_each(|b| self.block(b)),
                Stmt::While { header, body, .. } => [header, body].into_iter().for_each(|b| self.block(b)),
                Stmt::For { body, .. } => self.block(body),
                _ => {}
            }
        }
    }

    /// A launch as its page has it.
    fn written(page: &[&str]) -> Counted {
        let mut counted = Counted::default();
        for line in page.iter().map(|l| l.split("//").next().expect("a part").trim()) {
            let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
            match word {
                "launch" => {
                    counted.threads = 32 * (number_behind(rest, "warps 0..") - number_behind(rest, "warps "));
                    counted.shared_bytes = number_behind(rest, "shared ");
                }
                "buffer" => counted.arrays.extend(arrays(rest, 1)),
                "ring" => counted.arrays.extend(arrays(rest, number_behind(rest, ": "))),
                "chain" => {}
                "workspace" => counted.workspaces += 1,
                _ => {
                    // A ring here is handed over by a barrier of the block: the page says so, and `await` has it.
                    counted.block_barriers += line.matches("barrier block").count() + line.matches("await operands").count();
                    counted.warp_barriers += line.matches("barrier warp").count();
                    // Of what was fetched ahead all but the oldest may be pending.
                    counted.pending.extend(line.contains("fetch +").then(|| number_behind(line, "fetch +") - 1));
                    counted.pending.extend(line.contains("wait copies").then(|| number_behind(line, "wait copies ")));
                }
            }
        }
        counted.arrays.sort();
        counted
    }

    /// Shared memory of the arrays, each aligned to 16 bytes: they lie in any order.
    fn bytes_of_arrays(&self) -> u32 {
        self.arrays.iter().map(|(dtype, len)| (len * dtype.size() as u32).next_multiple_of(16)).sum()
    }
}

/// The number behind the first place where a text has a mark.
fn number_behind(text: &str, mark: &str) -> u32 {
    let (_, rest) = text.split_once(mark).unwrap_or_else(|| panic!("no `{mark}` in `{text}`"));
    let digits = rest.split(|c: char| !c.is_ascii_digit()).next().expect("a part");
    digits.parse().unwrap_or_else(|_| panic!("no number behind `{mark}` in `{text}`"))
}

/// The arrays that a text declares, each so many times as long: `left: f16[128, 32]`.
fn arrays(text: &str, times: u32) -> Vec<(DType, u32)> {
    let mut found = Vec::new();
    for dtype in DType::ALL {
        for (_, rest) in text.match_indices(&format!(": {}[", dtype.name())).map(|(at, m)| text.split_at(at + m.len())) {
            let dims = rest.split(']').next().expect("a part").split(", ");
            found.push((dtype, times * dims.map(|d| d.parse::<u32>().expect("a length")).product::<u32>()));
        }
    }
    found
}

/// The pages: the lines of each launch of each kernel.
fn pages(text: &str) -> Vec<Vec<Vec<&str>>> {
    let launches = |page| -> Vec<Vec<&str>> {
        let mut all = Vec::new();
        for line in str::lines(page) {
            if line.starts_with("kernel ") {
                all.push(Vec::new());
            }
            all.last_mut().expect("a page begins with `kernel`").push(line);
        }
        all
    };
    text.split("```page\n").skip(1).map(|p| launches(p.split("\n```").next().expect("a part"))).collect()
}

#[test]
fn pages_say_what_is_lowered() {
    let text = include_str!("../../docs/BLOCK_IR.md");
    let (pages, gallery) = (pages(text), gallery());
    assert_eq!(pages.len(), 7);
    for page in pages {
        let heading = page[0][0].strip_prefix("kernel ").expect("a heading");
        let name = heading.split(" after ").next().expect("a part");
        let settings = page[0][1].trim().strip_prefix("schedule").expect("a schedule");
        let kernel = gallery.iter().find(|k| k.full_name() == name).unwrap_or_else(|| panic!("no kernel of the gallery is `{name}`"));
        let schedule = parse_settings(kernel, settings, &Schedule::default_of(kernel)).unwrap_or_else(|e| panic!("{name}: {e}"));
        let simt = lower(kernel, &best_facts(kernel), &schedule, Target::h200()).unwrap_or_else(|e| panic!("{name}: {e}"));
        let launches: Vec<&Kernel> = simt.launches().collect();
        assert_eq!(launches.len(), page.len(), "{name}: launches");
        for (launch, lines) in launches.into_iter().zip(&page) {
            let (lowered, written) = (Counted::lowered(launch), Counted::written(lines));
            assert_eq!(lowered, written, "{heading}: lowered and written");
            assert_eq!(written.bytes_of_arrays(), written.shared_bytes, "{heading}: the page's own arrays");
        }
    }
}
