// Elementary functions of f32 for values that are only stored in 16 bits: within 1 ulp of the f16 (also for 8 bits) or the bf16.

// 2^x, within a few ulp of f32; what is below 2^-126 is 0
__device__ __forceinline__ float vx_exp2_f16(float x) {
  float r;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(x));
  return r;
}

// 2^x, within a few ulp of f32, small values too
__device__ __forceinline__ float vx_exp2_bf16(float x) {
  float r;
  asm("ex2.approx.f32 %0, %1;" : "=f"(r) : "f"(x));
  return r;
}

// e^x
__device__ __forceinline__ float vx_exp_f16(float x) {
  return vx_exp2_f16(x * 1.442695f);
}

// e^x
__device__ __forceinline__ float vx_exp_bf16(float x) {
  return vx_exp2_bf16(x * 1.442695f);
}

// tanh x, within 2^-11 in relative error: also for bf16
__device__ __forceinline__ float vx_tanh_f16(float x) {
  float r;
  asm("tanh.approx.f32 %0, %1;" : "=f"(r) : "f"(x));
  return r;
}

// 1 / (1 + e^-x)
__device__ __forceinline__ float vx_sigmoid_f16(float x) {
  return vx_reciprocal_f32(1.0f + vx_exp_f16(-x));
}

// x * sigmoid(x); x below -100 is no other than -100
__device__ __forceinline__ float vx_silu_f16(float x) {
  float z = vx_max_f32(x, -100.0f);
  return z * vx_sigmoid_f16(z);
}

// x * sigmoid(2u) = x / (1 + 2^t), t = x (A + B x^2)
__device__ __forceinline__ float vx_gelu_tanh_f16(float x) {
  float z = vx_max_f32(x, -10.0f);
  return z * vx_reciprocal_f32(1.0f + vx_exp2_f16(z * fmaf(z * z, -0.10294324f, -2.3022082f)));
}

// w / (1 + e^-x), small values too; w finite
__device__ __forceinline__ float vx_logistic_times_bf16(float w, float x) {
  float e = vx_exp_bf16(-fabsf(x)), q = w * vx_reciprocal_f32(1.0f + e);
  return x < 0.0f ? q * e : q;
}

// 1 / (1 + e^-x)
__device__ __forceinline__ float vx_sigmoid_bf16(float x) {
  return vx_logistic_times_bf16(1.0f, x);
}

// x * sigmoid(x)
__device__ __forceinline__ float vx_silu_bf16(float x) {
  float z = vx_max_f32(x, -200.0f);
  return vx_logistic_times_bf16(z, z);
}

// x * sigmoid(2u), 2u = x (A + B x^2)
__device__ __forceinline__ float vx_gelu_tanh_bf16(float x) {
  float z = vx_max_f32(x, -20.0f);
  return vx_logistic_times_bf16(z, z * fmaf(z * z, 0.071354814f, 1.5957692f));
}

// x * (1 + erf(x / sqrt(2))) / 2, also for bf16. The tail erfc(a / sqrt(2)) / 2, a = |x|, is exp(-a^2/2) y P(w) with
// y = 1 / (1 + 3a/8), w = 1 - y and P a polynomial fitted to 2^-14.9 in relative error for a up to 14.
__device__ __forceinline__ float vx_gelu_f16(float x) {
  float z = vx_max_f32(x, -20.0f), a = vx_min_f32(fabsf(z), 20.0f);
  float y = vx_reciprocal_f32(fmaf(0.375f, a, 1.0f)), w = 1.0f - y;
  float p = fmaf(fmaf(fmaf(fmaf(-0.09064275f, w, 0.16228947f), w, 0.14055222f), w, -0.56313586f), w, 0.4999979f);
  float tail = vx_exp2_bf16(a * a * -0.72134752f) * (y * p);
  return z * (x < 0.0f ? tail : 1.0f - tail);
}
