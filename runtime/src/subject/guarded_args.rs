//! A call's arguments on a device, with guard zones around every tensor and the data of before the call kept for restoring.

use crate::device::Device;
use crate::device::buffer::Buffer;
use crate::error::Error;
use crate::launch::Argument;
use crate::subject::differ_on_gpu::{self, Tolerance};
use crate::subject::inputs::{Elements, HostTensor, POISON};
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
        /// What the elements are before a call, of tensors that may be stored to.
        pristine: Option<Pristine>,
        /// Byte at which the elements start.
        offset: usize,
        bytes: usize,
        /// The data's element type.
        host: DType,
        /// The program's element type.
        dtype: DType,
        lens: Vec<i64>,
        mutable: bool,
    },
}

/// What puts elements back.
enum Pristine {
    Copy(Buffer),
    Poison,
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
            match arg {
                PlacedArg::Tensor { buffer, pristine: Some(Pristine::Copy(pristine)), offset, bytes, .. } => {
                    self.device.copy(buffer, *offset, pristine, 0, *bytes)?;
                }
                PlacedArg::Tensor { buffer, pristine: Some(Pristine::Poison), offset, bytes, .. } => {
                    self.device.fill(buffer, *offset, *bytes, &[POISON])?;
                }
                PlacedArg::Tensor { pristine: None, .. } | PlacedArg::Scalar(_) => {}
            }
        }
        Ok(())
    }

    /// Puts back tensors that a call both reads and stores to. Queued.
    pub fn restore_inputs(&self) -> Result<(), Error> {
        for arg in &self.args {
            if let PlacedArg::Tensor { buffer, pristine: Some(Pristine::Copy(pristine)), offset, bytes, .. } = arg {
                self.device.copy(buffer, *offset, pristine, 0, *bytes)?;
            }
        }
        Ok(())
    }

    /// Copies of the tensors that may be stored to, as they are now, on the device (one entry per argument). `reader` downloads what is looked at:
    /// on a stream of its own it waits for nothing that is queued later.
    pub fn keep_stored(&self, reader: &Device) -> Result<Vec<Option<Elements>>, Error> {
        let kept = |arg: &PlacedArg| {
            let PlacedArg::Tensor { buffer, offset, bytes, host, lens, mutable: true, .. } = arg else { return Ok(None) };
            let copy = self.device.alloc(*bytes)?;
            self.device.copy(&copy, 0, buffer, *offset, *bytes)?;
            Ok(Some(Elements::on_device(*host, lens, copy, reader)))
        };
        let all = self.args.iter().map(kept).collect::<Result<_, Error>>()?;
        self.device.synchronize()?;
        Ok(all)
    }

    /// How many elements of the tensors that may be stored to differ from those that were kept, by tolerances for each; nothing where the device
    /// cannot tell.
    pub fn count_differing(&self, kept: &[Option<Elements>], tolerance: impl Fn(DType) -> Tolerance) -> Result<Option<u64>, Error> {
        let mut all = 0;
        for (arg, kept) in self.args.iter().zip(kept) {
            let (PlacedArg::Tensor { buffer, offset, .. }, Some(kept)) = (arg, kept) else { continue };
            match differ_on_gpu::count(&self.device, (buffer, *offset), kept, tolerance(kept.dtype))? {
                Some(differing) => all += differing,
                None => return Ok(None),
            }
        }
        Ok(Some(all))
    }

    /// The tensors as they are now, after all queued work; `None` for scalars.
    pub fn download(&self) -> Result<Vec<Option<HostTensor>>, Error> {
        self.downloaded(|_| true)
    }

    /// As [`Placed::download`], of tensors that may be stored to alone.
    pub fn download_stored(&self) -> Result<Vec<Option<HostTensor>>, Error> {
        self.downloaded(|mutable| mutable)
    }

    fn downloaded(&self, wanted: impl Fn(bool) -> bool) -> Result<Vec<Option<HostTensor>>, Error> {
        let tensor = |a: &PlacedArg| match a {
            PlacedArg::Tensor { buffer, offset, host, lens, mutable, .. } if wanted(*mutable) => {
                let mut data = HostTensor::zeros(*host, lens);
                self.device.download(buffer, *offset, &mut data.bytes)?;
                Ok(Some(data))
            }
            PlacedArg::Tensor { .. } | PlacedArg::Scalar(_) => Ok(None),
        };
        self.args.iter().map(tensor).collect()
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
        let pristine = match (mutable, read) {
            (false, _) => None,
            (true, false) => Some(Pristine::Poison),
            (true, true) => {
                let copy = device.alloc(bytes)?;
                device.copy(&copy, 0, &buffer, offset, bytes)?;
                Some(Pristine::Copy(copy))
            }
        };
        let (host, lens) = (data.dtype, data.lens.clone());
        Ok(PlacedArg::Tensor { buffer, pristine, offset, bytes, host, dtype, lens, mutable })
    }
}
