/* Exact search of the best tree of depth 2 whose splits have one feature each, on binned rows.

   A row has C statistics: its K weighted targets, its weight, and a 1 that counts it. A leaf with sums s, weight m costs

       errors · (m − max_k s_k) + squares · (m − Σ_k s_k² / m)

   the weight of its misclassified rows, and the Gini index or, up to a constant, the squared error. For every ordered pair
   of features the rows move from right to left in the order of the first, bin by bin, while a table holds the sums of the
   rows on the left by the bins of the second: O(D² (n C + B² C)) for n rows of D features with B bins. */

typedef struct {
    int64_t n, D, K, C, least;
    double errors, squares;
    const int32_t *bins; /* (D, n) */
    const double *rows;  /* (n, C) */
} Short;

typedef struct { double loss; int32_t feature, bin; } Best; /* feature −1: a leaf */

/* The cost of leaves side by side: sums of statistic c of leaf i at sums[c · width + i]; infinite with too few rows. */
static void leaf_costs(const Short *all, const double *restrict sums, int64_t width, int64_t n_leaves, double *restrict cost) {
    const double *restrict mass = sums + all->K * width, *restrict count = mass + width;
    double errors = all->errors, squares = all->squares, least = (double)all->least;
    double total[BLOCK], most[BLOCK];
    for (int64_t first = 0; first < n_leaves; first += BLOCK) {
        int n_here = n_leaves - first < BLOCK ? (int)(n_leaves - first) : BLOCK;
        for (int i = 0; i < n_here; i++) total[i] = 0, most[i] = 0;
        for (int64_t k = 0; k < all->K; k++) {
            const double *restrict s = sums + k * width + first;
            for (int i = 0; i < n_here; i++) {
                total[i] += s[i] * s[i];
                most[i] = s[i] > most[i] ? s[i] : most[i];
            }
        }
        for (int i = 0; i < n_here; i++) {
            double m = mass[first + i], square = m > 0 ? m - total[i] / m : 0;
            cost[first + i] = count[first + i] < least ? INFINITY : errors * (m - most[i]) + squares * square;
        }
    }
}

/* Whether a loss is smaller by more than rounding. */
static inline int is_less(double loss, double best, double scale) { return loss < best - 1e-11 * scale; }

/* The best split of the rows with some sums by bins: `below` (C, width) cumulated, the last bin holds all of them. */
static void best_split(
    const Short *all, const double *restrict below, int64_t width, int32_t feature, double *above, double *costs, double scale, Best *best) {
    int64_t n_cuts = width - 1;
    double *right = costs + width;
    for (int64_t c = 0; c < all->C; c++) {
        double whole = below[c * width + n_cuts];
        for (int64_t i = 0; i < n_cuts; i++) above[c * width + i] = whole - below[c * width + i];
    }
    leaf_costs(all, below, width, n_cuts, costs);
    leaf_costs(all, above, width, n_cuts, right);
    for (int64_t i = 0; i < n_cuts; i++) {
        double loss = costs[i] + right[i];
        if (is_less(loss, best->loss, scale)) *best = (Best){loss, feature, (int32_t)i};
    }
}

/* The best tree of depth 1 or 2: for the root, its left and its right child the feature (−1 for a leaf) and the last bin on the
   left. Returns its loss. `n_bins` of each feature; `order` of the rows by bins of each. */
static double best_short_tree(Call *call) {
    Short all = {.n = call->size['n'], .D = call->size['d'], .C = call->size['c']};
    all.K = all.C - 2, all.bins = array(call);
    const int64_t *n_bins = array(call), *order = array(call);
    all.rows = array(call), all.errors = number(call), all.squares = number(call), all.least = integer(call);
    int64_t depth = integer(call), *found = array(call), widest = 1, C = all.C;
    for (int64_t d = 0; d < all.D; d++) widest = n_bins[d] > widest ? n_bins[d] : widest;
    double *table = take(call, sizeof(double) * C * widest), *whole = take(call, sizeof(double) * C * widest);
    double *below = take(call, sizeof(double) * C * widest), *above = take(call, sizeof(double) * C * widest);
    double *costs = take(call, sizeof(double) * 2 * widest), *moved = take(call, sizeof(double) * C), *total = take(call, sizeof(double) * C);
    Best *left = take(call, sizeof(Best) * widest), *right = take(call, sizeof(Best) * widest);
    memset(total, 0, sizeof(double) * C);
    for (int64_t row = 0; row < all.n; row++)
        for (int64_t c = 0; c < C; c++) total[c] += all.rows[row * C + c];
    double lowest, scale;
    leaf_costs(&all, total, 1, 1, &lowest);
    scale = fabs(lowest) + total[all.K];
    found[0] = found[2] = found[4] = -1, found[1] = found[3] = found[5] = 0;
    for (int64_t f = 0; f < all.D; f++) {
        const int64_t *by_f = order + f * all.n;
        const int32_t *bin_f = all.bins + f * all.n;
        memset(moved, 0, sizeof(double) * C);
        for (int64_t b = 0, place = 0; b < n_bins[f] - 1; b++) { /* leaves on either side */
            for (; place < all.n && bin_f[by_f[place]] == b; place++)
                for (int64_t c = 0; c < C; c++) moved[c] += all.rows[by_f[place] * C + c];
            for (int64_t c = 0; c < C; c++) above[c] = total[c] - moved[c];
            left[b] = right[b] = (Best){0, -1, 0};
            leaf_costs(&all, moved, 1, 1, &left[b].loss);
            leaf_costs(&all, above, 1, 1, &right[b].loss);
        }
        for (int64_t g = 0; g < all.D && depth > 1; g++) {
            const int32_t *bin_g = all.bins + g * all.n;
            int64_t width = n_bins[g];
            memset(table, 0, sizeof(double) * C * width);
            memset(whole, 0, sizeof(double) * C * width);
            for (int64_t row = 0; row < all.n; row++)
                for (int64_t c = 0; c < C; c++) whole[c * width + bin_g[row]] += all.rows[row * C + c];
            for (int64_t c = 0; c < C; c++)
                for (int64_t i = 1; i < width; i++) whole[c * width + i] += whole[c * width + i - 1];
            for (int64_t b = 0, place = 0; b < n_bins[f] - 1; b++) {
                for (; place < all.n && bin_f[by_f[place]] == b; place++)
                    for (int64_t c = 0; c < C; c++) table[c * width + bin_g[by_f[place]]] += all.rows[by_f[place] * C + c];
                for (int64_t c = 0; c < C; c++) {
                    double sum = 0;
                    for (int64_t i = 0; i < width; i++) below[c * width + i] = sum += table[c * width + i];
                }
                best_split(&all, below, width, (int32_t)g, above, costs, scale, &left[b]);
                for (int64_t i = 0; i < C * width; i++) below[i] = whole[i] - below[i];
                best_split(&all, below, width, (int32_t)g, above, costs, scale, &right[b]);
            }
        }
        for (int64_t b = 0; b < n_bins[f] - 1; b++) {
            double loss = left[b].loss + right[b].loss;
            if (!is_less(loss, lowest, scale)) continue;
            lowest = loss;
            found[0] = f, found[1] = b, found[2] = left[b].feature, found[3] = left[b].bin;
            found[4] = right[b].feature, found[5] = right[b].bin;
        }
    }
    return lowest;
}
