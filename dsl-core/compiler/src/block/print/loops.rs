//! Loops over tiles on a page: their iterations, pipelines and tails.

use super::Page;
use crate::block::{Fill, Handover, HostExpr, Loop, Pipeline, Range, Raster, RingPlan, Split, Tail};
use girih_ir::schedule::words::TileOrder;

/// Characters of a loop's head that stand in one line.
const WIDE: usize = 110;

impl Page<'_> {
    pub(super) fn tile_loop(&mut self, l: &Loop) {
        let axes: Vec<String> = l.axes.iter().map(|axis| self.axis(l.view, *axis)).collect();
        let sizes: Vec<String> = l.sizes.iter().map(i64::to_string).collect();
        let word = if l.grid.is_some() { "grid" } else { "for" };
        let mut head = format!("{word} {} in tiles of {} [{}]", self.list(&l.vars), axes.join(", "), sizes.join(", "));
        if let Some(span) = l.span {
            head += &format!(" that hold {}..{}", self.scalar(span.first), self.scalar(span.end));
        }
        head += &self.range(l);
        head += &self.pipeline(&l.plan.pipeline);
        head += &self.tail(l);
        let carries = self.carries(&l.carries);
        if head.len() + carries.len() > WIDE {
            self.line(&format!("{head}{}", if carries.is_empty() { " {" } else { "," }));
            if !carries.is_empty() {
                self.line(&format!("    {} {{", carries.trim_start_matches(", ")));
            }
            self.block(&l.body);
            self.line(&self.next(&l.carries));
        } else {
            self.nested(&format!("{head}{carries}"), &l.body, &self.next(&l.carries));
        }
    }

    fn range(&self, l: &Loop) -> String {
        let raster = l.grid.as_ref().and_then(|g| g.raster).map_or(String::new(), |raster| self.raster(l, raster));
        let falling = l.grid.as_ref().is_some_and(|g| g.order == TileOrder::Falling);
        let order = if falling { ", from the last on" } else { "" };
        let neighbours = l
            .grid
            .as_ref()
            .and_then(|g| g.neighbours)
            .map_or(String::new(), |n| format!(", {} neighbours along {} by a cluster", n.blocks, self.name(l.vars[n.axis])));
        let range = match l.plan.range {
            Range::All => "".into(),
            Range::Once => ", one iteration".into(),
            Range::OnePerBlock if self.kernel.launch.grid == HostExpr::Const(1) => ", one block".into(),
            Range::OnePerBlock => ", one per block".into(),
            Range::Persistent(n) => format!(", dealt to {n} blocks per multiprocessor"),
            Range::Shared(Split::SplitK(n)) => format!(", split-K over {n} blocks"),
            Range::Shared(Split::StreamK(n)) => format!(", stream-K over {n} blocks per multiprocessor"),
            Range::Cluster(n) => format!(", in turn by the {n} blocks of a cluster"),
            Range::SlicedK(n) => format!(", sliced-K over {n} slices"),
        };
        format!("{range}{neighbours}{raster}{order}")
    }

    fn raster(&self, l: &Loop, Raster { rows, column }: Raster) -> String {
        let along = if column + 1 == l.vars.len() { String::new() } else { format!(" along {}", self.name(l.vars[column])) };
        format!(", raster {rows}{along}")
    }

    fn pipeline(&self, pipeline: &Pipeline) -> String {
        match pipeline {
            Pipeline::None => String::new(),
            Pipeline::Multistage { ring, copies } => {
                let parts = if copies.to_all.is_empty() {
                    String::new()
                } else {
                    format!(", {} in parts to all blocks", self.list(&copies.to_all))
                };
                format!(", {} of {}{parts}", self.ring(ring), self.list(&copies.windows))
            }
            Pipeline::GridPrefetch { stages, loads } => {
                let by = |fill: Fill| loads.iter().filter(|l| l.1 == fill).map(|l| l.0).collect::<Vec<_>>();
                let ways = [(by(Fill::Registers), "registers"), (by(Fill::Async), "cp.async")];
                let ways = ways.iter().filter(|(some, _)| !some.is_empty());
                ways.map(|(some, fill)| format!(", {} loaded {} ahead by {fill}", self.list(some), stages - 1)).collect()
            }
            Pipeline::Persistent { .. } => ", the ring goes on from tile to tile".into(),
            Pipeline::Roles { .. } => ", a warp of its own fills the ring".into(),
        }
    }

    fn ring(&self, ring: &RingPlan) -> String {
        let handover = match ring.handover {
            Handover::Mbarriers | Handover::Transactions => "mbarriers",
            Handover::Barrier | Handover::Registers => "barrier block",
        };
        let prefetch = match (ring.fragment_prefetch, ring.products_first) {
            _ if ring.products_overlap => ", a turn's last product beside the next one's first",
            (true, _) => ", fragments read 1 step ahead",
            (_, true) if ring.handover != Handover::Transactions => ", copies start behind the products",
            (_, true) => "",
            (false, false) if ring.in_turn => ", warp groups multiply in turn",
            (false, false) => "",
        };
        let by = match ring.handover {
            Handover::Registers => "registers",
            Handover::Transactions => "tensor maps",
            Handover::Barrier | Handover::Mbarriers => "cp.async",
        };
        format!("ring of {} stages by {by}, handed over by {handover}{prefetch}", ring.stages)
    }

    fn tail(&self, l: &Loop) -> String {
        match l.grid.as_ref().map(|g| &g.tail) {
            None | Some(Tail::Open) => String::new(),
            Some(Tail::None) => ", every tile full".into(),
            Some(Tail::OneIf(layout)) => format!(", one `if` per thread by {}", self.layout_name(layout)),
            Some(Tail::TwoTexts) => ", a text for full tiles and one with checks".into(),
            Some(Tail::Predicates) => ", a check at each access".into(),
            Some(Tail::OneText) => ", one text with a check at each access".into(),
        }
    }
}
