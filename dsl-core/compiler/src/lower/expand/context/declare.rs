//! Variables and shared arrays of the kernel that grows.

use super::Expander;
use girih_ir::simt::{self, Expr, SharedArray, SharedId, Stmt, Var, VarId};
use girih_ir::types::DType;
use std::collections::BTreeSet;

impl Expander<'_> {
    pub fn new_var(&mut self, name: &str, dtype: DType, len: Option<u32>) -> VarId {
        self.vars.push(Var { name: name.to_string(), dtype, len });
        VarId(self.vars.len() as u32 - 1)
    }

    /// A variable that never changes; remembers by what it is divisible.
    pub fn declare_let(&mut self, name: &str, dtype: DType, value: Expr) -> Expr {
        let divisor = self.multiple(&value);
        let range = self.range_of(&value);
        let var = self.new_var(name, dtype, None);
        if divisor > 1 {
            self.multiples.insert(var, divisor);
        }
        self.ranges.extend(range.map(|r| (var, r)));
        self.emit(Stmt::Let { var, value });
        Expr::Var(var)
    }

    /// As [`Self::declare_let`], before the loop or branch at hand, and once for equal values: for what depends on the thread alone.
    pub fn declare_before(&mut self, name: &str, value: Expr) -> Expr {
        if matches!(value, Expr::Literal(_) | Expr::Var(_)) {
            return value;
        }
        // What was declared in the innermost block is not known outside of it.
        let outside = (self.blocks.len() - 1).max(1);
        if let Some((_, var, _)) = self.hoisted.iter().find(|(v, _, at)| *v == value && *at <= outside) {
            return var.clone();
        }
        let inner = if self.blocks.len() > 1 { self.blocks.pop() } else { None };
        let (dtype, depth) = (self.dtype_of(&value), self.blocks.len());
        let var = self.declare_let(name, dtype, value.clone());
        self.blocks.extend(inner);
        self.hoisted.push((value, var.clone(), depth));
        var
    }

    /// A shared array. One that the other of two exclusive paths used is used again.
    pub fn new_shared(&mut self, name: &str, dtype: DType, len: i64) -> SharedId {
        let id = match self.reusable_shared(dtype, len) {
            Some(at) => self.reusable.remove(at),
            None => {
                self.shared.push(shared_array(name, dtype, len));
                SharedId(self.shared.len() as u32 - 1)
            }
        };
        self.vacant.retain(|v| *v != id);
        self.taken.push(id);
        id
    }

    /// The same, at a multiple of so many bytes.
    pub fn new_aligned(&mut self, name: &str, dtype: DType, len: i64, align: u32) -> SharedId {
        let id = self.new_shared(name, dtype, len);
        let array = &mut self.shared[id.0 as usize];
        array.align = array.align.max(align);
        id
    }

    /// Which of the arrays of an exclusive path is as an array has to be.
    fn reusable_shared(&self, dtype: DType, len: i64) -> Option<usize> {
        let fits = |id: &SharedId| {
            let a = &self.shared[id.0 as usize];
            // What the author named keeps its contents.
            let free = self.arrays.values().all(|own| own.id != *id);
            free && a.dtype == dtype && a.len == len as u32
        };
        self.reusable.iter().position(fits)
    }

    /// Whether a block may have an array more.
    pub fn has_room(&self, dtype: DType, len: i64) -> bool {
        let with_it: Vec<SharedArray> = self.shared.iter().cloned().chain([shared_array("", dtype, len)]).collect();
        self.reusable_shared(dtype, len).is_some() || i64::from(simt::shared_offsets(&with_it).1) <= self.kernel.launch.room
    }

    /// The shared arrays that the author declared.
    pub fn authors_arrays(&self) -> BTreeSet<SharedId> {
        self.arrays.values().map(|array| array.id).collect()
    }

    /// A vacant shared array of at least so many elements: the smallest. Whoever writes to it meets first, and leaves nothing there.
    pub fn vacant_shared(&self, dtype: DType, len: i64) -> Option<SharedId> {
        let array = |id: &SharedId| &self.shared[id.0 as usize];
        let fits = self.vacant.iter().copied().filter(|id| array(id).dtype == dtype && i64::from(array(id).len) >= len);
        fits.min_by_key(|id| array(id).len)
    }
}

fn shared_array(name: &str, dtype: DType, len: i64) -> SharedArray {
    SharedArray { name: name.to_string(), dtype, len: len as u32, align: 16, at: None }
}
