/* What a kernel is: a function of arrays and numbers that runs without Python's lock, in float and in double.

   A kernel's signature lists its arguments, "name:kind[sizes]" each. Kinds of arrays: r (real: float or double, the same
   for all of a call), f (float or double, as it comes), i (int64), j (int32), s (int32 or int64), u (uint64); a capital
   letter where the kernel writes; a ? behind it where None will do. Kinds of numbers: x (double), n (integer). Letters in
   brackets name sizes: equal letters must be equal sizes. `compiled.c` checks all this before a kernel runs. */
#ifndef TREELU_KERNELS_H
#define TREELU_KERNELS_H

#include <setjmp.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_ARGUMENTS = 64, MOST_PIECES = 64 };

typedef union { void *data; double x; int64_t n; } Argument;

typedef struct {
    Argument given[MOST_ARGUMENTS];
    char is_wide[MOST_ARGUMENTS];  /* of f and s: whether elements have eight bytes */
    int64_t size[128];             /* by letter */
    int next;                      /* the argument to be read next */
    void *pieces[MOST_PIECES];     /* memory taken meanwhile, freed after the call */
    int n_pieces;
    jmp_buf out;                   /* where to go without memory */
} Call;

typedef double Kernel(Call *);

static inline void *array(Call *call) { return call->given[call->next++].data; }
static inline double number(Call *call) { return call->given[call->next++].x; }
static inline int64_t integer(Call *call) { return call->given[call->next++].n; }

/* Memory that begins with a cache line, and is freed after the call. */
static inline void *take(Call *call, size_t bytes) {
    void *piece = call->n_pieces < MOST_PIECES ? malloc(bytes + 64) : NULL;
    if (!piece) longjmp(call->out, 1);
    call->pieces[call->n_pieces++] = piece;
    return (void *)(((uintptr_t)piece + 63) / 64 * 64);
}

#define ENTRIES "values:f[e] features:j[f] starts:s[g] width:n "
#define BATCHES "rows:i[o] cuts:i[q] keys:u[b] "
#define NEURONS "connection:r[m,m] bias:r[m] "
#define ACTIVATION "annealing:x slope:x bend:x "
#define DROP "threshold:n scale:x "
#define CONSTANT "weight:r[d,m] connection:r[m,m] bias:r[m] head_weight:r[h,m,d] head_offset:r[h,m] head_bias:r[h] "
#define BY_CONSTANT "weight:R[d,m] connection:R[m,m] bias:R[m] head_weight:R[h,m,d] head_offset:R[h,m] head_bias:R[h] "
#define LINEAR "weight:r[d,m] connection:r[m,m] bias:r[m] output_weight:r[d,h] output_connection:r[m,h] output_bias:r[h] "
#define BY_LINEAR "weight:R[d,m] connection:R[m,m] bias:R[m] output_weight:R[d,h] output_connection:R[m,h] output_bias:R[h] "
#define TARGETS "labels:i?[y] y:f?[y,t] weight:f?[y] offset:f?[y,h] is_binary:n "
#define STEP "vector:R[p] gradient:r[p] mean:R[p] square:R[z] largest:R[z] is_sgd:n number:x rate:x decay:x beta_1:x beta_2:x epsilon:x "
#define SEARCH_OPTIONS "tolerance:x weighted:r[n,k] weight:r[n] min_samples_leaf:n twoing:n found:R[3]"
#define ROWS_OF_TREE "columns:r[d,n] target:r[k,n] weight:r[1,n] "

/* name, signature */
#define KERNELS(kernel) \
    kernel(soft_updates, ROWS_OF_TREE "children:i[s,2] allowed:r[s,d] signs:r?[d] splits:R[s,d] values:R[l,k] " \
        "n_updates:n batch_size:n learning_rate:x decay:x penalty:x drop:x softest:x sharpest:x firmness:x " \
        "is_classifier:n seed:n") \
    kernel(soft_gradient, ROWS_OF_TREE "children:i[s,2] kept:r[s,d] splits:r[s,d] values:r[l,k] " \
        "sharpness:x firmness:x is_classifier:n by_splits:R[s,d] by_values:R[l,k]") \
    kernel(route, "rows:r[n,d] children:i[s,2] splits:r[s,d] leaf:I[n]") \
    kernel(constant_updates, ENTRIES BATCHES CONSTANT BY_CONSTANT ACTIVATION DROP TARGETS STEP) \
    kernel(linear_updates, ENTRIES BATCHES LINEAR BY_LINEAR ACTIVATION DROP TARGETS STEP) \
    kernel(constant_outputs, ENTRIES "rows:i[o] packed:r[d,c] " NEURONS ACTIVATION \
        "gram:r[h,m,m] head_offset:r[h,m] head_bias:r[h] out:R[h,o] first:n last:n") \
    kernel(linear_outputs, ENTRIES "rows:i[o] packed:r[d,c] " NEURONS ACTIVATION \
        "output_connection:r[m,h] output_bias:r[h] out:R[h,o] first:n last:n") \
    kernel(block_rows, "") \
    kernel(state_size, "depth:n") \
    kernel(row_keys, "key:n keys:J[n]") \
    kernel(paths_forward, ENTRIES "rows:i[o] packed:r[d,c] " NEURONS ACTIVATION DROP "key:n state:R[w] " \
        "coefficients:R[t,o] offsets:R[m,o]") \
    kernel(paths_backward, ENTRIES "rows:i[o] packed:R[d,c] " NEURONS ACTIVATION DROP "key:n state:R[w] " \
        "coefficients:r[t,o] offsets:r[m,o] by_connection:R[m,m] by_bias:R[m]") \
    kernel(patterns, ENTRIES "rows:i[o] packed:r[d,c] " NEURONS "slope:x codes:I[o,w] first:n last:n") \
    kernel(mean_loss, "out:R[h,o] " TARGETS "rows:i[o] gradient:R[h,o]") \
    kernel(take_step, STEP) \
    kernel(add_leaf_values, "X:r[n,d] features:i[s] thresholds:r[s] children:i[s,2] roots:i[t] values:r[l,k] " \
        "total:R[n,k] first:n last:n") \
    kernel(scan_table, "table:r[c,n] order:i[c,n] " SEARCH_OPTIONS) \
    kernel(scan_sparse, "rows:j[e] data:r[e] starts:i[a] slopes:r[c] base:r[n] base_order:i[n] " SEARCH_OPTIONS)

/* Those of exact.c, in double, whose arithmetic is the same on every processor */
#define EXACT_KERNELS(kernel) \
    kernel(tree_leaves, "rows:r[n,d] starts:i[a] features:i[e] weights:r[e] biases:r[s] children:i[s,2] leaf:I[n]") \
    kernel(leaf_outputs, "rows:r[n,d] leaf:i[n] starts:i[a] features:i[e] weights:r[e] values:r[l,k] out:R[n,k]") \
    kernel(best_short_tree, "bins:j[d,n] n_bins:i[d] order:i[d,n] rows:r[n,c] errors:x squares:x min_samples_leaf:n depth:n found:I[6]")

#define NUMBERED(name, signature) number_of_##name,
enum { KERNELS(NUMBERED) N_KERNELS, BEFORE_EXACT = N_KERNELS - 1, EXACT_KERNELS(NUMBERED) N_ALL };

typedef Kernel *Table[N_KERNELS][2]; /* in float, in double */

#endif
