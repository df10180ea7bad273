// Warps, and what stops a kernel.

// the lanes of this thread's group of `width` (1 to 32) in its warp
__device__ __forceinline__ unsigned int vx_group_mask(int width) {
  return (0xffffffffu >> (32 - width)) << (threadIdx.x & 31u & ~(width - 1u));
}

// wait until the launch before, if it still runs, has ended, and what it wrote is there
__device__ __forceinline__ void vx_await_launch() {
  asm volatile("griddepcontrol.wait;" ::: "memory");
}

// the launch after this one may start its blocks once all of this one have come here
__device__ __forceinline__ void vx_allow_launch() {
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
}

// --debug builds: say what is wrong, and stop the kernel
__device__ __noinline__ void vx_fail(const char* message) {
  printf("%s\n", message);
  __trap();
}
