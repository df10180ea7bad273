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

// whether a pointer is a multiple of so many bytes
template <int bytes> __device__ __forceinline__ bool vx_aligned(const void* place) {
  return ((unsigned long long)place & (bytes - 1ull)) == 0ull;
}

// registers with the first `left` (1 or more) of so many bytes at a place, in accesses of `unit` bytes, of which both are multiples
template <int bytes, int unit> __device__ __forceinline__ void vx_load_pieces(unsigned int* words, const char* from, int left) {
  #pragma unroll
  for (int k = 0; k < bytes; k += unit) {
    const unsigned int shift = k % 4 * 8, before = k % 4 == 0 ? 0u : words[k / 4];
    if (k == 0 || k < left) {
      if (unit == 1) words[k / 4] = before | (unsigned int)*(const unsigned char*)(from + k) << shift;
      if (unit == 2) words[k / 4] = before | (unsigned int)*(const unsigned short*)(from + k) << shift;
      if (unit > 2) vx_move<unit>(&words[k / 4], from + k);
    }
  }
}

// whether accesses of `unit` bytes suit `bytes` bytes, elements of `size` bytes: it divides `place`, where they begin or'ed with how many
template <int bytes, int size, int unit> __device__ __forceinline__ bool vx_suits(unsigned int place) {
  return unit <= bytes && unit >= size && (unit == size || place % unit == 0u);
}

// copy the first `left` of so many bytes (2 to 16) from any place to an array of the thread: the whole vectors of memory that hold them,
// one or two, and a shift
template <int bytes> __device__ __forceinline__ void vx_load_straight(void* to, const void* from, int left = bytes) {
  __align__(16) unsigned int words[8] = {};
  const unsigned int past = (unsigned int)(unsigned long long)from & (bytes - 1u);
  const char* first = (const char*)from - past;
  vx_move<bytes>(words, first);
  const bool second = past + left > bytes;
  if (bytes == 2) {
    if (second) words[0] = words[0] >> 8 | (unsigned int)*(const unsigned short*)(first + 2) << 8;
    else words[0] >>= past * 8;
  } else {
    if (second) vx_move<bytes>(&words[bytes / 4], first + bytes);
    #pragma unroll
    for (int k = 0; k < 6; ++k) words[k] = past & 8 ? words[k + 2] : words[k];
    #pragma unroll
    for (int k = 0; k < 5; ++k) words[k] = past & 4 ? words[k + 1] : words[k];
    #pragma unroll
    for (int k = 0; k < 4; ++k) words[k] = __funnelshift_r(words[k], words[k + 1], past % 4 * 8);
  }
  vx_move<bytes>(to, words);
}

// so many elements of `size` bytes, 16 bytes, from element `at` of an array of `count` on, of which one at least is one of its: the vectors
// of memory that hold them and have one, and a shift
template <int size> __device__ __forceinline__ void vx_load_held(void* to, const void* array, long long at, long long count) {
  __align__(16) unsigned int words[8] = {};
  const char* place = (const char*)array + at * size;
  const unsigned int past = (unsigned int)(unsigned long long)place & 15u;
  const long long first = at * size - past;
  if (first > -16 && first < count * size) vx_move<16>(words, place - past);
  if (past && first > -32 && first + 16 < count * size) vx_move<16>(&words[4], place - past + 16);
  #pragma unroll
  for (int k = 0; k < 6; ++k) words[k] = past & 8 ? words[k + 2] : words[k];
  #pragma unroll
  for (int k = 0; k < 5; ++k) words[k] = past & 4 && size < 8 ? words[k + 1] : words[k];
  #pragma unroll
  for (int k = 0; k < 4; ++k) words[k] = size < 4 ? __funnelshift_r(words[k], words[k + 1], past % 4 * 8) : words[k];
  vx_move<16>(to, words);
}

// the same by branches, in accesses as wide as place and number allow, of `size` bytes at least; the branches end with whole registers
template <int bytes, int size> __device__ __forceinline__ void vx_load_branch(void* to, const void* from, int left = bytes) {
  __align__(16) unsigned int words[4];
  const char* place = (const char*)from;
  const unsigned int past = ((unsigned int)(unsigned long long)from | left) & (bytes - 1u);
  if (vx_suits<bytes, size, 16>(past)) vx_load_pieces<bytes, 16>(words, place, left);
  else if (vx_suits<bytes, size, 8>(past)) vx_load_pieces<bytes, 8>(words, place, left);
  else if (vx_suits<bytes, size, 4>(past)) vx_load_pieces<bytes, 4>(words, place, left);
  else if (vx_suits<bytes, size, 2>(past)) vx_load_pieces<bytes, 2>(words, place, left);
  else vx_load_pieces<bytes, 1>(words, place, left);
  vx_move<bytes>(to, words);
}

// registers with the first `left` (1 or more) of so many bytes to a place, in accesses of `unit` bytes, of which both are multiples
template <int bytes, int unit> __device__ __forceinline__ void vx_store_pieces(char* to, const unsigned int* words, int left = bytes) {
  #pragma unroll
  for (int k = 0; k < bytes; k += unit) {
    if (k == 0 || k < left) {
      if (unit == 1) *(unsigned char*)(to + k) = (unsigned char)(words[k / 4] >> k % 4 * 8);
      if (unit == 2) *(unsigned short*)(to + k) = (unsigned short)(words[k / 4] >> k % 4 * 8);
      if (unit > 2) vx_move<unit>(to + k, &words[k / 4]);
    }
  }
}

// store so many bytes, elements of `size` bytes, to a place between two words: words, and in front of them and behind what is less
template <int bytes, int size> __device__ __forceinline__ void vx_store_between(char* to, const unsigned int* words) {
  const unsigned int past = size == 2 ? 2u : (unsigned int)(unsigned long long)to & 3u, last = words[bytes / 4 - 1];
  if (past & 1) *(unsigned char*)to = (unsigned char)words[0];
  if (past < 3) *(unsigned short*)(to + (past & 1)) = (unsigned short)(words[0] >> (past & 1) * 8);
  #pragma unroll
  for (int k = 0; k < bytes / 4 - 1; ++k) {
    *(unsigned int*)(to + (4 - past) + k * 4) = __funnelshift_r(words[k], words[k + 1], (4 - past) * 8);
  }
  if (past & 2) *(unsigned short*)(to + bytes - past) = (unsigned short)(last >> (4 - past) * 8);
  if (past & 1) *(unsigned char*)(to + bytes - 1) = (unsigned char)(last >> 24);
}

// copy so many bytes, elements of `size` bytes, from an array of the thread to any place, in accesses as wide as that allows, or in words
// and two ends
template <int bytes, int size> __device__ __forceinline__ void vx_store_anywhere(void* to, const void* from) {
  __align__(16) unsigned int words[4];
  char* place = (char*)to;
  const unsigned int past = (unsigned int)(unsigned long long)to & (bytes - 1u);
  vx_move<bytes>(words, from);
  if (vx_suits<bytes, size, 16>(past)) vx_store_pieces<bytes, 16>(place, words);
  else if (vx_suits<bytes, size, 8>(past)) vx_store_pieces<bytes, 8>(place, words);
  else if (vx_suits<bytes, size, 4>(past)) vx_store_pieces<bytes, 4>(place, words);
  else if (bytes > 2) vx_store_between<bytes, size>(place, words);
  else if (vx_suits<bytes, size, 2>(past)) vx_store_pieces<bytes, 2>(place, words);
  else vx_store_pieces<bytes, 1>(place, words);
}

// copy the first `left` of so many bytes from an array of the thread to any place, in accesses as wide as that and the number allow, of
// `size` bytes at least
template <int bytes, int size> __device__ __forceinline__ void vx_store_part_anywhere(void* to, const void* from, int left) {
  __align__(16) unsigned int words[4];
  char* place = (char*)to;
  const unsigned int past = ((unsigned int)(unsigned long long)to | left) & (bytes - 1u);
  vx_move<bytes>(words, from);
  if (vx_suits<bytes, size, 16>(past)) vx_store_pieces<bytes, 16>(place, words, left);
  else if (vx_suits<bytes, size, 8>(past)) vx_store_pieces<bytes, 8>(place, words, left);
  else if (vx_suits<bytes, size, 4>(past)) vx_store_pieces<bytes, 4>(place, words, left);
  else if (vx_suits<bytes, size, 2>(past)) vx_store_pieces<bytes, 2>(place, words, left);
  else vx_store_pieces<bytes, 1>(place, words, left);
}

// store the next `unit` bytes of registers, if there are so many left
template <int unit> __device__ __forceinline__ void vx_store_next(char*& to, unsigned int* words, int left) {
  if (left & unit) {
    vx_store_pieces<unit, unit>(to, words);
    to += unit;
    #pragma unroll
    for (int k = 0; k < 2; ++k) words[k] = unit == 2 ? words[k] >> 16 : words[k + unit / 4];
  }
}

// copy the first `left` of so many bytes, elements of `size` bytes, from an array of the thread to a multiple of them, ever narrower
template <int bytes, int size> __device__ __forceinline__ void vx_store_part(void* place, const void* from, int left) {
  __align__(16) unsigned int words[4];
  char* to = (char*)place;
  vx_move<bytes>(words, from);
  if (left == bytes) {
    vx_move<bytes>(to, words);
  } else {
    if (bytes > 8) vx_store_next<8>(to, words, left);
    if (bytes > 4 && size <= 4) vx_store_next<4>(to, words, left);
    if (bytes > 2 && size <= 2) vx_store_next<2>(to, words, left);
    if (size == 1) vx_store_next<1>(to, words, left);
  }
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

// where element `o` of an array in shared memory lies, whose rows of `row` elements begin `pitch` elements apart
template <unsigned row, unsigned pitch> __device__ __forceinline__ unsigned vx_pitch(unsigned o) {
  return o / row * pitch + o % row;
}

// where element `o` of an array in shared memory lies, the number of its row xored into that of its vector of `vector` elements
template <unsigned vector, unsigned turns, unsigned row> __device__ __forceinline__ unsigned vx_swizzle(unsigned o) {
  return o ^ o / row % turns * vector;
}
