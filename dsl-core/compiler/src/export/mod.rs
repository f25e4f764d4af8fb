//! Programs as standalone CUDA C++: `extern "C" void solve(..)` in a judge's signature, with kernels, launches and workspace.
//!
//! Each launch site has a list of compiled versions: those for the facts of the launches that its schedule was tuned for, and others down
//! to one that asks for nothing but packed tensors. The host code tests the facts, those that ask for more first, and launches the first
//! version whose facts hold, so the file is right for every size and alignment. It needs `nvcc` and no library.

mod arithmetic;
mod body;
mod dependent;
mod expr;
mod float8;
mod helpers;
mod known;
mod launch;
mod lets;
mod memory;
mod names;
mod origin;
mod tensor_maps;
mod text;
mod versions;
mod weakest;

pub use known::{Known, KnownTensor};
pub use versions::{Chosen, Version, versions_for_export};

use crate::cuda;
use body::Body;
use girih_ir::error::CompileError;
use girih_ir::loc::SourceLoc;
use girih_ir::program::signature::Signature;
use girih_ir::program::{Arg, Program, Stmt};
use girih_ir::schedule::Schedule;
use girih_ir::simt;
use girih_ir::target::Target;
use girih_ir::tile;
use std::collections::{BTreeSet, HashSet};

/// Why a program can't be exported.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ExportError {
    /// The program doesn't fit the signature.
    #[error("{0}")]
    Signature(String),
    /// A kernel can't be built or lowered.
    #[error("{kernel}: {error}")]
    Compile {
        /// The kernel's path.
        kernel: String,
        /// Why.
        error: Box<CompileError>,
    },
    /// A kernel asks for what no call of the signature can give it.
    #[error(
        "{loc}: {kernel} asks for {asked}, which no call of `{signature}` can give it ({found}); give the tensor another extent in the \
         signature, launch the kernel on a part that fits (`.slice(axis, first, len)`), or under an `if` on the length"
    )]
    Demand {
        /// The kernel.
        kernel: String,
        /// What it asks for, in its own names.
        asked: String,
        /// The same in the signature's names.
        found: String,
        /// The signature.
        signature: String,
        /// The author's line that asks for it.
        loc: SourceLoc,
    },
    /// The export has no text for something that the program uses.
    #[error("{loc}: {what} can't be exported")]
    Unsupported {
        /// What.
        what: String,
        /// The author's line.
        loc: SourceLoc,
    },
}

/// A launch site with its compiled versions.
#[derive(Clone, Debug)]
pub struct Site {
    /// The kernel.
    pub kernel: tile::Kernel,
    /// The schedule of the first version.
    pub schedule: Schedule,
    /// What the host code chooses from, in order. The last one needs nothing but packed tensors (or nothing at all).
    pub versions: Vec<Version>,
}

/// Exports a program; `choose` gives each launch site its schedule, and the launches that it is tuned for where they are known. Variants that
/// are still open are taken as their first side.
///
/// # Errors
/// The program doesn't fit the signature, or a kernel can't be compiled for the target: see [`ExportError`].
pub fn export_program<C: Into<Chosen>>(
    program: &Program,
    signature: &Signature,
    target: &Target,
    choose: &mut dyn FnMut(usize, &tile::Kernel) -> C,
) -> Result<String, ExportError> {
    let program = &program.with_variants(&program.default_variants());
    let sites = compile_sites(program, signature, target, choose)?;
    export(program, signature, &sites, target)
}

/// Builds and compiles the kernels of all launch sites, by site.
///
/// # Errors
/// As [`export_program`].
pub fn compile_sites<C: Into<Chosen>>(
    program: &Program,
    signature: &Signature,
    target: &Target,
    choose: &mut dyn FnMut(usize, &tile::Kernel) -> C,
) -> Result<Vec<Site>, ExportError> {
    let binding = signature.bind(program).map_err(ExportError::Signature)?;
    let mut sites = Vec::new();
    for (site, (def, args)) in launches(program).into_iter().enumerate() {
        let failed = |error| ExportError::Compile { kernel: def.path(), error: Box::new(error) };
        let kernel = (def.build)().map_err(failed)?;
        let chosen: Chosen = choose(site, &kernel).into();
        let known = Known::of_launch(signature, &binding, &kernel, args);
        let versions = versions_for_export(&kernel, &chosen, target, &known).map_err(failed)?;
        sites.push(Site { kernel, schedule: chosen.schedule, versions });
    }
    Ok(sites)
}

/// The text of a program with the given versions of its launch sites.
///
/// # Errors
/// The program doesn't fit the signature, or uses something that has no text.
pub fn export(program: &Program, signature: &Signature, sites: &[Site], target: &Target) -> Result<String, ExportError> {
    let binding = signature.bind(program).map_err(ExportError::Signature)?;
    signature.check_constness(program, &binding).map_err(ExportError::Signature)?;
    let sites = &dependent::marked(program, sites, target);
    let (mut kernels, names) = name_kernels(sites, signature);
    let signature = &with_free_names(signature, &names);
    // Which of the author's names are worth a variable shows once the text is there.
    let mut dropped = HashSet::new();
    let body = loop {
        let mut body = Body::new(program, signature, &binding, sites, &names, dropped.clone());
        body.write()?;
        let rare = body.rare_lets();
        if rare.is_empty() {
            break body;
        }
        dropped.extend(rare);
    };
    kernels.retain(|k| body.launches(&k.name));

    let mut out = header(program, signature, (sites, &names), &kernels, target);
    out.push_str(&includes(signature, &body.headers));
    out.push('\n');
    out.push_str(&cuda::emit_kernels(&kernels));
    for helper in body.helpers() {
        out.push('\n');
        out.push_str(&helper.text());
    }
    for function in arithmetic::functions_of(body.text()) {
        out.push('\n');
        out.push_str(function);
    }
    let declarations = body.declarations();
    if !declarations.is_empty() {
        out.push_str(&format!("\n{declarations}"));
    }
    out.push_str(&format!("\n// {}    {}\nextern \"C\" {signature}\n{{\n", program.name, program.loc.short()));
    out.push_str(&body.finish());
    out.push_str("}\n");
    Ok(out)
}

/// Kernel and arguments of each launch, by site.
fn launches(program: &Program) -> Vec<(girih_ir::registry::KernelDef, &[Arg])> {
    fn collect<'a>(body: &'a [Stmt], found: &mut Vec<(usize, girih_ir::registry::KernelDef, &'a [Arg])>) {
        for stmt in body {
            match stmt {
                Stmt::Launch { site, kernel, args, .. } => found.push((*site, *kernel, args)),
                Stmt::If { then, otherwise, .. } => {
                    collect(then, found);
                    collect(otherwise, found);
                }
                Stmt::For { body, .. } => collect(body, found),
                Stmt::While { header, body, .. } => {
                    collect(header, found);
                    collect(body, found);
                }
                Stmt::Memset { .. } | Stmt::Copy { .. } | Stmt::Set { .. } | Stmt::Let { .. } | Stmt::ReadBack { .. } => {}
            }
        }
    }
    let mut found = Vec::new();
    collect(&program.body, &mut found);
    found.sort_by_key(|(site, ..)| *site);
    found.into_iter().map(|(_, kernel, args)| (kernel, args)).collect()
}

/// All kernels of the file under unique names, and the name of each version of each site. Equal kernels are emitted once.
fn name_kernels(sites: &[Site], signature: &Signature) -> (Vec<simt::Kernel>, Vec<Vec<String>>) {
    let mut taken: HashSet<String> = helpers::Helper::NAMES.iter().map(|n| n.to_string()).collect();
    taken.insert(signature.name.clone());
    let mut kernels: Vec<(versions::Code, simt::Kernel)> = Vec::new();
    let mut names = Vec::new();
    for site in sites {
        let mut of_site = Vec::new();
        for version in &site.versions {
            let code = versions::code(&version.kernel);
            if let Some((_, there)) = kernels.iter().find(|(c, _)| *c == code) {
                of_site.push(there.name.clone());
                continue;
            }
            let base = version.name();
            let candidates = std::iter::once(base.clone()).chain((2..).map(|number| format!("{base}_{number}")));
            let mut named = candidates.map(|name| versions::named(&version.kernel, &name));
            let kernel = named.find(|k| k.launches().all(|l| !taken.contains(&l.name))).expect("some number is free");
            taken.extend(kernel.launches().map(|l| l.name.clone()));
            let name = kernel.name.clone();
            kernels.push((code, kernel));
            of_site.push(name);
        }
        names.push(of_site);
    }
    (kernels.into_iter().map(|(_, k)| k).collect(), names)
}

/// The signature with other names where a parameter is called like a macro, a kernel or a function of the text, which it would hide (it
/// may hide one of the library, as `gamma`). A caller sees no names.
fn with_free_names(signature: &Signature, kernels: &[Vec<String>]) -> Signature {
    let mut taken: HashSet<String> = body::own_names().map(str::to_string).chain(kernels.iter().flatten().cloned()).collect();
    taken.insert(signature.name.clone());
    // Whoever has a free name keeps it.
    let is_free =
        |name: &str, taken: &HashSet<String>| !cuda::is_forbidden(name) && cuda::identifier(name) == name && !taken.contains(name);
    let free: Vec<bool> = signature.params.iter().map(|p| is_free(&p.name, &taken)).collect();
    taken.extend(signature.params.iter().zip(&free).filter(|(_, free)| **free).map(|(p, _)| p.name.clone()));
    let mut named = signature.clone();
    for (param, _) in named.params.iter_mut().zip(&free).filter(|(_, free)| !**free) {
        param.name = body::unique(&mut taken, &param.name);
    }
    named
}

fn header(
    program: &Program,
    signature: &Signature,
    (sites, names): (&[Site], &[Vec<String>]),
    kernels: &[simt::Kernel],
    target: &Target,
) -> String {
    let mut out = format!("// {}, written by girih for {}\n", program.path, target.arch);
    // One file is built in one way: what one kernel gains from less of ptxas is more than the others lose.
    let opt_level = kernels.iter().map(|k| k.launch.opt_level).min().unwrap_or(simt::OPT_LEVEL);
    let flag = cuda::ptxas_flag(opt_level).map_or(String::new(), |f| format!(" {f}"));
    out.push_str(&format!("// build: nvcc -O3 -arch={}{flag}\n", target.arch));
    let mut lines: Vec<String> = Vec::new();
    for (site, names) in sites.iter().zip(names) {
        let schedule = format!("// schedule of {}: {}\n", site.kernel.full_name(), site.schedule.attribute(&site.kernel));
        let excuse = |(version, name): (&Version, &String)| version.excuse().map(|excuse| format!("// {name} {excuse}\n"));
        for line in std::iter::once(schedule).chain(site.versions.iter().zip(names).filter_map(excuse)) {
            if !lines.contains(&line) {
                lines.push(line);
            }
        }
    }
    out.push_str(&lines.concat());
    let shape = |p: &girih_ir::program::signature::SignatureParam| {
        let leaf = |e: &tile::host::HostExpr| match e {
            tile::host::HostExpr::Scalar(i) => signature.params[*i].name.clone(),
            other => other.to_string(),
        };
        p.shape.as_ref().map(|s| format!("{}[{}]", p.name, s.iter().map(|e| e.to_c(&leaf)).collect::<Vec<_>>().join(", ")))
    };
    let shapes: Vec<String> = signature.params.iter().filter_map(shape).collect();
    out.push_str(&format!("// shapes: {}, row-major\n\n", shapes.join(", ")));
    out
}

fn includes(signature: &Signature, needed: &BTreeSet<&str>) -> String {
    let mentions = |word: &str| signature.params.iter().any(|p| p.c_type.contains(word));
    let mut out = String::from("#include <cuda_runtime.h>\n");
    let all = [
        ("cuda.h", false),
        ("cuda_bf16.h", mentions("bfloat16")),
        ("cuda_fp16.h", mentions("half")),
        ("cuda_fp8.h", mentions("__nv_fp8")),
        ("stdint.h", mentions("_t")),
    ];
    for (include, used) in all {
        if used || needed.contains(include) {
            out.push_str(&format!("#include <{include}>\n"));
        }
    }
    out
}

#[cfg(test)]
mod tests;
