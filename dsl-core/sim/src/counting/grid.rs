//! Which blocks are run, and how many each stands for.
//!
//! What differs between blocks is where their tiles lie: at an end of an axis or not, and on which side of what. So the grid is taken apart
//! into the axes by which a block's number is divided in the kernel; along each axis the blocks in the middle, at the ends and beside these
//! are run, and between two that differ more of them, as far as that matters. A block's numbers are those of the one in the middle of all
//! axes and what its places along each of them add (where they lean to a side of two axes, as chunks of keys of which each query sees some, blocks at
//! pairs of places are run instead); where rows begin off a sector's start by turns, as every other one of 400 bytes does, that is
//! off by as much as these differ. The grid's last block is run for itself: it may have to finish what all have left. Where blocks share sums, one
//! of them is run as the one that comes last, too.

use super::Uncounted;
use super::block::{Machine, Shares};
use super::tally::{self, Count};
use std::collections::{BTreeMap, HashMap};

/// Grids of no more blocks are run whole where there is fuel for all: in a small grid the block at a corner is more than what both its axes add.
const SMALL: u32 = 64;
/// Blocks of a large grid that are run, about: where the fuel does not last for so many, one stands for all but the last. Smaller grids are
/// run whole.
pub(super) const KINDS: u64 = 20;
/// Axes of no more places are run whole.
const SHORT: u32 = 4;
/// Blocks that are run beyond these along an axis, at most.
const MORE: usize = 7;
/// Differences that do not matter: less than this part of a block's numbers.
const SAME: f64 = 0.002;
/// Blocks lean to a side of an axis where they differ by more than this part from the one in the middle, in the mean: ends alone do not.
const LEANS: f64 = 0.05;
/// Places along each of two such axes of which all pairs are run, at most.
const PAIRS: u64 = 16;
/// And at least, where the fuel does not last for more.
const FEW: u32 = 4;
/// Axes that are looked at.
const AXES: usize = 4;

/// An axis of the grid: neighbours along it are `stride` blocks apart.
#[derive(Clone, Copy, Debug)]
struct Axis {
    stride: u32,
    len: u32,
}

/// Blocks that were run.
struct Blocks<'m, 'a> {
    machine: &'m mut Machine<'a>,
    known: HashMap<u32, Count>,
    /// One of them that shares sums with others.
    sharing: Option<(u32, Shares)>,
    /// Sectors that they touched, by parameter and page, and how many all of them together touched by parameter and side.
    pages: HashMap<(usize, u64), [u64; 2]>,
    touched: Vec<[f64; 2]>,
}

impl Blocks<'_, '_> {
    fn run(&mut self, block: u32) -> Result<&Count, Uncounted> {
        if !self.known.contains_key(&block) {
            let count = self.machine.run(block)?;
            self.sharing = self.sharing.or(self.machine.shares.map(|shares| (block, shares)));
            for (param, page, bits) in self.machine.touched.pages() {
                let all = self.pages.entry((param, page)).or_default();
                for side in 0..2 {
                    all[side] |= bits[side];
                    self.touched[param][side] += f64::from(bits[side].count_ones());
                }
            }
            self.known.insert(block, count);
        }
        Ok(&self.known[&block])
    }

    /// Notes what a block touched that no other did.
    fn note_beyond(&mut self) {
        for (param, page, bits) in self.machine.touched.pages() {
            let all = self.pages.entry((param, page)).or_default();
            for side in 0..2 {
                self.touched[param][side] += f64::from((bits[side] & !all[side]).count_ones());
                all[side] |= bits[side];
            }
        }
    }

    /// Of the sectors of a parameter that the blocks touched, how many were touched by one of them alone: 1 where no two met, and one over
    /// their number where all touched the same.
    fn apart(&self, param: usize, side: usize) -> f64 {
        let union: f64 = self.pages.iter().filter(|((p, _), _)| *p == param).map(|(_, bits)| f64::from(bits[side].count_ones())).sum();
        union / self.touched[param][side].max(1.0)
    }
}

pub(super) fn count(machine: &mut Machine, grid: u32) -> Result<Count, Uncounted> {
    let params = machine.program.kernel.params.len();
    let mut blocks = Blocks { machine, known: HashMap::new(), sharing: None, pages: HashMap::new(), touched: vec![[0.0; 2]; params] };
    let mut sum = Count::zero(params);
    let before = blocks.machine.fuel;
    let mut last = blocks.run(grid - 1)?.clone();
    let each = before - blocks.machine.fuel;
    let whole = u64::from(grid) <= KINDS || grid <= SMALL && each * u64::from(grid) <= before / 8;
    let heavy = each.saturating_mul(KINDS.min(u64::from(grid))) > before;
    if !heavy {
        // It was run first, but what it reads others have read before it.
        blocks.machine.forget();
    }
    if heavy && grid > 1 {
        let one = blocks.run(grid / 2)?.clone();
        sum.add(&one, f64::from(grid - 1));
        sum.guessed = true;
    } else if whole {
        for block in 0..grid - 1 {
            let one = blocks.run(block)?.clone();
            sum.add(&one, 1.0);
        }
    } else {
        many(&mut blocks, grid, &mut sum)?;
    }
    if !heavy && grid > 1 {
        last = blocks.machine.run(grid - 1).unwrap_or(last);
    }
    let (others, longest) = if grid > 1 { (sum.chain() / f64::from(grid - 1), sum.longest) } else { (0.0, 0.0) };
    sum.add(&last, 1.0);
    sum.longest = longest;
    sum.behind = if grid > 1 { (last.chain() - others).max(0.0) } else { 0.0 };
    finish_sums(&mut blocks, grid, &mut sum)?;
    sum.blocks = blocks.known.len();
    bound_unique(&blocks, (grid, whole), &mut sum);
    Ok(sum)
}

/// Of the blocks that share a sum, the last one adds up what all have left: what it does beyond the others, for each sum.
fn finish_sums(blocks: &mut Blocks, grid: u32, sum: &mut Count) -> Result<(), Uncounted> {
    let Some((block, shares)) = blocks.sharing else { return Ok(()) };
    blocks.machine.comes_last = true;
    let last = blocks.machine.run(block);
    blocks.machine.comes_last = false;
    blocks.note_beyond();
    let (last, other) = (last?, &blocks.known[&block]);
    let times = shares.counters.min(grid.into()) as f64 / shares.drawn as f64;
    sum.add(&last, times);
    sum.add(other, -times);
    Ok(())
}

/// Where blocks are run along an axis, and the share of its places for which each stands.
type Places = Vec<(u32, f64)>;

/// All blocks but the last.
fn many(blocks: &mut Blocks, grid: u32, sum: &mut Count) -> Result<(), Uncounted> {
    let axes = axes(blocks, grid)?;
    let middle: u32 = axes.iter().map(|a| a.len / 2 * a.stride).sum::<u32>().min(grid - 2);
    let moved = |block: u32, axis: &Axis, place: u32| block - middle / axis.stride % axis.len.max(1) * axis.stride + place * axis.stride;
    let before = blocks.machine.fuel;
    let base = blocks.run(middle)?.clone();
    let mut along: Vec<(f64, Axis, Places)> = Vec::new();
    for axis in axes {
        let places = places(blocks, &axis, &|place| moved(middle, &axis, place).min(grid - 2))?;
        let sizes = places.iter().map(|(place, share)| Ok((size(blocks.run(moved(middle, &axis, *place).min(grid - 2))?), share)));
        let sizes = sizes.collect::<Result<Vec<_>, Uncounted>>()?;
        let most = sizes.iter().fold(size(&base), |most, (size, _)| most.max(*size));
        let off: f64 = sizes.iter().map(|(here, share)| *share * (here - size(&base)).abs()).sum();
        along.push((off / most.max(1.0), axis, places));
    }
    along.sort_by(|a, b| b.0.total_cmp(&a.0));
    let each = (before - blocks.machine.fuel) / blocks.known.len() as u64 + 1;
    let pairs = (blocks.machine.fuel / (2 * each)).isqrt().min(PAIRS) as u32;
    let mut kinds: Vec<Vec<(u32, f64)>> = Vec::new();
    if along.len() > 1 && along[1].0 > LEANS && pairs >= FEW {
        let rest = along.split_off(2);
        let [one, other] = [0, 1].map(|k| (along[k].1, evenly(along[k].1.len, pairs)));
        let both =
            |(p, share): &(u32, f64), (q, part): &(u32, f64)| (moved(moved(middle, &one.0, *p), &other.0, *q).min(grid - 2), share * part);
        kinds.push(one.1.iter().flat_map(|p| other.1.iter().map(move |q| both(p, q))).collect());
        along = rest;
    }
    kinds.extend(
        along
            .iter()
            .map(|(_, axis, places)| places.iter().map(|(place, share)| (moved(middle, axis, *place).min(grid - 2), *share)).collect()),
    );
    let all = f64::from(grid - 1);
    sum.add(&base, all);
    for kinds in kinds {
        let mut part = Count::zero(sum.numbers.len().saturating_sub(tally::UNIQUE) / 2);
        for (block, share) in kinds {
            part.add(blocks.run(block)?, share);
        }
        sum.add(&part, all);
        sum.add(&base, -all);
    }
    sum.numbers.iter_mut().for_each(|n| *n = n.max(0.0));
    Ok(())
}

/// So many places along an axis, or all of them, in the middle of parts of one length.
fn evenly(len: u32, most: u32) -> Places {
    let n = most.min(len);
    (0..n).map(|i| ((2 * i + 1) * len / (2 * n), 1.0 / f64::from(n))).collect()
}

/// By what a block's number is divided, and what is left.
fn axes(blocks: &mut Blocks, grid: u32) -> Result<Vec<Axis>, Uncounted> {
    // A number that few others come from.
    let probe = grid - 2 - grid / 7;
    blocks.run(probe)?;
    let divisions = blocks.machine.divisions.clone();
    let mut strides = strides(u64::from(probe), grid, &divisions);
    if strides.len() == 1 {
        // Blocks may take their tiles from the last one on.
        strides = self::strides(u64::from(grid - 1 - probe), grid, &divisions);
    }
    strides.sort_unstable();
    let ends = strides[1..].iter().copied().chain([u64::from(grid)]);
    Ok(strides.iter().zip(ends).map(|(s, e)| Axis { stride: *s as u32, len: e.div_ceil(*s) as u32 }).collect())
}

/// How far apart neighbours are along each axis, if this number is divided so.
fn strides(number: u64, grid: u32, divisions: &[(u64, u64)]) -> Vec<u64> {
    let mut strides = vec![1u64];
    for (a, by) in divisions {
        // What is divided is the number divided before, or what that left.
        let quotient = strides.iter().copied().find(|s| number / s == *a).map(|s| s.saturating_mul(*by));
        let remainder = strides.iter().copied().find(|s| *a > 0 && number % s == *a).map(|_| *by);
        if let Some(stride) = quotient.or(remainder)
            && *by > 1
            && stride < u64::from(grid)
            && !strides.contains(&stride)
            && strides.len() < AXES
        {
            strides.push(stride);
        }
    }
    strides
}

/// Places along an axis that are run, and the share of all places for which each stands.
fn places(blocks: &mut Blocks, axis: &Axis, at: &dyn Fn(u32) -> u32) -> Result<Places, Uncounted> {
    let len = f64::from(axis.len);
    if axis.len <= SHORT {
        return Ok((0..axis.len).map(|place| (place, 1.0 / len)).collect());
    }
    let mut known: BTreeMap<u32, f64> = BTreeMap::new();
    for place in [0, 1, axis.len / 2, axis.len - 2, axis.len - 1] {
        known.insert(place, size(blocks.run(at(place))?));
    }
    for _ in 0..MORE {
        let pairs = || known.iter().zip(known.iter().skip(1));
        let differs = |((a, x), (b, y)): &((&u32, &f64), (&u32, &f64))| (*x - *y).abs() * f64::from(**b - **a - 1);
        let Some(widest) = pairs().max_by(|p, q| differs(p).total_cmp(&differs(q))) else { break };
        let total = known.values().fold(0.0, |m: f64, x| m.max(*x)) * len;
        if differs(&widest) <= SAME * total {
            break;
        }
        let ((a, _), (b, _)) = widest;
        let place = a + (b - a) / 2;
        let size = size(blocks.run(at(place))?);
        known.insert(place, size);
    }
    // Between two that are run each stands for the half that is nearer.
    let mut shares: BTreeMap<u32, f64> = known.keys().map(|place| (*place, 1.0 / len)).collect();
    let run: Vec<u32> = known.keys().copied().collect();
    for pair in run.windows(2) {
        let between = f64::from(pair[1] - pair[0] - 1) / 2.0 / len;
        pair.iter().for_each(|place| *shares.entry(*place).or_default() += between);
    }
    Ok(shares.into_iter().collect())
}

/// One number by which blocks are told apart.
fn size(count: &Count) -> f64 {
    let sectors = count.global_load().sectors + count.global_store().sectors + count.global_async().sectors + count.global_atomic().sectors;
    count.instructions() + 8.0 * sectors + count.shared_wavefronts().iter().sum::<f64>()
}

/// What blocks touch together is less than what each touches, added up: no more than there is, and where all blocks touch the same what one
/// of them does. Blocks of which each was run as the first one, or asked for words of a smaller launch, touch the same here, and not on a GPU.
fn bound_unique(blocks: &Blocks, (grid, whole): (u32, bool), sum: &mut Count) {
    let run = blocks.known.len() as f64;
    for param in 0..blocks.touched.len() {
        let there = (blocks.machine.bytes(param) / 32.0).ceil() * 32.0;
        for side in 0..2 {
            let place = tally::UNIQUE + 2 * param + side;
            let added = sum.numbers[place];
            let apart = if whole || sum.each_first || sum.asks_words { 1.0 } else { blocks.apart(param, side) };
            let all_the_same = run > 1.0 && apart * run <= 1.05;
            let one = added / f64::from(grid);
            let met = if whole && !sum.each_first { added * blocks.apart(param, side) } else { added };
            sum.numbers[place] = if all_the_same { one } else { met }.min(there);
        }
    }
}
