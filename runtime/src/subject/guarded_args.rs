//! A call's arguments on a device, with guard zones around every tensor and the data of before the call kept for restoring.

use crate::device::Device;
use crate::device::buffer::Buffer;
use crate::error::Error;
use crate::launch::Argument;
use crate::subject::inputs::{HostTensor, POISON};
use crate::subject::{Call, CallArg};
use girih_core::types::DType;

/// Bytes of each guard zone on a GPU: more than the widest vector access of a warp.
const GUARD: usize = 1024;

/// A call's arguments in device memory.
pub struct Placed {
    device: Device,
    args: Vec<PlacedArg>,
}

enum PlacedArg {
    Scalar(Argument),
    Tensor {
        /// Guard, elements, guard.
        buffer: Buffer,
        /// The elements before the call, for tensors that may be stored to.
        pristine: Option<Buffer>,
        /// Byte at which the elements start.
        offset: usize,
        bytes: usize,
        /// The data's element type.
        host: DType,
        /// The program's element type.
        dtype: DType,
        lens: Vec<i64>,
        mutable: bool,
        /// Holds data before the call, not poison.
        read: bool,
    },
}

impl Placed {
    /// Brings a call to a device. Every tensor starts `misalign` units (elements, or whole pixels) behind an address that is a multiple of 256.
    pub fn new(device: &Device, call: &Call, misalign: usize) -> Result<Placed, Error> {
        let args = call.args.iter().map(|a| PlacedArg::new(device, a, misalign)).collect::<Result<_, Error>>()?;
        Ok(Placed { device: device.clone(), args })
    }

    /// The arguments for a launch or a [`crate::launch::program::Runner`].
    pub fn arguments(&self) -> Vec<Argument> {
        let argument = |a: &PlacedArg| match a {
            PlacedArg::Scalar(s) => s.clone(),
            PlacedArg::Tensor { buffer, offset, dtype, lens, mutable, .. } => Argument::packed(buffer, *offset, *dtype, lens, *mutable),
        };
        self.args.iter().map(argument).collect()
    }

    /// The address of a tensor's first element on the device; of a scalar, none.
    pub fn address(&self, argument: usize) -> Option<u64> {
        match &self.args[argument] {
            PlacedArg::Scalar(_) => None,
            PlacedArg::Tensor { buffer, offset, .. } => Some(buffer.address() + *offset as u64),
        }
    }

    /// Puts back the elements of before the call (poison, for pure outputs). Queued.
    pub fn restore(&self) -> Result<(), Error> {
        for arg in &self.args {
            if let PlacedArg::Tensor { buffer, pristine: Some(pristine), offset, bytes, .. } = arg {
                self.device.copy(buffer, *offset, pristine, 0, *bytes)?;
            }
        }
        Ok(())
    }

    /// Puts back tensors that a call both reads and stores to. Queued.
    pub fn restore_inputs(&self) -> Result<(), Error> {
        for arg in &self.args {
            if let PlacedArg::Tensor { buffer, pristine: Some(pristine), offset, bytes, read: true, .. } = arg {
                self.device.copy(buffer, *offset, pristine, 0, *bytes)?;
            }
        }
        Ok(())
    }

    /// The tensors as they are now, after all queued work; `None` for scalars.
    pub fn download(&self) -> Result<Vec<Option<HostTensor>>, Error> {
        let tensor = |a: &PlacedArg| match a {
            PlacedArg::Scalar(_) => Ok(None),
            PlacedArg::Tensor { buffer, offset, host, lens, .. } => {
                let mut data = HostTensor::zeros(*host, lens);
                self.device.download(buffer, *offset, &mut data.bytes)?;
                Ok(Some(data))
            }
        };
        self.args.iter().map(tensor).collect()
    }

    /// Reads the tensors that may be stored to into `into` (one entry per argument), whose memory is used again: fresh memory of this
    /// size costs more than the copy.
    pub fn download_stored(&self, into: &mut Vec<Option<HostTensor>>) -> Result<(), Error> {
        into.resize(self.args.len(), None);
        for (arg, slot) in self.args.iter().zip(into) {
            let PlacedArg::Tensor { buffer, offset, host, lens, mutable: true, .. } = arg else { continue };
            let data = slot.get_or_insert_with(|| HostTensor::zeros(*host, lens));
            self.device.download(buffer, *offset, &mut data.bytes)?;
        }
        Ok(())
    }

    /// Whether nothing was written outside of the tensors.
    pub fn guards_intact(&self) -> Result<bool, Error> {
        for arg in &self.args {
            let PlacedArg::Tensor { buffer, offset, bytes, .. } = arg else { continue };
            for (start, end) in [(0, *offset), (offset + bytes, buffer.bytes())] {
                let mut zone = vec![0u8; end - start];
                self.device.download(buffer, start, &mut zone)?;
                if zone.iter().any(|b| *b != POISON) {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }
}

impl PlacedArg {
    fn new(device: &Device, arg: &CallArg, misalign: usize) -> Result<PlacedArg, Error> {
        let (data, dtype, mutable, read, unit) = match arg {
            CallArg::Scalar(l) => return Ok(PlacedArg::Scalar(Argument::Scalar(*l))),
            CallArg::Tensor { data, dtype, mutable, read, unit, .. } => (data, *dtype, *mutable, *read, *unit),
        };
        // The simulator traps on every access outside of an allocation: a guard zone would only hide one.
        let guard = if device.needs_cubin() { GUARD } else { 0 };
        let (offset, bytes) = (guard + misalign * unit * dtype.size(), data.bytes());
        let buffer = device.alloc(offset + bytes + guard)?;
        device.fill(&buffer, 0, buffer.bytes(), &[POISON])?;
        // Elements that hold nothing are poison like the rest of the buffer.
        if read {
            data.place(device, &buffer, offset)?;
        }
        let pristine = if mutable {
            let copy = device.alloc(bytes)?;
            match read {
                true => device.copy(&copy, 0, &buffer, offset, bytes)?,
                false => device.fill(&copy, 0, bytes, &[POISON])?,
            }
            Some(copy)
        } else {
            None
        };
        let (host, lens) = (data.dtype, data.lens.clone());
        Ok(PlacedArg::Tensor { buffer, pristine, offset, bytes, host, dtype, lens, mutable, read })
    }
}
