/* Networks on CSR or dense rows: forward, backward, activation patterns, and many updates in one call.

   Neurons i = 1 … M read the features and each other (Eq. 1 to 3, 5): z_i = w_i·x + Σ_k<i u_ik a_k + b_i, a_i = σ(z_i) and
   o_i = σ'(z_i). A locally constant network reads their Jacobian in the coefficient form of `treelu.nn.coefficients`:

       T_i = e_i + Σ_k<i u_ik C_k      C_i = o_i T_i      c_i = a_i − C_i·s      with s_j = w_j·x
       out_h = β_h + Σ_ij G_hij C_ij + Σ_i v_hi c_i       with G_hij = V_hi·w_j

   A locally linear network has out = A x + B a + c. DropConnect's masks are those of `treelu.nn.drop_connect` and act
   within z only. Rows go through in blocks; T, C and G are triangles. Weights lie feature by feature, padded to a multiple
   of COLUMNS: a non-zero entry touches one short vector. */

#define NETWORK JOINED(Network, REAL)
#define STATE JOINED(State, REAL)
#define ROW JOINED(Row, REAL)
#define BLOCK JOINED(Block, REAL)
typedef REAL BLOCK[ROWS];

#define PART_BYTES (VECTOR_BYTES < COLUMNS * sizeof(REAL) ? VECTOR_BYTES : COLUMNS * sizeof(REAL))
#define PARTS ((int)(COLUMNS * sizeof(REAL) / PART_BYTES)) /* registers that COLUMNS columns fill */
#define PART JOINED(Part, REAL)
#define HASHES JOINED(Hashes, REAL)
#define BITS JOINED(Bits, REAL)
typedef REAL PART __attribute__((vector_size(PART_BYTES), aligned(sizeof(REAL)), may_alias));
typedef WORD HASHES __attribute__((vector_size(PART_BYTES), aligned(sizeof(REAL)), may_alias));
typedef SIGNED BITS __attribute__((vector_size(PART_BYTES), aligned(sizeof(REAL)), may_alias));

typedef struct {
    int64_t D, M, C, P; /* features, neurons, columns of weights, the same padded */
    const void *values, *starts;
    const int32_t *features;
    int64_t width; /* of a dense table; 0: CSR */
    char wide_values, wide_starts;
    REAL *x;       /* room for a row (D) in this precision */
    const REAL *packed, *connection, *bias;
    REAL annealing, slope, bend;
    WORD threshold, *counters; /* weights whose hash is below the threshold are dropped; 0: none. Counters are (P) */
    REAL scale;
} NETWORK;

/* A block's arrays, each of so many blocks: what the forward pass leaves, and gradients by it. */
typedef struct {
    BLOCK *s, *z, *a, *o, *curvature, *kept; /* C, M, M, M, M, M (M − 1) / 2 masks of connections */
    BLOCK *t, *c, *offsets;                  /* triangles, M */
    BLOCK *by_s, *by_z, *by_a, *by_o, *by_c, *by_offsets;
} STATE;

static inline int64_t NAME(under)(int64_t i) { return i * (i + 1) / 2; } /* where row i of a triangle begins */

/* The arrays of a block in memory for them; returns how many blocks there are. */
static int64_t NAME(lay_out)(STATE *state, REAL *memory, int64_t M, int64_t C) {
    BLOCK *at = (BLOCK *)memory, *begin = at;
    BLOCK **arrays[] = {&state->s, &state->z, &state->a, &state->o, &state->curvature, &state->kept, &state->t, &state->c,
        &state->offsets, &state->by_s, &state->by_z, &state->by_a, &state->by_o, &state->by_c, &state->by_offsets};
    int64_t T = NAME(under)(M), counts[] = {C, M, M, M, M, T, T, T, M, C, M, M, M, T, M};
    for (int i = 0; i < 15; i++) *arrays[i] = at, at += counts[i];
    return at - begin;
}

/* Reading a call's arguments */

static void NAME(read_entries)(Call *call, NETWORK *net) {
    net->wide_values = call->is_wide[call->next], net->values = array(call), net->features = array(call);
    net->wide_starts = call->is_wide[call->next], net->starts = array(call), net->width = integer(call);
}

static void NAME(read_activation)(Call *call, NETWORK *net) {
    net->annealing = number(call), net->slope = number(call), net->bend = number(call);
}

static void NAME(read_neurons)(Call *call, NETWORK *net) {
    net->packed = array(call), net->connection = array(call), net->bias = array(call);
    net->D = call->size['d'], net->M = call->size['m'], net->P = call->size['c'];
}

static void NAME(make_room)(Call *call, NETWORK *net) {
    net->x = take(call, sizeof(REAL) * net->D);
    net->counters = take(call, sizeof(WORD) * net->P);
    for (int64_t i = 0; i < net->P; i++) net->counters[i] = (uint32_t)((uint32_t)(i + 1) * 0xC2B2AE35u);
}

/* DropConnect: the hash of `treelu.nn.drop_connect` */

static inline uint32_t NAME(mix)(uint32_t x) {
    x = (x ^ (x >> 16)) * 0x7FEB352Du;
    x = (x ^ (x >> 15)) * 0x846CA68Bu;
    return x ^ (x >> 16);
}

static inline uint32_t NAME(pair)(uint32_t key, int64_t feature) { return NAME(mix)(key + (uint32_t)feature * 0x85EBCA6Bu); }

static inline uint32_t NAME(row_key)(uint64_t key, int64_t row) {
    return NAME(mix)(NAME(mix)((uint32_t)row * 0x9E3779B9u + (uint32_t)key) + (uint32_t)(key >> 32));
}

/* `DropConnect.row_keys`, as 32 bits each */
static double NAME(row_keys)(Call *call) {
    uint64_t key = (uint64_t)integer(call);
    uint32_t *keys = array(call);
    for (int64_t row = 0; row < call->size['n']; row++) keys[row] = NAME(row_key)(key, row);
    return 0;
}

/* all bits set where a weight is kept */
static inline BITS NAME(survivors)(uint32_t pair, const HASHES *counters, WORD threshold) {
    const WORD word = 0xFFFFFFFFu; /* 64-bit lanes hold hashes of 32 bits */
    HASHES x = (pair + *counters) & word;
    x = ((x ^ (x >> 16)) * (WORD)0x7FEB352Du) & word;
    x = ((x ^ (x >> 15)) * (WORD)0x846CA68Bu) & word;
    return (BITS)((x ^ (x >> 16)) >= threshold);
}

/* Projections */

typedef struct { const REAL *x; const int32_t *features; int64_t n; } ROW; /* dense where features is NULL */

static inline ROW NAME(row)(const NETWORK *net, int64_t number) {
    int64_t begin = number * net->width, end = begin + net->width;
    if (!net->width) {
        begin = net->wide_starts ? ((const int64_t *)net->starts)[number] : ((const int32_t *)net->starts)[number];
        end = net->wide_starts ? ((const int64_t *)net->starts)[number + 1] : ((const int32_t *)net->starts)[number + 1];
    }
    ROW row = {(const REAL *)net->values + begin, net->width ? NULL : net->features + begin, end - begin};
    if (net->wide_values != (sizeof(REAL) == 8)) {
        for (int64_t e = 0; e < row.n; e++) net->x[e] = NAME(read)(net->values, net->wide_values, begin + e);
        row.x = net->x;
    }
    return row;
}

/* total = Wᵀx of n · COLUMNS columns; with masks, in `kept` the same with the surviving weights. Sums stay in registers. */
static inline __attribute__((always_inline)) void NAME(sums)(
    const int n, const int masked, const NETWORK *net, ROW row, uint32_t key, int64_t column, REAL *total, REAL *kept) {
    PART sums[2 * PARTS] = {}, surviving[2 * PARTS] = {};
    const HASHES *counters = (const HASHES *)(net->counters + column);
    for (int64_t e = 0; e < row.n; e++) {
        REAL x = row.x[e];
        if (masked && x == 0) continue;
        int64_t d = row.features ? row.features[e] : e;
        const PART *weight = (const PART *)(net->packed + d * net->P + column);
        uint32_t pair = masked ? NAME(pair)(key, d) : 0;
        _Pragma("GCC unroll 8") for (int i = 0; i < n * PARTS; i++) {
            PART term = x * weight[i];
            sums[i] += term;
            if (masked) surviving[i] += (PART)((BITS)term & NAME(survivors)(pair, counters + i, net->threshold));
        }
    }
    for (int i = 0; i < n * PARTS; i++) {
        ((PART *)(total + column))[i] = sums[i];
        if (masked) ((PART *)(kept + column))[i] = surviving[i];
    }
}

static inline __attribute__((always_inline)) void NAME(all_sums)(
    const int masked, const NETWORK *net, ROW row, uint32_t key, REAL *total, REAL *kept) {
    int64_t column = 0;
    for (; column + 2 * COLUMNS <= net->P; column += 2 * COLUMNS) NAME(sums)(2, masked, net, row, key, column, total, kept);
    if (column < net->P) NAME(sums)(1, masked, net, row, key, column, total, kept);
}

/* s_i = w_i·x, and in z the same with the surviving weights, of `count` rows whose first is row `position` of its batch */
static void NAME(project_rows)(const NETWORK *net, STATE *state, const int64_t *rows, int64_t count, int64_t position, uint64_t key) {
    REAL total[net->P], kept[net->P], *second = net->threshold ? kept : total;
    for (int64_t r = 0; r < ROWS; r++) {
        if (r >= count) {
            for (int64_t i = 0; i < net->P; i++) total[i] = kept[i] = 0;
        } else if (net->threshold) {
            NAME(all_sums)(1, net, NAME(row)(net, rows[r]), NAME(row_key)(key, position + r), total, kept);
        } else {
            NAME(all_sums)(0, net, NAME(row)(net, rows[r]), 0, total, kept);
        }
        REAL scale = net->threshold ? net->scale : 1;
        for (int64_t i = 0; i < net->C; i++) state->s[i][r] = total[i];
        for (int64_t i = 0; i < net->M; i++) state->z[i][r] = scale * second[i];
    }
}

/* by_packed[d] += x_d (total + the surviving of kept), n · COLUMNS columns */
static inline __attribute__((always_inline)) void NAME(spread)(
    const int n, const int masked, const NETWORK *net, ROW row, uint32_t key, int64_t column, const REAL *total, const REAL *kept, REAL *by_packed) {
    PART sums[2 * PARTS], surviving[2 * PARTS];
    const HASHES *counters = (const HASHES *)(net->counters + column);
    for (int i = 0; i < n * PARTS; i++) {
        sums[i] = ((const PART *)(total + column))[i];
        surviving[i] = ((const PART *)(kept + column))[i];
    }
    for (int64_t e = 0; e < row.n; e++) {
        REAL x = row.x[e];
        if (x == 0) continue;
        int64_t d = row.features ? row.features[e] : e;
        PART *by = (PART *)(by_packed + d * net->P + column);
        uint32_t pair = masked ? NAME(pair)(key, d) : 0;
        _Pragma("GCC unroll 8") for (int i = 0; i < n * PARTS; i++) {
            PART slope = sums[i];
            if (masked) slope += (PART)((BITS)surviving[i] & NAME(survivors)(pair, counters + i, net->threshold));
            by[i] += x * slope;
        }
    }
}

static inline __attribute__((always_inline)) void NAME(spread_all)(
    const int masked, const NETWORK *net, ROW row, uint32_t key, const REAL *total, const REAL *kept, REAL *by_packed) {
    int64_t column = 0;
    for (; column + 2 * COLUMNS <= net->P; column += 2 * COLUMNS) NAME(spread)(2, masked, net, row, key, column, total, kept, by_packed);
    if (column < net->P) NAME(spread)(1, masked, net, row, key, column, total, kept, by_packed);
}

/* by_packed += x (by_s + mask · by_z) */
static void NAME(project_backward)(
    const NETWORK *net, const STATE *state, const int64_t *rows, int64_t count, int64_t position, uint64_t key, REAL *by_packed) {
    REAL total[net->P], kept[net->P];
    for (int64_t i = 0; i < net->P; i++) total[i] = kept[i] = 0;
    for (int64_t r = 0; r < count; r++) {
        for (int64_t i = 0; i < net->C; i++) total[i] = state->by_s[i][r];
        for (int64_t i = 0; i < net->M; i++) {
            if (net->threshold) kept[i] = net->scale * state->by_z[i][r];
            else total[i] += state->by_z[i][r];
        }
        ROW row = NAME(row)(net, rows[r]);
        if (net->threshold) NAME(spread_all)(1, net, row, NAME(row_key)(key, position + r), total, kept, by_packed);
        else NAME(spread_all)(0, net, row, 0, total, kept, by_packed);
    }
}

/* Neurons */

/* a, o and σ'' of neuron i from its z without the bias */
static inline __attribute__((always_inline)) void NAME(activate_one)(
    const int smooth, const int bent, const NETWORK *net, REAL bias, REAL *restrict z, REAL *restrict a, REAL *restrict o, REAL *restrict curvature) {
    const REAL annealing = net->annealing, slope = net->slope, bend = net->bend, one = 1;
    for (int r = 0; r < ROWS; r++) {
        REAL z_r = z[r] + bias, step = z_r >= 0 ? 1 : 0, value = annealing * step * z_r, derivative = annealing * step, second = 0;
        if (smooth || bent) {
            REAL small = NAME(exponential)(z_r >= 0 ? z_r : -z_r), sigmoid = (z_r >= 0 ? one : small) / (one + small);
            if (smooth) {
                value += (one - annealing) * (step * z_r + NAME(logarithm)(small));
                derivative += (one - annealing) * sigmoid;
            }
            second = (one - slope) * bend * sigmoid * (one - sigmoid);
        }
        z[r] = z_r;
        a[r] = slope * z_r + (one - slope) * value;
        o[r] = slope + (one - slope) * derivative;
        curvature[r] = second;
    }
}

/* Turn projections into pre-activations in place; fill a, o, the curvature and the connections' masks. */
static void NAME(activate)(const NETWORK *net, STATE *state, int64_t position, uint64_t key) {
    uint32_t keys[ROWS], pairs[net->M][ROWS];
    if (net->threshold)
        for (int r = 0; r < ROWS; r++) keys[r] = NAME(row_key)(key, position + r);
    for (int64_t i = 0; i < net->M; i++) {
        REAL *restrict z = state->z[i];
        for (int64_t k = 0; k < i; k++) {
            const REAL u = net->connection[i * net->M + k], *restrict a = state->a[k];
            if (net->threshold) {
                REAL *restrict kept = state->kept[NAME(under)(i) + k];
                const uint32_t *restrict pair = pairs[k], counter = net->counters[i], threshold = net->threshold;
                const REAL scale = net->scale;
                for (int r = 0; r < ROWS; r++) kept[r] = NAME(mix)(pair[r] + counter) >= threshold ? scale : 0;
                for (int r = 0; r < ROWS; r++) z[r] += u * kept[r] * a[r];
            } else {
                NAME(add)(z, u, a);
            }
        }
        int smooth = net->annealing != 1, bent = net->bend != 0;
        if (smooth) NAME(activate_one)(1, 1, net, net->bias[i], z, state->a[i], state->o[i], state->curvature[i]);
        else if (bent) NAME(activate_one)(0, 1, net, net->bias[i], z, state->a[i], state->o[i], state->curvature[i]);
        else NAME(activate_one)(0, 0, net, net->bias[i], z, state->a[i], state->o[i], state->curvature[i]);
        if (net->threshold)
            for (int r = 0; r < ROWS; r++) pairs[i][r] = NAME(pair)(keys[r], net->D + i);
    }
}

/* Fill by_z; add to by_connection and by_bias. by_a is used up. */
static void NAME(activate_backward)(const NETWORK *net, STATE *state, REAL *by_connection, REAL *by_bias) {
    BLOCK ones;
    NAME(fill)(ones, 1);
    for (int64_t i = net->M - 1; i >= 0; i--) {
        REAL *restrict by_z = state->by_z[i];
        for (int r = 0; r < ROWS; r++) by_z[r] = state->by_a[i][r] * state->o[i][r] + state->by_o[i][r] * state->curvature[i][r];
        by_bias[i] += NAME(dot)(by_z, ones);
        for (int64_t k = 0; k < i; k++) {
            const REAL u = net->connection[i * net->M + k];
            if (net->threshold) {
                BLOCK masked;
                for (int r = 0; r < ROWS; r++) masked[r] = state->kept[NAME(under)(i) + k][r] * by_z[r];
                by_connection[i * net->M + k] += NAME(dot)(masked, state->a[k]);
                NAME(add)(state->by_a[k], u, masked);
            } else {
                by_connection[i * net->M + k] += NAME(dot)(by_z, state->a[k]);
                NAME(add)(state->by_a[k], u, by_z);
            }
        }
    }
}

/* Coefficients */

/* T_i = e_i + Σ u_ik C_k, C_i = o_i T_i, c_i = a_i − C_i·s. */
static void NAME(unroll)(const NETWORK *net, STATE *state) {
    for (int64_t i = 0; i < net->M; i++) {
        VECTOR offset[N_VECTORS], *o = (VECTOR *)state->o[i];
        for (int v = 0; v < N_VECTORS; v++) offset[v] = ((VECTOR *)state->a[i])[v];
        for (int64_t j = 0; j <= i; j++) {
            VECTOR sums[N_VECTORS], *s = (VECTOR *)state->s[j];
            VECTOR *t = (VECTOR *)state->t[NAME(under)(i) + j], *c = (VECTOR *)state->c[NAME(under)(i) + j];
            for (int v = 0; v < N_VECTORS; v++) sums[v] = (VECTOR){} + (REAL)(i == j);
            for (int64_t k = j; k < i; k++) {
                const REAL u = net->connection[i * net->M + k];
                const VECTOR *before = (const VECTOR *)state->c[NAME(under)(k) + j];
                for (int v = 0; v < N_VECTORS; v++) sums[v] += u * before[v];
            }
            for (int v = 0; v < N_VECTORS; v++) {
                t[v] = sums[v];
                c[v] = o[v] * sums[v];
                offset[v] -= c[v] * s[v];
            }
        }
        for (int v = 0; v < N_VECTORS; v++) ((VECTOR *)state->offsets[i])[v] = offset[v];
    }
}

/* Add to by_o, by_s and by_connection. by_c is used up. */
static void NAME(unroll_backward)(const NETWORK *net, STATE *state, REAL *by_connection) {
    for (int64_t i = net->M - 1; i >= 0; i--) {
        const VECTOR *by_offset = (const VECTOR *)state->by_offsets[i], *o = (const VECTOR *)state->o[i];
        VECTOR *by_o = (VECTOR *)state->by_o[i];
        for (int64_t j = 0; j <= i; j++) {
            VECTOR *by_c = (VECTOR *)state->by_c[NAME(under)(i) + j], *by_s = (VECTOR *)state->by_s[j];
            const VECTOR *t = (const VECTOR *)state->t[NAME(under)(i) + j], *c = (const VECTOR *)state->c[NAME(under)(i) + j];
            const VECTOR *s = (const VECTOR *)state->s[j];
            for (int v = 0; v < N_VECTORS; v++) {
                VECTOR by = by_c[v] - by_offset[v] * s[v];
                by_s[v] -= by_offset[v] * c[v];
                by_o[v] += by * t[v];
                by_c[v] = by * o[v]; /* now the gradient of T */
            }
        }
        for (int64_t k = 0; k < i; k++) {
            const REAL u = net->connection[i * net->M + k];
            VECTOR total = {};
            for (int64_t j = 0; j <= k; j++) {
                const VECTOR *by_t = (const VECTOR *)state->by_c[NAME(under)(i) + j], *c = (const VECTOR *)state->c[NAME(under)(k) + j];
                VECTOR *by_c = (VECTOR *)state->by_c[NAME(under)(k) + j];
                for (int v = 0; v < N_VECTORS; v++) {
                    by_c[v] += u * by_t[v];
                    total += by_t[v] * c[v];
                }
            }
            by_connection[i * net->M + k] += NAME(sum_of)(total);
        }
    }
}

/* Rows → neurons → coefficients. */
static void NAME(forward)(const NETWORK *net, STATE *state, const int64_t *rows, int64_t count, int64_t position, uint64_t key) {
    NAME(project_rows)(net, state, rows, count, position, key);
    NAME(activate)(net, state, position, key);
    NAME(unroll)(net, state);
}

/* From by_c and by_offsets, which are used up, to the sums over rows. */
static void NAME(backward)(const NETWORK *net, STATE *state, const int64_t *rows, int64_t count, int64_t position, uint64_t key,
                           REAL *by_connection, REAL *by_bias, REAL *by_packed) {
    for (int64_t i = 0; i < net->M; i++) {
        memcpy(state->by_a[i], state->by_offsets[i], sizeof(BLOCK));
        NAME(fill)(state->by_o[i], 0);
        NAME(fill)(state->by_s[i], 0);
    }
    NAME(unroll_backward)(net, state, by_connection);
    NAME(activate_backward)(net, state, by_connection, by_bias);
    NAME(project_backward)(net, state, rows, count, position, key, by_packed);
}

/* Locally constant networks */

/* First layer of g_φ on coefficients: G (H, triangle), v (H, M), β (H); or their gradients. */
#define LAYER JOINED(Layer, REAL)
typedef struct { int64_t H; REAL *gram, *offset, *bias; } LAYER;

/* out_h = β_h + Σ_ij G_hij C_ij + Σ_i v_hi c_i */
static void NAME(first_layer)(const NETWORK *net, const STATE *state, const LAYER *layer, BLOCK *out) {
    int64_t T = NAME(under)(net->M);
    for (int64_t h = 0; h < layer->H; h++) {
        VECTOR sums[N_VECTORS];
        for (int v = 0; v < N_VECTORS; v++) sums[v] = (VECTOR){} + layer->bias[h];
        for (int64_t i = 0; i < net->M; i++)
            for (int v = 0; v < N_VECTORS; v++) sums[v] += layer->offset[h * net->M + i] * ((VECTOR *)state->offsets[i])[v];
        for (int64_t ij = 0; ij < T; ij++)
            for (int v = 0; v < N_VECTORS; v++) sums[v] += layer->gram[h * T + ij] * ((VECTOR *)state->c[ij])[v];
        for (int v = 0; v < N_VECTORS; v++) ((VECTOR *)out[h])[v] = sums[v];
    }
}

/* `into` = Σ_h factor_h by_out_h, and to each by_factor_h adds x·by_out_h; factors of h are `stride` apart */
static inline void NAME(through_layer)(
    int64_t H, BLOCK *by_out, const REAL *factor, int64_t stride, const REAL *x, REAL *into, REAL *by_factor) {
    VECTOR sums[N_VECTORS] = {};
    for (int64_t h = 0; h < H; h++) {
        const VECTOR *by = (const VECTOR *)by_out[h];
        for (int v = 0; v < N_VECTORS; v++) sums[v] += factor[h * stride] * by[v];
        by_factor[h * stride] += NAME(dot)(x, by_out[h]);
    }
    for (int v = 0; v < N_VECTORS; v++) ((VECTOR *)into)[v] = sums[v];
}

/* Fill by_c and by_offsets; add to the layer's gradients. */
static void NAME(first_layer_backward)(const NETWORK *net, STATE *state, const LAYER *layer, BLOCK *by_out, LAYER *by) {
    int64_t T = NAME(under)(net->M);
    BLOCK ones;
    NAME(fill)(ones, 1);
    for (int64_t h = 0; h < layer->H; h++) by->bias[h] += NAME(dot)(by_out[h], ones);
    for (int64_t i = 0; i < net->M; i++)
        NAME(through_layer)(layer->H, by_out, layer->offset + i, net->M, state->offsets[i], state->by_offsets[i], by->offset + i);
    for (int64_t ij = 0; ij < T; ij++)
        NAME(through_layer)(layer->H, by_out, layer->gram + ij, T, state->c[ij], state->by_c[ij], by->gram + ij);
}

/* `count` numbers and zeros behind them, as a block */
static inline void NAME(load_block)(REAL *block, const REAL *from, int64_t count) {
    if (count < ROWS) NAME(fill)(block, 0);
    memcpy(block, from, sizeof(REAL) * (count < ROWS ? count : ROWS));
}

/* Pack the weights; turn them into `turned`, for each block of features (M, ROWS); G_hij = V_hi·w_j for j ≤ i. `sums` has
   room for a vector for each element of G. */
static void NAME(prepare)(const NETWORK *net, const REAL *weight, const REAL *head, int64_t H, REAL *packed, BLOCK *turned, VECTOR *sums, REAL *gram) {
    int64_t D = net->D, M = net->M, T = NAME(under)(M);
    memset(sums, 0, sizeof(VECTOR) * H * T);
    for (int64_t begin = 0; begin < D; begin += ROWS, turned += M) {
        int64_t count = D - begin < ROWS ? D - begin : ROWS;
        memset(turned, 0, sizeof(BLOCK) * M);
        for (int64_t d = 0; d < count; d++)
            for (int64_t j = 0; j < M; j++) packed[(begin + d) * net->P + j] = turned[j][d] = weight[(begin + d) * M + j];
        for (int64_t hi = 0; hi < H * M; hi++) {
            BLOCK v;
            NAME(load_block)(v, head + hi * D + begin, count);
            VECTOR *own = sums + hi / M * T + NAME(under)(hi % M);
            for (int64_t j = 0; j <= hi % M; j++)
                for (int k = 0; k < N_VECTORS; k++) own[j] += ((VECTOR *)v)[k] * ((VECTOR *)turned[j])[k];
        }
    }
    for (int64_t ij = 0; ij < H * T; ij++) gram[ij] = NAME(sum_of)(sums[ij]);
}

/* Gradients of the weights and of g_φ's first layer from those of the packed weights, which are zeroed, and of G. */
static void NAME(collect)(const NETWORK *net, const REAL *head, int64_t H, const BLOCK *turned, const REAL *by_gram, REAL *by_packed, REAL *by_weight, REAL *by_head) {
    int64_t D = net->D, M = net->M, T = NAME(under)(M);
    BLOCK by_turned[M];
    for (int64_t begin = 0; begin < D; begin += ROWS, turned += M) {
        int64_t count = D - begin < ROWS ? D - begin : ROWS;
        memset(by_turned, 0, sizeof(BLOCK) * M);
        for (int64_t hi = 0; hi < H * M; hi++) {
            const REAL *g = by_gram + hi / M * T + NAME(under)(hi % M);
            BLOCK v, by_v;
            VECTOR sums[N_VECTORS] = {};
            NAME(load_block)(v, head + hi * D + begin, count);
            for (int64_t j = 0; j <= hi % M; j++) {
                const VECTOR *w = (const VECTOR *)turned[j];
                for (int k = 0; k < N_VECTORS; k++) sums[k] += g[j] * w[k];
                NAME(add)(by_turned[j], g[j], v);
            }
            for (int k = 0; k < N_VECTORS; k++) ((VECTOR *)by_v)[k] = sums[k];
            memcpy(by_head + hi * D + begin, by_v, sizeof(REAL) * count);
        }
        for (int64_t d = 0; d < count; d++)
            for (int64_t j = 0; j < M; j++) {
                REAL *by = by_packed + (begin + d) * net->P + j;
                by_weight[(begin + d) * M + j] = *by + by_turned[j][d];
                *by = 0;
            }
    }
}

/* What updates of any network read: batches of rows with a key for each, targets, the optimiser's step. */
#define UPDATES JOINED(Updates, REAL)
typedef struct {
    NETWORK net;
    STATE state;
    const int64_t *rows, *cuts;
    const uint64_t *keys;
    int64_t n;
    REAL *at[6], *by[6]; /* parameters and gradients */
    REAL *packed, *by_packed;
    BLOCK *out, *by_out;
    TARGET to;
    MOVE move;
} UPDATES;

static void NAME(read_updates)(Call *call, UPDATES *run, int64_t n_columns) {
    NETWORK *net = &run->net;
    NAME(read_entries)(call, net);
    run->rows = array(call), run->cuts = array(call), run->keys = array(call), run->n = call->size['b'];
    for (int i = 0; i < 6; i++) run->at[i] = array(call);
    for (int i = 0; i < 6; i++) run->by[i] = array(call);
    NAME(read_activation)(call, net);
    net->threshold = integer(call), net->scale = number(call);
    run->to = NAME(targets)(call), run->move = NAME(move)(call);
    net->connection = run->at[1], net->bias = run->at[2];
    net->D = call->size['d'], net->M = call->size['m'], net->C = n_columns, net->P = (n_columns + COLUMNS - 1) / COLUMNS * COLUMNS;
    NAME(make_room)(call, net);
    int64_t H = call->size['h'], bytes = sizeof(REAL) * net->D * net->P;
    net->packed = run->packed = take(call, bytes), run->by_packed = take(call, bytes);
    memset(run->packed, 0, bytes), memset(run->by_packed, 0, bytes);
    run->out = take(call, 2 * H * sizeof(BLOCK)), run->by_out = run->out + H;
    NAME(lay_out)(&run->state, take(call, sizeof(BLOCK) * NAME(lay_out)(&run->state, NULL, net->M, net->C)), net->M, net->C);
}

/* The loss of a block's rows and its gradient; rows that pad the block have none. */
static double NAME(block_loss)(const UPDATES *run, const int64_t *rows, int64_t count, double share) {
    double total = 0;
    for (int64_t h = 0; h < run->to.H; h++) NAME(fill)(run->by_out[h], 0);
    for (int64_t r = 0; r < count; r++) total += NAME(row_loss)(&run->to, rows[r], share, run->out[0] + r, run->by_out[0] + r, ROWS);
    return total;
}

/* Updates of a locally constant network; returns the sum of the rows' losses. */
static double NAME(constant_updates)(Call *call) {
    UPDATES run;
    NAME(read_updates)(call, &run, call->size['m']);
    NETWORK *net = &run.net;
    int64_t H = call->size['h'], D = net->D, M = net->M, T = NAME(under)(M);
    LAYER layer = {H, take(call, sizeof(REAL) * H * T), run.at[4], run.at[5]};
    LAYER by = {H, take(call, sizeof(REAL) * H * T), run.by[4], run.by[5]};
    BLOCK *turned = take(call, sizeof(BLOCK) * M * ((D + ROWS - 1) / ROWS));
    VECTOR *sums = take(call, sizeof(VECTOR) * H * T);
    double total = 0;
    for (int64_t number = 0; number < run.n; number++) {
        const int64_t *rows = run.rows + run.cuts[number], n = run.cuts[number + 1] - run.cuts[number];
        uint64_t key = run.keys[number];
        double share = NAME(share)(&run.to, rows, n), loss = 0;
        NAME(prepare)(net, run.at[0], run.at[3], H, run.packed, turned, sums, layer.gram);
        memset(by.gram, 0, sizeof(REAL) * H * T);
        memset(run.by[1], 0, sizeof(REAL) * M * M), memset(run.by[2], 0, sizeof(REAL) * M);
        memset(by.offset, 0, sizeof(REAL) * H * M), memset(by.bias, 0, sizeof(REAL) * H);
        for (int64_t first = 0; first < n; first += ROWS) {
            int64_t count = n - first < ROWS ? n - first : ROWS;
            NAME(forward)(net, &run.state, rows + first, count, first, key);
            NAME(first_layer)(net, &run.state, &layer, run.out);
            loss += NAME(block_loss)(&run, rows + first, count, share);
            NAME(first_layer_backward)(net, &run.state, &layer, run.by_out, &by);
            NAME(backward)(net, &run.state, rows + first, count, first, key, run.by[1], run.by[2], run.by_packed);
        }
        total += n * loss;
        NAME(collect)(net, run.at[3], H, turned, by.gram, run.by_packed, run.by[0], run.by[3]);
        NAME(step)(&run.move, number);
    }
    return total;
}

/* Locally linear networks */

/* out = A x + B a + c; A x is in s, after the neurons' projections. */
static void NAME(outputs)(const NETWORK *net, const STATE *state, const REAL *connection, const REAL *bias, int64_t H, BLOCK *out) {
    for (int64_t h = 0; h < H; h++) {
        for (int r = 0; r < ROWS; r++) out[h][r] = state->s[net->M + h][r] + bias[h];
        for (int64_t i = 0; i < net->M; i++) NAME(add)(out[h], connection[i * H + h], state->a[i]);
    }
}

/* Fill by_s, by_a and by_o; add to the gradients of B and c. */
static void NAME(outputs_backward)(const NETWORK *net, STATE *state, const REAL *connection, int64_t H, BLOCK *by_out, REAL *by_connection, REAL *by_bias) {
    BLOCK ones;
    NAME(fill)(ones, 1);
    for (int64_t i = 0; i < net->M; i++) {
        NAME(fill)(state->by_s[i], 0);
        NAME(fill)(state->by_o[i], 0);
        NAME(through_layer)(H, by_out, connection + i * H, 1, state->a[i], state->by_a[i], by_connection + i * H);
    }
    for (int64_t h = 0; h < H; h++) {
        memcpy(state->by_s[net->M + h], by_out[h], sizeof(BLOCK));
        by_bias[h] += NAME(dot)(by_out[h], ones);
    }
}

/* Copy columns of packed weights from a block (D, n) of them, or back; the packed ones are zeroed then. */
static void NAME(pack)(const NETWORK *net, const REAL *block, int64_t n, int64_t column, REAL *packed) {
    for (int64_t d = 0; d < net->D; d++)
        for (int64_t i = 0; i < n; i++) packed[d * net->P + column + i] = block[d * n + i];
}

static void NAME(unpack)(const NETWORK *net, REAL *block, int64_t n, int64_t column, REAL *packed) {
    for (int64_t d = 0; d < net->D; d++)
        for (int64_t i = 0; i < n; i++) block[d * n + i] = packed[d * net->P + column + i], packed[d * net->P + column + i] = 0;
}

/* Updates of a locally linear network; returns the sum of the rows' losses. */
static double NAME(linear_updates)(Call *call) {
    UPDATES run;
    int64_t H = call->size['h'];
    NAME(read_updates)(call, &run, call->size['m'] + H);
    NETWORK *net = &run.net;
    int64_t M = net->M;
    double total = 0;
    for (int64_t number = 0; number < run.n; number++) {
        const int64_t *rows = run.rows + run.cuts[number], n = run.cuts[number + 1] - run.cuts[number];
        uint64_t key = run.keys[number];
        double share = NAME(share)(&run.to, rows, n), loss = 0;
        NAME(pack)(net, run.at[0], M, 0, run.packed);
        NAME(pack)(net, run.at[3], H, M, run.packed);
        memset(run.by[1], 0, sizeof(REAL) * M * M), memset(run.by[2], 0, sizeof(REAL) * M);
        memset(run.by[4], 0, sizeof(REAL) * H * M), memset(run.by[5], 0, sizeof(REAL) * H);
        for (int64_t first = 0; first < n; first += ROWS) {
            int64_t count = n - first < ROWS ? n - first : ROWS;
            NAME(project_rows)(net, &run.state, rows + first, count, first, key);
            NAME(activate)(net, &run.state, first, key);
            NAME(outputs)(net, &run.state, run.at[4], run.at[5], H, run.out);
            loss += NAME(block_loss)(&run, rows + first, count, share);
            NAME(outputs_backward)(net, &run.state, run.at[4], H, run.by_out, run.by[4], run.by[5]);
            NAME(activate_backward)(net, &run.state, run.by[1], run.by[2]);
            NAME(project_backward)(net, &run.state, rows + first, count, first, key, run.by_packed);
        }
        total += n * loss;
        NAME(unpack)(net, run.by[0], M, 0, run.by_packed);
        NAME(unpack)(net, run.by[3], H, M, run.by_packed);
        NAME(step)(&run.move, number);
    }
    return total;
}

/* Outputs, nothing dropped, of rows first … last − 1 */

static const int64_t *NAME(read_network)(Call *call, NETWORK *net, STATE *state, int64_t n_outputs) {
    NAME(read_entries)(call, net);
    const int64_t *rows = array(call);
    NAME(read_neurons)(call, net);
    NAME(read_activation)(call, net);
    net->C = net->M + n_outputs, net->threshold = 0;
    NAME(make_room)(call, net);
    NAME(lay_out)(state, take(call, sizeof(BLOCK) * NAME(lay_out)(state, NULL, net->M, net->C)), net->M, net->C);
    return rows;
}

static void NAME(store_blocks)(BLOCK *blocks, int64_t n, int64_t count, REAL *out, int64_t stride) {
    for (int64_t h = 0; h < n; h++) memcpy(out + h * stride, blocks[h], sizeof(REAL) * count);
}

static double NAME(constant_outputs)(Call *call) {
    NETWORK net;
    STATE state;
    const int64_t *rows = NAME(read_network)(call, &net, &state, 0), H = call->size['h'], n = call->size['o'];
    const REAL *gram = array(call);
    int64_t M = net.M, T = NAME(under)(M);
    LAYER layer = {H, take(call, sizeof(REAL) * H * T), array(call), array(call)};
    REAL *out = array(call);
    int64_t first = integer(call), last = integer(call);
    BLOCK *block = take(call, sizeof(BLOCK) * H);
    for (int64_t h = 0; h < H; h++)
        for (int64_t i = 0; i < M; i++)
            memcpy(layer.gram + h * T + NAME(under)(i), gram + (h * M + i) * M, sizeof(REAL) * (i + 1));
    for (; first < last; first += ROWS) {
        int64_t count = last - first < ROWS ? last - first : ROWS;
        NAME(forward)(&net, &state, rows + first, count, 0, 0);
        NAME(first_layer)(&net, &state, &layer, block);
        NAME(store_blocks)(block, H, count, out + first, n);
    }
    return 0;
}

static double NAME(linear_outputs)(Call *call) {
    NETWORK net;
    STATE state;
    const int64_t H = call->size['h'], n = call->size['o'], *rows = NAME(read_network)(call, &net, &state, H);
    const REAL *connection = array(call), *bias = array(call);
    REAL *out = array(call);
    int64_t first = integer(call), last = integer(call);
    BLOCK *block = take(call, sizeof(BLOCK) * H);
    for (; first < last; first += ROWS) {
        int64_t count = last - first < ROWS ? last - first : ROWS;
        NAME(project_rows)(&net, &state, rows + first, count, 0, 0);
        NAME(activate)(&net, &state, 0, 0);
        NAME(outputs)(&net, &state, connection, bias, H, block);
        NAME(store_blocks)(block, H, count, out + first, n);
    }
    return 0;
}

/* A training step in two halves, for networks whose g_φ has more layers: what is between them is for BLAS. */

static uint64_t NAME(read_half)(Call *call, NETWORK *net, const int64_t **rows) {
    NAME(read_entries)(call, net);
    *rows = array(call);
    NAME(read_neurons)(call, net);
    NAME(read_activation)(call, net);
    net->C = net->M, net->threshold = integer(call), net->scale = number(call);
    NAME(make_room)(call, net);
    return (uint64_t)integer(call);
}

/* How many rows a block has. */
static double NAME(block_rows)(Call *call) { return ROWS; }

/* The numbers that a block's state has, for networks of `depth` neurons. */
static double NAME(state_size)(Call *call) {
    STATE state;
    int64_t depth = integer(call);
    return NAME(lay_out)(&state, NULL, depth, depth) * ROWS;
}

/* Coefficients (M (M + 1) / 2, B) and offsets (M, B) of a batch; `state` keeps what the way back needs. */
static double NAME(paths_forward)(Call *call) {
    NETWORK net;
    STATE state;
    const int64_t *rows, n = call->size['o'];
    uint64_t key = NAME(read_half)(call, &net, &rows);
    REAL *memory = array(call), *coefficients = array(call), *offsets = array(call);
    for (int64_t first = 0; first < n; first += ROWS) {
        int64_t count = n - first < ROWS ? n - first : ROWS;
        memory += NAME(lay_out)(&state, memory, net.M, net.M) * ROWS;
        NAME(forward)(&net, &state, rows + first, count, first, key);
        NAME(store_blocks)(state.c, NAME(under)(net.M), count, coefficients + first, n);
        NAME(store_blocks)(state.offsets, net.M, count, offsets + first, n);
    }
    return 0;
}

/* From the gradients by coefficients and offsets to those by packed weights, connections and biases, which are added to. */
static double NAME(paths_backward)(Call *call) {
    NETWORK net;
    STATE state;
    const int64_t *rows, n = call->size['o'];
    uint64_t key = NAME(read_half)(call, &net, &rows);
    REAL *by_packed = (REAL *)net.packed, *memory = array(call);
    const REAL *by_c = array(call), *by_offsets = array(call);
    REAL *by_connection = array(call), *by_bias = array(call);
    for (int64_t first = 0; first < n; first += ROWS) {
        int64_t count = n - first < ROWS ? n - first : ROWS;
        memory += NAME(lay_out)(&state, memory, net.M, net.M) * ROWS;
        for (int64_t ij = 0; ij < NAME(under)(net.M); ij++) NAME(load_block)(state.by_c[ij], by_c + ij * n + first, count);
        for (int64_t i = 0; i < net.M; i++) NAME(load_block)(state.by_offsets[i], by_offsets + i * n + first, count);
        NAME(backward)(&net, &state, rows + first, count, first, key, by_connection, by_bias, by_packed);
    }
    return 0;
}

/* Activation patterns (Eq. 3) of a piece-wise linear network, packed: bit i % 63 of codes[r, i / 63] is o_i. */
static double NAME(patterns)(Call *call) {
    NETWORK net;
    NAME(read_entries)(call, &net);
    const int64_t *rows = array(call);
    NAME(read_neurons)(call, &net);
    REAL slope = number(call);
    int64_t *codes = array(call), first = integer(call), last = integer(call), W = call->size['w'];
    NAME(make_room)(call, &net);
    BLOCK *z = take(call, sizeof(BLOCK) * net.M);
    REAL total[net.P];
    for (; first < last; first += ROWS) {
        int64_t count = last - first < ROWS ? last - first : ROWS;
        for (int64_t r = 0; r < ROWS; r++) {
            if (r < count) NAME(all_sums)(0, &net, NAME(row)(&net, rows[first + r]), 0, total, total);
            for (int64_t i = 0; i < net.M; i++) z[i][r] = total[i] + net.bias[i];
        }
        for (int64_t i = 0; i < net.M; i++) {
            REAL *restrict own = z[i];
            for (int64_t k = 0; k < i; k++) NAME(add)(own, net.connection[i * net.M + k], z[k]);
            for (int64_t r = 0; r < count; r++) codes[(first + r) * W + i / 63] |= (int64_t)(own[r] >= 0) << i % 63;
            for (int r = 0; r < ROWS; r++) own[r] = own[r] >= 0 ? own[r] : slope * own[r]; /* now the activation a_i */
        }
    }
    return 0;
}
