//! The body of `solve`: temporaries, statements, launches.

use super::text::{Names, Text, host_type};
use super::versions::dynamic_shared;
use super::{ExportError, Site, Version};
use crate::cuda::{c_type, identifier, typed};
use crate::facts::{INDEX32_LIMIT, TensorFacts};
use crate::loc::SourceLoc;
use crate::program::signature::Signature;
use crate::program::{Arg, Base, Expr, Program, Stmt, TensorView};
use crate::simt::ParamKind;
use crate::tile::{self, RequirementKind, host::HostExpr};
use crate::types::{BinaryOp, DType, Literal};
use std::cell::RefCell;
use std::collections::{BTreeSet, HashSet};

/// Host functions that are printed only if used.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Helper {
    Aligned,
    Multiprocessors,
    Workspace,
    Fill,
    Cooperative,
}

impl Helper {
    /// Names that kernels can't have.
    pub const NAMES: [&'static str; 7] =
        ["is_aligned", "multiprocessor_count", "workspace", "fill", "fill_elements", "launch_cooperative", "same_type"];

    pub fn text(self) -> &'static str {
        match self {
            Helper::Aligned => {
                "static bool is_aligned(const void* pointer, size_t bytes)\n{\n    return (size_t)pointer % bytes == 0;\n}\n"
            }
            Helper::Multiprocessors => {
                "static long long multiprocessor_count()
{
    int device = 0, count = 0;
    cudaGetDevice(&device);
    cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, device);
    return count;
}
"
            }
            Helper::Workspace => {
                "// Memory for temporaries: kept between calls, grown on demand.
static char* workspace(size_t bytes)
{
    static char* memory = nullptr;
    static size_t capacity = 0;
    if (bytes > capacity) {
        cudaFree(memory);
        cudaMalloc(&memory, bytes);
        capacity = bytes;
    }
    return memory;
}
"
            }
            Helper::Fill => {
                "template <typename T> __global__ void fill_elements(T* to, long long count, T value)
{
    const long long stride = (long long)gridDim.x * blockDim.x;
    for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += stride)
        to[i] = value;
}

template <typename T> static void fill(T* to, long long count, T value)
{
    const long long blocks = (count + 1023) / 1024;
    if (blocks > 0)
        fill_elements<T><<<(unsigned int)(blocks < 65536 ? blocks : 65536), 256>>>(to, count, value);
}
"
            }
            Helper::Cooperative => {
                "template <typename T> struct same_type { typedef T type; };

// All blocks are resident at once, so they may wait for each other.
template <typename... Params>
static void launch_cooperative(void (*kernel)(Params...), unsigned int blocks, unsigned int threads, size_t shared, typename same_type<Params>::type... params)
{
    void* pointers[] = {(void*)&params...};
    cudaLaunchCooperativeKernel((const void*)kernel, dim3(blocks), dim3(threads), pointers, shared, 0);
}
"
            }
        }
    }
}

/// A version that a launch may choose.
struct Choice<'a> {
    conditions: Vec<String>,
    version: &'a Version,
    name: &'a str,
    grid: Text,
}

/// A fact as the host sees it.
enum Condition {
    Always,
    Never,
    Test(String),
}

/// The number of blocks as an argument of a launch: what [`Body::with_grid`] declares, if it isn't a constant.
fn blocks(grid: &Text) -> String {
    if grid.constant.is_some() { grid.text.clone() } else { "(unsigned int)blocks".to_string() }
}

/// Writes the body of `solve`.
pub(super) struct Body<'a> {
    names: Names<'a>,
    sites: &'a [Site],
    kernels: &'a [Vec<String>],
    helpers: BTreeSet<Helper>,
    launched: BTreeSet<String>,
    out: String,
    depth: usize,
}

impl<'a> Body<'a> {
    pub fn new(
        program: &'a Program,
        signature: &'a Signature,
        binding: &'a [usize],
        sites: &'a [Site],
        kernels: &'a [Vec<String>],
    ) -> Body<'a> {
        let mut taken: HashSet<String> = signature.params.iter().map(|p| p.name.clone()).collect();
        taken.extend(kernels.iter().flatten().cloned());
        taken.extend(Helper::NAMES.iter().map(|n| n.to_string()));
        taken.extend(["memory", "blocks"].map(str::to_string));
        let mut unique = |hint: &str| {
            let base = identifier(hint);
            let mut name = base.clone();
            let mut next = 2;
            while !taken.insert(name.clone()) {
                name = format!("{base}_{next}");
                next += 1;
            }
            name
        };
        let wide = signature.params.iter().map(|p| unique(&format!("{}64", p.name))).collect();
        let temps = program.temps.iter().map(|t| unique(&t.name)).collect();
        let vars = program.scalars.iter().map(|(_, name)| unique(name)).collect();
        let (used, multiprocessors) = (RefCell::default(), RefCell::default());
        let names = Names { program, signature, binding, temps, vars, wide, used, multiprocessors };
        Body { names, sites, kernels, helpers: BTreeSet::new(), launched: BTreeSet::new(), out: String::new(), depth: 1 }
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
        for (condition, loc) in &program.requirements {
            let text = self.names.expr(condition);
            self.require(&text, *loc);
        }
        self.temps();
        self.variables();
        self.block(&program.body)
    }

    fn line(&mut self, text: impl AsRef<str>) {
        self.out.push_str(&format!("{}{}\n", "    ".repeat(self.depth), text.as_ref()));
    }

    fn require(&mut self, condition: &Text, loc: SourceLoc) {
        let name = &self.names.signature.name;
        let message = format!("fprintf(stderr, \"{name}: %s doesn't hold\\n\", \"{}\");", condition.text.replace('"', "'"));
        self.line(format!("if (!({})) {{    // {}", condition.text, loc.short()));
        self.line(format!("    {message}"));
        self.line("    return;");
        self.line("}");
    }

    /// Memory of the temporaries, one after the other, and what they are filled with.
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
            let place = Text::combine(BinaryOp::Add, &Text::primary("memory"), offset);
            let place = if offset.constant == Some(0) { place.text } else { format!("({})", place.text) };
            self.line(format!("{ty}* const {name} = ({ty}*){place};"));
        }
        for ((t, temp), count) in program.temps.iter().enumerate().zip(&counts) {
            if let Some(value) = temp.init {
                let name = self.names.temps[t].clone();
                self.fill(&name, count, value);
            }
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
        self.depth -= 1;
        done
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
                Ok(())
            }
            Stmt::ReadBack { var, from, loc } => {
                if from.dtype.compute() != from.dtype {
                    return Err(ExportError::Unsupported { what: format!("reading back a {}", from.dtype), loc: *loc });
                }
                let name = self.names.vars[var.0 as usize].clone();
                let place = self.names.pointer(from, from.dtype, true);
                self.line(format!("cudaMemcpy(&{name}, {place}, sizeof({name}), cudaMemcpyDeviceToHost);"));
                Ok(())
            }
            Stmt::If { condition, then, otherwise } => {
                let condition = self.names.expr(condition).text;
                self.line(format!("if ({condition}) {{"));
                self.nested(then)?;
                if !otherwise.is_empty() {
                    self.line("} else {");
                    self.nested(otherwise)?;
                }
                self.line("}");
                Ok(())
            }
            Stmt::For { var, start, end, body } => {
                let name = self.names.vars[var.0 as usize].clone();
                let (start, end) = (self.names.index(start).text, self.names.index(end).at_least(super::text::Prec::Shift));
                self.line(format!("for (long long {name} = {start}; {name} < {end}; ++{name}) {{"));
                self.nested(body)?;
                self.line("}");
                Ok(())
            }
            Stmt::While { header, condition, body } => {
                let condition = self.names.expr(condition).text;
                if header.is_empty() {
                    self.line(format!("while ({condition}) {{"));
                } else {
                    self.line("for (;;) {");
                    self.nested(header)?;
                    self.line(format!("    if (!({condition})) break;"));
                }
                self.nested(body)?;
                self.line("}");
                Ok(())
            }
        }
    }

    fn describe(&self, arg: &Arg) -> String {
        match arg {
            Arg::Scalar(e) => self.names.expr(e).text,
            Arg::Tensor(view) => match view.base {
                Base::Temp(t) => self.names.temps[t].clone(),
                Base::Param(p) => self.names.signature.params[self.names.binding[p]].name.clone(),
            },
        }
    }

    fn numel(&self, lens: &[Expr]) -> Text {
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
        let infinity = Literal::from_f64(value.dtype, f64::INFINITY).bits;
        let text = match value.dtype {
            // Literals have no spelling for these on the host without <math.h>.
            DType::F32 if value.bits == infinity => "__builtin_inff()".to_string(),
            DType::F32 if value.to_f64() == f64::NEG_INFINITY => "-__builtin_inff()".to_string(),
            DType::F32 if value.to_f64().is_nan() => "__builtin_nanf(\"\")".to_string(),
            _ => typed(value),
        };
        self.line(format!("fill<{}>({to}, {}, {text});", c_type(value.dtype), count.text));
    }

    /// The first version whose facts hold is launched.
    fn launch(&mut self, site: usize, args: &[Arg], loc: SourceLoc) -> Result<(), ExportError> {
        let Site { kernel, versions, .. } = &self.sites[site];
        self.requirements(kernel, args);
        let mut choices: Vec<Choice> = Vec::new();
        for (version, name) in versions.iter().zip(&self.kernels[site]) {
            let Some(conditions) = self.conditions(version, args) else { continue };
            // Where an earlier version asks for no more, this one is never reached.
            if !choices.iter().any(|c| c.conditions.iter().all(|x| conditions.contains(x))) {
                let grid = self.names.launch(&version.kernel.launch.grid, args);
                choices.push(Choice { conditions, version, name, grid });
            }
        }
        // Where a program's views can't promise what the last version asks for, no launch would be right.
        if !choices.last().is_some_and(|c| c.conditions.is_empty()) {
            return Err(ExportError::Unsupported { what: format!("a launch of {} with arguments of any shape", kernel.full_name()), loc });
        }
        if choices.iter().any(|c| c.conditions.iter().any(|c| c.starts_with("is_aligned("))) {
            self.helpers.insert(Helper::Aligned);
        }
        // Usually all versions have the same schedule, hence the same grid.
        if choices.iter().any(|c| c.grid.text != choices[0].grid.text) {
            return self.dispatch(&choices, args, loc);
        }
        self.with_grid(&choices[0].grid, |body, _| body.dispatch(&choices, args, loc))
    }

    fn dispatch(&mut self, choices: &[Choice], args: &[Arg], loc: SourceLoc) -> Result<(), ExportError> {
        let shared_grid = choices.iter().all(|c| c.grid.text == choices[0].grid.text);
        for (i, choice) in choices.iter().enumerate() {
            let conditions = choice.conditions.join(" && ");
            match (i, choice.conditions.is_empty()) {
                (0, true) => {}
                (0, false) => self.line(format!("if ({conditions}) {{")),
                (_, false) => self.line(format!("}} else if ({conditions}) {{")),
                (_, true) => self.line("} else {"),
            }
            let nested = choices.len() > 1;
            self.depth += nested as usize;
            if shared_grid {
                self.call(choice, &blocks(&choice.grid), args, loc)?;
            } else {
                self.with_grid(&choice.grid, |body, blocks| body.call(choice, blocks, args, loc))?;
            }
            self.depth -= nested as usize;
        }
        if choices.len() > 1 {
            self.line("}");
        }
        Ok(())
    }

    /// Writes something inside of a test that there are blocks at all, if that isn't certain.
    fn with_grid(&mut self, grid: &Text, write: impl FnOnce(&mut Self, &str) -> Result<(), ExportError>) -> Result<(), ExportError> {
        if grid.constant == Some(0) {
            return Ok(());
        }
        if grid.constant.is_some() {
            return write(self, &blocks(grid));
        }
        self.line(format!("if (const long long blocks = {}) {{", grid.text));
        self.depth += 1;
        write(self, &blocks(grid))?;
        self.depth -= 1;
        self.line("}");
        Ok(())
    }

    /// What a launch of the kernel must satisfy, unless the text shows that it does.
    fn requirements(&mut self, kernel: &tile::Kernel, args: &[Arg]) {
        let value = |v| HostExpr::of_value(kernel, v).map(|e| self.names.launch(&e, args));
        let mut unmet = Vec::new();
        for requirement in &kernel.requirements {
            let sides = match &requirement.kind {
                RequirementKind::Packed(_) => continue,
                RequirementKind::AtMost(a, b) => (value(*a), "<=", value(*b)),
                RequirementKind::Equal(a, b) => (value(*a), "==", value(*b)),
                RequirementKind::Divisible(a, n) => {
                    let rest = value(*a).map(|a| Text::combine(BinaryOp::Rem, &a, &Text::integer(*n)));
                    (rest, "==", Some(Text::integer(0)))
                }
            };
            let (Some(a), sign, Some(b)) = sides else { continue };
            let obvious = a.text == b.text || a.constant.zip(b.constant).is_some_and(|(a, b)| if sign == "<=" { a <= b } else { a == b });
            if !obvious {
                unmet.push(format!("{}: {} {sign} {}", requirement.loc.short(), a.text, b.text));
            }
        }
        for text in unmet {
            self.line(format!("// requires {text}"));
        }
    }

    /// What must be tested before a version may run: range of the indices, alignment, divisibility. `None` if its facts can't hold.
    fn conditions(&self, version: &Version, args: &[Arg]) -> Option<Vec<String>> {
        let mut conditions: Vec<String> = Vec::new();
        let tensors = || {
            version.facts.tensors.iter().zip(args).filter_map(|(facts, arg)| match (facts, arg) {
                (Some(facts), Arg::Tensor(view)) => Some((facts, view)),
                _ => None,
            })
        };
        if tensors().any(|(facts, view)| facts.packed && !view.packed) {
            return None;
        }
        let range = tensors().filter(|_| version.facts.index32).map(|(_, view)| self.range_condition(view));
        let alignment = tensors().map(|(facts, view)| self.alignment_condition(facts, view));
        let divisibility = tensors()
            .flat_map(|(facts, view)| view.lens.iter().zip(&facts.lens))
            .map(|(len, divisor)| self.divisor_condition(len, *divisor));
        for condition in range.chain(alignment).chain(divisibility) {
            match condition {
                Condition::Never => return None,
                Condition::Always => {}
                Condition::Test(text) if conditions.contains(&text) => {}
                Condition::Test(text) => conditions.push(text),
            }
        }
        Some(conditions)
    }

    fn alignment_condition(&self, facts: &TensorFacts, view: &TensorView) -> Condition {
        let (size, align) = (view.dtype.size() as i64, i64::from(facts.align));
        let offset = self.names.index(&view.offset).constant;
        let from_malloc = matches!(view.base, Base::Temp(_)) && offset.is_some_and(|o| o * size % align == 0);
        if align <= size || from_malloc {
            return Condition::Always;
        }
        Condition::Test(format!("is_aligned({}, {align})", self.names.pointer(view, view.dtype, true)))
    }

    fn divisor_condition(&self, len: &Expr, divisor: u32) -> Condition {
        let rest = Text::combine(BinaryOp::Rem, &self.names.index(len), &Text::integer(i64::from(divisor)));
        match rest.constant {
            _ if divisor == 1 => Condition::Always,
            Some(0) => Condition::Always,
            Some(_) => Condition::Never,
            None => Condition::Test(format!("{} == 0", rest.text)),
        }
    }

    fn range_condition(&self, view: &TensorView) -> Condition {
        let lens: Vec<Text> = view.lens.iter().map(|e| self.names.index(e)).collect();
        let elements = if view.packed {
            lens.iter().fold(Text::integer(1), |n, l| Text::combine(BinaryOp::Mul, &n, l))
        } else {
            // No less than the last element's offset and every length.
            lens.iter().zip(&view.strides).fold(Text::integer(0), |sum, (l, s)| {
                let stride = self.names.index(s);
                let minus = Text::combine(BinaryOp::Sub, &Text::integer(0), &stride);
                let size = Text::combine(BinaryOp::Max, &Text::combine(BinaryOp::Max, &stride, &minus), &Text::integer(1));
                Text::combine(BinaryOp::Add, &sum, &Text::combine(BinaryOp::Mul, l, &size))
            })
        };
        match elements.constant {
            Some(n) if n < INDEX32_LIMIT => Condition::Always,
            Some(_) => Condition::Never,
            None => Condition::Test(format!("{} < {INDEX32_LIMIT}", elements.at_least(super::text::Prec::Shift))),
        }
    }

    fn call(&mut self, choice: &Choice, blocks: &str, args: &[Arg], loc: SourceLoc) -> Result<(), ExportError> {
        let (kernel, name) = (&choice.version.kernel, choice.name);
        let unsupported = |what: String| ExportError::Unsupported { what, loc };
        let mut values = Vec::new();
        for param in &kernel.params {
            values.push(match &param.kind {
                ParamKind::Pointer { tensor, dtype, writable, .. } => match &args[*tensor] {
                    Arg::Tensor(view) => self.names.pointer(view, *dtype, !writable),
                    Arg::Scalar(_) => panic!("export: argument {tensor} of {name} is no tensor"),
                },
                ParamKind::Scalar { dtype: DType::F16 | DType::BF16, .. } => {
                    return Err(unsupported(format!("scalar argument {} of {name}, a 16-bit float,", param.name)));
                }
                ParamKind::Scalar { scalar, .. } => match &args[*scalar] {
                    Arg::Scalar(e) => self.names.expr(e).text,
                    Arg::Tensor(_) => panic!("export: argument {scalar} of {name} is no scalar"),
                },
                ParamKind::Host { dtype, value } => self.narrow(&self.names.launch(value, args), *dtype),
                ParamKind::TensorMap { .. } => return Err(unsupported(format!("{name}, which takes a tensor map,"))),
            });
        }
        self.configure_and_launch(choice, blocks, &values.join(", "));
        Ok(())
    }

    fn configure_and_launch(&mut self, choice: &Choice, blocks: &str, values: &str) {
        let Choice { version, name, .. } = choice;
        self.launched.insert(name.to_string());
        let (threads, shared) = (version.kernel.launch.block, dynamic_shared(&version.kernel));
        if let Some(bytes) = shared {
            self.line(format!("cudaFuncSetAttribute({name}, cudaFuncAttributeMaxDynamicSharedMemorySize, {bytes});"));
        }
        let bytes = shared.unwrap_or(0);
        if version.kernel.launch.cooperative {
            self.helpers.insert(Helper::Cooperative);
            let values = if values.is_empty() { String::new() } else { format!(", {values}") };
            self.line(format!("launch_cooperative({name}, {blocks}, {threads}, {bytes}{values});"));
        } else {
            let bytes = if bytes > 0 { format!(", {bytes}") } else { String::new() };
            self.line(format!("{name}<<<{blocks}, {threads}{bytes}>>>({values});"));
        }
    }

    /// A 64-bit expression as an argument of an integer type; a length that is an int in the signature goes as it is.
    fn narrow(&self, text: &Text, dtype: DType) -> String {
        if dtype == DType::I64 || text.constant.is_some() {
            return text.text.clone();
        }
        let signature = self.names.signature;
        match self.names.wide.iter().position(|w| *w == text.text) {
            Some(i) if signature.params[i].dtype == dtype => signature.params[i].name.clone(),
            _ => format!("({}){}", c_type(dtype), text.at_least(super::text::Prec::Unary)),
        }
    }
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
            Stmt::Launch { .. } | Stmt::Memset { .. } | Stmt::Copy { .. } => {}
        }
    }
}
