//! Launches: which version runs, and with which arguments.

use super::body::Body;
use super::helpers::Helper;
use super::text::{Prec, Text};
use super::versions::{behind, dynamic_shared};
use super::{ExportError, Site, Version};
use crate::cuda::c_type;
use crate::facts::INDEX32_LIMIT;
use crate::loc::SourceLoc;
use crate::program::{Arg, Base, Expr, TensorView};
use crate::simt::{self, ParamKind};
use crate::tile::{self, RequirementKind, host::HostExpr};
use crate::types::{BinaryOp, DType};

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

impl Body<'_> {
    /// The first version whose facts hold is launched.
    pub(super) fn launch(&mut self, site: usize, args: &[Arg], loc: SourceLoc) -> Result<(), ExportError> {
        let Site { kernel, versions, .. } = &self.sites[site];
        self.requirements(kernel, args);
        let back = self.stand_ins(kernel, args, loc)?;
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
            self.dispatch(&choices, args, loc)?;
        } else {
            self.with_grid(&choices[0].grid, |body, _| body.dispatch(&choices, args, loc))?;
        }
        self.names.stand_ins.clear();
        back.iter().for_each(|copy| self.line(copy));
        Ok(())
    }

    fn dispatch(&mut self, choices: &[Choice], args: &[Arg], loc: SourceLoc) -> Result<(), ExportError> {
        let shared_grid = choices.iter().all(|c| c.grid.text == choices[0].grid.text);
        for (i, choice) in choices.iter().enumerate() {
            let conditions = wrapped(&choice.conditions, 4 * self.depth);
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
        let host = |v| HostExpr::of_value(kernel, v);
        let value = |v| host(v).map(|e| self.names.launch(&e, args));
        let mut unmet = Vec::new();
        for requirement in &kernel.requirements {
            if let RequirementKind::AtMost(a, b) = &requirement.kind
                && host(*a).zip(host(*b)).is_some_and(|(a, b)| at_most(&a, &b))
            {
                continue;
            }
            let sides = match &requirement.kind {
                // Alignment is tested, by `require_alignment`.
                RequirementKind::Packed(_) | RequirementKind::Aligned(..) => continue,
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

    /// Memory that is read as elements wider than its own must be aligned for those: a kernel's view asks for it, or the program's.
    /// Where it may lie elsewhere, the launch works on what [`Helper::AlignedMemory`] gives. What must be copied back, by argument.
    fn stand_ins(&mut self, kernel: &tile::Kernel, args: &[Arg], loc: SourceLoc) -> Result<Vec<String>, ExportError> {
        let mut back = Vec::new();
        for (p, arg) in args.iter().enumerate() {
            let Arg::Tensor(view) = arg else { continue };
            // Arguments that are the same memory stay so.
            let same: Vec<usize> = (p..args.len()).filter(|q| args[*q] == *arg).collect();
            if self.names.stand_in(view).is_some() {
                continue;
            }
            let widest = same.iter().map(|q| self.widest_elements(kernel, *q, view, loc)).max_by_key(|(bytes, _)| *bytes);
            let (bytes, asks) = widest.expect("the argument itself is among them");
            if !matches!(self.alignment_condition(view, self.own_alignment(view), bytes), Condition::Test(_)) {
                continue;
            }
            if !view.packed {
                return Err(ExportError::Unsupported { what: "a view with gaps that is read as wider elements".into(), loc: asks });
            }
            let size = Text::combine(BinaryOp::Mul, &self.numel(&view.lens), &Text::integer(view.dtype.size() as i64)).text;
            let (base, memory) = (self.names.base(view.base).to_string(), self.names.pointer(view, view.dtype, true));
            let (name, ty) = (self.new_name(&format!("aligned_{base}")), c_type(view.dtype));
            let copy = self.owned_memory(&name, "copy");
            self.helpers.extend([Helper::Aligned, Helper::AlignedMemory]);
            self.line(format!("// {} reads elements of {bytes} bytes", asks.short()));
            self.line(format!("{ty}* const {name} = ({ty}*)aligned_memory({copy}, {memory}, {size}, {bytes});"));
            if same.iter().any(|q| matches!(kernel.params[*q].kind, tile::ParamKind::Tensor { mutable: true, .. })) {
                let memory = self.names.pointer(view, view.dtype, false);
                back.push(format!("if ({name} != {memory}) cudaMemcpyAsync({memory}, {name}, {size}, cudaMemcpyDeviceToDevice);"));
            }
            self.names.stand_ins.push((view.clone(), name));
        }
        Ok(back)
    }

    /// Bytes of the widest elements that argument `p` is read as, and who asks for them.
    fn widest_elements(&self, kernel: &tile::Kernel, p: usize, view: &TensorView, loc: SourceLoc) -> (usize, SourceLoc) {
        let asked = kernel.requirements.iter().filter_map(|r| match r.kind {
            RequirementKind::Aligned(of, bytes) if of == p => Some((bytes, r.loc)),
            _ => None,
        });
        asked.chain([(view.dtype.size(), loc)]).max_by_key(|(bytes, _)| *bytes).expect("a view has elements")
    }

    /// What a view is certainly aligned to.
    fn own_alignment(&self, view: &TensorView) -> usize {
        match view.base {
            Base::Param(p) => match self.names.program.params[p].kind {
                tile::ParamKind::Tensor { dtype, .. } => dtype.size().min(view.dtype.size()),
                tile::ParamKind::Scalar(_) => panic!("export: parameter {p} is no tensor"),
            },
            // As aligned as cudaMalloc makes them, and offsets count whole elements.
            Base::Temp(_) => view.dtype.size(),
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
        let range = self.range_conditions(tensors().filter(|_| version.facts.index32).map(|(_, view)| view));
        let alignment = tensors().map(|(facts, view)| self.alignment_condition(view, view.dtype.size(), facts.align as usize));
        let divisibility = tensors()
            .flat_map(|(facts, view)| view.lens.iter().zip(&facts.lens))
            .map(|(len, divisor)| self.divisor_condition(len, *divisor));
        let lengths = tensors()
            .flat_map(|(facts, view)| view.lens.iter().zip(&facts.most))
            .flat_map(|(len, most)| self.length_conditions(len, i64::from(*most)));
        for condition in range.into_iter().chain(alignment).chain(divisibility).chain(lengths) {
            match condition {
                Condition::Never => return None,
                Condition::Always => {}
                Condition::Test(text) if conditions.contains(&text) => {}
                Condition::Test(text) => conditions.push(text),
            }
        }
        Some(conditions)
    }

    /// Whether a view is aligned to `align` bytes, where it is certainly aligned to `known`.
    fn alignment_condition(&self, view: &TensorView, known: usize, align: usize) -> Condition {
        let offset = self.names.index(&view.offset).constant;
        let from_malloc = matches!(view.base, Base::Temp(_)) && offset.is_some_and(|o| o * view.dtype.size() as i64 % align as i64 == 0);
        if align <= known || from_malloc {
            return Condition::Always;
        }
        let pointer = match self.names.stand_in(view) {
            Some(name) => name.to_string(),
            None if offset == Some(0) => self.names.base(view.base).to_string(),
            None => self.names.pointer(view, view.dtype, true),
        };
        Condition::Test(format!("is_aligned({pointer}, {align})"))
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

    /// A length from 1 to `most`, 0 for any.
    fn length_conditions(&self, len: &Expr, most: i64) -> Vec<Condition> {
        let len = self.names.index(len);
        match len.constant {
            _ if most == 0 => vec![],
            Some(n) if (1..=most).contains(&n) => vec![],
            Some(_) => vec![Condition::Never],
            None => vec![Condition::Test(format!("{} > 0", len.text)), Condition::Test(format!("{} <= {most}", len.text))],
        }
    }

    /// Elements that each view spans lie below the limit of 32-bit indices; of multiples of one product the largest is tested.
    fn range_conditions<'v>(&self, views: impl Iterator<Item = &'v TensorView>) -> Vec<Condition> {
        let mut spans: Vec<(Text, i64)> = Vec::new();
        let mut conditions = Vec::new();
        for span in views.map(|view| self.span(view)) {
            match span.constant {
                Some(n) if n < INDEX32_LIMIT => continue,
                Some(_) => conditions.push(Condition::Never),
                None => {}
            }
            let (base, factor) = span.factors();
            match spans.iter_mut().find(|(b, _)| b.text == base.text) {
                Some((_, largest)) => *largest = factor.max(*largest),
                None => spans.push((base, factor)),
            }
        }
        let test = |(base, factor): (Text, i64)| {
            let span = Text::combine(BinaryOp::Mul, &base, &Text::integer(factor));
            Condition::Test(format!("{} < {INDEX32_LIMIT}", span.at_least(Prec::Shift)))
        };
        conditions.extend(spans.into_iter().map(test));
        conditions
    }

    /// No less than the offset of a view's last element, and than every length.
    fn span(&self, view: &TensorView) -> Text {
        let mut lens: Vec<Text> = view.lens.iter().map(|e| self.names.index(e)).collect();
        if view.packed {
            // One order for all views, constants last, so that equal products have equal text.
            lens.sort_by(|a, b| (a.constant.is_some(), &a.text).cmp(&(b.constant.is_some(), &b.text)));
            return lens.iter().fold(Text::integer(1), |n, l| Text::combine(BinaryOp::Mul, &n, l));
        }
        lens.iter().zip(&view.strides).fold(Text::integer(0), |sum, (l, s)| {
            let stride = self.names.index(s);
            let minus = Text::combine(BinaryOp::Sub, &Text::integer(0), &stride);
            let size = Text::combine(BinaryOp::Max, &Text::combine(BinaryOp::Max, &stride, &minus), &Text::integer(1));
            Text::combine(BinaryOp::Add, &sum, &Text::combine(BinaryOp::Mul, l, &size))
        })
    }

    fn call(&mut self, choice: &Choice, blocks: &str, args: &[Arg], loc: SourceLoc) -> Result<(), ExportError> {
        let (kernel, name) = (&choice.version.kernel, choice.name);
        self.launched.insert(name.to_string());
        let values = self.values(kernel, name, args, loc)?;
        self.configure_and_launch(kernel, name, blocks, &values);
        for next in kernel.launches().skip(1) {
            let (values, blocks) = (self.values(next, name, args, loc)?, self.names.launch(&next.launch.grid, args));
            self.configure_and_launch(next, &behind(name, kernel, next), &blocks.text, &values);
        }
        Ok(())
    }

    /// The arguments of a launch of a kernel, whose memory has the name `owner` in it.
    fn values(&mut self, kernel: &simt::Kernel, owner: &str, args: &[Arg], loc: SourceLoc) -> Result<String, ExportError> {
        let unsupported = |what: String| ExportError::Unsupported { what, loc };
        let mut values = Vec::new();
        for param in &kernel.params {
            values.push(match &param.kind {
                ParamKind::Pointer { tensor, dtype, writable, .. } => match &args[*tensor] {
                    Arg::Tensor(view) => self.names.pointer(view, *dtype, !writable),
                    Arg::Scalar(_) => panic!("export: argument {tensor} of {owner} is no tensor"),
                },
                ParamKind::Scalar { scalar, dtype } => match &args[*scalar] {
                    Arg::Scalar(e) => {
                        let value = self.names.argument(e).text;
                        self.stored(*dtype, value)
                    }
                    Arg::Tensor(_) => panic!("export: argument {scalar} of {owner} is no scalar"),
                },
                ParamKind::Host { dtype, value } => self.narrow(&self.names.launch(value, args), *dtype),
                ParamKind::Workspace { dtype, len } => {
                    let bytes = Text::combine(BinaryOp::Mul, &self.names.launch(len, args), &Text::integer(dtype.size() as i64));
                    let memory = self.owned_memory(owner, &param.name);
                    format!("({}*)owned_memory({memory}, {})", c_type(*dtype), bytes.text)
                }
                ParamKind::TensorMap { .. } => return Err(unsupported(format!("{owner}, which takes a tensor map,"))),
            });
        }
        Ok(values.join(", "))
    }

    fn configure_and_launch(&mut self, kernel: &simt::Kernel, name: &str, blocks: &str, values: &str) {
        let (threads, shared) = (kernel.launch.block, dynamic_shared(kernel));
        if let Some(bytes) = shared {
            self.line(format!("cudaFuncSetAttribute({name}, cudaFuncAttributeMaxDynamicSharedMemorySize, {bytes});"));
        }
        let bytes = shared.unwrap_or(0);
        if kernel.launch.cooperative {
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
            _ => format!("({}){}", c_type(dtype), text.at_least(Prec::Unary)),
        }
    }
}

/// Conditions joined by `&&`, on more lines where one is too long.
fn wrapped(conditions: &[String], indent: usize) -> String {
    let mut out = String::new();
    let mut width = indent;
    for (i, condition) in conditions.iter().enumerate() {
        if i > 0 && width + condition.len() > 110 {
            out.push_str(&format!("\n{}    && ", " ".repeat(indent)));
            width = indent;
        } else if i > 0 {
            out.push_str(" && ");
        }
        out.push_str(condition);
        width += condition.len() + 4;
    }
    out
}

/// `a <= b` whatever the lengths are; says no where it isn't sure.
fn at_most(a: &HostExpr, b: &HostExpr) -> bool {
    match (a, b) {
        _ if a == b => true,
        (HostExpr::Const(c), _) if *c <= 0 && never_negative(b) => true,
        (HostExpr::Binary(BinaryOp::Div, x, by), _) => matches!(**by, HostExpr::Const(c) if c > 0) && never_negative(x) && at_most(x, b),
        (HostExpr::Binary(BinaryOp::Sub, x, y), _) => never_negative(y) && at_most(x, b),
        _ => false,
    }
}

fn never_negative(e: &HostExpr) -> bool {
    match e {
        HostExpr::Const(c) => *c >= 0,
        HostExpr::Dim(..) | HostExpr::Multiprocessors => true,
        HostExpr::Stride(..) | HostExpr::Scalar(_) | HostExpr::Wrap(..) => false,
        // Half of something from the whole of it: `n - n / 2`.
        HostExpr::Binary(BinaryOp::Sub, a, b) => at_most(b, a),
        HostExpr::Binary(_, a, b) => never_negative(a) && never_negative(b),
    }
}
