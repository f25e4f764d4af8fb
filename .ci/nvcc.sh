#!/usr/bin/env bash
# Installs NVIDIA's nvcc wheels unless they are there, and prints nvcc's path.
# The versions fit each other: a newer nvvm writes PTX that this ptxas rejects. cccl has headers that cuda_fp16.h includes.
set -euo pipefail

folder="$("$(dirname "$0")/wheels.sh" nvcc-13.0.88 nvidia-cuda-nvcc==13.0.88 nvidia-nvvm==13.0.88 nvidia-cuda-crt==13.0.88 \
    nvidia-cuda-runtime==13.0.96 nvidia-cuda-cccl==13.0.85)"
echo "$folder/nvidia/cu13/bin/nvcc"
