// Activations and powers.

// (high + low) * 2^exponent
struct vx_scaled { float high, low; int exponent; };

// x * 2^n for n in [-252, 254], rounded once if x * 2^(n/2) is normal
__device__ __forceinline__ float vx_scale_f32(float x, int n) {
  int half = n >> 1;
  return x * __int_as_float((half + 127) << 23) * __int_as_float((n - half + 127) << 23);
}

// 1 / x, within 1 ulp; what is below 2^-126 is 0
__device__ __forceinline__ float vx_reciprocal_f32(float x) {
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
  float y = vx_reciprocal_f32(d);
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
  float y = vx_reciprocal_f32(d);
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
