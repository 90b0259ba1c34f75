/* A tree with soft routing: the gradient of its loss, and many AdamW updates in one call; the equations.

   The tree has S splits, parents before children, and S + 1 leaves, numbered S … 2S. For a row x with a 1 behind it,

       z_s = w_s·x      g_s = sigmoid(β z_s)      reach(right) = g_s reach(s)      reach(left) = (1 − g_s) reach(s)
       output = Σ_leaf reach(leaf) v_leaf                   (regression)
       probabilities = Σ_leaf reach(leaf) softmax(v_leaf)   (classification)

   The loss is the log-loss, or half the squared error of the output mixed with that of the leaves,

       ½ (output − y)² + firmness · ½ Σ_leaf reach(leaf) (v_leaf − output)²

   without which values between those of the leaves are reached by rows on a boundary, and lost in the hard tree. β rises
   while the tree is trained, until rows are routed almost as by a hard tree (right where z ≥ 0). Backwards, with
   cost(node) = ∂loss/∂reach(node),

       gain = cost(right) − cost(left)      cost(s) = cost(left) + g_s gain      ∂loss/∂z_s = β reach(s) g_s (1 − g_s) gain

   Rows of a batch stand in the last axis, padded with rows of zeros and of no weight to whole tiles of registers. */

#define SOFT JOINED(Soft, REAL)
enum { NAME(TILE) = VECTOR_BYTES == 64 ? 4 : 8 }; /* registers that sums are held in */
#define TILE NAME(TILE)
#define TILE_ROWS (TILE * LANES)

typedef struct {
    int64_t D, K, S, B, P; /* features and a 1, outputs, splits, rows of a batch, the same padded */
    const int64_t *children;
    int is_classifier;
    REAL firmness, total_weight;
    REAL *columns, *target, *weight;                /* (D, P), (K, P), (P) */
    REAL *z, *gate, *reach, *cost, *output;         /* (S, P) twice, (2S + 1, P) twice, (K, P) */
    REAL *outputs, *kept, *factors;                 /* (S + 1, K), (S, D) DropConnect's factors, (most) */
    REAL *by_splits, *by_values;                    /* (S, D), (S + 1, K) */
    int32_t *used;                                  /* (most), the larger of D and S + 1 */
} SOFT;

static void NAME(soft_take)(Call *call, SOFT *tree) {
    int64_t rows = tree->D + 2 * tree->K + 1 + 2 * tree->S + 2 * (2 * tree->S + 1);
    int64_t most = tree->D > tree->S ? tree->D : tree->S + 1;
    int64_t numbers = 2 * tree->S * tree->D + most + 2 * (tree->S + 1) * tree->K;
    tree->P = (tree->B + TILE_ROWS - 1) / TILE_ROWS * TILE_ROWS;
    REAL *at = take(call, sizeof(REAL) * (rows * tree->P + numbers));
    memset(at, 0, sizeof(REAL) * (rows * tree->P + numbers));
    REAL **of_rows[] = {&tree->columns, &tree->target, &tree->weight, &tree->z, &tree->gate, &tree->reach, &tree->cost, &tree->output};
    int64_t n_rows[] = {tree->D, tree->K, 1, tree->S, tree->S, 2 * tree->S + 1, 2 * tree->S + 1, tree->K};
    for (int i = 0; i < 8; i++) *of_rows[i] = at, at += n_rows[i] * tree->P;
    tree->kept = at, tree->by_splits = at + tree->S * tree->D, at += 2 * tree->S * tree->D;
    tree->outputs = at, tree->by_values = at + (tree->S + 1) * tree->K, at += 2 * (tree->S + 1) * tree->K;
    tree->factors = at;
    tree->used = take(call, sizeof(int32_t) * most);
}

/* result = Σ_j factors[j] · table[used[j]] over n rows of the table */
static inline void NAME(combine)(const REAL *table, int64_t P, const REAL *factors, const int32_t *used, int64_t n, REAL *result) {
    for (int64_t r = 0; r < P; r += TILE_ROWS) {
        VECTOR sums[TILE] = {};
        for (int64_t j = 0; j < n; j++) {
            const VECTOR *row = (const VECTOR *)(table + used[j] * P + r);
            REAL factor = factors[j];
            _Pragma("GCC unroll 8") for (int t = 0; t < TILE; t++) sums[t] += factor * row[t];
        }
        VECTOR *into = (VECTOR *)(result + r);
        _Pragma("GCC unroll 8") for (int t = 0; t < TILE; t++) into[t] = sums[t];
    }
}

/* x·y of rows of a batch */
static inline REAL NAME(batch_dot)(const REAL *x, const REAL *y, int64_t P) {
    const VECTOR *a = (const VECTOR *)x, *b = (const VECTOR *)y;
    VECTOR even = {}, odd = {};
    for (int64_t r = 0; r < P / LANES; r += 2) even += a[r] * b[r], odd += a[r + 1] * b[r + 1];
    return NAME(sum_of)(even + odd);
}

/* z of split s by its weights × factors `kept`, leaving zeros out */
static void NAME(project)(SOFT *tree, int64_t s, const REAL *splits) {
    int64_t n = 0;
    for (int64_t d = 0; d < tree->D; d++) {
        REAL factor = splits[s * tree->D + d] * tree->kept[s * tree->D + d];
        if (factor != 0) tree->used[n] = d, tree->factors[n++] = factor;
    }
    NAME(combine)(tree->columns, tree->P, tree->factors, tree->used, n, tree->z + s * tree->P);
}

/* gates of a split, and how far rows reach its children */
static void NAME(go_down)(SOFT *tree, int64_t s, REAL sharpness) {
    int64_t P = tree->P;
    const REAL *restrict z = tree->z + s * P;
    REAL *restrict gate = tree->gate + s * P, *restrict here = tree->reach + s * P;
    REAL *restrict left = tree->reach + tree->children[2 * s] * P, *restrict right = tree->reach + tree->children[2 * s + 1] * P;
    for (int64_t r = 0; r < P; r++) {
        REAL t = sharpness * z[r], e = NAME(exponential)(t >= 0 ? t : -t), p = 1 / (1 + e);
        gate[r] = t >= 0 ? p : e * p;
    }
    for (int64_t r = 0; r < P; r++) {
        REAL on = here[r] * gate[r];
        right[r] = on;
        left[r] = here[r] - on;
    }
}

/* probabilities of the classes in each leaf, or its values as they are */
static void NAME(leaf_outputs)(SOFT *tree, const REAL *values) {
    int64_t K = tree->K;
    for (int64_t leaf = 0; leaf <= tree->S; leaf++) {
        const REAL *v = values + leaf * K;
        REAL *out = tree->outputs + leaf * K, most = v[0], total = 0;
        for (int64_t k = 1; k < K; k++) most = v[k] > most ? v[k] : most;
        for (int64_t k = 0; k < K; k++) total += out[k] = tree->is_classifier ? EXP(v[k] - most) : v[k];
        if (tree->is_classifier)
            for (int64_t k = 0; k < K; k++) out[k] /= total;
    }
}

/* outputs (K, P), and in their place the gradient of the batch's mean loss by them */
static void NAME(compare)(SOFT *tree) {
    int64_t P = tree->P, K = tree->K;
    const REAL least = (REAL)1e-6, one = 1; /* probabilities below are taken for this */
    for (int64_t k = 0; k < K; k++) {
        REAL *restrict out = tree->output + k * P;
        const REAL *restrict y = tree->target + k * P, *restrict weight = tree->weight;
        for (int64_t leaf = 0; leaf <= tree->S; leaf++) tree->used[leaf] = leaf, tree->factors[leaf] = tree->outputs[leaf * K + k];
        NAME(combine)(tree->reach + tree->S * P, P, tree->factors, tree->used, tree->S + 1, out);
        REAL total = tree->total_weight, firmness = tree->firmness;
        if (tree->is_classifier)
            for (int64_t r = 0; r < P; r++) out[r] = -weight[r] * y[r] / (total * (out[r] > least ? out[r] : least));
        else
            for (int64_t r = 0; r < P; r++) out[r] = weight[r] * ((one - firmness) * out[r] - y[r]) / total;
    }
}

/* by_values and the cost of a leaf from the gradient by the outputs */
static void NAME(leaf_gradient)(SOFT *tree, int64_t leaf) {
    int64_t P = tree->P, K = tree->K;
    const REAL *out = tree->outputs + leaf * K, *reach = tree->reach + (tree->S + leaf) * P;
    REAL *restrict cost = tree->cost + (tree->S + leaf) * P, *by = tree->by_values + leaf * K;
    for (int64_t r = 0; r < P; r++) cost[r] = out[0] * tree->output[r];
    for (int64_t k = 1; k < K; k++) {
        const REAL *restrict slope = tree->output + k * P;
        for (int64_t r = 0; r < P; r++) cost[r] += out[k] * slope[r];
    }
    for (int64_t k = 0; k < K; k++) by[k] = NAME(batch_dot)(reach, tree->output + k * P, P);
    if (tree->is_classifier) { /* through the softmax */
        REAL mean = 0;
        for (int64_t k = 0; k < K; k++) mean += by[k] * out[k];
        for (int64_t k = 0; k < K; k++) by[k] = out[k] * (by[k] - mean);
    } else { /* firmness: what the squared values add to the gradient by reach and by values */
        REAL firmness = tree->firmness / tree->total_weight, size = 0, mass = NAME(batch_dot)(reach, tree->weight, P);
        const REAL *restrict weight = tree->weight;
        for (int64_t k = 0; k < K; k++) size += out[k] * out[k] * firmness / 2;
        for (int64_t r = 0; r < P; r++) cost[r] += size * weight[r];
        for (int64_t k = 0; k < K; k++) by[k] += firmness * out[k] * mass;
    }
}

/* the cost of split s and, in place of z, ∂loss/∂z */
static void NAME(come_up)(SOFT *tree, int64_t s, REAL sharpness) {
    int64_t P = tree->P;
    const REAL *restrict left = tree->cost + tree->children[2 * s] * P, *restrict right = tree->cost + tree->children[2 * s + 1] * P;
    const REAL *restrict gate = tree->gate + s * P, *restrict reach = tree->reach + s * P;
    REAL *restrict cost = tree->cost + s * P, *restrict slope = tree->z + s * P;
    for (int64_t r = 0; r < P; r++) {
        REAL gain = right[r] - left[r];
        cost[r] = left[r] + gate[r] * gain;
        slope[r] = sharpness * reach[r] * gate[r] * (1 - gate[r]) * gain;
    }
}

/* by_splits of split s from ∂loss/∂z: four sums at a time, of weights that are not dropped */
static void NAME(split_gradient)(SOFT *tree, int64_t s) {
    int64_t P = tree->P, D = tree->D, n = 0, j = 0;
    const REAL *kept = tree->kept + s * D;
    const VECTOR *slope = (const VECTOR *)(tree->z + s * P);
    REAL *by = tree->by_splits + s * D;
    for (int64_t d = 0; d < D; d++) {
        by[d] = 0;
        if (kept[d] != 0) tree->used[n++] = d;
    }
    for (; j + 4 <= n; j += 4) {
        const VECTOR *column[4];
        VECTOR sums[4] = {};
        for (int i = 0; i < 4; i++) column[i] = (const VECTOR *)(tree->columns + tree->used[j + i] * P);
        for (int64_t r = 0; r < P / LANES; r++)
            _Pragma("GCC unroll 4") for (int i = 0; i < 4; i++) sums[i] += slope[r] * column[i][r];
        for (int i = 0; i < 4; i++) by[tree->used[j + i]] = kept[tree->used[j + i]] * NAME(sum_of)(sums[i]);
    }
    for (; j < n; j++) {
        int32_t d = tree->used[j];
        by[d] = kept[d] * NAME(batch_dot)(tree->z + s * P, tree->columns + d * P, P);
    }
}

/* by_splits and by_values at these parameters; splits are multiplied by `kept` */
static void NAME(gradient)(SOFT *tree, const REAL *splits, const REAL *values, REAL sharpness) {
    for (int64_t r = 0; r < tree->P; r++) tree->reach[r] = 1;
    for (int64_t s = 0; s < tree->S; s++) {
        NAME(project)(tree, s, splits);
        NAME(go_down)(tree, s, sharpness);
    }
    NAME(leaf_outputs)(tree, values);
    NAME(compare)(tree);
    for (int64_t leaf = 0; leaf <= tree->S; leaf++) NAME(leaf_gradient)(tree, leaf);
    for (int64_t s = tree->S - 1; s >= 0; s--) {
        NAME(come_up)(tree, s, sharpness);
        NAME(split_gradient)(tree, s);
    }
}

/* One step of AdamW with an ℓ1 penalty; the last column (the biases of splits) is neither decayed nor penalised. A weight
   that would change its sign under the penalty stops at 0, and leaves it where the loss's gradient exceeds the penalty. */
static void NAME(adam)(REAL *restrict parameter, const REAL *restrict slope, REAL *restrict mean, REAL *restrict square,
                       int64_t n, int64_t width, REAL rate, REAL decay, REAL penalty, int64_t update) {
    const REAL first = 1 - pow(0.9, update), second = 1 - pow(0.999, update);
    const REAL keep = (REAL)0.9, add = (REAL)0.1, keep_square = (REAL)0.999, add_square = (REAL)0.001, small = (REAL)1e-8;
    for (int64_t i = 0; i < n; i++, parameter += width, slope += width, mean += width, square += width)
        for (int64_t j = 0; j < width; j++) {
            REAL cost = j == width - 1 ? 0 : penalty, kept = j == width - 1 ? 1 : 1 - rate * decay;
            REAL old = parameter[j], up = slope[j] + cost, down = slope[j] - cost;
            REAL by = old > 0 ? up : old < 0 ? down : (down > 0 ? down : 0) + (up < 0 ? up : 0);
            REAL m = keep * mean[j] + add * by, q = keep_square * square[j] + add_square * by * by;
            REAL now = kept * old - rate * (m / first) / (SQRT(q / second) + small);
            int stops = (cost > 0) & (((old == 0) & (by == 0)) | (old * now < 0));
            parameter[j] = stops ? 0 : now;
            mean[j] = stops ? 0 : m;
            square[j] = q;
        }
}

/* Set weights against their feature's sign to 0, and clip leaf values so that splits on a signed feature have no leaf on
   the left above one on the right. The bound is half way between the means of the two sides' leaves; a leaf's value is its
   first, or for classes the second score less the first. `treelu.training.small.monotone` has the same in NumPy. */
static void NAME(order)(const SOFT *tree, REAL *splits, const REAL *signs, REAL *values, REAL *bounds) {
    int64_t S = tree->S, K = tree->K, n = 2 * S + 1;
    REAL *total = bounds, *count = bounds + n, *low = bounds + 2 * n, *high = bounds + 3 * n;
    low[0] = -(REAL)INFINITY, high[0] = (REAL)INFINITY;
    for (int64_t leaf = 0; leaf <= S; leaf++) {
        total[S + leaf] = tree->is_classifier ? values[leaf * K + 1] - values[leaf * K] : values[leaf * K];
        count[S + leaf] = 1;
    }
    for (int64_t s = S - 1; s >= 0; s--) {
        int64_t left = tree->children[2 * s], right = tree->children[2 * s + 1];
        total[s] = total[left] + total[right], count[s] = count[left] + count[right];
    }
    for (int64_t s = 0; s < S; s++) {
        int64_t left = tree->children[2 * s], right = tree->children[2 * s + 1];
        int is_bound = 0;
        low[left] = low[right] = low[s], high[left] = high[right] = high[s];
        for (int64_t d = 0; d < tree->D; d++) {
            REAL *weight = splits + s * tree->D + d;
            if (signs[d] * *weight < 0) *weight = 0;
            is_bound |= signs[d] * *weight != 0;
        }
        if (is_bound) {
            REAL middle = (total[left] / count[left] + total[right] / count[right]) / 2;
            middle = middle > low[s] ? middle : low[s];
            high[left] = low[right] = middle < high[s] ? middle : high[s];
        }
    }
    for (int64_t leaf = 0; leaf <= S; leaf++) {
        REAL old = total[S + leaf], now = old > low[S + leaf] ? old : low[S + leaf];
        REAL move = (now < high[S + leaf] ? now : high[S + leaf]) - old;
        if (tree->is_classifier) values[leaf * K + 1] += move / 2, values[leaf * K] -= move / 2;
        else values[leaf * K] += move;
    }
}

/* columns of `source` (n_lines, n) from `start` on, the first ones again after the last, into B of P columns */
static void NAME(window)(const REAL *source, int64_t n_lines, int64_t n, int64_t start, REAL *into, int64_t B, int64_t P) {
    int64_t first = B < n - start ? B : n - start;
    for (int64_t d = 0; d < n_lines; d++, source += n, into += P) {
        memcpy(into, source + start, sizeof(REAL) * first);
        memcpy(into + first, source, sizeof(REAL) * (B - first));
    }
}

static void NAME(load)(SOFT *tree, const REAL *columns, const REAL *target, const REAL *weight, int64_t n, int64_t start) {
    NAME(window)(columns, tree->D, n, start, tree->columns, tree->B, tree->P);
    NAME(window)(target, tree->K, n, start, tree->target, tree->B, tree->P);
    NAME(window)(weight, 1, n, start, tree->weight, tree->B, tree->P);
    tree->total_weight = 0;
    for (int64_t r = 0; r < tree->B; r++) tree->total_weight += tree->weight[r];
}

static inline uint64_t NAME(next)(uint64_t state) { return state * 6364136223846793005u + 1442695040888963407u; }

/* DropConnect: what weights are multiplied by, 0 with probability `drop`; biases stay */
static uint64_t NAME(thin)(SOFT *tree, const REAL *allowed, double drop, uint64_t random) {
    uint64_t limit = (uint64_t)(drop * 2147483648.0);
    REAL scale = (REAL)(1 / (1 - drop));
    for (int64_t s = 0; s < tree->S; s++)
        for (int64_t d = 0; d < tree->D; d++) {
            REAL kept = allowed[s * tree->D + d];
            if (drop > 0 && d < tree->D - 1 && kept != 0) {
                random = NAME(next)(random);
                kept = (random >> 33) < limit ? 0 : scale;
            }
            tree->kept[s * tree->D + d] = kept;
        }
    return random;
}

/* Train splits and values in place, on batches of neighbouring columns. With `signs`, weights keep their sign and leaf
   values are ordered. The learning rate falls as a cosine to 0, β rises geometrically. */
static double NAME(soft_updates)(Call *call) {
    const REAL *columns = array(call), *target = array(call), *weight = array(call);
    SOFT tree = {.D = call->size['d'], .K = call->size['k'], .S = call->size['s'], .children = array(call)};
    const REAL *allowed = array(call), *signs = array(call);
    REAL *splits = array(call), *values = array(call);
    int64_t n = call->size['n'], n_updates = integer(call), batch = integer(call), start = 0;
    double rate = number(call), decay = number(call), penalty = number(call), drop = number(call);
    double softest = number(call), sharpest = number(call);
    tree.firmness = number(call), tree.is_classifier = integer(call) != 0, tree.B = batch < n ? batch : n;
    uint64_t random = NAME(next)((uint64_t)integer(call));
    NAME(soft_take)(call, &tree);
    int64_t n_splits = tree.S * tree.D, n_values = (tree.S + 1) * tree.K;
    REAL *moments = take(call, sizeof(REAL) * 2 * (n_splits + n_values)), *of_values = moments + 2 * n_splits;
    REAL *bounds = take(call, sizeof(REAL) * 4 * (2 * tree.S + 1));
    memset(moments, 0, sizeof(REAL) * 2 * (n_splits + n_values));
    for (int64_t update = 0; update < n_updates; update++) {
        double done = (double)update / n_updates;
        REAL step = rate * 0.5 * (1 + cos(3.141592653589793 * done)), sharpness = softest * exp(done * log(sharpest / softest));
        if (tree.B < n || update == 0) {
            random = NAME(next)(random);
            start = (start + tree.B + (int64_t)(random >> 58)) % n; /* 0 to 63 rows are left out */
            NAME(load)(&tree, columns, target, weight, n, start);
        }
        random = NAME(thin)(&tree, allowed, drop, random);
        NAME(gradient)(&tree, splits, values, sharpness);
        NAME(adam)(splits, tree.by_splits, moments, moments + n_splits, tree.S, tree.D, step, decay, penalty, update + 1);
        NAME(adam)(values, tree.by_values, of_values, of_values + n_values, tree.S + 1, tree.K, step, 0, 0, update + 1);
        if (signs) NAME(order)(&tree, splits, signs, values, bounds);
    }
    return 0;
}

/* The gradient of a batch's mean loss; that by splits times `kept`. */
static double NAME(soft_gradient)(Call *call) {
    const REAL *columns = array(call), *target = array(call), *weight = array(call);
    int64_t n = call->size['n'];
    SOFT tree = {.D = call->size['d'], .K = call->size['k'], .S = call->size['s'], .B = n, .children = array(call)};
    const REAL *kept = array(call), *splits = array(call), *values = array(call);
    REAL sharpness = number(call);
    tree.firmness = number(call), tree.is_classifier = integer(call) != 0;
    REAL *by_splits = array(call), *by_values = array(call);
    NAME(soft_take)(call, &tree);
    NAME(load)(&tree, columns, target, weight, n, 0);
    memcpy(tree.kept, kept, sizeof(REAL) * tree.S * tree.D);
    NAME(gradient)(&tree, splits, values, sharpness);
    memcpy(by_splits, tree.by_splits, sizeof(REAL) * tree.S * tree.D);
    memcpy(by_values, tree.by_values, sizeof(REAL) * (tree.S + 1) * tree.K);
    return 0;
}

/* The leaf of each row, numbered from 0: right where z ≥ 0. */
static double NAME(route)(Call *call) {
    const REAL *rows = array(call);
    const int64_t *children = array(call);
    const REAL *splits = array(call);
    int64_t *leaf = array(call), D = call->size['d'], S = call->size['s'];
    for (int64_t r = 0; r < call->size['n']; r++, rows += D) {
        int64_t node = 0;
        while (node < S) {
            REAL z = 0;
            for (int64_t d = 0; d < D; d++) z += splits[node * D + d] * rows[d];
            node = children[2 * node + (z >= 0)];
        }
        leaf[r] = node - S;
    }
    return 0;
}
#undef TILE
