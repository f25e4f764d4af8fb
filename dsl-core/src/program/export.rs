//! Programs as CUDA C++.
