/* Losses of networks, the optimisers' steps, and rows through the trees of a forest. */

/* What the losses compare with: labels (n) of classes, or y (n, T), NaN where it was not observed; weights of rows and
   scores (n, H) that are added to the outputs, where there are any. */
#define TARGET JOINED(Target, REAL)
typedef struct {
    const int64_t *labels;
    const void *y, *weight, *offset;
    char wide_y, wide_weight, wide_offset;
    int is_binary;
    int64_t T, H;
} TARGET;

static TARGET NAME(targets)(Call *call) {
    TARGET to = {.T = call->size['t'], .H = call->size['h']};
    to.labels = array(call);
    to.wide_y = call->is_wide[call->next], to.y = array(call);
    to.wide_weight = call->is_wide[call->next], to.weight = array(call);
    to.wide_offset = call->is_wide[call->next], to.offset = array(call);
    to.is_binary = integer(call) != 0;
    return to;
}

static inline double NAME(read)(const void *numbers, char is_wide, int64_t at) {
    return is_wide ? ((const double *)numbers)[at] : ((const float *)numbers)[at];
}

/* 1 / the number of elements that a batch's mean is over: rows of classes, observed elements of y */
static double NAME(share)(const TARGET *to, const int64_t *rows, int64_t n) {
    if (to->labels) return 1.0 / n;
    int64_t observed = 0;
    for (int64_t r = 0; r < n; r++)
        for (int64_t k = 0; k < to->T; k++) {
            double y = NAME(read)(to->y, to->wide_y, rows[r] * to->T + k);
            observed += y == y;
        }
    return 1.0 / (observed ? observed : 1);
}

/* One row's share of the loss; out and grad of output k are k · stride apart. Classes: cross entropy of one raw score for
   each, whose derivative is the probability, less 1 for the true class. Two classes, for each element of y: cross entropy
   log(1 + exp z) − y z of a raw score, derivative σ(z) − y. Values: squared error. */
static double NAME(row_loss)(const TARGET *to, int64_t row, double factor, REAL *out, REAL *grad, int64_t stride) {
    double total = 0;
    if (to->weight) factor *= NAME(read)(to->weight, to->wide_weight, row);
    if (to->offset)
        for (int64_t k = 0; k < to->H; k++) out[k * stride] += NAME(read)(to->offset, to->wide_offset, row * to->H + k);
    if (to->labels) {
        REAL highest = out[0], *own = grad + to->labels[row] * stride;
        double mass = 0;
        for (int64_t k = 1; k < to->H; k++) highest = out[k * stride] > highest ? out[k * stride] : highest;
        for (int64_t k = 0; k < to->H; k++) mass += grad[k * stride] = EXP(out[k * stride] - highest);
        for (int64_t k = 0; k < to->H; k++) grad[k * stride] = factor * grad[k * stride] / mass;
        *own -= factor;
        return factor * (log(mass) + highest - out[to->labels[row] * stride]);
    }
    for (int64_t k = 0; k < to->T; k++) {
        REAL z = out[k * stride];
        double y = NAME(read)(to->y, to->wide_y, row * to->T + k);
        if (y != y) {
            grad[k * stride] = 0;
        } else if (to->is_binary) {
            REAL small = EXP(z > 0 ? -z : z);
            total += factor * ((z > 0 ? z : 0) + LOG1P(small) - y * z);
            grad[k * stride] = factor * ((z >= 0 ? 1 : small) / (1.0 + small) - y);
        } else {
            total += factor * (z - y) * (z - y);
            grad[k * stride] = 2 * factor * (z - y);
        }
    }
    return total;
}

/* The mean loss of outputs (H, B), to which stored scores are added, and its gradient. */
static double NAME(mean_loss)(Call *call) {
    REAL *out = array(call);
    TARGET to = NAME(targets)(call);
    const int64_t *rows = array(call), n = call->size['o'];
    REAL *grad = array(call);
    double total = 0, share = NAME(share)(&to, rows, n);
    for (int64_t r = 0; r < n; r++) total += NAME(row_loss)(&to, rows[r], share, out + r, grad + r, n);
    return total;
}

/* A vector, its gradient, the optimiser's state and settings; `number` counts the steps from 1. SGD keeps its momentum in
   `mean` and has neither `square` nor `largest`; its momentum's factor is `beta_1`. */
#define MOVE JOINED(Move, REAL)
typedef struct {
    REAL *vector, *gradient, *mean, *square, *largest;
    int64_t n, is_sgd;
    double number, rate, decay, beta_1, beta_2, epsilon;
} MOVE;

static MOVE NAME(move)(Call *call) {
    MOVE move = {.n = call->size['p']};
    move.vector = array(call), move.gradient = array(call), move.mean = array(call);
    move.square = array(call), move.largest = array(call);
    move.is_sgd = integer(call), move.number = number(call), move.rate = number(call), move.decay = number(call);
    move.beta_1 = number(call), move.beta_2 = number(call), move.epsilon = number(call);
    return move;
}

/* SGD: m ← μ m + g and p ← p − η (g + μ m), where g is the gradient and the decay. AMSGrad: Adam's update with the
   largest mean square so far, after the vector has shrunk by the decay. `ahead` steps were taken since `number`. */
static void NAME(step)(const MOVE *move, int64_t ahead) {
    REAL *restrict vector = move->vector, *restrict mean = move->mean, keep_mean = move->beta_1;
    const REAL *restrict gradient = move->gradient, one = 1;
    if (move->is_sgd) {
        REAL rate = move->rate, decay = move->decay;
        for (int64_t i = 0; i < move->n; i++) {
            REAL g = gradient[i] + decay * vector[i], m = keep_mean * mean[i] + g;
            mean[i] = m;
            vector[i] -= rate * (g + keep_mean * m);
        }
        return;
    }
    double number = move->number + ahead;
    REAL *restrict square = move->square, *restrict largest = move->largest, keep_square = move->beta_2;
    REAL shrink = 1 - move->rate * move->decay, length = move->rate / (1 - pow(move->beta_1, number));
    REAL root = 1 / sqrt(1 - pow(move->beta_2, number)), small = move->epsilon;
    for (int64_t i = 0; i < move->n; i++) {
        REAL g = gradient[i], m = keep_mean * mean[i] + (one - keep_mean) * g;
        REAL q = keep_square * square[i] + (one - keep_square) * g * g, most = q > largest[i] ? q : largest[i];
        mean[i] = m, square[i] = q, largest[i] = most;
        vector[i] = shrink * vector[i] - length * m / (SQRT(most) * root + small);
    }
}

static double NAME(take_step)(Call *call) {
    MOVE move = NAME(move)(call);
    NAME(step)(&move, 0);
    return 0;
}

/* Add the values of the leaves that rows first … last − 1 reach; see `treelu.training.forest.Forest` for the arrays. */
static double NAME(add_leaf_values)(Call *call) {
    const REAL *X = array(call);
    const int64_t *features = array(call);
    const REAL *thresholds = array(call);
    const int64_t *children = array(call), *roots = array(call);
    const REAL *values = array(call);
    REAL *total = array(call);
    int64_t first = integer(call), last = integer(call), D = call->size['d'], K = call->size['k'];
    for (int64_t tree = 0; tree < call->size['t']; tree++)
        for (int64_t row = first; row < last; row++) {
            int64_t node = roots[tree];
            while (node >= 0) node = children[2 * node + (X[row * D + features[node]] >= thresholds[node])];
            for (int64_t k = 0; k < K; k++) total[row * K + k] += values[~node * K + k];
        }
    return 0;
}
