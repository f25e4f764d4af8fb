//! The fewest moves from one cell of a grid to another, by searches from both ends that take steps in turn.
//!
//! A search's frontier is a set of bits, 32 cells to a word: a step moves it by one cell in four directions and keeps the free cells that
//! neither search has seen. When a step from one end meets the other's frontier, the steps so far are the shortest way; when a frontier has no
//! cell left, there is none. Most often one end is walled in, and the searches are over soon.
//! Up to 512 · 16 words one block keeps everything in registers; between steps its threads tell each other their edges alone. Up to 256 blocks
//! search in one launch, too: they keep their own words, read those beside them in memory, and meet after each step. Larger grids
//! take a launch a step, and ask after every 32 whether it was the last.

use girih::prelude::*;

/// Threads of the block that searches alone.
const THREADS: i32 = 512;
/// Words of a thread, one below the other.
const H: usize = 16;
/// Steps between two questions.
const STEPS: i32 = 32;
/// Rows and words of them that a block has of a search by several.
const ROWS: i64 = 8;
const WORDS: i64 = 64;
/// Blocks that every GPU holds at once.
const MOST_BLOCKS: i64 = 256;

/// words = 32 cells each, a bit for each that is free.
#[kernel(tile(R = [8, 4, 16], C = [32, 64, 128]), coarsen(CR of R = [1, 2, 4]))]
pub fn pack_free(grid: &Tensor<i32, 2>, words: &mut Tensor<u32, 2>) {
    let mut words = words.slice(0, 0, grid.len(0)).slice(1, 0, (grid.len(1) + 31) / 32);
    for (r, c) in grid.tiles([R, C]) {
        let free = (grid.load((r, c)) == 0).ballot();
        if lanes(C).expand(0, R) == 0 {
            words.scatter((r.coords().expand(1, C), (c.coords() / 32).expand(0, R)), free);
        }
    }
}

/// What threads tell those beside them, for each search: their uppermost and lowest words, and the bits at their left and right ends.
struct Edges {
    upper: Shared<u32>,
    lower: Shared<u32>,
    ends: Shared<u32>,
}

/// Where a thread's words lie.
struct Place {
    thread: Tile<i32>,
    column: Tile<i32>,
    width: Scalar<i32>,
}

#[device]
impl Edges {
    fn new() -> Edges {
        let array = || shared_uninit::<u32>([2 * THREADS]).by_hand();
        Edges { upper: array(), lower: array(), ends: array() }
    }

    /// The cells beside a frontier. The block meets once: the other search's turn lies between two uses of a part.
    fn beside(&mut self, place: &Place, search: i32, frontier: [Tile<u32>; H]) -> [Tile<u32>; H] {
        let own = place.thread + search * THREADS;
        let none = || full::<u32>([THREADS], 0);
        let (mut left, mut right) = (none(), none());
        for (r, word) in frontier.iter().enumerate() {
            left = left | ((*word & 1) << r as u32);
            right = right | ((*word >> 31) << r as u32);
        }
        self.upper.scatter(own, frontier[0]);
        self.lower.scatter(own, frontier[H - 1]);
        self.ends.scatter(own, left | (right << 16));
        barrier();
        let above = if place.thread >= place.width { self.lower.gather(own - place.width) } else { none() };
        let below = if place.thread < -place.width + THREADS { self.upper.gather(own + place.width) } else { none() };
        let before = if place.column > 0 { self.ends.gather(own - 1) >> 16 } else { none() };
        let inner = place.column < place.width - 1 && place.thread < THREADS - 1;
        let behind = if inner { self.ends.gather(own + 1) } else { none() };
        std::array::from_fn(|r| {
            let upper = if r == 0 { above } else { frontier[r - 1] };
            let lower = if r == H - 1 { below } else { frontier[r + 1] };
            let from_ends = ((before >> r as u32) & 1) | ((behind >> r as u32) << 31);
            upper | lower | (frontier[r] << 1) | (frontier[r] >> 1) | from_ends
        })
    }
}

/// Some of a thread's bits in one number.
fn union(words: [Tile<u32>; H]) -> Tile<u32> {
    words.into_iter().reduce(|a, b| a | b).expect("a thread has words")
}

/// result = the fewest moves, or -1.
#[kernel(tile(B = 1), threads(N = 512), cache(H = [Default, Loads]), opt_level(L = [3, 2]))]
pub fn search_in_block(
    words: &Tensor<u32, 2>,
    result: &mut Tensor<i32, 1>,
    start_row: Scalar<i32>,
    start_column: Scalar<i32>,
    end_row: Scalar<i32>,
    end_column: Scalar<i32>,
) {
    // A launch without a word is refused.
    let words = &words.slice(1, 0, words.len(1).max(1));
    for b in result.tiles([B]) {
        let width = words.len(1).cast::<i32>();
        let thread = threads(THREADS);
        let place = Place { thread, column: thread % width, width };
        let first = (thread / width) * H as i32;
        let bit = |row: Scalar<i32>, column: Scalar<i32>, r: usize| {
            let own = place.column == (column >> 5) && first + r as i32 == row;
            select(own, scalar(1u32) << (column & 31).cast::<u32>(), 0)
        };
        // What lies outside is not free.
        let free: [Tile<u32>; H] = std::array::from_fn(|r| words.gather((first + r as i32, place.column)).or(0));
        let mut from: [Tile<u32>; H] = std::array::from_fn(|r| bit(start_row, start_column, r));
        let mut to: [Tile<u32>; H] = std::array::from_fn(|r| bit(end_row, end_column, r) & free[r]);
        let mut open: [Tile<u32>; H] = std::array::from_fn(|r| free[r] & !(from[r] | to[r]));

        let mut edges = Edges::new();
        let mut moves = full::<i32>([THREADS], i32::MAX);
        let mut step = scalar(0i32);
        let mut goes_on = scalar(true);
        while goes_on {
            for _ in 0..2 {
                step += 1;
                let beside = edges.beside(&place, 0, from);
                let met = union(std::array::from_fn(|r| beside[r] & to[r])) != 0;
                moves = select(met, moves.min(step), moves);
                from = std::array::from_fn(|r| beside[r] & open[r]);
                open = std::array::from_fn(|r| open[r] & !beside[r]);

                step += 1;
                let beside = edges.beside(&place, 1, to);
                let met = union(std::array::from_fn(|r| beside[r] & from[r])) != 0;
                moves = select(met, moves.min(step), moves);
                to = std::array::from_fn(|r| beside[r] & open[r]);
                open = std::array::from_fn(|r| open[r] & !beside[r]);
            }
            let told = select(union(from) != 0, 1, 0) | select(union(to) != 0, 2, 0) | select(moves < i32::MAX, 4, 0);
            goes_on = told.reduce_all(0, |a, b| a | b) == 3;
        }
        let fewest = moves.min_all();
        result.store(b, select(fewest == i32::MAX, -1, fewest).splat([B]));
    }
}

/// Where the words of a block of several lie.
struct Part {
    tile: (TileIdx, TileIdx),
    at: (Tile<i64>, Tile<i64>),
    first_lane: Tile<bool>,
}

#[device]
impl Part {
    /// A search's next frontier, and what is left open. The block has the words `own` of the frontier that all blocks have left in `old`, and `other`
    /// of the other search's. What the step found goes to a place of `told`: that it met the other search, and that it found cells.
    fn spread(
        &self,
        [own, other, open]: [Tile<u32>; 3],
        [old, next]: [&mut Tensor<u32, 2>; 2],
        [met, last]: [&mut Tensor<i32, 1>; 2],
        [met_at, last_at]: [Scalar<i32>; 2],
        step: Scalar<i32>,
    ) -> [Tile<u32>; 2] {
        let (row, column) = self.at;
        let near = |down: i64, right: i64| old.gather((row + down, column + right)).or(0);
        let beside = near(-1, 0) | near(1, 0) | (own << 1) | (own >> 1) | (near(0, -1) >> 31) | (near(0, 1) << 31);
        let found = beside & open;
        next.store(self.tile, found);
        // One lane of each warp that has something to say; the others name no place.
        let step = open.like(0).cast::<i32>() + step;
        if ((beside & other) != 0).warp_any() {
            met.atomic_min(select(self.first_lane, met_at, -1), step);
        }
        if (found != 0).warp_any() {
            last.atomic_max(select(self.first_lane, last_at, -1), step);
        }
        grid_barrier();
        [found, open & !beside]
    }
}

/// result = the fewest moves, or -1, by all blocks in one launch. A search's frontiers take turns as `even` and `odd`. What the steps of a round
/// have found is in one half of `met` (the largest number before the launch) and `last` (0), and in the other of the next round: when a block
/// goes on, others may still be reading.
#[kernel(tile(R = 8, C = 64), coarsen(CR of R = [4, 2, 8]))]
pub fn search_in_grid(
    words: &Tensor<u32, 2>,
    from_even: &mut Tensor<u32, 2>,
    from_odd: &mut Tensor<u32, 2>,
    to_even: &mut Tensor<u32, 2>,
    to_odd: &mut Tensor<u32, 2>,
    met: &mut Tensor<i32, 1>,
    last: &mut Tensor<i32, 1>,
    result: &mut Tensor<i32, 1>,
    start_row: Scalar<i32>,
    start_column: Scalar<i32>,
    end_row: Scalar<i32>,
    end_column: Scalar<i32>,
) {
    for (r, c) in words.tiles([R, C]) {
        let at = (r.coords().expand(1, C), c.coords().expand(0, R));
        let bit = |row: Scalar<i32>, column: Scalar<i32>| {
            let own = at.0 == row.cast::<i64>() && at.1 == (column >> 5).cast::<i64>();
            select(own, scalar(1u32) << (column & 31).cast::<u32>(), 0)
        };
        let free = words.load((r, c));
        let (from, to) = (bit(start_row, start_column), bit(end_row, end_column) & free);
        from_even.store((r, c), from);
        to_even.store((r, c), to);
        let part = Part { tile: (r, c), at, first_lane: lanes(C).expand(0, R) == 0 };
        let (mut from, mut to, mut open) = (from, to, free & !(from | to));
        grid_barrier();
        let (mut step, mut round, mut fewest) = (scalar(0i32), scalar(0i32), scalar(i32::MAX));
        let mut goes_on = scalar(true);
        while goes_on {
            let (first, second) = ([round, round * 2], [round, round * 2 + 1]);
            [from, open] = part.spread([from, to, open], [from_even, from_odd], [met, last], first, step + 1);
            [to, open] = part.spread([to, from, open], [to_even, to_odd], [met, last], second, step + 2);
            [from, open] = part.spread([from, to, open], [from_odd, from_even], [met, last], first, step + 3);
            [to, open] = part.spread([to, from, open], [to_odd, to_even], [met, last], second, step + 4);
            step += 4;
            fewest = met.fetch_at(round);
            goes_on = fewest == i32::MAX && last.fetch_at(round * 2) == step - 1 && last.fetch_at(round * 2 + 1) == step;
            round = 1 - round;
        }
        if r.number() == 0 && c.number() == 0 {
            result.scatter(0, select(fewest == i32::MAX, -1, fewest));
        }
    }
}

/// frontier = the cell's bit, if the cell is free or need not be.
#[kernel(tile(R = [8, 4, 16], C = [32, 64, 128]))]
pub fn begin_at(
    words: &Tensor<u32, 2>,
    frontier: &mut Tensor<u32, 2>,
    open: &mut Tensor<u32, 2>,
    row: Scalar<i32>,
    column: Scalar<i32>,
    any: Scalar<u32>,
) {
    for (r, c) in words.tiles([R, C]) {
        let own = r.coords().expand(1, C) == row.cast::<i64>() && c.coords().expand(0, R) == (column >> 5).cast::<i64>();
        let bit = select(own, scalar(1u32) << (column & 31).cast::<u32>(), 0);
        frontier.store((r, c), bit & (words.load((r, c)) | any));
        open.store((r, c), open.load((r, c)) & !bit);
    }
}

/// next = a frontier's next one, which has cells of `open` alone, and leaves it without them.
///
/// met = the number of the first step that met the other frontier; last = those of each search's last step that found a cell.
#[kernel(tile(R = [4, 8, 2], C = [64, 32, 128]), coarsen(CR of R = [1, 2]))]
pub fn spread_frontier(
    frontier: &Tensor<u32, 2>,
    other: &Tensor<u32, 2>,
    open: &mut Tensor<u32, 2>,
    next: &mut Tensor<u32, 2>,
    met: &mut Tensor<i32, 1>,
    last: &mut Tensor<i32, 1>,
    step: Scalar<i32>,
    search: Scalar<i32>,
) {
    for (r, c) in next.tiles([R, C]) {
        let near = frontier.window((r, c), [(1, 1), (1, 1)], Boundary::Zero);
        let own = near.at((0, 0));
        let beside = near.at((-1, 0)) | near.at((1, 0)) | (own << 1) | (own >> 1) | (near.at((0, -1)) >> 31) | (near.at((0, 1)) << 31);
        let unseen = open.load((r, c));
        let found = beside & unseen;
        next.store((r, c), found);
        open.store((r, c), unseen & !beside);
        // One lane of each warp that has something to say; the others name no place.
        let speaks = lanes(C).expand(0, R) == 0;
        if ((beside & other.load((r, c))) != 0).warp_any() {
            met.atomic_min(select(speaks, scalar(0i32), -1), step.splat([R, C]));
        }
        if (found != 0).warp_any() {
            last.atomic_max(select(speaks, search, -1), step.splat([R, C]));
        }
    }
}

/// result = the first step that met the other search, or -1.
#[kernel(tile(B = [32, 64, 128]))]
pub fn tell(met: &Tensor<i32, 1>, result: &mut Tensor<i32, 1>) {
    for b in result.tiles([B]) {
        let fewest: Scalar<i32> = met.at(0);
        result.store(b, select(fewest == i32::MAX, -1, fewest).splat([B]));
    }
}

/// What the judge calls.
#[program]
pub fn solve(
    grid: &Tensor<i32, 2>,
    result: &mut Tensor<i32, 1>,
    start_row: Scalar<i32>,
    start_col: Scalar<i32>,
    end_row: Scalar<i32>,
    end_col: Scalar<i32>,
) {
    let (rows, width) = (grid.len(0), (grid.len(1) + 31) / 32);
    if start_row == end_row && start_col == end_col {
        result.fill(0);
    } else {
        let mut words = temp([rows, width]);
        pack_free(grid, &mut words);
        if (rows + (H as i64 - 1)) / H as i64 * width <= THREADS as i64 {
            search_in_block(&words, result, start_row, start_col, end_row, end_col);
        } else if (rows + (ROWS - 1)) / ROWS * ((width + (WORDS - 1)) / WORDS) <= MOST_BLOCKS && variant("in one launch") {
            let (mut from_even, mut from_odd) = (temp([rows, width]), temp([rows, width]));
            let (mut to_even, mut to_odd) = (temp([rows, width]), temp([rows, width]));
            let (mut met, mut last) = (temp_filled([2], i32::MAX), temp_filled([4], 0i32));
            search_in_grid(
                &words,
                &mut from_even,
                &mut from_odd,
                &mut to_even,
                &mut to_odd,
                &mut met,
                &mut last,
                result,
                start_row,
                start_col,
                end_row,
                end_col,
            );
        } else {
            let (mut from, mut to) = (temp([rows, width]), temp([rows, width]));
            let (mut next_from, mut next_to) = (temp([rows, width]), temp([rows, width]));
            let (mut met, mut last) = (temp_filled([1], i32::MAX), temp_filled([2], 0i32));
            let mut open = temp([rows, width]);
            open.copy_from(&words);
            begin_at(&words, &mut from, &mut open, start_row, start_col, scalar(u32::MAX));
            begin_at(&words, &mut to, &mut open, end_row, end_col, scalar(0u32));
            let mut step = scalar(0i32);
            while step == 0 || (met.at(0) == i32::MAX && last.at(0) == step - 1 && last.at(1) == step) {
                for _ in 0..scalar::<i32>(STEPS / 4) {
                    spread_frontier(&from, &to, &mut open, &mut next_from, &mut met, &mut last, step + 1, scalar(0i32));
                    spread_frontier(&to, &next_from, &mut open, &mut next_to, &mut met, &mut last, step + 2, scalar(1i32));
                    spread_frontier(&next_from, &next_to, &mut open, &mut from, &mut met, &mut last, step + 3, scalar(0i32));
                    spread_frontier(&next_to, &from, &mut open, &mut to, &mut met, &mut last, step + 4, scalar(1i32));
                    step += 4;
                }
            }
            tell(&met, result);
        }
    }
}

/// Free cells of four kinds of grids, told by their height: all, none, corridors that turn, and the judge's.
fn cell(lens: &[i64], i: usize) -> f64 {
    let (rows, columns) = (lens[0] as usize, lens[1] as usize);
    let (row, column) = (i / columns, i % columns);
    let blocked = match rows {
        8 | 33 => false,
        7 => i != 0,
        // Every other row is a wall with one gap, at its right and left ends in turn.
        9 => row % 2 == 1 && column != if row % 4 == 1 { columns - 1 } else { 0 },
        _ => column >= 10 && i + 1 != rows * columns && girih::inputs::Rng::new(i as u64).unit() < if rows == 100 { 0.25 } else { 0.5 },
    };
    blocked as u8 as f64
}

/// The fewest moves, by a queue of cells.
fn moves(x: &girih::challenge::Case) -> f64 {
    let (rows, columns) = (x.len("rows"), x.len("cols"));
    let cell = |row: &str, column: &str| x.len(row) * columns + x.len(column);
    let (start, end) = (cell("start_row", "start_col"), cell("end_row", "end_col"));
    let mut distances = vec![-1.0; rows * columns];
    distances[start] = 0.0;
    let mut queue = std::collections::VecDeque::from([start]);
    while let Some(at) = queue.pop_front() {
        let (row, column) = (at / columns, at % columns);
        let sides = [
            (row > 0, at.wrapping_sub(columns)),
            (row + 1 < rows, at + columns),
            (column > 0, at.wrapping_sub(1)),
            (column + 1 < columns, at + 1),
        ];
        for next in sides.into_iter().filter(|s| s.0).map(|s| s.1) {
            if distances[next] < 0.0 && x.at("grid", next) == 0.0 {
                distances[next] = distances[at] + 1.0;
                queue.push_back(next);
            }
        }
    }
    distances[end]
}

girih::challenge! {
    Challenge::new(
        "bfs_shortest_path",
        solve::Program::def,
        "void solve(const int* grid[rows, cols], int* result[1], int rows, int cols, int start_row, int start_col, int end_row, int end_col)",
    )
    .input("grid", formula(cell))
    .output_all("result", |x| vec![moves(x)])
    .check_at([
        "rows=1 cols=1 start_row=0 start_col=0 end_row=0 end_col=0",
        "rows=1 cols=2 start_row=0 start_col=0 end_row=0 end_col=1",
        "rows=7 cols=5 start_row=0 start_col=0 end_row=6 end_col=4",
        "rows=8 cols=33 start_row=7 start_col=32 end_row=0 end_col=0",
        "rows=33 cols=31 start_row=3 start_col=30 end_row=3 end_col=29",
        "rows=9 cols=39 start_row=0 start_col=0 end_row=8 end_col=38",
        "rows=100 cols=129 start_row=99 start_col=128 end_row=0 end_col=3",
        "rows=500 cols=500 start_row=0 start_col=0 end_row=499 end_col=499",
        "rows=9 cols=16_401 start_row=0 start_col=16_380 end_row=2 end_col=16_385",
        "rows=7 cols=40_000 start_row=0 start_col=0 end_row=6 end_col=4",
        "rows=8 cols=540_000 start_row=7 start_col=539_980 end_row=0 end_col=539_985",
    ])
    .perf_at("rows=500, cols=500, start_row=0, start_col=0, end_row=499, end_col=499")
}
