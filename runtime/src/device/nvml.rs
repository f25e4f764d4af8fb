//! NVML, the driver's library that tells how a GPU fares: here, what lowers its clocks. It is loaded where it is asked for. The only module
//! that names nvml-wrapper.

use super::Device;
use nvml_wrapper::Nvml;
use nvml_wrapper::bitmasks::device::ThrottleReasons;
use std::fmt;
use std::sync::OnceLock;

/// What lowers a GPU's clocks.
#[derive(Clone, Copy, PartialEq, Eq, Debug, PartialOrd, Ord)]
pub enum Slowdown {
    /// The hardware halves them, or more: heat, a power brake, or power drawn too fast.
    Hardware,
    /// The hardware halves them, or more, for heat.
    HardwareThermal,
    /// The driver lowers them for the heat of the GPU or its memory.
    SoftwareThermal,
    /// The machine's power supply asked for it.
    PowerBrake,
    /// The driver keeps the GPU within its power limit, as it does in each long product.
    PowerCap,
}

/// What NVML calls each of them.
const BITS: [(ThrottleReasons, Slowdown); 5] = [
    (ThrottleReasons::HW_SLOWDOWN, Slowdown::Hardware),
    (ThrottleReasons::HW_THERMAL_SLOWDOWN, Slowdown::HardwareThermal),
    (ThrottleReasons::SW_THERMAL_SLOWDOWN, Slowdown::SoftwareThermal),
    (ThrottleReasons::HW_POWER_BRAKE_SLOWDOWN, Slowdown::PowerBrake),
    (ThrottleReasons::SW_POWER_CAP, Slowdown::PowerCap),
];

impl fmt::Display for Slowdown {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(match self {
            Slowdown::Hardware => "hardware slowdown",
            Slowdown::HardwareThermal => "hardware thermal slowdown",
            Slowdown::SoftwareThermal => "software thermal slowdown",
            Slowdown::PowerBrake => "power brake",
            Slowdown::PowerCap => "power cap",
        })
    }
}

fn named(reasons: ThrottleReasons) -> Vec<Slowdown> {
    BITS.iter().filter(|(bit, _)| reasons.contains(*bit)).map(|(_, slowdown)| *slowdown).collect()
}

/// NVML, or why there is none. The first call takes as long as the library does to look at all GPUs.
pub(crate) fn load() -> Result<&'static Nvml, String> {
    static NVML: OnceLock<Result<Nvml, String>> = OnceLock::new();
    NVML.get_or_init(|| Nvml::init().map_err(|e| format!("NVML cannot be used: {e}"))).as_ref().map_err(Clone::clone)
}

/// A GPU that NVML watches.
pub struct Watched(nvml_wrapper::Device<'static>);

impl Watched {
    /// A device's GPU. CUDA and NVML number GPUs each in its own way: it is known by its place on the bus.
    ///
    /// # Errors
    /// There is no NVML, or it does not tell of this GPU's clocks; the simulator has none.
    pub fn of(device: &Device) -> Result<Watched, String> {
        let Device::Cuda(gpu) = device else { return Err("the simulator has no clocks".into()) };
        let bus_id = gpu.bus_id().map_err(|e| e.to_string())?;
        let found = load()?.device_by_pci_bus_id(bus_id.as_str()).map_err(|e| format!("NVML has no GPU at {bus_id}: {e}"))?;
        found.current_throttle_reasons().map_err(|e| format!("NVML does not tell what lowers the clocks of {}: {e}", device.name()))?;
        Ok(Watched(found))
    }

    /// What lowers its clocks now; nothing where NVML has ceased to tell.
    pub fn slowdowns(&self) -> Vec<Slowdown> {
        self.0.current_throttle_reasons().map_or_else(|_| Vec::new(), named)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lowers_clocks_is_read_from_its_bits() {
        // As NVML's header numbers them.
        assert_eq!(named(ThrottleReasons::from_bits_truncate(0x8 | 0x40)), [Slowdown::Hardware, Slowdown::HardwareThermal]);
        assert_eq!(named(ThrottleReasons::from_bits_truncate(0x20 | 0x80)), [Slowdown::SoftwareThermal, Slowdown::PowerBrake]);
        assert_eq!(named(ThrottleReasons::from_bits_truncate(0x4)), [Slowdown::PowerCap]);
        // Idle, and clocks that somebody set.
        assert_eq!(named(ThrottleReasons::from_bits_truncate(0x1 | 0x2)), []);
    }

    #[test]
    fn the_simulator_cannot_be_watched() {
        let simulator = Device::sim(girih_core::target::Target::h200());
        assert_eq!(Watched::of(&simulator).err().as_deref(), Some("the simulator has no clocks"));
    }
}
