//! Which launches of a call may begin before the one in front of them has ended: those that have another one in front.
//!
//! A kernel that is launched so waits for the launch in front before it touches memory, so results are those of launches one after the
//! other; what overlaps is the way to the first instruction. (CUDA C++ Programming Guide, "Programmatic Dependent Launch and
//! Synchronization". Blocks never let the next launch begin early: kernels that fill the GPU lose more than they gain by it.)
//! Kernels whose operands come by tensor maps begin when the launch in front has ended. With the wait as their first instruction, and the same
//! machine code else, they read 1.2 times the sectors from the L2 and 1.4 times the bytes from DRAM, and took 4 % longer (H200, 8192 x 6144 x 4096).
//! Kernels with tensors in constant memory do so, too: in front of them is a copy, no launch.

use super::Site;
use girih_ir::program::{Program, Stmt};
use girih_ir::simt::{Param, ParamKind};
use girih_ir::target::Target;
use std::collections::HashSet;

/// The launch sites, their kernels marked as dependent where they are; launches that one kernel makes behind another are in any case. Sites
/// with the same kernel are marked alike, so that it is written once.
pub(super) fn marked(program: &Program, sites: &[Site], target: &Target) -> Vec<Site> {
    let mut sites = sites.to_vec();
    if !target.has_dependent_launches() {
        return sites;
    }
    let mut walk = Walk::default();
    walk.block(&program.body);
    let names: HashSet<String> = walk.dependent.iter().map(|site| sites[*site].kernel.full_name()).collect();
    for site in &mut sites {
        let behind_another = names.contains(&site.kernel.full_name());
        for version in &mut site.versions {
            let mut first = true;
            version.kernel.each_launch(&mut |kernel| {
                let waits = |p: &Param| matches!(p.kind, ParamKind::TensorMap { .. } | ParamKind::Constant { .. });
                let waits = kernel.launch.cooperative || kernel.params.iter().any(waits);
                kernel.launch.dependent = (behind_another || !first) && !waits;
                first = false;
            });
        }
    }
    sites
}

#[derive(Default)]
struct Walk {
    /// Some launch of the call may be in front of what comes next.
    behind: bool,
    /// Sites of which that is so.
    dependent: HashSet<usize>,
}

impl Walk {
    fn block(&mut self, block: &[Stmt]) {
        for stmt in block {
            match stmt {
                Stmt::Launch { site, .. } => {
                    if self.behind {
                        self.dependent.insert(*site);
                    }
                    self.behind = true;
                }
                Stmt::If { then, otherwise, .. } => {
                    let before = self.behind;
                    self.block(then);
                    let behind = std::mem::replace(&mut self.behind, before);
                    self.block(otherwise);
                    self.behind |= behind;
                }
                // Twice: a turn may follow another one.
                Stmt::For { body, .. } => (0..2).for_each(|_| self.block(body)),
                Stmt::While { header, body, .. } => (0..2).for_each(|_| {
                    self.block(header);
                    self.block(body);
                }),
                // The host waits for the device.
                Stmt::ReadBack { .. } => self.behind = false,
                Stmt::Memset { .. } | Stmt::Copy { .. } | Stmt::Set { .. } | Stmt::Let { .. } => {}
            }
        }
    }
}
