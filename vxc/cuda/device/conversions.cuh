// Conversions that round once, saturate, or keep the bits.

// the bits of x as a To of the same size
template <typename To, typename From> __device__ __forceinline__ To vx_bits(From x) {
  static_assert(sizeof(To) == sizeof(From), "reinterpret needs equal widths");
  To result;
  memcpy(&result, &x, sizeof(To));
  return result;
}

// low 4 bits as a signed value
__device__ __forceinline__ signed char vx_wrap_i4(int x) {
  return (signed char)(((x & 15) ^ 8) - 8);
}

// low 4 bits as an unsigned value
__device__ __forceinline__ unsigned char vx_wrap_u4(int x) {
  return (unsigned char)(x & 15);
}

// f64 as f32 rounded to odd (toward zero, last bit set if inexact): rounding that again to 16 or 8 bits rounds once
__device__ __forceinline__ float vx_odd_f32(double x) {
  float r = __double2float_rz(x);
  return (double)r != x ? __int_as_float(__float_as_int(r) | 1) : r;
}

// i64 as f32 rounded to odd
__device__ __forceinline__ float vx_odd_f32(long long x) {
  float r = __ll2float_rz(x);
  return __float2ll_rz(r) != x ? __int_as_float(__float_as_int(r) | 1) : r;
}

// u64 as f32 rounded to odd
__device__ __forceinline__ float vx_odd_f32(unsigned long long x) {
  float r = __ull2float_rz(x);
  return __float2ull_rz(r) != x ? __int_as_float(__float_as_int(r) | 1) : r;
}

// f32 truncated to an int of at most 32 bits in [low, high]; NaN gives 0
template <typename T> __device__ __forceinline__ T vx_trunc_int(float x, int low, int high) {
  return (T)min(max(__float2int_rz(x), low), high);
}

// f64 truncated to an int of at most 32 bits in [low, high]; NaN gives 0
template <typename T> __device__ __forceinline__ T vx_trunc_int(double x, int low, int high) {
  return x != x ? T(0) : (T)min(max(__double2int_rz(x), low), high);
}

// f32 truncated and saturated to u32; NaN gives 0
__device__ __forceinline__ unsigned int vx_trunc_u32(float x) {
  return __float2uint_rz(x);
}

// f64 truncated and saturated to u32; NaN gives 0
__device__ __forceinline__ unsigned int vx_trunc_u32(double x) {
  return x != x ? 0u : __double2uint_rz(x);
}

// f32 truncated and saturated to i64; NaN gives 0
__device__ __forceinline__ long long vx_trunc_i64(float x) {
  return x != x ? 0ll : __float2ll_rz(x);
}

// f64 truncated and saturated to i64; NaN gives 0
__device__ __forceinline__ long long vx_trunc_i64(double x) {
  return x != x ? 0ll : __double2ll_rz(x);
}

// f32 truncated and saturated to u64; NaN gives 0
__device__ __forceinline__ unsigned long long vx_trunc_u64(float x) {
  return x != x ? 0ull : __float2ull_rz(x);
}

// f64 truncated and saturated to u64; NaN gives 0
__device__ __forceinline__ unsigned long long vx_trunc_u64(double x) {
  return x != x ? 0ull : __double2ull_rz(x);
}

// f32 to f8e4m3, nearest even, clamped to +-448; NaN stays
__device__ __forceinline__ __nv_fp8_e4m3 vx_sat_f8e4m3(float x) {
  __nv_fp8_e4m3 r;
  r.__x = __nv_cvt_float_to_fp8(x, __NV_SATFINITE, __NV_E4M3);
  return r;
}

// f32 to f8e5m2, nearest even, clamped to +-57344; NaN stays
__device__ __forceinline__ __nv_fp8_e5m2 vx_sat_f8e5m2(float x) {
  __nv_fp8_e5m2 r;
  r.__x = __nv_cvt_float_to_fp8(x, __NV_SATFINITE, __NV_E5M2);
  return r;
}

// f32 to f8e4m3, nearest even; what rounds past 448 becomes NaN
__device__ __forceinline__ __nv_fp8_e4m3 vx_f8e4m3(float x) {
  __nv_fp8_e4m3 r = vx_sat_f8e4m3(x);
  if (fabsf(x) > 464.0f) r.__x |= 0x7f;
  return r;
}

// f32 to f8e5m2, nearest even; what rounds past 57344 becomes inf
__device__ __forceinline__ __nv_fp8_e5m2 vx_f8e5m2(float x) {
  __nv_fp8_e5m2 r = vx_sat_f8e5m2(x);
  if (fabsf(x) >= 61440.0f) r.__x = (r.__x & 0x80) | 0x7c;
  return r;
}
