// Integer arithmetic that wraps, division, shifts. T and W: an int type and the unsigned type it wraps in.

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

// magnitude, wrapping at the least value. That of a byte is an instruction that LLVM does not see: NVRTC 13.0 to 13.5 compares a magnitude
// of 8 bits with others before it has extended it to 16
template <typename T> __device__ __forceinline__ T vx_abs(T a) {
  if (sizeof(T) == 1) {
    int wide;
    asm("abs.s32 %0, %1;" : "=r"(wide) : "r"((int)a));
    return (T)wide;
  }
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

// i + by, or end where that is not ahead of it
template <typename T> __device__ __forceinline__ T vx_next(T i, T by, T end) {
  typedef typename vx_unsigned<sizeof(T)>::type W;
  W left = by > T(0) ? (W)end - (W)i : (W)i - (W)end;
  return left > vx_magnitude<T>(by) ? i + by : end;
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
