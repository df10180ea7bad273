// Maxima and minima of floats.

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
