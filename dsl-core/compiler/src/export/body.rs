//! The body of `solve`: temporaries and statements.

use super::expr::{host_float, host_type};
use super::float8;
use super::helpers::Helper;
use super::lets::{LetId, Lets};
use super::names::Names;
use super::text::{Prec, Text};
use super::{ExportError, Site};
use crate::cuda::{CONSTANT_MEMORY, c_type, identifier, is_reserved, typed};
use girih_ir::loc::SourceLoc;
use girih_ir::program::signature::Signature;
use girih_ir::program::{Arg, Expr, Program, Requirement, Stmt};
use girih_ir::types::{BinaryOp, CompareOp, DType, Literal};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, HashSet};

/// Writes the body of `solve`.
pub(super) struct Body<'a> {
    pub(super) names: Names<'a>,
    pub(super) sites: &'a [Site],
    pub(super) kernels: &'a [Vec<String>],
    pub(super) helpers: BTreeSet<Helper>,
    pub(super) launched: BTreeSet<String>,
    /// CUDA headers that the text needs.
    pub(super) headers: BTreeSet<&'static str>,
    /// Variables of the file that hold memory which kernels own, by kernel and parameter.
    owned: BTreeMap<(String, String), String>,
    /// The same of tensor maps that are kept.
    kept_maps: BTreeMap<(String, String), String>,
    /// Names that are spoken for.
    taken: HashSet<String>,
    pub(super) lets: Lets,
    pub(super) out: String,
    pub(super) depth: usize,
}

impl<'a> Body<'a> {
    pub fn new(
        program: &'a Program,
        signature: &'a Signature,
        binding: &'a [usize],
        sites: &'a [Site],
        kernels: &'a [Vec<String>],
        dropped: HashSet<LetId>,
    ) -> Body<'a> {
        let mut taken: HashSet<String> = signature.params.iter().map(|p| p.name.clone()).collect();
        taken.extend(kernels.iter().flatten().cloned());
        taken.extend(own_names().map(str::to_string));
        let mut unique = |hint: &str| unique(&mut taken, hint);
        let wide = signature.params.iter().map(|p| unique(&format!("{}64", p.name))).collect();
        let temps = program.temps.iter().map(|t| unique(&t.name)).collect();
        let vars = program.scalars.iter().map(|(_, name)| unique(name)).collect();
        let (used, multiprocessors) = (RefCell::default(), RefCell::default());
        let names = Names { program, signature, binding, temps, vars, wide, used, multiprocessors, stand_ins: vec![], lets: vec![] };
        Body {
            names,
            sites,
            kernels,
            helpers: BTreeSet::new(),
            launched: BTreeSet::new(),
            headers: BTreeSet::new(),
            owned: BTreeMap::new(),
            kept_maps: BTreeMap::new(),
            taken,
            lets: Lets::new(dropped),
            out: String::new(),
            depth: 1,
        }
    }

    /// Helpers that the text uses.
    pub fn helpers(&self) -> BTreeSet<Helper> {
        let mut helpers = self.helpers.clone();
        if *self.names.multiprocessors.borrow() {
            helpers.insert(Helper::Multiprocessors);
        }
        helpers
    }

    /// A launch of the kernel was written.
    pub fn launches(&self, kernel: &str) -> bool {
        self.launched.contains(kernel)
    }

    /// A value of the host as kernels keep it: narrower floats, which the host computes in float, as their bits.
    pub(super) fn stored(&mut self, dtype: DType, value: String) -> String {
        match self.half(dtype) {
            None if dtype.is_float8() => format!("bits_of_{}({value})", float8::format(dtype)),
            Some((_, to, bits, _)) => format!("{bits}({to}({value}))"),
            None => value,
        }
    }

    /// Of a 16-bit float: its header's functions from bits to float, and from float to bits.
    fn half(&mut self, dtype: DType) -> Option<(&'static str, &'static str, &'static str, &'static str)> {
        let (header, functions) = match dtype {
            DType::F16 => ("cuda_fp16.h", ("__half2float", "__float2half_rn", "__half_as_ushort", "__ushort_as_half")),
            DType::BF16 => ("cuda_bf16.h", ("__bfloat162float", "__float2bfloat16_rn", "__bfloat16_as_ushort", "__ushort_as_bfloat16")),
            _ => return None,
        };
        self.headers.insert(header);
        Some(functions)
    }

    /// The variable that holds the memory which a kernel owns as its parameter; all launches of the kernel share it.
    pub(super) fn owned_memory(&mut self, kernel: &str, param: &str) -> String {
        self.helpers.insert(Helper::OwnedMemory);
        let name = || identifier(&format!("memory_of_{kernel}_{param}"));
        self.owned.entry((kernel.to_string(), param.to_string())).or_insert_with(name).clone()
    }

    /// The variable of the file that keeps a map of a kernel.
    pub(super) fn kept_map(&mut self, kernel: &str, param: &str) -> String {
        let name = || identifier(&format!("{param}_of_{kernel}"));
        self.kept_maps.entry((kernel.to_string(), param.to_string())).or_insert_with(name).clone()
    }

    /// A name that nothing has yet.
    pub(super) fn new_name(&mut self, hint: &str) -> String {
        unique(&mut self.taken, hint)
    }

    /// Declarations of the memory that kernels own, before `solve`.
    pub fn declarations(&self) -> String {
        let memory = self.owned.values().map(|name| format!("static OwnedMemory {name};\n"));
        memory.chain(self.kept_maps.values().map(|name| format!("static KeptMap {name};\n"))).collect()
    }

    /// The statements.
    pub fn text(&self) -> &str {
        &self.out
    }

    /// The text, below the 64-bit copies that it uses.
    pub fn finish(self) -> String {
        let used = self.names.used.borrow();
        let mut out = String::new();
        for (i, scalar) in used.iter().enumerate() {
            let comment = if i == 0 { "    // 64 bits, so that sums and products of lengths fit" } else { "" };
            let (wide, name) = (&self.names.wide[*scalar], &self.names.signature.params[*scalar].name);
            out.push_str(&format!("    const long long {wide} = {name};{comment}\n"));
        }
        out + &self.out
    }

    pub fn write(&mut self) -> Result<(), ExportError> {
        let program = self.names.program;
        let mut required: Vec<String> = Vec::new();
        for Requirement { holds, loc, .. } in &program.requirements {
            let broken = self.names.negated(holds);
            let obvious = matches!(holds, Expr::Compare(CompareOp::Eq, a, b) if self.names.expr(a).text == self.names.expr(b).text);
            if !obvious && !required.contains(&broken.text) {
                self.return_if(&broken, *loc);
                required.push(broken.text);
            }
        }
        self.lets_of_temps();
        self.temps();
        self.variables();
        self.block(&program.body)
    }

    pub(super) fn line(&mut self, text: impl AsRef<str>) {
        self.out.push_str(&format!("{}{}\n", "    ".repeat(self.depth), text.as_ref()));
    }

    /// A call that breaks a requirement does nothing: a judge reads no messages.
    fn return_if(&mut self, broken: &Text, loc: SourceLoc) {
        if broken.constant != Some(0) {
            self.line(format!("if ({}) return;    // required by {}", broken.text, loc.short()));
        }
    }

    /// Memory of the temporaries, one after the other.
    fn temps(&mut self) {
        let program = self.names.program;
        if program.temps.is_empty() {
            return;
        }
        self.helpers.insert(Helper::Workspace);
        let counts: Vec<Text> = program.temps.iter().map(|t| self.numel(&t.lens)).collect();
        let mut end = Text::integer(0);
        let mut offsets = Vec::new();
        for (temp, count) in program.temps.iter().zip(&counts) {
            offsets.push(end.clone());
            let bytes = Text::combine(BinaryOp::Mul, count, &Text::integer(temp.dtype.size() as i64));
            // 256 bytes keep every temporary as aligned as cudaMalloc does.
            let rounded = match bytes.constant {
                Some(b) => Text::integer((b as u64).next_multiple_of(256) as i64),
                None => {
                    let up = Text::combine(BinaryOp::Add, &bytes, &Text::integer(255));
                    Text::combine(BinaryOp::Mul, &Text::combine(BinaryOp::Div, &up, &Text::integer(256)), &Text::integer(256))
                }
            };
            end = Text::combine(BinaryOp::Add, &end, &rounded);
        }
        self.line(format!("char* const memory = workspace({});", end.text));
        for ((t, temp), offset) in program.temps.iter().enumerate().zip(&offsets) {
            let (ty, name) = (c_type(temp.dtype), self.names.temps[t].clone());
            // A pointer moves by C's own operator, whatever its offset is made of.
            let moved = || Text::operator(BinaryOp::Add, DType::I64, &Text::primary("memory"), offset).text;
            let place = if offset.constant == Some(0) { "memory".into() } else { format!("({})", moved()) };
            self.line(format!("{ty}* const {name} = ({ty}*){place};"));
        }
    }

    /// Scalar variables but loop counters, which their loops declare.
    fn variables(&mut self) {
        let program = self.names.program;
        let mut set = BTreeSet::new();
        assigned(&program.body, &mut set);
        for var in set {
            let ty = host_type(program.scalars[var as usize].0);
            let name = self.names.vars[var as usize].clone();
            self.line(format!("{ty} {name} = 0;"));
        }
    }

    fn block(&mut self, body: &[Stmt]) -> Result<(), ExportError> {
        body.iter().try_for_each(|s| self.stmt(s))
    }

    fn nested(&mut self, body: &[Stmt]) -> Result<(), ExportError> {
        self.depth += 1;
        let done = self.block(body);
        self.leave();
        done
    }

    /// Ends a block: what was named in it has no name outside.
    fn leave(&mut self) {
        self.depth -= 1;
        let depth = self.depth;
        self.names.lets.retain(|l| l.depth <= depth);
    }

    fn stmt(&mut self, stmt: &Stmt) -> Result<(), ExportError> {
        match stmt {
            Stmt::Launch { site, kernel, args, loc } => {
                let (name, text) = (kernel.name, args.iter().map(|a| self.describe(a)).collect::<Vec<_>>().join(", "));
                self.line(format!("// {name}({text})    {}", loc.short()));
                self.launch(*site, args, *loc)
            }
            Stmt::Memset { tensor, value, .. } => {
                let count = self.numel(&tensor.lens);
                let to = self.names.pointer(tensor, tensor.dtype, false);
                self.fill(&to, &count, *value);
                Ok(())
            }
            Stmt::Copy { to, from, .. } => {
                let bytes = Text::combine(BinaryOp::Mul, &self.numel(&to.lens), &Text::integer(to.dtype.size() as i64));
                let (to, from) = (self.names.pointer(to, to.dtype, false), self.names.pointer(from, from.dtype, true));
                self.line(format!("cudaMemcpyAsync({to}, {from}, {}, cudaMemcpyDeviceToDevice);", bytes.text));
                Ok(())
            }
            Stmt::Set { var, value } => {
                let text = self.names.expr(value).text;
                let name = self.names.vars[var.0 as usize].clone();
                self.line(format!("{name} = {text};"));
                self.changed(&BTreeSet::from([var.0]));
                Ok(())
            }
            Stmt::Let { name, value } => {
                let id = self.lets.next();
                self.declare(id, name, value);
                Ok(())
            }
            Stmt::ReadBack { var, from, .. } => {
                self.changed(&BTreeSet::from([var.0]));
                let name = self.names.vars[var.0 as usize].clone();
                let place = self.names.pointer(from, from.dtype, true);
                if let Some((to_float, _, _, from_bits)) = self.half(from.dtype) {
                    self.line(format!("unsigned short {name}_bits = 0;"));
                    self.line(format!("cudaMemcpy(&{name}_bits, {place}, sizeof({name}_bits), cudaMemcpyDeviceToHost);"));
                    self.line(format!("{name} = {to_float}({from_bits}({name}_bits));"));
                    return Ok(());
                }
                if from.dtype.is_float8() {
                    self.line(format!("unsigned char {name}_bits = 0;"));
                    self.line(format!("cudaMemcpy(&{name}_bits, {place}, sizeof({name}_bits), cudaMemcpyDeviceToHost);"));
                    self.line(format!("{name} = {}_of_bits({name}_bits);", float8::format(from.dtype)));
                    return Ok(());
                }
                self.line(format!("cudaMemcpy(&{name}, {place}, sizeof({name}), cudaMemcpyDeviceToHost);"));
                Ok(())
            }
            Stmt::If { condition, then, otherwise } => {
                let condition = self.names.expr(condition);
                // What no call comes to is not written.
                match condition.constant {
                    Some(0) => {
                        self.lets.pass_by(then);
                        return self.block(otherwise);
                    }
                    Some(_) => {
                        self.block(then)?;
                        self.lets.pass_by(otherwise);
                        return Ok(());
                    }
                    None => self.line(format!("if ({}) {{", condition.text)),
                }
                self.nested(then)?;
                if !otherwise.is_empty() {
                    self.line("} else {");
                    self.nested(otherwise)?;
                }
                self.line("}");
                Ok(())
            }
            Stmt::For { var, start, end, body } => {
                let mut set = BTreeSet::from([var.0]);
                assigned(body, &mut set);
                self.changed(&set);
                let name = self.names.vars[var.0 as usize].clone();
                let (start, end) = (self.names.index(start).text, self.names.index(end).at_least(Prec::Shift));
                self.line(format!("for (long long {name} = {start}; {name} < {end}; ++{name}) {{"));
                self.nested(body)?;
                self.line("}");
                Ok(())
            }
            Stmt::While { header, condition, body } => {
                let mut set = BTreeSet::new();
                assigned(header, &mut set);
                assigned(body, &mut set);
                self.changed(&set);
                let plain = self.lets.write_nothing(header);
                let opened = if plain { format!("while ({}) {{", self.names.expr(condition).text) } else { "for (;;) {".into() };
                self.line(opened);
                self.depth += 1;
                self.block(header)?;
                if !plain {
                    let ended = self.names.negated(condition).text;
                    self.line(format!("if ({ended}) break;"));
                }
                let done = self.block(body);
                self.leave();
                self.line("}");
                done
            }
        }
    }

    fn describe(&self, arg: &Arg) -> String {
        match arg {
            Arg::Scalar(e) => self.names.argument(e).text,
            Arg::Tensor(view) => self.names.base(view.base).to_string(),
        }
    }

    pub(super) fn numel(&self, lens: &[Expr]) -> Text {
        lens.iter().fold(Text::integer(1), |n, e| Text::combine(BinaryOp::Mul, &n, &self.names.index(e)))
    }

    fn fill(&mut self, to: &str, count: &Text, value: Literal) {
        let size = value.dtype.size();
        let bytes = &value.bits.to_le_bytes()[..size];
        if bytes.iter().all(|b| *b == bytes[0]) {
            let total = Text::combine(BinaryOp::Mul, count, &Text::integer(size as i64));
            self.line(format!("cudaMemsetAsync({to}, {:#x}, {});", bytes[0], total.text));
            return;
        }
        self.helpers.insert(Helper::Fill);
        let text = if value.dtype == DType::F32 { host_float(value.to_f64() as f32).text } else { typed(value) };
        self.line(format!("fill<{}>({to}, {}, {text});", c_type(value.dtype), count.text));
    }
}

/// Names that the text of `solve` and its functions use for themselves.
pub(super) fn own_names() -> impl Iterator<Item = &'static str> {
    Helper::NAMES.into_iter().chain(super::arithmetic::functions().map(|(name, _)| name)).chain(["memory", "blocks", CONSTANT_MEMORY])
}

/// The hint, or the hint with a number, whichever is free.
pub(super) fn unique(taken: &mut HashSet<String>, hint: &str) -> String {
    let base = identifier(hint);
    let mut name = base.clone();
    let mut next = 2;
    while is_reserved(&name) || !taken.insert(name.clone()) {
        name = format!("{base}_{next}");
        next += 1;
    }
    name
}

fn assigned(body: &[Stmt], set: &mut BTreeSet<u32>) {
    for stmt in body {
        match stmt {
            Stmt::Set { var, .. } | Stmt::ReadBack { var, .. } => {
                set.insert(var.0);
            }
            Stmt::If { then, otherwise, .. } => {
                assigned(then, set);
                assigned(otherwise, set);
            }
            Stmt::For { body, .. } => assigned(body, set),
            Stmt::While { header, body, .. } => {
                assigned(header, set);
                assigned(body, set);
            }
            Stmt::Launch { .. } | Stmt::Memset { .. } | Stmt::Copy { .. } | Stmt::Let { .. } => {}
        }
    }
}
