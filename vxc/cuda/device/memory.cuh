// Atomics that CUDA lacks, and packed elements.

// *p = max(*p, x) atomically, NaN if either is, -0 below +0; the previous value
__device__ __forceinline__ float vx_atomic_max_f32(float* p, float x) {
  int old = *(volatile int*)p, seen;
  do {
    seen = old;
    old = atomicCAS((int*)p, seen, __float_as_int(vx_max_f32(__int_as_float(seen), x)));
  } while (old != seen);
  return __int_as_float(old);
}

// *p = min(*p, x) atomically, NaN if either is, -0 below +0; the previous value
__device__ __forceinline__ float vx_atomic_min_f32(float* p, float x) {
  int old = *(volatile int*)p, seen;
  do {
    seen = old;
    old = atomicCAS((int*)p, seen, __float_as_int(vx_min_f32(__int_as_float(seen), x)));
  } while (old != seen);
  return __int_as_float(old);
}

// *p = max(*p, x) atomically, NaN if either is, -0 below +0; the previous value
__device__ __forceinline__ double vx_atomic_max_f64(double* p, double x) {
  unsigned long long old = *(volatile unsigned long long*)p, seen;
  do {
    seen = old;
    old = atomicCAS((unsigned long long*)p, seen, (unsigned long long)__double_as_longlong(vx_max_f64(__longlong_as_double(seen), x)));
  } while (old != seen);
  return __longlong_as_double(old);
}

// *p = min(*p, x) atomically, NaN if either is, -0 below +0; the previous value
__device__ __forceinline__ double vx_atomic_min_f64(double* p, double x) {
  unsigned long long old = *(volatile unsigned long long*)p, seen;
  do {
    seen = old;
    old = atomicCAS((unsigned long long*)p, seen, (unsigned long long)__double_as_longlong(vx_min_f64(__longlong_as_double(seen), x)));
  } while (old != seen);
  return __longlong_as_double(old);
}

// element i of packed signed 4-bit values, two a byte, the low half first
__device__ __forceinline__ signed char vx_load_i4(const signed char* p, long long i) {
  return vx_wrap_i4(p[i >> 1] >> (4 * (i & 1)));
}

// element i of packed unsigned 4-bit values, two a byte, the low half first
__device__ __forceinline__ unsigned char vx_load_u4(const unsigned char* p, long long i) {
  return vx_wrap_u4(p[i >> 1] >> (4 * (i & 1)));
}

// copy so many bytes in one access, both places being multiples of them
template <int bytes> __device__ __forceinline__ void vx_move(void* to, const void* from) {
  if (bytes == 1) *(unsigned char*)to = *(const unsigned char*)from;
  if (bytes == 2) *(unsigned short*)to = *(const unsigned short*)from;
  if (bytes == 4) *(unsigned int*)to = *(const unsigned int*)from;
  if (bytes == 8) *(uint2*)to = *(const uint2*)from;
  if (bytes == 16) *(uint4*)to = *(const uint4*)from;
}

// the same offset, as one number of which no part is known: of a sum LLVM takes the parts to the pieces of a wide store, and splits it
__device__ __forceinline__ long long vx_whole(long long offset) {
  asm("" : "+l"(offset));
  return offset;
}

// start copying so many bytes (4, 8 or 16) from global to shared memory, both places being multiples of them; through L1: past it, a sector
// that goes to two lines of shared memory comes from L2 twice
template <int bytes> __device__ __forceinline__ void vx_move_async(void* to, const void* from) {
  const unsigned int place = (unsigned int)__cvta_generic_to_shared(to);
  const unsigned long long start = (unsigned long long)__cvta_generic_to_global(from);
  asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(place), "l"(start), "n"(bytes) : "memory");
}

// wait until all that this thread has started copying is there
__device__ __forceinline__ void vx_await() {
  asm volatile("cp.async.wait_all;" ::: "memory");
}

// elements up to the first that begins at a multiple of so many bytes
template <int bytes, typename T> __device__ __forceinline__ int vx_ahead(const T* place) {
  return (int)((0u - (unsigned int)(unsigned long long)place & (bytes - 1u)) / (unsigned int)sizeof(T));
}

// whether a pointer is a multiple of so many bytes
template <int bytes> __device__ __forceinline__ bool vx_aligned(const void* place) {
  return ((unsigned long long)place & (bytes - 1ull)) == 0ull;
}

// where element `o` of an array in shared memory lies, whose rows of `row` elements begin `pitch` elements apart
template <unsigned row, unsigned pitch> __device__ __forceinline__ unsigned vx_pitch(unsigned o) {
  return o / row * pitch + o % row;
}

// where element `o` of an array in shared memory lies, the number of its row xored into that of its vector of `vector` elements
template <unsigned vector, unsigned turns, unsigned row> __device__ __forceinline__ unsigned vx_swizzle(unsigned o) {
  return o ^ o / row % turns * vector;
}
