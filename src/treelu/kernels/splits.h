/* Search of a split of rows by one column: the scan of columns in the order of their values, dense or sparse.

   Let S be the weighted sum on the left of the targets less their mean, W_left and W_right the weights of the sides. A split
   scores ‖S‖² / (W_left W_right), with the sum of absolute values as norm for the twoing rule. A later split must beat an
   earlier one by more than rounding. */

#define SEARCH JOINED(Search, REAL)
#define SCORED JOINED(Scored, REAL)
typedef struct { REAL score, threshold; int64_t column; } SCORED; /* score −1: none yet */

typedef struct {
    int64_t n, K, least, twoing; /* rows, targets, rows that a side must keep, the rule */
    REAL tolerance, total_weight;
    const REAL *weighted, *weight; /* (n, K), (n) */
    REAL *left, *values;           /* (K), (n) */
} SEARCH;

static SEARCH NAME(read_search)(Call *call) {
    SEARCH search = {.n = call->size['n'], .K = call->size['k']};
    search.tolerance = number(call), search.weighted = array(call), search.weight = array(call);
    search.least = integer(call), search.twoing = integer(call);
    search.left = take(call, sizeof(REAL) * search.K), search.values = take(call, sizeof(REAL) * search.n);
    for (int64_t row = 0; row < search.n; row++) search.total_weight += search.weight[row];
    return search;
}

static int NAME(beats)(REAL score, REAL best) { return score > best * (REAL)(1 + 1e-9); }

/* Note the best split of a column whose rows come in `order` of their `values`. */
static void NAME(scan)(const SEARCH *search, const int64_t *order, int64_t column, SCORED *best) {
    const REAL *values = search->values;
    REAL left_weight = 0, best_score = -1, threshold = 0;
    memset(search->left, 0, sizeof(REAL) * search->K);
    for (int64_t i = 0; i < search->n - search->least; i++) {
        REAL lower = values[i], upper = values[i + 1], norm = 0;
        for (int64_t k = 0; k < search->K; k++) search->left[k] += search->weighted[order[i] * search->K + k];
        left_weight += search->weight[order[i]];
        if (i + 1 < search->least || upper - lower <= search->tolerance) continue;
        for (int64_t k = 0; k < search->K; k++) norm += search->twoing ? fabs(search->left[k]) : search->left[k] * search->left[k];
        REAL score = (search->twoing ? norm * norm : norm) / (left_weight * (search->total_weight - left_weight));
        if (NAME(beats)(score, best_score)) {
            REAL middle = lower + (upper - lower) / 2;
            best_score = score;
            threshold = middle > lower ? middle : upper; /* rows at the threshold go right: it lies above the left side */
        }
    }
    if (NAME(beats)(best_score, best->score)) *best = (SCORED){best_score, threshold, column};
}

static double NAME(store_scored)(SCORED best, REAL *found) {
    found[0] = best.score, found[1] = best.column, found[2] = best.threshold;
    return 0;
}

/* The best split of the columns of a table that lie in its rows, each with the order of its values. */
static double NAME(scan_table)(Call *call) {
    const REAL *table = array(call);
    const int64_t *order = array(call);
    SEARCH search = NAME(read_search)(call);
    SCORED best = {-1, 0, 0};
    for (int64_t column = 0; column < call->size['c']; column++, table += search.n, order += search.n) {
        for (int64_t i = 0; i < search.n; i++) search.values[i] = table[order[i]];
        NAME(scan)(&search, order, column, &best);
    }
    return NAME(store_scored)(best, array(call));
}

#define ENTRY JOINED(Entry, REAL)
typedef struct { REAL value; int64_t row; } ENTRY;

static int NAME(by_value)(const void *a, const void *b) {
    REAL x = ((const ENTRY *)a)->value, y = ((const ENTRY *)b)->value;
    return (x > y) - (x < y);
}

/* The same of the columns x_j + slope_j · base of a CSC table, of which only the non-zeros of x_j have to be sorted. */
static double NAME(scan_sparse)(Call *call) {
    const int32_t *rows = array(call);
    const REAL *data = array(call);
    const int64_t *starts = array(call);
    const REAL *slopes = array(call), *base = array(call);
    const int64_t *base_order = array(call);
    SEARCH search = NAME(read_search)(call);
    SCORED best = {-1, 0, 0};
    int64_t *order = take(call, sizeof(int64_t) * search.n);
    char *is_stored = take(call, search.n);
    ENTRY *own = take(call, sizeof(ENTRY) * search.n);
    memset(is_stored, 0, search.n);
    for (int64_t column = 0; column < call->size['c']; column++) {
        int64_t begin = starts[column], n_own = starts[column + 1] - begin, place = 0, taken = 0;
        REAL slope = slopes[column];
        for (int64_t e = 0; e < n_own; e++) {
            int64_t row = rows[begin + e];
            own[e] = (ENTRY){data[begin + e] + slope * base[row], row};
            is_stored[row] = 1;
        }
        qsort(own, n_own, sizeof(ENTRY), NAME(by_value));
        for (int64_t i = 0; i < search.n; i++) {
            int64_t row = base_order[slope >= 0 ? i : search.n - 1 - i];
            if (is_stored[row]) continue;
            REAL value = slope * base[row];
            for (; taken < n_own && own[taken].value < value; taken++, place++) order[place] = own[taken].row, search.values[place] = own[taken].value;
            order[place] = row, search.values[place++] = value;
        }
        for (; taken < n_own; taken++, place++) order[place] = own[taken].row, search.values[place] = own[taken].value;
        for (int64_t e = 0; e < n_own; e++) is_stored[own[e].row] = 0;
        NAME(scan)(&search, order, column, &best);
    }
    return NAME(store_scored)(best, array(call));
}
