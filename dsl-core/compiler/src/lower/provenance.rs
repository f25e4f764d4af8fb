//! Where a lowered kernel comes from, in the words of its head: signature, schedule, facts, launch.

use girih_ir::facts::Facts;
use girih_ir::simt;
use girih_ir::tile::host::HostExpr;
use girih_ir::tile::{self, ParamKind};

/// Where a kernel comes from, with its `schedule` as an attribute; its launch is known when it is lowered.
pub(super) fn provenance(kernel: &tile::Kernel, facts: &Facts, schedule: String) -> simt::Provenance {
    let params: Vec<String> = kernel
        .params
        .iter()
        .map(|p| match p.kind {
            ParamKind::Tensor { dtype, rank, mutable } => {
                format!("{}: {}Tensor<{dtype}, {rank}>", p.name, if mutable { "&mut " } else { "&" })
            }
            ParamKind::Scalar(dtype) => format!("{}: Scalar<{dtype}>", p.name),
        })
        .collect();
    simt::Provenance {
        signature: format!("{}({})", kernel.full_name(), params.join(", ")),
        loc: kernel.loc,
        schedule,
        facts: describe_facts(kernel, facts),
        launch: String::new(),
    }
}

/// What a launch promises, in words.
fn describe_facts(kernel: &tile::Kernel, facts: &Facts) -> String {
    let mut words = Vec::new();
    for (param, t) in kernel.params.iter().zip(&facts.tensors) {
        let (Some(t), ParamKind::Tensor { dtype, .. }) = (t, param.kind) else { continue };
        let mut list = Vec::new();
        if t.align as usize > dtype.size() {
            list.push(format!("aligned to {} bytes", t.align));
        }
        if !t.packed {
            list.push(if t.rows { "in rows" } else { "strided" }.to_string());
        }
        if t.lens.iter().any(|l| *l > 1) {
            list.push(format!("lengths multiples of {}", t.lens.iter().map(u32::to_string).collect::<Vec<_>>().join(" x ")));
        }
        if t.most.iter().any(|m| *m > 0) {
            let most = |m: &u32| if *m > 0 { m.to_string() } else { "any".to_string() };
            list.push(format!("lengths at most {}", t.most.iter().map(most).collect::<Vec<_>>().join(" x ")));
        }
        if !list.is_empty() {
            words.push(format!("{} {}", param.name, list.join(", ")));
        }
    }
    words.push(if facts.index32 { "32-bit indices" } else { "64-bit indices" }.to_string());
    if facts.noalias {
        words.push("no aliasing".to_string());
    }
    words.join("; ")
}

/// Grid, block and shared memory, in words.
pub(super) fn describe_launch(lowered: &simt::Kernel, kernel: &tile::Kernel) -> String {
    let leaf = |e: &HostExpr| match e {
        HostExpr::Dim(p, k) => match kernel.params[*p].kind {
            ParamKind::Tensor { rank: 1, .. } => format!("{}_len", kernel.params[*p].name),
            ParamKind::Tensor { rank: 2, .. } => format!("{}_{}", kernel.params[*p].name, ["rows", "cols"][*k]),
            _ => format!("{}_dim{k}", kernel.params[*p].name),
        },
        HostExpr::Stride(p, k) => format!("{}_stride{k}", kernel.params[*p].name),
        HostExpr::Scalar(p) => kernel.params[*p].name.clone(),
        _ => "multiprocessors".to_string(),
    };
    let constant = match simt::constant_offsets(&lowered.params).1 {
        0 => String::new(),
        bytes => format!(", constant {bytes} B"),
    };
    let cluster = match lowered.launch.cluster {
        1 => String::new(),
        blocks => format!(", clusters of {blocks}"),
    };
    let (grid, shared) = (lowered.launch.grid.to_words(&leaf), lowered.shared_bytes());
    format!("grid {grid}{cluster}, block {}, shared {shared} B{constant}", lowered.launch.block)
}
