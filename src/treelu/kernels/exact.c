/* Rows through a finished tree. The arithmetic is that of `treelu.tree.rows`, fixed to the last bit: products and sums in
   double, from the first feature to the last, none fused, none reordered. So this file has its own flags (setup.py).

   A block of rows goes through the tree together, parted at each node. The sums of several rows run side by side, which
   hides how long an addition takes; each is still summed in its own order. */
#include <math.h>

#include "kernels.h"

enum { BLOCK = 256, LANES = 8 };

typedef struct { int64_t node; int begin, end; } Part; /* rows of a block that have reached a node */

/* The scores of some rows at a node: the terms' sum, then the bias. */
static inline __attribute__((always_inline)) void add_terms(
    const int lanes, const double *block, int64_t D, const int32_t *order, int64_t n_terms, const int64_t *features,
    const double *weights, double bias, double *scores) {
    const double *row[LANES];
    double sum[LANES] = {0};
    for (int lane = 0; lane < lanes; lane++) row[lane] = block + D * order[lane];
    for (int64_t e = 0; e < n_terms; e++)
        for (int lane = 0; lane < lanes; lane++) sum[lane] += weights[e] * row[lane][features[e]];
    for (int lane = 0; lane < lanes; lane++) scores[lane] = sum[lane] + bias;
}

/* The leaf of each row, as a node number. Weights that are not 0 stand in rows, as in a CSR matrix. Returns the number of
   the first row with a score that is not finite, or −1. */
static double tree_leaves(Call *call) {
    int64_t n = call->size['n'], D = call->size['d'], S = call->size['s'];
    const double *rows = array(call);
    const int64_t *starts = array(call), *features = array(call);
    const double *weights = array(call), *biases = array(call);
    const int64_t *children = array(call);
    int64_t *leaf = array(call);
    Part *stack = take(call, sizeof(Part) * (S + 1));
    for (int64_t first = 0; first < n; first += BLOCK) {
        const double *block = rows + D * first;
        int n_rows = n - first < BLOCK ? (int)(n - first) : BLOCK, n_parts = 1, bad = BLOCK;
        int32_t order[BLOCK], right[BLOCK];
        double scores[BLOCK];
        for (int i = 0; i < n_rows; i++) order[i] = i;
        stack[0] = (Part){0, 0, n_rows};
        while (n_parts) {
            Part part = stack[--n_parts];
            int begin = part.begin, n_here = part.end - begin, n_left = 0, n_right = 0, i = 0;
            if (part.node >= S) {
                for (; i < n_here; i++) leaf[first + order[begin + i]] = part.node;
                continue;
            }
            int64_t start = starts[part.node], n_terms = starts[part.node + 1] - start;
            const int64_t *of = features + start;
            const double *by = weights + start, bias = biases[part.node];
            for (; i + LANES <= n_here; i += LANES) add_terms(LANES, block, D, order + begin + i, n_terms, of, by, bias, scores + i);
            for (; i < n_here; i++) add_terms(1, block, D, order + begin + i, n_terms, of, by, bias, scores + i);
            for (i = 0; i < n_here; i++) { /* without a branch: which way a row goes cannot be foretold */
                int32_t row = order[begin + i], goes_right = scores[i] >= 0;
                if (!isfinite(scores[i]) && row < bad) bad = row;
                order[begin + n_left] = row, right[n_right] = row;
                n_left += !goes_right, n_right += goes_right;
            }
            memcpy(order + begin + n_left, right, sizeof(int32_t) * n_right);
            const int64_t *child = children + 2 * part.node;
            if (n_right) stack[n_parts++] = (Part){child[1], begin + n_left, part.end};
            if (n_left) stack[n_parts++] = (Part){child[0], begin, begin + n_left};
        }
        if (bad < BLOCK) return first + bad;
    }
    return -1;
}

/* The outputs of linear leaves: the sum of the leaf's terms, then its value. Terms stand in rows, as in a CSR matrix, one
   for each leaf and output; leaves count from 0. Returns as above. */
static double leaf_outputs(Call *call) {
    int64_t n = call->size['n'], D = call->size['d'], K = call->size['k'];
    const double *rows = array(call);
    const int64_t *leaf = array(call), *starts = array(call), *features = array(call);
    const double *weights = array(call), *values = array(call);
    double *out = array(call);
    for (int64_t row = 0; row < n; row++, rows += D)
        for (int64_t k = 0; k < K; k++) {
            int64_t place = leaf[row] * K + k;
            double sum = 0;
            for (int64_t e = starts[place]; e < starts[place + 1]; e++) sum += weights[e] * rows[features[e]];
            if (!isfinite(sum)) return row;
            *out++ = values[place] + sum;
        }
    return -1;
}

#include "depth_two.h"

#define LISTED(name, signature) name,
Kernel *const treelu_exact_kernels[] = {EXACT_KERNELS(LISTED)};
