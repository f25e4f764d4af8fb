//! Launches: which version runs, and with which arguments.

mod conditions;
mod demands;
mod residues;

use conditions::{Condition, wrapped};

use super::body::Body;
use super::helpers::Helper;
use super::text::{Prec, Text};
use super::versions::{behind, dynamic_shared};
use super::{ExportError, Site, Version};
use crate::cuda::{self, c_type};
use girih_ir::loc::SourceLoc;
use girih_ir::program::{Arg, Base, TensorView};
use girih_ir::simt::{self, ParamKind};
use girih_ir::tile::{self, RequirementKind};
use girih_ir::types::{BinaryOp, DType};

/// A version that a launch may choose.
struct Choice<'a> {
    conditions: Vec<String>,
    version: &'a Version,
    name: &'a str,
    grid: Text,
}

/// The number of blocks as an argument of a launch: what [`Body::with_grid`] declares, if it isn't a constant.
fn blocks(grid: &Text) -> String {
    if grid.constant.is_some() { grid.text.clone() } else { "(unsigned int)blocks".to_string() }
}

impl Body<'_> {
    /// The first version whose facts hold is launched.
    pub(super) fn launch(&mut self, site: usize, args: &[Arg], loc: SourceLoc) -> Result<(), ExportError> {
        let Site { kernel, versions, .. } = &self.sites[site];
        self.requirements(kernel, args)?;
        self.memory_of_its_own(kernel, args, loc)?;
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
            self.dispatch(&choices, args);
        } else {
            self.with_grid(&choices[0].grid, |body, _| body.dispatch(&choices, args));
        }
        self.names.stand_ins.clear();
        back.iter().for_each(|copy| self.line(copy));
        Ok(())
    }

    fn dispatch(&mut self, choices: &[Choice], args: &[Arg]) {
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
                self.call(choice, &blocks(&choice.grid), args);
            } else {
                self.with_grid(&choice.grid, |body, blocks| body.call(choice, blocks, args));
            }
            self.depth -= nested as usize;
        }
        if choices.len() > 1 {
            self.line("}");
        }
    }

    /// Writes something inside of a test that there are blocks at all, if that isn't certain.
    fn with_grid(&mut self, grid: &Text, write: impl FnOnce(&mut Self, &str)) {
        if grid.constant == Some(0) {
            return;
        }
        if grid.constant.is_some() {
            return write(self, &blocks(grid));
        }
        self.line(format!("if (const long long blocks = {}) {{", grid.text));
        self.depth += 1;
        write(self, &blocks(grid));
        self.depth -= 1;
        self.line("}");
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

    fn call(&mut self, choice: &Choice, blocks: &str, args: &[Arg]) {
        let (kernel, name) = (&choice.version.kernel, choice.name);
        self.launched.insert(name.to_string());
        let values = self.values(kernel, name, args);
        self.constants(kernel, args);
        self.configure_and_launch(kernel, name, blocks, &values);
        for next in kernel.launches().skip(1) {
            self.constants(next, args);
            let (values, blocks) = (self.values(next, name, args), self.names.launch(&next.launch.grid, args));
            self.configure_and_launch(next, &behind(name, kernel, next), &blocks.text, &values);
        }
    }

    /// The arguments of a launch of a kernel, whose memory has the name `owner` in it.
    fn values(&mut self, kernel: &simt::Kernel, owner: &str, args: &[Arg]) -> String {
        let mut values = Vec::new();
        for param in &kernel.params {
            values.push(match &param.kind {
                // It is no argument: see `Body::constants`.
                ParamKind::Constant { .. } => continue,
                ParamKind::Pointer { tensor, dtype, writable, .. } => match &args[*tensor] {
                    Arg::Tensor(view) => self.names.pointer(view, *dtype, !writable),
                    Arg::Scalar(_) => panic!("export: argument {tensor} of {owner} is no tensor"),
                },
                ParamKind::Scalar { scalar, dtype, .. } => match &args[*scalar] {
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
                ParamKind::TensorMap { map } => self.tensor_map(owner, &param.name, map, args),
            });
        }
        values.join(", ")
    }

    /// What a launch finds in constant memory is copied there behind the launch in front. The version's conditions say that there is room.
    fn constants(&mut self, kernel: &simt::Kernel, args: &[Arg]) {
        for (p, at) in simt::constant_offsets(&kernel.params).0 {
            let ParamKind::Constant { tensor, dtype, .. } = kernel.params[p].kind else { continue };
            let Arg::Tensor(view) = &args[tensor] else { continue };
            let bytes = Text::combine(BinaryOp::Mul, &self.numel(&view.lens), &Text::integer(dtype.size() as i64)).text;
            let (from, symbol) = (self.names.pointer(view, dtype, true), cuda::CONSTANT_MEMORY);
            self.line(format!("cudaMemcpyToSymbolAsync({symbol}, {from}, {bytes}, {at}, cudaMemcpyDeviceToDevice);"));
        }
    }

    fn configure_and_launch(&mut self, kernel: &simt::Kernel, name: &str, blocks: &str, values: &str) {
        let (threads, shared) = (kernel.launch.block, dynamic_shared(kernel));
        if let Some(bytes) = shared {
            self.line(format!("cudaFuncSetAttribute({name}, cudaFuncAttributeMaxDynamicSharedMemorySize, {bytes});"));
        }
        let bytes = shared.unwrap_or(0);
        let by_function = match (kernel.launch.cooperative, kernel.launch.dependent) {
            (true, _) => Some((Helper::Cooperative, "launch_cooperative")),
            (false, true) => Some((Helper::Dependent, "launch_dependent")),
            (false, false) => None,
        };
        if let Some((helper, function)) = by_function {
            self.helpers.extend([Helper::SameType, helper]);
            let values = if values.is_empty() { String::new() } else { format!(", {values}") };
            self.line(format!("{function}({name}, {blocks}, {threads}, {bytes}{values});"));
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
