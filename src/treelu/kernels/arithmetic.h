/* Arithmetic on blocks of rows, written for one precision: REAL. */

/* a vector register of REALs, and as many words of a hash; anywhere in memory */
#define REGISTER(type) type __attribute__((vector_size(VECTOR_BYTES), aligned(sizeof(REAL)), may_alias))
#define VECTOR JOINED(Vector, REAL)
typedef REGISTER(REAL) VECTOR;
#define LANES ((int)(VECTOR_BYTES / sizeof(REAL)))
#define N_VECTORS (ROWS / LANES)

static inline REAL NAME(sum_of)(VECTOR v) {
    REAL total = 0;
    for (int i = 0; i < LANES; i++) total += v[i];
    return total;
}

/* y += u x */
static inline void NAME(add)(REAL *restrict y, REAL u, const REAL *restrict x) {
    for (int r = 0; r < ROWS; r++) y[r] += u * x[r];
}

/* x·y */
static inline REAL NAME(dot)(const REAL *restrict x, const REAL *restrict y) {
    const VECTOR *a = (const VECTOR *)x, *b = (const VECTOR *)y;
    VECTOR total = a[0] * b[0];
    for (int i = 1; i < N_VECTORS; i++) total += a[i] * b[i];
    return NAME(sum_of)(total);
}

static inline void NAME(fill)(REAL *x, REAL value) {
    for (int r = 0; r < ROWS; r++) x[r] = value;
}

/* exp(−t) of t ≥ 0, to the last digit of 1, in plain arithmetic: unlike a call of exp it vectorises. A Taylor series of
   exp(−t/64) − 1 = q, and six times exp(−2x) − 1 = q (q + 2). */
static inline REAL NAME(exponential)(REAL t) {
    const REAL one = 1, two = 2;
    t = (t < 64 ? t : 64) / 64;
    REAL series = one;
    if (sizeof(REAL) == 8) series = one - t / 6 * (one - t / 7 * (one - t / 8 * (one - t / 9)));
    else series = one - t / 6;
    REAL q = -t * (one - t / 2 * (one - t / 3 * (one - t / 4 * (one - t / 5 * series))));
    q = q * (q + two);
    q = q * (q + two);
    q = q * (q + two);
    q = q * (q + two);
    q = q * (q + two);
    return q * (q + two) + one;
}

/* log(1 + s) of 0 ≤ s ≤ 1, likewise: 4 artanh u with u = (r − 1) / (r + 1) and r = √(1 + s). */
static inline REAL NAME(logarithm)(REAL s) {
    REAL root = SQRT(1 + s) + 1, u = s / (root * root), v = u * u, series = 0;
    const double odd[] = {21, 19, 17, 15, 13, 11, 9, 7, 5, 3, 1};
    for (int i = 0; i < 11; i++) series = (REAL)(1 / odd[i]) + v * series;
    return 4 * u * series;
}
