//! Which dots take their left operand from the registers of another dot's sums: those that can. The others find it in shared memory.

use super::Source;
use crate::analyses::chained::links;
use crate::block::Kernel;

/// Decides for every dot that goes on with the result of another one.
pub(crate) fn feed_dots(page: &mut Kernel, source: &Source) {
    if page.launch.units.is_some() {
        page.fed = links(source.kernel).into_iter().filter(|link| page.can_be_fed(link)).collect();
    }
}
