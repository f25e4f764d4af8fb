//! The lower door: threads, warps and lanes as positions in a tile; what the lanes of a warp exchange; barriers.

use super::elem::Elem;
use super::operand::Operand;
use super::session::{self, Handle};
use super::shared::iota;
use super::size::Size;
use super::tile::Tile;
use girih_ir::error::Diagnostic;
use girih_ir::loc::SourceLoc;
use girih_ir::tile::{self, Op, Stmt, Ty, ValueId};
use girih_ir::types::{Scope, ShuffleKind, VoteKind};

/// The number of each thread: 0, 1, .. along a tile of one axis. Another name for [`iota`], for kernels that speak of threads.
#[track_caller]
pub fn threads(size: impl Into<Size>) -> Tile<i32> {
    iota(size)
}

/// The number of each thread in its warp: 0 to 31, again and again.
#[track_caller]
pub fn lanes(size: impl Into<Size>) -> Tile<i32> {
    iota::<i32>(size) & 31
}

/// The number of each thread's warp.
#[track_caller]
pub fn warps(size: impl Into<Size>) -> Tile<i32> {
    iota::<i32>(size) >> 5
}

/// All threads of the block meet: what they did to shared arrays that are kept [`by_hand`](super::shared::Shared::by_hand) is done before
/// anything that follows.
#[track_caller]
pub fn barrier() {
    meet(Scope::Block, SourceLoc::caller());
}

/// As [`barrier`] for the lanes of each warp among themselves.
#[track_caller]
pub fn warp_barrier() {
    meet(Scope::Warp, SourceLoc::caller());
}

/// All blocks of the grid meet: whatever any thread of any block did to tensors before is done for all threads behind it, so that what another
/// block has stored may be loaded. It stands in the body of the grid's loop, whose tiles have a block each, also in a `for` over numbers, a `while` or an
/// `if` on a scalar that is the same for all blocks. All blocks run at the same time: a launch of more than the device holds is an error.
#[track_caller]
pub fn grid_barrier() {
    meet(Scope::Device, SourceLoc::caller());
}

fn meet(scope: Scope, loc: SourceLoc) {
    session::with(|s| {
        let Some(k) = s.kernel("a barrier", loc) else { return };
        if !refused_in_where(k, "a barrier", loc) {
            k.push(Stmt::Barrier { scope, loc });
        }
    });
}

/// Whether a per-element condition stands around something that all lanes do together; a mistake if so.
fn refused_in_where(k: &mut super::builder::KernelBuilder, what: &str, loc: SourceLoc) -> bool {
    if k.in_where() {
        let help =
            "write it before the `if`: all threads take part, and a condition may become part of what they bring: `(m && c).ballot()`";
        k.error(Diagnostic::new(loc, format!("{what} cannot depend on a per-element condition")).help(help));
    }
    k.in_where()
}

/// The value that warps exchange, if its last axis can be cut into warps.
fn in_warps(k: &mut super::builder::KernelBuilder, value: Handle, what: &str, loc: SourceLoc) -> Option<(ValueId, Vec<tile::Size>)> {
    let value = k.operand(value, loc)?;
    let shape = k.kernel.ty(value).shape()?.to_vec();
    if let Some(n) = shape.last().and_then(tile::Size::as_constant).filter(|n| n % 32 != 0) {
        let message = format!("{what} of {}: a warp is 32 elements along the last axis, which has {n}", k.shape_text(&shape));
        k.error(Diagnostic::new(loc, message).help("give the last axis a multiple of 32 elements: a tile whose elements are the threads"));
        return None;
    }
    if refused_in_where(k, what, loc) { None } else { Some((value, shape)) }
}

impl<T: Elem> Tile<T> {
    fn exchange(self, kind: ShuffleKind, lane: Handle, loc: SourceLoc) -> Tile<T> {
        Tile::of(session::with(|s| {
            let Some(k) = s.kernel("a shuffle", loc) else { return Handle::POISON };
            let Some((value, shape)) = in_warps(k, self.handle(), "a shuffle", loc) else { return Handle::POISON };
            let Some(lane) = k.operand(lane, loc) else { return Handle::POISON };
            if k.kernel.ty(lane).shape().is_some_and(|s| s != shape) {
                let message = format!("a shuffle of {} by lane numbers of {}", k.shape_text(&shape), k.describe(lane));
                k.error(Diagnostic::new(loc, message).help("give one lane number, or one per element"));
                return Handle::POISON;
            }
            let v = k.emit(Op::Shuffle { value, kind, lane }, Ty::Tile(T::DTYPE, shape), loc);
            k.handle(v)
        }))
    }

    /// Each thread takes the value of lane `lane` (modulo 32) of its warp.
    #[track_caller]
    pub fn shuffle(self, lane: impl Operand<i32>) -> Tile<T> {
        let loc = SourceLoc::caller();
        self.exchange(ShuffleKind::Index, lane.operand(loc), loc)
    }
    /// Each thread takes the value of the lane whose number differs from its own in the bits of `bits` (modulo 32).
    #[track_caller]
    pub fn shuffle_xor(self, bits: impl Operand<i32>) -> Tile<T> {
        let loc = SourceLoc::caller();
        self.exchange(ShuffleKind::Xor, bits.operand(loc), loc)
    }
    /// Each thread takes the value of the lane `distance` (modulo 32) before it; the first `distance` lanes keep their own.
    #[track_caller]
    pub fn shuffle_up(self, distance: impl Operand<i32>) -> Tile<T> {
        let loc = SourceLoc::caller();
        self.exchange(ShuffleKind::Up, distance.operand(loc), loc)
    }
    /// Each thread takes the value of the lane `distance` (modulo 32) after it; the last `distance` lanes keep their own.
    #[track_caller]
    pub fn shuffle_down(self, distance: impl Operand<i32>) -> Tile<T> {
        let loc = SourceLoc::caller();
        self.exchange(ShuffleKind::Down, distance.operand(loc), loc)
    }
}

fn vote(kind: VoteKind, brought: Handle, loc: SourceLoc) -> Handle {
    session::with(|s| {
        let Some(k) = s.kernel("a vote", loc) else { return Handle::POISON };
        let Some((brought, shape)) = in_warps(k, brought, "a vote", loc) else { return Handle::POISON };
        let v = k.emit(Op::Vote(kind, brought), Ty::Tile(kind.gives(), shape), loc);
        k.handle(v)
    })
}

/// Integers of 32 bits, which lanes can be matched by.
pub trait Word32: Elem {}
impl Word32 for i32 {}
impl Word32 for u32 {}

impl<T: Word32> Tile<T> {
    /// Which lanes of its warp hold the same lowest `bits` bits, for each thread: bit `l` is lane `l`'s. A thread's own lane is among them.
    ///
    /// It takes a ballot for each bit, so say how many there can be: `digit.match_any(8)` for numbers below 256.
    #[track_caller]
    pub fn match_any(self, bits: u32) -> Tile<u32> {
        let loc = SourceLoc::caller();
        if !(1..=32).contains(&bits) {
            session::with(|s| {
                if let Some(k) = s.kernel("a match of lanes", loc) {
                    let message = format!("a match of {bits} bits: numbers of 32 bits have 1 to 32");
                    k.error(Diagnostic::new(loc, message).help("say how many of the lowest bits can differ: `digit.match_any(8)`"));
                }
            });
            return Tile::of(Handle::POISON);
        }
        Tile::of(vote(VoteKind::Match(bits), self.handle(), loc))
    }
}

impl Tile<bool> {
    /// Which lanes of its warp hold `true`, for each thread: bit `l` is lane `l`'s.
    #[track_caller]
    pub fn ballot(self) -> Tile<u32> {
        let loc = SourceLoc::caller();
        Tile::of(vote(VoteKind::Ballot, self.handle(), loc))
    }
    /// Whether any lane of its warp holds `true`, for each thread.
    #[track_caller]
    pub fn warp_any(self) -> Tile<bool> {
        let loc = SourceLoc::caller();
        Tile::of(vote(VoteKind::Any, self.handle(), loc))
    }
    /// Whether all lanes of its warp hold `true`, for each thread.
    #[track_caller]
    pub fn warp_all(self) -> Tile<bool> {
        let loc = SourceLoc::caller();
        Tile::of(vote(VoteKind::All, self.handle(), loc))
    }
}
