//! The steps of a program's call as one CUDA graph: recorded once, launched with a single call.

use super::{CudaDevice, check};
use crate::error::Error;
use crate::launch::order;
use crate::launch::steps::Step;
use cudarc::driver::result::stream::StreamKind;
use cudarc::driver::{CudaContext, result, sys};
use std::sync::Arc;

/// An instantiated graph. The memory and kernels that its steps name must stay as long as it does.
pub(crate) struct CudaGraph {
    context: Arc<CudaContext>,
    exec: sys::CUgraphExec,
}

// SAFETY: the handle may be used from every thread that binds the context, one at a time: it is not `Sync`.
unsafe impl Send for CudaGraph {}

impl Drop for CudaGraph {
    fn drop(&mut self) {
        if self.context.bind_to_thread().is_ok() {
            // SAFETY: the graph was instantiated by `CudaDevice::graph`. One that still runs is freed when it is done.
            let _ = unsafe { result::graph::exec_destroy(self.exec) };
        }
    }
}

/// A stream that records what is queued on it.
///
/// It is not the device's own: other threads may queue work there in the meantime, which must not become part of the graph, the
/// default stream cannot record, and the stream of a user may be recording already.
struct Recorder {
    stream: sys::CUstream,
    recording: bool,
}

impl Recorder {
    fn begin() -> Result<Recorder, Error> {
        let stream = check("cuStreamCreate", result::stream::create(StreamKind::NonBlocking))?;
        let mut recorder = Recorder { stream, recording: false };
        let mode = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
        // SAFETY: the stream was created just now.
        check("cuStreamBeginCapture", unsafe { result::stream::begin_capture(stream, mode) })?;
        recorder.recording = true;
        Ok(recorder)
    }

    /// What is recorded next waits for these nodes, and for nothing else.
    fn follow(&self, mut nodes: Vec<sys::CUgraphNode>) -> Result<(), Error> {
        let flags = sys::CUstreamUpdateCaptureDependencies_flags::CU_STREAM_SET_CAPTURE_DEPENDENCIES as u32;
        // SAFETY: the stream records, and the nodes are of its recording; the driver copies the list.
        let set = unsafe { sys::cuStreamUpdateCaptureDependencies(self.stream, nodes.as_mut_ptr(), nodes.len(), flags) };
        check("cuStreamUpdateCaptureDependencies", set.result())
    }

    /// What has to be done for the latest step to be done: its nodes, or what it waits for if it has none.
    fn newest(&self) -> Result<Vec<sys::CUgraphNode>, Error> {
        let mut status = sys::CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE;
        let (mut nodes, mut count, (id, graph)) = (std::ptr::null(), 0, (std::ptr::null_mut(), std::ptr::null_mut()));
        // SAFETY: the stream records; identity and graph are not asked for.
        let asked = unsafe { sys::cuStreamGetCaptureInfo_v2(self.stream, &mut status, id, graph, &mut nodes, &mut count) };
        check("cuStreamGetCaptureInfo", asked.result())?;
        if nodes.is_null() {
            return Ok(vec![]);
        }
        // SAFETY: the list is the driver's, and stays until the next call that has to do with the stream.
        Ok(unsafe { std::slice::from_raw_parts(nodes, count) }.to_vec())
    }

    fn end(mut self) -> Result<Recorded, Error> {
        self.recording = false;
        // SAFETY: the stream records.
        let graph = check("cuStreamEndCapture", unsafe { result::stream::end_capture(self.stream) })?;
        if graph.is_null() {
            return Err(Error::Buffer("the driver recorded no graph".into()));
        }
        Ok(Recorded(graph))
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        if self.recording {
            // SAFETY: the stream records; what it recorded is thrown away, and an error only says that it was incomplete.
            if let Ok(graph) = unsafe { result::stream::end_capture(self.stream) } {
                drop(Recorded(graph));
            }
        }
        // SAFETY: nobody else knows the stream, and nothing was queued on it but what was recorded.
        let _ = unsafe { result::stream::destroy(self.stream) };
    }
}

/// A graph that is not instantiated yet.
struct Recorded(sys::CUgraph);

impl Drop for Recorded {
    fn drop(&mut self) {
        if !self.0.is_null() {
            // SAFETY: the graph came from the end of a recording and is used no more; instances of it live on.
            let _ = unsafe { result::graph::destroy(self.0) };
        }
    }
}

impl CudaDevice {
    /// Records the steps as a graph, in which a step waits for those before it that touch the same memory. Nothing runs.
    pub(crate) fn graph(&self, steps: &[Step]) -> Result<CudaGraph, Error> {
        self.bind()?;
        // A kernel that the driver loads at its first launch must not be loaded while its launch is recorded.
        for step in steps {
            step.preload();
        }
        let recorder = Recorder::begin()?;
        let mut recorded: Vec<Vec<sys::CUgraphNode>> = Vec::with_capacity(steps.len());
        for (step, waits) in steps.iter().zip(order::waits_for(steps.iter().map(Step::accesses))) {
            recorder.follow(waits.iter().flat_map(|earlier| recorded[*earlier].iter().copied()).collect())?;
            step.issue_on(self, recorder.stream)?;
            recorded.push(recorder.newest()?);
        }
        let recorded = recorder.end()?;
        // SAFETY: the graph was recorded just now.
        let exec = check("cuGraphInstantiate", unsafe { result::graph::instantiate(recorded.0, sys::CUgraphInstantiate_flags(0)) })?;
        let graph = CudaGraph { context: self.context.clone(), exec };
        // SAFETY: graph and stream are alive. The first launch would upload it, too, and be slower than the next ones.
        check("cuGraphUpload", unsafe { result::graph::upload(graph.exec, self.stream.cu_stream()) })?;
        Ok(graph)
    }

    /// Queues a graph that this device recorded.
    pub(crate) fn launch_graph(&self, graph: &CudaGraph) -> Result<(), Error> {
        self.bind()?;
        // SAFETY: the graph is alive, and so is everything that it names: whoever holds it holds that, too.
        check("cuGraphLaunch", unsafe { result::graph::launch(graph.exec, self.stream.cu_stream()) })
    }
}
