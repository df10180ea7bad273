// Device helpers of emitted kernels. Blocks are separated by blank lines and open with a comment giving their meaning;
// a kernel's text carries only the blocks that it names and what those need (prelude.py). Compile with
// --fmad=false --prec-div=true --prec-sqrt=true --ftz=false. T and W below: an int type and the unsigned type it wraps in.

// unsigned type of at least 32 bits in which an int of so many bytes wraps
template <int bytes> struct vx_unsigned { typedef unsigned int type; };

// the 64-bit case of the above
template <> struct vx_unsigned<8> { typedef unsigned long long type; };

// a + b, wrapping
template <typename T> __device__ __forceinline__ T vx_add(T a, T b) {
  typedef typename vx_unsigned<sizeof(T)>::type W;
  return (T)((W)a + (W)b);
}

// a - b, wrapping
template <typename T> __device__ __forceinline__ T vx_sub(T a, T b) {
  typedef typename vx_unsigned<sizeof(T)>::type W;
  return (T)((W)a - (W)b);
}

// a * b, wrapping
template <typename T> __device__ __forceinline__ T vx_mul(T a, T b) {
  typedef typename vx_unsigned<sizeof(T)>::type W;
  return (T)((W)a * (W)b);
}

// a * b + c, wrapping
template <typename T> __device__ __forceinline__ T vx_fma(T a, T b, T c) {
  return vx_add<T>(vx_mul<T>(a, b), c);
}

// -a, wrapping
template <typename T> __device__ __forceinline__ T vx_neg(T a) {
  return vx_sub<T>(0, a);
}

// magnitude, wrapping at the least value
template <typename T> __device__ __forceinline__ T vx_abs(T a) {
  return a < T(0) ? vx_neg<T>(a) : a;
}

// Division goes through magnitudes, with no branch on the divisor: NVRTC copies a loop for each combination of the conditions that
// do not change in it, without bound. 0 for x = 0, else 1
template <typename W> __device__ __forceinline__ W vx_some(W x) {
  return x < W(1) ? x : W(1);
}

// unsigned magnitude of an int
template <typename T> __device__ __forceinline__ typename vx_unsigned<sizeof(T)>::type vx_magnitude(T a) {
  typedef typename vx_unsigned<sizeof(T)>::type W;
  return a < T(0) ? W(0) - (W)a : (W)a;
}

// the int of a magnitude and the sign of another int
template <typename T> __device__ __forceinline__ T vx_with_sign(typename vx_unsigned<sizeof(T)>::type magnitude, T sign) {
  typedef typename vx_unsigned<sizeof(T)>::type W;
  W ones = sign < T(0) ? ~W(0) : W(0);
  return (T)((magnitude ^ ones) - ones);
}

// a / b rounded to zero; 0 where b is 0; wraps at INT_MIN / -1
template <typename T> __device__ __forceinline__ T vx_tdiv(T a, T b) {
  auto d = vx_magnitude<T>(b), some = vx_some(d);
  return vx_with_sign<T>(vx_magnitude<T>(a) / (d + 1 - some) * some, (T)(a ^ b));
}

// remainder of vx_tdiv, sign of a; 0 where b is 0
template <typename T> __device__ __forceinline__ T vx_trem(T a, T b) {
  auto d = vx_magnitude<T>(b), some = vx_some(d);
  return vx_with_sign<T>(vx_magnitude<T>(a) % (d + 1 - some) * some, a);
}

// floor(a / b); 0 where b is 0; wraps at INT_MIN / -1
template <typename T> __device__ __forceinline__ T vx_floordiv(T a, T b) {
  auto d = vx_magnitude<T>(b), some = vx_some(d), by = d + 1 - some, n = vx_magnitude<T>(a), q = n / by;
  T sign = (T)(a ^ b);
  if (sign < T(0) && q * by != n) ++q;
  return vx_with_sign<T>(q * some, sign);
}

// remainder of vx_floordiv, sign of b; 0 where b is 0
template <typename T> __device__ __forceinline__ T vx_mod(T a, T b) {
  auto d = vx_magnitude<T>(b), some = vx_some(d), r = vx_magnitude<T>(a) % (d + 1 - some);
  if ((T)(a ^ b) < T(0) && r != 0) r = d - r;
  return vx_with_sign<T>(r * some, b);
}

// ceil(a / b); 0 where b is 0; wraps at INT_MIN / -1
template <typename T> __device__ __forceinline__ T vx_ceildiv(T a, T b) {
  auto d = vx_magnitude<T>(b), some = vx_some(d), by = d + 1 - some, n = vx_magnitude<T>(a), q = n / by;
  T sign = (T)(a ^ b);
  if (!(sign < T(0)) && q * by != n) ++q;
  return vx_with_sign<T>(q * some, sign);
}

// lesser of two ints
template <typename T> __device__ __forceinline__ T vx_min(T a, T b) {
  return b < a ? b : a;
}

// greater of two ints
template <typename T> __device__ __forceinline__ T vx_max(T a, T b) {
  return b > a ? b : a;
}

// min(max(x, low), high) of ints
template <typename T> __device__ __forceinline__ T vx_clamp(T x, T low, T high) {
  return vx_min<T>(vx_max<T>(x, low), high);
}

// a << n; 0 where n is outside [0, width)
template <typename T> __device__ __forceinline__ T vx_shl(T a, T n) {
  typedef typename vx_unsigned<sizeof(T)>::type W;
  return (W)n < 8 * sizeof(T) ? (T)((W)a << (W)n) : T(0);
}

// a >> n; the sign, or 0 if unsigned, where n is outside [0, width)
template <typename T> __device__ __forceinline__ T vx_shr(T a, T n) {
  typedef typename vx_unsigned<sizeof(T)>::type W;
  if ((W)n < 8 * sizeof(T)) return (T)(a >> n);
  return a < T(0) ? T(-1) : T(0);
}

// greater, NaN if either is, -0 below +0
__device__ __forceinline__ float vx_max_f32(float a, float b) {
  float r;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(r) : "f"(a), "f"(b));
  return r;
}

// lesser, NaN if either is, -0 below +0
__device__ __forceinline__ float vx_min_f32(float a, float b) {
  float r;
  asm("min.NaN.f32 %0, %1, %2;" : "=f"(r) : "f"(a), "f"(b));
  return r;
}

// greater that is not NaN, -0 below +0
__device__ __forceinline__ float vx_maxnum_f32(float a, float b) {
  float r;
  asm("max.f32 %0, %1, %2;" : "=f"(r) : "f"(a), "f"(b));
  return r;
}

// lesser that is not NaN, -0 below +0
__device__ __forceinline__ float vx_minnum_f32(float a, float b) {
  float r;
  asm("min.f32 %0, %1, %2;" : "=f"(r) : "f"(a), "f"(b));
  return r;
}

// greater that is not NaN, -0 below +0
__device__ __forceinline__ double vx_maxnum_f64(double a, double b) {
  double r;
  asm("max.f64 %0, %1, %2;" : "=d"(r) : "d"(a), "d"(b));
  return r;
}

// lesser that is not NaN, -0 below +0
__device__ __forceinline__ double vx_minnum_f64(double a, double b) {
  double r;
  asm("min.f64 %0, %1, %2;" : "=d"(r) : "d"(a), "d"(b));
  return r;
}

// greater, NaN if either is, -0 below +0
__device__ __forceinline__ double vx_max_f64(double a, double b) {
  return a != a || b != b ? a + b : vx_maxnum_f64(a, b);
}

// lesser, NaN if either is, -0 below +0
__device__ __forceinline__ double vx_min_f64(double a, double b) {
  return a != a || b != b ? a + b : vx_minnum_f64(a, b);
}

// (high + low) * 2^exponent
struct vx_scaled { float high, low; int exponent; };

// x * 2^n for n in [-252, 254], rounded once if x * 2^(n/2) is normal
__device__ __forceinline__ float vx_scale_f32(float x, int n) {
  int half = n >> 1;
  return x * __int_as_float((half + 127) << 23) * __int_as_float((n - half + 127) << 23);
}

// 1 / x for x near 1, within 1 ulp
__device__ __forceinline__ float vx_reciprocal_near_f32(float x) {
  float r;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(x));
  return r;
}

// exp(x + low) for x in [-150, 88], about 2^-27 in relative error: n ln 2 is taken off in two steps, then 1 + r + r^2 q(r)
__device__ __forceinline__ vx_scaled vx_exp_scaled_f32(float x, float low) {
  float n = rintf(x * 1.442695f);
  float r = fmaf(n, 1.904654299957767e-09f, fmaf(n, -0.693147182464599609375f, x)) + low;
  float q = fmaf(fmaf(fmaf(fmaf(0.001395081f, r, 0.0083690705f), r, 0.041666202f), r, 0.16666517f), r, 0.5f);
  float v = fmaf(r * r, q, r);
  float high = 1.0f + v;
  vx_scaled result = {high, v - (high - 1.0f), (int)n};
  return result;
}

// w / (1 + exp(-x - low)), within 2 ulp; |w| below 2^100
__device__ __forceinline__ float vx_logistic_times_f32(float w, float x, float low) {
  bool left = x < 0.0f;
  vx_scaled p = vx_exp_scaled_f32(-vx_min_f32(fabsf(x), 150.0f), left ? low : -low);
  float e = vx_scale_f32(p.high, p.exponent);
  float d = 1.0f + e;
  float d_low = (e - (d - 1.0f)) + vx_scale_f32(p.low, p.exponent);
  float top = left ? w * p.high : w;
  float top_low = left ? fmaf(w, p.high, -top) + w * p.low : 0.0f;
  float y = vx_reciprocal_near_f32(d);
  float q = top * y;
  q = fmaf(fmaf(-q, d_low, fmaf(-q, d, top) + top_low), y, q);
  return vx_scale_f32(q, left ? p.exponent : 0);
}

// 1 / (1 + exp(-x))
__device__ __forceinline__ float vx_sigmoid_f32(float x) {
  return vx_logistic_times_f32(1.0f, x, 0.0f);
}

// x * sigmoid(x)
__device__ __forceinline__ float vx_silu_f32(float x) {
  float z = vx_max_f32(x, -150.0f);
  return x < 64.0f && x != 0.0f ? vx_logistic_times_f32(z, z, 0.0f) : x;
}

// x * (1 + tanh(u)) / 2 = x * sigmoid(2u), 2u = x (A + B x^2) carried as a sum of two floats
__device__ __forceinline__ float vx_gelu_tanh_f32(float x) {
  float z = vx_max_f32(x, -20.0f);
  float s = z * z, s_low = fmaf(z, z, -s);
  float c = s * 0.071354814f, c_low = fmaf(s, 0.071354814f, -c);
  float g = 1.5957692f + c, back = g - 1.5957692f;
  float g_low = (1.5957692f - (g - back)) + (c - back);
  g_low += fmaf(s_low, 0.071354814f, c_low) + fmaf(s, 2.3988325e-09f, -4.534068e-08f);
  float t = z * g, t_low = fmaf(z, g_low, fmaf(z, g, -t));
  return x < 20.0f && x != 0.0f ? vx_logistic_times_f32(z, t, t_low) : x;
}

// x * (1 + erf(x / sqrt(2))) / 2. The tail erfc(a / sqrt(2)) / 2, a = |x|, is exp(-a^2/2) y P(w) with y = 1 / (1 + 3a/8),
// w = 1 - y and P a polynomial fitted to 2^-27; the last steps carry what each rounding lost.
__device__ __forceinline__ float vx_gelu_f32(float x) {
  float z = vx_max_f32(x, -15.0f), a = vx_min_f32(fabsf(z), 15.0f);
  float s = a * a, s_low = fmaf(a, a, -s);
  vx_scaled p = vx_exp_scaled_f32(-0.5f * s, -0.5f * s_low);
  float b = 0.375f * a, b_low = fmaf(0.375f, a, -b);
  float d = 1.0f + b, back = d - 1.0f, d_low = ((1.0f - (d - back)) + (b - back)) + b_low;
  float y = vx_reciprocal_near_f32(d);
  y = fmaf(y, fmaf(-y, d, 1.0f), y);
  float y_low = y * fmaf(-y, d_low, fmaf(-y, d, 1.0f));
  float w = b * y, w_low = fmaf(b, y, -w) + fmaf(b, y_low, b_low * y);
  float k = fmaf(fmaf(fmaf(fmaf(0.008738445f, w, -0.05943409f), w, 0.1267297f), w, -0.1015279f), w, 0.04222344f);
  k = fmaf(fmaf(fmaf(k, w, -0.061878502f), w, -0.011155292f), w, 0.11963725f);
  float g = fmaf(k, w, 0.15011114f), g_low = fmaf(k, w, 0.15011114f - g);
  float h = fmaf(g, w, -0.5638466f), h_low = fmaf(g_low, w, fmaf(g, w_low, fmaf(g, w, -0.5638466f - h)));
  float f = fmaf(h, w, 0.5f), f_low = fmaf(h, w, 0.5f - f) + fmaf(h_low, w, h * w_low);
  float r = y * f, r_low = fmaf(y, f, -r) + fmaf(y, f_low, y_low * f);
  float t = p.high * r, t_low = fmaf(p.high, r, -t) + fmaf(p.high, r_low, p.low * r);
  bool left = x < 0.0f;
  float tail = vx_scale_f32(t, p.exponent), rest = 1.0f - tail;
  float u = left ? t : rest, u_low = left ? t_low : ((1.0f - rest) - tail) - vx_scale_f32(t_low, p.exponent);
  float high = z * u, value = high + fmaf(z, u_low, fmaf(z, u, -high));
  return x < 15.0f && x != 0.0f ? vx_scale_f32(value, left ? p.exponent : 0) : x;
}

// w / (1 + exp(-x - low)); the half exponent joins w first, so that a tiny factor is not rounded as a subnormal
__device__ __forceinline__ double vx_logistic_times_f64(double w, double x, double low) {
  double half = exp(-0.5 * fabs(x));
  half = fma(half, x < 0.0 ? 0.5 * low : -0.5 * low, half);
  double d = fma(half, half, 1.0);
  return x < 0.0 ? (w * half / d) * half : w / d;
}

// 1 / (1 + exp(-x))
__device__ __forceinline__ double vx_sigmoid_f64(double x) {
  return vx_logistic_times_f64(1.0, x, 0.0);
}

// x * sigmoid(x)
__device__ __forceinline__ double vx_silu_f64(double x) {
  double z = vx_max_f64(x, -2000.0);
  return vx_logistic_times_f64(z, z, 0.0);
}

// x * (1 + tanh(u)) / 2 = x * sigmoid(2u), 2u = x (A + B x^2) carried as a sum of two doubles
__device__ __forceinline__ double vx_gelu_tanh_f64(double x) {
  double w = vx_max_f64(x, -1000.0), z = vx_min_f64(w, 1000.0);
  double s = z * z, s_low = fma(z, z, -s);
  double c = s * 0.07135481627260025, c_low = fma(s, 0.07135481627260025, -c);
  double g = 1.5957691216057308 + c, back = g - 1.5957691216057308;
  double g_low = (1.5957691216057308 - (g - back)) + (c - back);
  g_low += fma(s_low, 0.07135481627260025, c_low) + fma(s, -6.175149918155315e-19, -9.96930880911092e-17);
  double t = z * g, t_low = fma(z, g_low, fma(z, g, -t));
  return vx_logistic_times_f64(w, t, t_low);
}

// x * (1 + erf(x / sqrt(2))) / 2
__device__ __forceinline__ double vx_gelu_f64(double x) {
  double z = vx_max_f64(x, -1000.0);
  return z * normcdf(z);
}

// a to the b: powf is only good to 4 ulp
__device__ __forceinline__ float vx_pow_f32(float a, float b) {
  return (float)pow((double)a, (double)b);
}

// uniform f32 in [0, 1): Philox4x32-10, key = seed, counter = (offset, 0), top 24 bits of word 0
__device__ __forceinline__ float vx_rand(long long seed, long long offset) {
  unsigned int k0 = (unsigned int)seed, k1 = (unsigned int)((unsigned long long)seed >> 32);
  unsigned int c0 = (unsigned int)offset, c1 = (unsigned int)((unsigned long long)offset >> 32), c2 = 0, c3 = 0;
#pragma unroll
  for (int round = 0; round < 10; ++round) {
    unsigned int h0 = __umulhi(0xD2511F53u, c0), l0 = 0xD2511F53u * c0;
    unsigned int h1 = __umulhi(0xCD9E8D57u, c2), l1 = 0xCD9E8D57u * c2;
    c0 = h1 ^ c1 ^ k0;
    c1 = l1;
    c2 = h0 ^ c3 ^ k1;
    c3 = l0;
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  return (float)(c0 >> 8) * 5.9604644775390625e-08f;
}

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

// the lanes of this thread's group of `width` (1 to 32) in its warp
__device__ __forceinline__ unsigned int vx_group_mask(int width) {
  return (0xffffffffu >> (32 - width)) << (threadIdx.x & 31u & ~(width - 1u));
}

// --debug builds: say what is wrong, and stop the kernel
__device__ __noinline__ void vx_fail(const char* message) {
  printf("%s\n", message);
  __trap();
}

// copy so many bytes in one access, both places being multiples of them
template <int bytes> __device__ __forceinline__ void vx_move(void* to, const void* from) {
  if (bytes == 2) *(unsigned short*)to = *(const unsigned short*)from;
  if (bytes == 4) *(unsigned int*)to = *(const unsigned int*)from;
  if (bytes == 8) *(uint2*)to = *(const uint2*)from;
  if (bytes == 16) *(uint4*)to = *(const uint4*)from;
}

// whether a pointer is a multiple of so many bytes
template <int bytes> __device__ __forceinline__ bool vx_aligned(const void* place) {
  return ((unsigned long long)place & (bytes - 1ull)) == 0ull;
}
