//! Constant memory: what the host copies there before a launch.

use super::Arg;
use super::decode::Program;
use super::machine::launch_fault;
use super::memory::{BufferId, Memory};
use super::trap::{Trap, TrapKind};
use girih_ir::simt::ParamKind;

/// The arrays of a launch, each a buffer of its own, and the arguments with these in the place of the tensors that they are copied from.
///
/// # Errors
/// A tensor has more than its array has room for.
pub(super) fn copied(program: &Program, args: &[Arg], memory: &mut Memory) -> Result<(Vec<BufferId>, Vec<Arg>), Box<Trap>> {
    let (mut arrays, mut own) = (Vec::new(), args.to_vec());
    for (param, arg) in program.kernel.params.iter().zip(&mut own) {
        let (ParamKind::Constant { dtype, len, .. }, Arg::Constant { buffer, offset, bytes }) = (&param.kind, *arg) else { continue };
        let room = *len as usize * dtype.size();
        if bytes > room {
            release(&arrays, memory);
            let kind = TrapKind::OutOfBounds { memory: param.name.clone(), element: 0, bytes: bytes as u32, len: room as u64 };
            return Err(launch_fault(program, kind));
        }
        let array = memory.alloc(room);
        memory.copy(buffer, offset as usize, array, 0, bytes);
        arrays.push(array);
        *arg = Arg::Buffer { buffer: array, offset: 0 };
    }
    Ok((arrays, own))
}

/// Gives the arrays back.
pub(super) fn release(arrays: &[BufferId], memory: &mut Memory) {
    arrays.iter().for_each(|array| memory.free(*array));
}
