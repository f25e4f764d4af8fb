//! What the tiles before a block's own come to, in one pass over memory (Merrill and Garland, Single-pass Parallel Prefix Scan with Decoupled
//! Look-back, 2016).
//!
//! A block leaves what its tile comes to, and looks at what the tiles before have left until one says what all tiles up to it come to; then it
//! leaves the same of its own. Each 32 bits of a value lie in a word with which of the two they are and in which launch they were left: nothing
//! else has to be put in order, and nobody empties the words for the next launch.

use super::combine::int;
use super::context::{Expanded, Expander, Rep};
use super::index::{all, binary, compare, literal, without_cast};
use crate::block::Combine;
use girih_ir::simt::{Expr, Place, ShuffleKind, Space, Stmt, VarId, VoteKind};
use girih_ir::types::{AtomicOp, BinaryOp, CompareOp, DType, Literal, MemoryOrder, Scope};

/// What a word says, beside its launch: what all tiles up to its own come to, or its own alone.
const ALL: i64 = 1;
const OWN: i64 = 2;
/// The bit at which what a word says begins; below it is the value.
const SAYS: i64 = 32;
/// Tiles that are looked at together, one by each lane.
const LANES: i64 = 32;

/// Where a tile stands among those that pass on what they come to.
struct Row {
    /// The launch, as words say it: read where a block looks back, since a register that all threads keep until then is one that elements lack.
    launch: Expr,
    /// The words of each component.
    words: Vec<Vec<usize>>,
    /// Tiles before it in its row.
    before: Expr,
    /// The number of the row's first tile; none where there is one row.
    first: Option<Expr>,
}

impl Expander<'_> {
    /// Passes on what the block's tile comes to; variables for what the tiles before it do.
    pub fn look_back(&mut self, c: &Combine, own: &[Expr]) -> Expanded<Vec<VarId>> {
        let before = self.vars_for(c, "before", true);
        let threads = self.team.threads;
        self.comment("pass on what the tile comes to, and look back at what those before it do");
        if threads == LANES {
            let row = self.row_of_tiles(c);
            self.look_back_by_warp(c, &row, own, &before)?;
            return Ok(before);
        }
        self.open();
        let row = self.row_of_tiles(c);
        if threads > LANES {
            self.look_back_by_warp(c, &row, own, &before)?
        } else {
            self.look_back_by_thread(c, &row, own, &before)?
        }
        let mut then = self.close();
        let first = self.is_first_thread();
        let told: Vec<Place> = before.iter().map(|v| self.place_told(*v)).collect();
        for (place, var) in told.iter().zip(&before) {
            let predicate = first.clone().filter(|_| threads > LANES);
            then.push(Stmt::Store { place: place.clone(), value: Expr::Var(*var), predicate, cache: Default::default() });
        }
        let condition = if threads > LANES { Some(compare(CompareOp::Lt, self.thread32(), int(LANES))) } else { first };
        self.emit(Stmt::If { condition: condition.unwrap_or(Expr::Literal(Literal::bool(true))), then, otherwise: vec![] });
        self.emit(Stmt::Barrier(self.team_barrier()));
        for (place, var) in told.into_iter().zip(&before) {
            let value = Expr::Load { place: Box::new(place), predicate: None, cache: Default::default() };
            self.emit(Stmt::Assign { var: *var, index: None, value });
        }
        Ok(before)
    }

    /// A variable of this name for each component.
    fn vars_for(&mut self, c: &Combine, name: &str, identity: bool) -> Vec<VarId> {
        self.vars_named(c, &vec![name.to_string(); c.inputs.len()], 1, identity)
    }

    fn place_told(&mut self, var: VarId) -> Place {
        let (dtype, name) = (self.vars[var.0 as usize].dtype, format!("{}_found", self.vars[var.0 as usize].name));
        Place { space: Space::Shared(self.new_shared(&name, dtype, 1)), dtype, index: int(0) }
    }

    /// The words of all tiles, and where the block's own stands. A text that stands twice has one set of words.
    fn row_of_tiles(&mut self, c: &Combine) -> Row {
        let words = match self.passed_on.get(&c.results[0]) {
            Some(words) => words.clone(),
            None => {
                let (tiles, component) = (self.kernel.launch.grid.clone(), |k: usize| c.inputs[k]);
                let mut words = Vec::new();
                for k in 0..c.inputs.len() {
                    let (halves, name) = (self.register_type(component(k)).size().div_ceil(4), self.name_of(c.results[k], "tile"));
                    words.push((0..halves).map(|_| self.workspace(&format!("{name}_words"), DType::U64, tiles.clone())).collect());
                }
                self.passed_on.insert(c.results[0], words);
                self.passed_on[&c.results[0]].clone()
            }
        };
        let last = *self.grid_vars.last().unwrap_or_else(|| panic!("look_back: no tiles in\n{}", self.kernel));
        let Rep::TileIndex(at) = self.rep(last).clone() else { panic!("look_back: {last:?} is no tile index") };
        let number = without_cast(self.block_number());
        // A grid has fewer tiles than 2^31.
        let before = match without_cast(at) {
            at if self.dtype_of(&at) == DType::I32 => at,
            at => self.declare_let("before_it", DType::I32, cast(DType::I32, at)),
        };
        let first = (self.grid_vars.len() > 1).then(|| binary(BinaryOp::Sub, number, before.clone()));
        let first = first.map(|first| self.declare_let("row", DType::I32, first));
        let tag = self.launch_tag.clone().unwrap_or_else(|| panic!("look_back: tickets do not count launches in\n{}", self.kernel));
        Row { launch: self.declare_let("launch", DType::U32, tag), words, before, first }
    }

    /// One warp looks at as many tiles as it has lanes.
    fn look_back_by_warp(&mut self, c: &Combine, row: &Row, own: &[Expr], before: &[VarId]) -> Expanded<()> {
        let lane = self.thread32();
        let left = self.begin_look_back(row, own);
        self.open();
        let exists = self.declare_let("exists", DType::Bool, compare(CompareOp::Lt, lane.clone(), Expr::Var(left)));
        let at = binary(BinaryOp::Sub, binary(BinaryOp::Sub, Expr::Var(left), int(1)), lane.clone());
        let (says, values) = self.words_at(c, row, at, Some(&exists));
        let says = Expr::Select(Box::new(exists.clone()), Box::new(says), Box::new(literal(DType::U32, ALL)));
        let says = self.declare_let("says", DType::U32, says);
        let is = |what: i64, op| compare(op, says.clone(), literal(DType::U32, what));
        let stop = self.ballot("stop", is(OWN, CompareOp::Ne));
        let nothing = binary(BinaryOp::And, is(OWN, CompareOp::Ne), is(ALL, CompareOp::Ne));
        let missing = self.ballot("missing", nothing);
        self.comment("up to the nearest tile that knows what all before it come to, if those in between have left something");
        let one = literal(DType::U32, 1);
        let upto = binary(BinaryOp::Xor, stop.clone(), binary(BinaryOp::Sub, stop.clone(), one.clone()));
        let upto = self.declare_let("upto", DType::U32, upto);
        self.open();
        let lane_bit = binary(BinaryOp::And, binary(BinaryOp::Shr, upto.clone(), Expr::Cast(DType::U32, Box::new(lane))), one);
        let looked_at = binary(BinaryOp::And, exists, compare(CompareOp::Ne, lane_bit, literal(DType::U32, 0)));
        let looked_at = self.declare_let("looked_at", DType::Bool, looked_at);
        let parts = self.vars_for(c, "part", false);
        let identity = self.identities(c);
        for ((part, value), identity) in parts.iter().zip(values).zip(identity) {
            let value = Expr::Select(Box::new(looked_at.clone()), Box::new(value), Box::new(Expr::Literal(identity)));
            self.emit(Stmt::Assign { var: *part, index: None, value });
        }
        self.combine_backwards(c, &parts)?;
        let found: Vec<Expr> = parts.iter().map(|v| self.shuffle(Expr::Var(*v), ShuffleKind::Index, int(0))).collect();
        self.put_in_front(c, found, before)?;
        let on = binary(BinaryOp::Sub, Expr::Var(left), int(LANES));
        let ended = compare(CompareOp::Ne, stop, literal(DType::U32, 0));
        let value = Expr::Select(Box::new(ended), Box::new(int(0)), Box::new(on));
        self.emit(Stmt::Assign { var: left, index: None, value });
        let then = self.close();
        let condition = compare(CompareOp::Eq, binary(BinaryOp::And, missing, upto), literal(DType::U32, 0));
        self.emit(Stmt::If { condition, then, otherwise: vec![] });
        self.end_look_back(c, row, left, own, before)
    }

    /// A block of less than a warp: one thread looks at one tile after the other.
    fn look_back_by_thread(&mut self, c: &Combine, row: &Row, own: &[Expr], before: &[VarId]) -> Expanded<()> {
        let left = self.begin_look_back(row, own);
        self.open();
        let at = binary(BinaryOp::Sub, Expr::Var(left), int(1));
        let (says, values) = self.words_at(c, row, at.clone(), None);
        let says = self.declare_let("says", DType::U32, says);
        let is = |what: i64| compare(CompareOp::Eq, says.clone(), literal(DType::U32, what));
        self.open();
        self.put_in_front(c, values, before)?;
        let value = Expr::Select(Box::new(is(ALL)), Box::new(int(0)), Box::new(at));
        self.emit(Stmt::Assign { var: left, index: None, value });
        let then = self.close();
        let condition = binary(BinaryOp::Or, is(OWN), is(ALL));
        self.emit(Stmt::If { condition, then, otherwise: vec![] });
        self.end_look_back(c, row, left, own, before)
    }

    /// Leaves what the tile comes to; how many tiles are left to be looked at.
    fn begin_look_back(&mut self, row: &Row, own: &[Expr]) -> VarId {
        let first = compare(CompareOp::Eq, row.before.clone(), int(0));
        let says = Expr::Select(Box::new(first), Box::new(literal(DType::U32, ALL)), Box::new(literal(DType::U32, OWN)));
        let predicate = self.is_first_thread().filter(|_| self.team.threads >= LANES);
        self.leave_words_of_tile(row, own, says, predicate);
        let left = self.new_var("left", DType::I32, None);
        self.emit(Stmt::Declare { var: left, init: Some(row.before.clone()) });
        left
    }

    /// Closes a turn of the loop that looks back, and leaves what all tiles up to the block's own come to behind it.
    fn end_look_back(&mut self, c: &Combine, row: &Row, left: VarId, own: &[Expr], before: &[VarId]) -> Expanded<()> {
        let body = self.close();
        let condition = compare(CompareOp::Gt, Expr::Var(left), int(0));
        self.emit(Stmt::While { header: vec![], condition, body });
        let not_first = compare(CompareOp::Gt, row.before.clone(), int(0));
        let lane = self.is_first_thread().filter(|_| self.team.threads >= LANES);
        self.open();
        let front = before.iter().map(|v| Expr::Var(*v)).collect();
        let up_to_own = self.apply_operator(&c.operator, front, own.to_vec())?;
        self.leave_words_of_tile(row, &up_to_own, literal(DType::U32, ALL), None);
        let then = self.close();
        let condition = all(lane.into_iter().chain([not_first])).unwrap_or_else(|| panic!("look_back: no condition"));
        self.emit(Stmt::If { condition, then, otherwise: vec![] });
        Ok(())
    }

    /// Lane 0 gets what all lanes have: lanes further on hold tiles further in front.
    fn combine_backwards(&mut self, c: &Combine, parts: &[VarId]) -> Expanded<()> {
        let (k, e) = self.loop_var("k");
        self.open();
        let distance = binary(BinaryOp::Shl, int(1), e);
        let other = parts.iter().map(|v| self.shuffle(Expr::Var(*v), ShuffleKind::Down, distance.clone())).collect();
        self.put_in_front(c, other, parts)?;
        let turn = self.close();
        self.emit(super::elements::unrolled(k, i64::from(LANES.trailing_zeros()), turn));
        Ok(())
    }

    /// `vars` = what lies in front of them, and they.
    fn put_in_front(&mut self, c: &Combine, front: Vec<Expr>, vars: &[VarId]) -> Expanded<()> {
        let front = self.settled(&c.operator, front);
        let own = vars.iter().map(|v| Expr::Var(*v)).collect();
        let joined = self.apply_operator(&c.operator, front, own)?;
        self.assign_components(vars, None, joined);
        Ok(())
    }

    /// What the words of the tile at this place of the row say, and their values. Where words of one tile say different things, it is about to
    /// store the others: they say nothing.
    fn words_at(&mut self, c: &Combine, row: &Row, at: Expr, exists: Option<&Expr>) -> (Expr, Vec<Expr>) {
        let at = match &row.first {
            Some(first) => binary(BinaryOp::Add, first.clone(), at),
            None => at,
        };
        let at = self.declare_let("at", DType::I32, at);
        let found: Vec<Vec<Expr>> =
            row.words.iter().map(|words| words.iter().map(|w| self.fetch_word(*w, &at, exists)).collect()).collect();
        let launch = row.launch.clone();
        let says = |word: &Expr| binary(BinaryOp::Xor, high(word.clone()), launch.clone());
        let mut each = found.iter().flatten().map(says);
        let first = each.next().unwrap_or_else(|| panic!("look_back: a value without bits"));
        let others: Vec<Expr> = each.collect();
        let mut says = first.clone();
        if !others.is_empty() {
            says = self.declare_let("first_says", DType::U32, first);
            let alike = all(others.into_iter().map(|o| compare(CompareOp::Eq, o, says.clone())));
            says = Expr::Select(
                Box::new(alike.unwrap_or(Expr::Literal(Literal::bool(true)))),
                Box::new(says),
                Box::new(literal(DType::U32, 0)),
            );
        }
        let values = found.iter().zip(&c.inputs).map(|(words, input)| of_words(words, self.register_type(*input))).collect();
        (says, values)
    }

    /// Reads a word that another block stores.
    fn fetch_word(&mut self, space: usize, at: &Expr, exists: Option<&Expr>) -> Expr {
        let word = self.new_var("word", DType::U64, None);
        self.emit(Stmt::Declare { var: word, init: exists.map(|_| literal(DType::U64, 0)) });
        self.emit(Stmt::Atomic {
            result: Some(word),
            op: AtomicOp::Load,
            place: Place { space: Space::Global(space), dtype: DType::U64, index: at.clone() },
            value: literal(DType::U64, 0),
            expected: None,
            predicate: exists.cloned(),
            scope: Scope::Device,
            order: MemoryOrder::Relaxed,
        });
        Expr::Var(word)
    }

    /// Leaves values in the words of the block's tile.
    fn leave_words_of_tile(&mut self, row: &Row, values: &[Expr], says: Expr, predicate: Option<Expr>) {
        let says = binary(BinaryOp::Or, row.launch.clone(), says);
        let says = binary(BinaryOp::Shl, Expr::Cast(DType::U64, Box::new(says)), literal(DType::U64, SAYS));
        let says = if row.words.iter().flatten().count() > 1 { self.declare_let("tagged", DType::U64, says) } else { says };
        let number = without_cast(self.block_number());
        for (spaces, value) in row.words.iter().zip(values) {
            for (space, half) in spaces.iter().zip(halves(value.clone(), self.dtype_of(value))) {
                self.emit(Stmt::Atomic {
                    result: None,
                    op: AtomicOp::Exchange,
                    place: Place { space: Space::Global(*space), dtype: DType::U64, index: number.clone() },
                    value: binary(BinaryOp::Or, says.clone(), Expr::Cast(DType::U64, Box::new(half))),
                    expected: None,
                    predicate: predicate.clone(),
                    scope: Scope::Device,
                    order: MemoryOrder::Relaxed,
                });
            }
        }
    }

    fn ballot(&mut self, name: &str, value: Expr) -> Expr {
        let var = self.new_var(name, DType::U32, None);
        self.emit(Stmt::Declare { var, init: None });
        self.emit(Stmt::Vote { var, kind: VoteKind::Ballot, value });
        Expr::Var(var)
    }
}

fn cast(dtype: DType, e: Expr) -> Expr {
    Expr::Cast(dtype, Box::new(e))
}

/// The upper half of a word.
fn high(word: Expr) -> Expr {
    cast(DType::U32, binary(BinaryOp::Shr, word, literal(DType::U64, 32)))
}

/// A value as numbers of 32 bits, the lower half first.
fn halves(value: Expr, dtype: DType) -> Vec<Expr> {
    match dtype {
        DType::F32 => vec![Expr::Bitcast(DType::U32, Box::new(value))],
        DType::U32 => vec![value],
        DType::Bool => vec![Expr::Select(Box::new(value), Box::new(literal(DType::U32, 1)), Box::new(literal(DType::U32, 0)))],
        d if d.size() == 8 => {
            let bits = if d == DType::U64 { value } else { Expr::Bitcast(DType::U64, Box::new(value)) };
            vec![cast(DType::U32, bits.clone()), high(bits)]
        }
        _ => vec![cast(DType::U32, value)],
    }
}

/// The value whose halves are in the lower halves of these words.
fn of_words(words: &[Expr], dtype: DType) -> Expr {
    let low = |word: &Expr| cast(DType::U32, word.clone());
    match (words, dtype) {
        ([word], DType::F32) => Expr::Bitcast(DType::F32, Box::new(low(word))),
        ([word], DType::U32) => low(word),
        ([word], DType::Bool) => compare(CompareOp::Ne, low(word), literal(DType::U32, 0)),
        ([word], dtype) => cast(dtype, low(word)),
        ([first, second], dtype) => {
            let second = binary(BinaryOp::Shl, second.clone(), literal(DType::U64, 32));
            let bits = binary(BinaryOp::Or, second, cast(DType::U64, low(first)));
            if dtype == DType::U64 { bits } else { Expr::Bitcast(dtype, Box::new(bits)) }
        }
        (words, dtype) => panic!("look_back: {} words for {dtype}", words.len()),
    }
}
