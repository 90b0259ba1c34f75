/* Rows through a finished tree. The arithmetic is that of `treelu.tree.rows`, fixed to the last bit: products and sums in
   double, from the first feature to the last, none fused, none reordered. So this file has its own flags (setup.py). */
#include <math.h>

#include "kernels.h"

/* The leaf of each row, as a node number. Weights that are not 0 stand in rows, as in a CSR matrix. Returns the number of
   the first row with a score that is not finite, or −1. */
static double tree_leaves(Call *call) {
    int64_t n = call->size['n'], D = call->size['d'], S = call->size['s'];
    const double *rows = array(call);
    const int64_t *starts = array(call), *features = array(call);
    const double *weights = array(call), *biases = array(call);
    const int64_t *children = array(call);
    int64_t *leaf = array(call);
    for (int64_t row = 0; row < n; row++, rows += D) {
        int64_t node = 0;
        while (node < S) {
            double score = 0;
            for (int64_t e = starts[node]; e < starts[node + 1]; e++) score += weights[e] * rows[features[e]];
            score += biases[node];
            if (!isfinite(score)) return row;
            node = children[2 * node + (score >= 0)];
        }
        leaf[row] = node;
    }
    return -1;
}

#define LISTED(name, signature) name,
Kernel *const treelu_exact_kernels[] = {EXACT_KERNELS(LISTED)};
