//! The table: of each rule its name, the knobs that it is about, what is legal, and what an error says.

use super::Legality;

macro_rules! rules {
    ($($rule:ident [$($knob:literal),*] $legal:literal $broken:literal;)*) => {
        /// What schedules must obey, by name.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        pub enum Rule { $(#[doc = $legal] $rule,)* }

        impl Rule {
            /// All of them, in the order in which they are told.
            pub const ALL: &[Rule] = &[$(Rule::$rule,)*];

            /// What the table has of it.
            pub const fn row(self) -> Legality {
                match self {
                    $(Rule::$rule => Legality { id: stringify!($rule), knobs: &[$($knob),*], legal: $legal, broken: $broken },)*
                }
            }
        }
    };
}

rules! {
    // Of all knobs.
    Number []
        "A knob that counts takes a number."
        "must be a number";
    Word []
        "A knob that chooses takes one of its words."
        "must be one of {words}";
    Positive []
        "Numbers are at least 1; those of `grid` and `split` may be 0."
        "must be positive";
    ChainTarget []
        "A kernel with a chain of warps has schedules from sm_80 on: its mbarriers are not there before."
        "a chain of warps needs mbarriers: sm_80 or newer";

    // Tiles and the threads that work on them.
    TileLength ["tile"]
        "At most 65,536 elements along an axis; it need not be a power of two."
        "a tile has at most 65536 elements along an axis";
    TilePinned ["tile"]
        "A tile of which the author lists one value has that one: what is computed may depend on it."
        "the kernel's author has pinned it to {size}: what is computed may depend on it";
    BlockThreads ["tile", "coarsen", "threads", "warps"]
        "Tile / coarsen, multiplied over the axes, gives at most 1024 threads, and so do `threads` and `warps`."
        "gives {threads} threads per block; a block has at most 1024";
    BlockShared ["tile", "stages", "copy", "halo", "copies", "rows", "operands", "slices"]
        "What goes through shared memory fits a block's share of it, with all stages and copies."
        "takes {bytes} bytes of shared memory per block; {arch} has {most}";
    Lanes ["tile", "coarsen", "threads", "warps"]
        "Where lanes exchange values, the axis has a multiple of 32 elements, dealt to as many threads or to a multiple of 32."
        "lanes exchange values along {extent} elements, dealt to {threads} threads: both must be multiples of 32";
    ChainLanes ["tile", "coarsen", "threads", "warps"]
        "A chain of warps has one element along its last axis for each thread, in whole warps."
        "a chain of warps has one element along its last axis for each thread, in whole warps";
    CoarsenDivides ["coarsen"]
        "It divides its tile."
        "must divide {tile} = {elements}";
    ThreadsDivide ["threads", "warps"]
        "The threads divide the elements of the tile."
        "threads must divide the tile's {elements} elements";

    // How elements are moved.
    VectorPower ["vector"]
        "A power of two."
        "must be a power of two";
    VectorDivides ["vector"]
        "It divides what a thread owns along the contiguous axis; matrix units deal that out themselves."
        "must divide the {own} elements that a thread owns along the contiguous axis (coarsen)";
    VectorBytes ["vector"]
        "At most 16 bytes per access, 32 where the target has such accesses."
        "{vector} elements of {size} bytes are {bytes} bytes; one access moves at most {most} on {arch}";
    ChainOnce ["grid"]
        "0 where the kernel has a chain of warps, which begins once in a block."
        "a chain of warps begins once in a block: outside of loops, in a grid of one tile a block";
    GridMeets ["grid", "split"]
        "Where blocks meet over the grid each has one tile of its own: `grid` is 0 and `split` is 1."
        "blocks that meet over the grid have one tile each: `grid` must be 0 and `split` 1";
    TilesInOrder ["grid", "split"]
        "Where blocks begin in the order of the tiles (`.in_order()`) each has one tile: `grid` is 0 and `split` is 1."
        "blocks that begin in the order of the tiles have one tile each: `grid` must be 0 and `split` 1";
    TilesAsTheyCome ["raster", "order"]
        "Where blocks begin in the order of the tiles (`.in_order()`) they take them row after row, from the first one on: `raster` is 1 and `order` is `Rising`."
        "blocks that begin in the order of the tiles take them row after row, from the first one on: `raster` must be 1 and `order` Rising";
    StagesAhead ["stages", "grid"]
        "Loads run no further ahead than 32-bit indices leave room for."
        "loads would run {ahead} elements ahead; at most {most} leave 32-bit indices room";
    CopyTarget ["copy"]
        "`Async`, `Overlap` and `Mbarriers` from sm_80 on."
        "{arch} has no cp.async; use Registers";
    CopyNotYet ["copy"]
        "`Bulk` is a word of the grammar that no kernel can be lowered with yet."
        "{what} are copied by Registers or Async";
    TensorUnit ["copy", "unit"]
        "`Tensor` fills rings of at least two stages with operands of `Wgmma`."
        "is for operands of dots by Wgmma, in a ring of at least two stages: use Async";
    TensorLoop ["copy"]
        "With `Tensor` the grid's tiles have one loop each, which nobody shares (`split` and `slices` are 1), and the places of its copies depend on the tile alone; positions to which it keeps begin and end at multiples of its tile."
        "fills the ring of the only loop of the grid's tiles, whose sum no blocks or slices share, and whose tiles are whole: use Async";
    OverlapUnit ["copy", "unit"]
        "`Overlap` and `Mbarriers` are for `Mma`, on tiles small enough that its steps are written out."
        "reads fragments of matrix instructions ahead, whose steps are written out: the unit must be Mma, on smaller tiles; or use Async";
    OverlapDots ["copy"]
        "They want one dot in the loop, or several that follow one another, on loads that nothing but dots reads."
        "overlaps the turns of one dot, or of several that follow one another, on loads that nothing but dots reads: use Async";
    OverlapStages ["copy", "stages"]
        "They want at least 2 stages."
        "needs a ring: stages must be at least 2";
    OverlapSteps ["copy"]
        "They want an even number of steps in a turn: the tile of the sum's axis is a multiple of twice the instruction's depth."
        "fills one half of the fragments while it multiplies the other: a turn must have an even number of steps";
    MbarriersSlices ["copy", "slices"]
        "`Mbarriers` goes without `slices`."
        "hands stages over to the warps of a block: slices must be 1, or use Overlap";
    MbarriersBytes ["copy"]
        "All copies of `Mbarriers` move at least 4 bytes."
        "waits for asynchronous copies, which move at least 4 bytes; here less lies together: use Overlap";
    RingCopies ["copy"]
        "The copies of one loop share a ring: those by `cp.async` go by one word, and `Mbarriers` has no copy by registers beside it."
        "the copies of one loop share a ring, whose stages are handed over in one way: both must be the same";
    MbarriersPipeline ["copy", "grid"]
        "A block of `Mbarriers` has one pipeline: one tile, or tiles that make one."
        "a block hands over the stages of one pipeline: give it one tile, or use Overlap";
    HaloReach ["halo", "tile"]
        "Constant offsets lie in the halo that the schedule gives."
        "gives a window that may be read from {low} to {high} along axis {axis}; the kernel reads it at {offset}";
    CopiesPower ["copies"]
        "A power of two up to 32."
        "must be a power of two up to 32: lanes share copies evenly";
    CacheTarget ["cache"]
        "`Kept` from sm_80 on."
        "{arch} has no policies of its L2 cache; use Default";

    ConstantRead ["constant"]
        "All threads of a block read the tensor at one index: by `.at(i)`, or by `.get(i)` of a window."
        "{name} is read at another element by each thread in line {line}, and constant memory serves one at a time: use Off";
    ConstantStored ["constant"]
        "The kernel does not store to it."
        "the kernel stores to {name}, and constant memory is read only: use Off";

    // Dots and their units.
    OperandsTile ["operands", "tile"]
        "Where `Direct` walks the axis of the sum one by one, its tile has the first listed value."
        "has no effect where operands are read directly: only its first value, {first}, is allowed";
    UnitOperands ["unit", "operands"]
        "`Mma` needs operands that are `Shared`."
        "reads its operands {how}: operands must be Shared";
    UnitGroupTarget ["unit"]
        "`Wgmma` is there on sm_90a alone."
        "{arch} has no matrix instructions of warp groups: use Mma";
    UnitGroups ["unit", "warps"]
        "With `Wgmma` four warps each share each dot's result in pieces of 64 rows and a multiple of 8 columns; they are at most 32."
        "{warps} warps cannot share a result of {rows} x {columns} in groups of four, with 64 rows and a multiple of 8 columns each";
    UnitGroupChain ["unit"]
        "`Wgmma` multiplies operands as they were loaded, or as all threads have computed them. A left one of 16 bits may be computed in registers, of what was loaded for it, where every group has whole rows of the result; other operands are not converted on their way from shared memory."
        "{name} is converted on its way from shared memory to the dot, which warp groups can do with left operands of 16 bits and whole rows alone: use Mma";
    UnitGroupRounded ["unit", "copy"]
        "`Wgmma` multiplies f32 rounded to tf32 where tensor maps copy it and round on the way: `copy` is `Tensor` and `stages` 2 or more. A launch whose rows do not begin at multiples of 16 bytes has `Mma` in its stead."
        "{name} is rounded to tf32 on its way from shared memory to the dot; tensor maps do so on the way there (copy Tensor, stages 2 or more), else use Mma";
    UnitGroupAcross ["unit"]
        "`Wgmma` multiplies 8-bit floats, 8-bit integers and tf32 that lie along the sum's axis."
        "{name} lies across the axis of the sum, where warp groups read 16-bit elements only: use Mma";
    UnitGroupRows ["unit", "tile"]
        "With `Wgmma` an operand's contiguous rows have 32, 64 or a multiple of 128 bytes, and there are a multiple of 8."
        "an operand's tile has {count} rows of {bytes} bytes; warp groups read rows of 32, 64 or a multiple of 128 bytes, a multiple of 8 of them";
    UnitNumbers ["unit"]
        "`Mma` multiplies f16, bf16, 8-bit floats and integers, and f32 that is rounded to tf32, all dots of a kernel alike."
        "multiplies f16, bf16, 8-bit floats or integers, or f32 rounded by `.round_tf32()`; all dots of a kernel alike";
    UnitFold ["unit"]
        "A dot by operations of the author's (`dot_with`) has `Ffma`."
        "multiplies and adds, and the dot of line {line} has operations of its own: use Ffma";
    UnitTarget ["unit"]
        "f16 and 8-bit integers from sm_75 on, bf16 and tf32 from sm_80 on, 8-bit floats from sm_89 on."
        "has no instruction for {numbers} on {arch}";
    UnitDepth ["unit"]
        "The instruction's depth (16 for f16) divides the tile of the sum's axis."
        "takes {depth} elements of the sum's axis at a time, which must divide its tile of {inner}";
    UnitAxes ["unit"]
        "The block's tile has two axes or more."
        "needs a result of two axes";
    UnitResult ["unit"]
        "The block's tile is the result of one of the kernel's dots; the others may have results of any shape."
        "multiplies where the block's tile of {tile} is the result of a dot; the one{name} of line {line} has [{shape}]: use Ffma";
    UnitWarps ["unit", "warps"]
        "At most 32 warps, whose pieces of each dot's result are made of whole instructions (16 × 8 for f16, or 8 × 16)."
        "{warps} warps cannot share a tile of {rows} x {columns} in pieces of {piece}";

    // Sums that blocks or slices share.
    SumDots ["split", "slices"]
        "The kernel adds up dots."
        "blocks share the sums of dots, and this kernel has none; only 1 is allowed";
    SumLoop ["split", "slices"]
        "One loop over tiles does so for each tile of the result."
        "blocks share the turns of one loop over tiles that adds up dots, and a tile of the result has {found}; only 1 is allowed";
    SumGrid ["split", "slices"]
        "The tiles of the grid are not combined with each other."
        "the tiles of the grid are combined with each other; only 1 is allowed";
    SumStores ["split", "slices"]
        "Nothing is stored before the loop."
        "something is stored before the loop that is shared, which every block would do; only 1 is allowed";
    SumTurns ["split", "slices"]
        "Its turns are known before the launch (no `.within`)."
        "the turns of the loop must be known before the launch; only 1 is allowed";
    SumCarries ["split", "slices"]
        "All that it carries are sums of f32 or 32-bit integers, to which dots and additions add."
        "the loop carries {name}, to which it does more than add f32 or 32-bit integers; only 1 is allowed";
    SumSoFar ["split", "slices"]
        "Nothing else in it depends on a sum so far."
        "{name} in the loop depends on the sum so far; only 1 is allowed";
    SumMore ["split", "slices"]
        "It neither stores nor has shared arrays or barriers."
        "the loop does more than load and add; only 1 is allowed";
    SumBranches ["split", "slices"]
        "It has no loops or branches inside."
        "there are loops or branches inside of the loop; only 1 is allowed";
    SlicesAlone ["slices"]
        "`split` is 1."
        "blocks share the sum already (split); one of both must be 1";
    SlicesRest ["slices"]
        "Around the loop each thread does no more than load, compute its own elements and store."
        "around the loop that is shared the threads do more than load, compute element by element and store; only 1 is allowed";
    SlicesWarps ["slices"]
        "Slices are whole warps."
        "a slice would have {threads} threads; it must have whole warps";
    SlicesThreads ["slices"]
        "At most 1024 threads together."
        "as many slices of {threads} threads are {all}; a block has at most 1024";
    SlicesBarriers ["slices"]
        "At most 15 slices of several warps."
        "a block has {most} barriers for slices of several warps";
    SlicesRegisters ["slices"]
        "The registers of the sum can be dealt to as many slices."
        "a thread's {registers} elements cannot be dealt to as many slices";

    // Blocks that work together.
    ClusterTarget ["cluster"]
        "1, or more from sm_90 on."
        "{arch} has no clusters of blocks; only 1 is allowed";
    ClusterSize ["cluster"]
        "1, 2, 4 or 8 blocks: every GPU that has clusters has room for these."
        "must be 1, 2, 4 or 8, for which every GPU that has clusters has room";
    ClusterPinned ["cluster"]
        "The author lists several values of its tile: what is computed may depend on a tile of one value."
        "the kernel's author has pinned {tile}: what is computed may depend on how many elements are worked on together; only 1 is allowed";
    ClusterGrid ["cluster", "grid"]
        "Each tile of the grid has a cluster of its own, begins in any order and is not combined with others (`grid` is 0); or its tile cuts the grid."
        "a cluster works on one tile of the grid by itself, and {found}; only 1 is allowed";
    ClusterCopies ["cluster", "copy"]
        "Of a tile that cuts the grid: tensor maps fill a ring (`copy` is `Tensor`) of which some copies are the same for neighbouring tiles, as many parts of 8 rows or more, in a loop that has the same turns for all."
        "blocks at neighbouring tiles of the grid copy for each other what is the same for all, and {found}; only 1 is allowed";
    ClusterLoops ["cluster"]
        "A tile of the grid has loops over its tile, one behind the other, along one axis whose positions they walk all."
        "the blocks of a cluster share the turns of loops over tiles {tile}, and a tile of the grid has {found}; only 1 is allowed";
    ClusterCarries ["cluster"]
        "What these loops carry are tiles that it cuts."
        "the loop carries {name}, which is not cut by {tile}: each block of a cluster would have one of its own; only 1 is allowed";
    ClusterReductions ["cluster"]
        "What is reduced along it is reduced behind the loops."
        "{name} is reduced along {tile} inside of a loop, of which each block of a cluster takes turns of its own; only 1 is allowed";
    ClusterNumbers ["cluster"]
        "What is reduced along it has 32 bits, or 16."
        "{name} is reduced of elements of type {dtype}; blocks of a cluster exchange numbers of 32 bits; only 1 is allowed";
    ClusterStores ["cluster"]
        "Inside of the loops it stores at their own tiles."
        "{name} is stored to inside of a loop, at a place that is not the loop's tile; only 1 is allowed";
    ClusterMemory ["cluster"]
        "It stores to a tensor at one place, and loads none of these."
        "{name} is stored to and {more}, which other blocks of the cluster may do at the same time; only 1 is allowed";
    ClusterRest ["cluster"]
        "Beside that it loads, computes element by element, reduces and stores."
        "blocks of a cluster load, compute element by element, reduce and store, and here is {more}; only 1 is allowed";

    // Combinations over the grid.
    AtomicsOperator ["finish"]
        "`Atomics` for sums, minima and maxima of numbers; products and operators of the author's have no atomic."
        "{name} is combined by {operator}; sums, minima and maxima of numbers are, others take LastBlock";
    AtomicsOrder ["finish"]
        "A kernel that demands [`deterministic`](LANGUAGE.md#over-the-grid) sums no floats by atomics; integers, minima and maxima come out the same in any order."
        "{name} is a sum of floats, which would follow the order in which blocks come; `deterministic` demands LastBlock";
    SecondLaunchArrays ["finish"]
        "`SecondLaunch` where what follows the combination accesses no shared array of the blocks."
        "{name} is each block's own, and what follows the combination reads it; use LastBlock";
    SecondLaunchValues ["finish"]
        "It uses nothing else that each block has of its own (its uncombined sums), and reads no tensor before the loop that the kernel stores to."
        "{name} is each block's own, and what follows the combination uses it; use LastBlock, or combine it, too";

    // What is asked of the compiler of machine code.
    BlocksResident ["min_blocks"]
        "A multiprocessor holds as many blocks: 16 on sm_75, 24 on sm_120, 32 on the others."
        "a multiprocessor of {arch} holds at most {most} blocks";
    BlocksThreads ["min_blocks"]
        "It holds their threads: 1024 on sm_75, 2048 on sm_80, sm_90 and sm_100, 1536 on sm_120."
        "as many blocks have {threads} threads; a multiprocessor of {arch} holds at most {most}";
    BlocksShared ["min_blocks"]
        "It has room for their shared memory, of which each block takes 1 KiB more than its own from sm_80 on."
        "as many blocks take {all} bytes of shared memory, {each} each; a multiprocessor of {arch} has {most}, room for {room}";
    OptLevel ["opt_level"]
        "1, 2 and 3."
        "ptxas knows 1 to {most}";
}
