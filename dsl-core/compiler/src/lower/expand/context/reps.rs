//! What has become of all values of a page. A loop's turn, a branch and a finish begin with what is known before them and forget what they
//! found, so there are many copies that differ in little: they share what is alike.

use super::rep::Rep;
use crate::block::ValueId;
use std::rc::Rc;

/// Values whose entries are copied together.
const CHUNK: usize = 64;

/// One entry per value of a page: what has become of it, if it has been made.
#[derive(Clone)]
pub(crate) struct Reps {
    chunks: Vec<Rc<[Option<Rep>]>>,
}

impl Reps {
    /// Of so many values that have not been made.
    pub fn none(values: usize) -> Reps {
        let empty: Rc<[Option<Rep>]> = vec![None; CHUNK].into();
        Reps { chunks: vec![empty; values.div_ceil(CHUNK)] }
    }

    /// What has become of a value.
    pub fn get(&self, value: ValueId) -> Option<&Rep> {
        let at = value.0 as usize;
        self.chunks[at / CHUNK][at % CHUNK].as_ref()
    }

    /// The entry of a value, to be changed.
    pub fn entry(&mut self, value: ValueId) -> &mut Option<Rep> {
        let at = value.0 as usize;
        &mut Rc::make_mut(&mut self.chunks[at / CHUNK])[at % CHUNK]
    }

    /// All values that have been made, to be changed.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut Rep> {
        self.chunks.iter_mut().flat_map(|chunk| Rc::make_mut(chunk).iter_mut().flatten())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use girih_ir::simt::Expr;
    use girih_ir::types::Literal;

    #[test]
    fn copies_share_what_neither_has_changed() {
        let number = |n: i32| Some(Rep::Scalar(Expr::Literal(Literal::i32(n))));
        let text = |reps: &Reps, value: u32| format!("{:?}", reps.get(ValueId(value)));
        let mut outer = Reps::none(200);
        (0..200).for_each(|v| *outer.entry(ValueId(v)) = number(v as i32));
        let mut turn = outer.clone();
        *turn.entry(ValueId(130)) = number(7);
        *turn.entry(ValueId(199)) = None;
        assert_eq!((text(&outer, 130), text(&outer, 199)), (format!("{:?}", number(130)), format!("{:?}", number(199))));
        assert_eq!((text(&turn, 130), text(&turn, 199), text(&turn, 64)), (format!("{:?}", number(7)), "None".into(), text(&outer, 64)));
        let shared: Vec<bool> = outer.chunks.iter().zip(&turn.chunks).map(|(a, b)| Rc::ptr_eq(a, b)).collect();
        assert_eq!(shared, [true, true, false, false]);
        assert_eq!((outer.iter_mut().count(), turn.iter_mut().count()), (200, 199));
    }
}
