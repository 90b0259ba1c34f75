"""The C source of exported programs, with marked places; see `treelu.export.c`."""

from __future__ import annotations

ROW_WORDS = {
    False: " * numbers: the columns above in their order; NAN where one is missing.",
    True: (
        " * numbers: the columns above that begin with number, in their order; NAN where one is missing.\n"
        " * texts: those that begin with text, UTF-8; NULL where one is missing. Blanks around a text do not count."
    ),
}

TEMPLATE = """\
/*
@HEADER@
 *
 * Needs -lm only where probabilities of sums of trees or of linear leaves are computed.
 */
#ifndef @GUARD@
#define @GUARD@

#include <float.h>
#include <math.h>
#include <stddef.h>
#include <string.h>

/* Rows on a boundary take the right side only if every product and every sum is rounded once, to @REAL@. */
#ifndef TREELU_ANY_ARITHMETIC
#if defined(__FAST_MATH__)
#error "compile without -ffast-math, or define TREELU_ANY_ARITHMETIC and accept other answers on boundaries"
#endif
#if defined(FLT_EVAL_METHOD) && FLT_EVAL_METHOD != 0
#error "compile with FLT_EVAL_METHOD 0 (-msse2 -mfpmath=sse), or define TREELU_ANY_ARITHMETIC"
#endif
#endif
#if defined(__clang__)
#pragma STDC FP_CONTRACT OFF
#elif defined(__GNUC__)
#pragma GCC push_options
#pragma GCC optimize("fp-contract=off")
#endif

/* The columns: their places among the numbers and, where there are any, among the texts. */
enum {
@COLUMNS@
@SIZES@
};

@TABLES@@ENCODING@
static inline @REAL@ @P@_sum(const int *feature, const @REAL@ *weight, int first, int end, @REAL@ last, const @REAL@ *x)
{
    @REAL@ total, product;
    int term;
    if (first == end) return last;
    total = weight[first] * x[feature[first]];
    for (term = first + 1; term < end; term++) {
        product = weight[term] * x[feature[term]];
        total = total + product;
    }
    return total + last;
}

/* The number of the leaf in one tree, -1 where a sum is not finite. */
static inline int @P@_route(const @REAL@ *x, int tree)
{
    const int first = @P@_tree_first[tree];
    const int count = @P@_tree_first[tree + 1] - first;
    int node = 0;
    while (node < count) {
        const int asked = first + node;
        const @REAL@ score = @P@_sum(@P@_term_feature, @P@_term_weight, @P@_term_first[asked],
            @P@_term_first[asked + 1], @P@_bias[asked], x);
        if (!isfinite(score)) return -1;
        node = score >= 0 ? @P@_right[asked] : @P@_left[asked];
    }
    return node;
}

@PARTS@
/*
 * Predicts for one row. Returns the number of the class (0 where there are none), or -1 where a number that is asked
 * for is missing, infinite or too large.
@ROW_WORDS@
 * outputs: room for @P@_n_outputs numbers: probabilities or values.
 */
static inline int @P@_predict(@ROW@, @REAL@ *outputs)
{
    int label = 0;
@ENCODE@
@PREDICT@
    return label;
}

/* The leaf that a row reaches in each tree; returns 0, or -1 as above. leaves: room for @P@_n_trees numbers. */
static inline int @P@_apply(@ROW@, int *leaves)
{
    int tree;
@ENCODE@
    for (tree = 0; tree < @P@_n_trees; tree++) {
        leaves[tree] = @P@_route(x, tree);
        if (leaves[tree] < 0) return -1;
    }
    return 0;
}
@CLASSES@
@SELF_TEST@
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC pop_options
#endif

#endif
"""

TEXTS = """\
typedef struct {
    const unsigned char *start;
    size_t length;
} @P@_text;

/* The width of the blank that begins here, 0 if there is none; those of Unicode, in UTF-8. */
static inline size_t @P@_blank(const unsigned char *s, size_t n)
{
    if (n >= 1 && ((s[0] >= 9 && s[0] <= 13) || (s[0] >= 28 && s[0] <= 32))) return 1;
    if (n >= 2 && s[0] == 0xC2 && (s[1] == 0x85 || s[1] == 0xA0)) return 2;
    if (n < 3) return 0;
    if (s[0] == 0xE1 && s[1] == 0x9A && s[2] == 0x80) return 3;
    if (s[0] == 0xE2 && s[1] == 0x81 && s[2] == 0x9F) return 3;
    if (s[0] == 0xE3 && s[1] == 0x80 && s[2] == 0x80) return 3;
    if (s[0] != 0xE2 || s[1] != 0x80) return 0;
    return (s[2] >= 0x80 && s[2] <= 0x8A) || s[2] == 0xA8 || s[2] == 0xA9 || s[2] == 0xAF ? 3 : 0;
}

static inline @P@_text @P@_trim(const char *text)
{
    @P@_text result;
    size_t width;
    result.start = (const unsigned char *)text;
    result.length = text == NULL ? 0 : strlen(text);
    while (result.length > 0 && (width = @P@_blank(result.start, result.length)) > 0) {
        result.start += width;
        result.length -= width;
    }
    do {
        for (width = 3; width > 0; width--) {
            if (result.length >= width && @P@_blank(result.start + result.length - width, width) == width) break;
        }
        result.length -= width;
    } while (width > 0);
    return result;
}

static inline int @P@_equal(@P@_text text, const unsigned char *other, size_t length)
{
    return text.length == length && (length == 0 || memcmp(text.start, other, length) == 0);
}

"""

DATES = """\
/* A part of a moment in seconds since 1970: year, month, day of the week (Monday is 1), hour, days since 1970. */
static inline double @P@_date_part(double seconds, int part)
{
    const long long day = 86400000000LL;
    const long long moment = (long long)(seconds * 1e6 + (seconds < 0 ? -0.5 : 0.5)); /* microseconds */
    const long long days = moment / day - (moment % day < 0);
    const long long era_days = days + 719468, era = era_days / 146097 - (era_days % 146097 < 0);
    const long long in_era = era_days - era * 146097; /* years begin in March here */
    const long long year = (in_era - in_era / 1460 + in_era / 36524 - in_era / 146096) / 365;
    const long long in_year = in_era - (365 * year + year / 4 - year / 100);
    const long long month = (5 * in_year + 2) / 153 + ((5 * in_year + 2) / 153 < 10 ? 3 : -9);
    if (part == 0) return (double)(year + era * 400 + (month <= 2));
    if (part == 1) return (double)month;
    if (part == 2) return (double)(((days + 3) % 7 + 7) % 7 + 1);
    if (part == 3) return (double)((moment - days * day) / 3600000000LL);
    return (double)moment / 86400000000.0;
}

"""

LOOKUP = """\
static inline int @P@_part_@NUMBER@(const @REAL@ *x, @REAL@ *outputs)
{
    int leaf = @P@_route(x, @FIRST@), k;
    if (leaf < 0) return -1;
    leaf -= @P@_tree_first[@FIRST@ + 1] - @P@_tree_first[@FIRST@];
    for (k = 0; k < @N@; k++) outputs[k] = @P@_leaf_value[@P@_leaf_first[@FIRST@] + leaf * @N@ + k];
    return @LABEL@;
}
"""

SCORES = """\
static inline int @P@_part_@NUMBER@(const @REAL@ *x, @REAL@ *outputs)
{
    @REAL@ scores[@N@] = { 0 }, probability[@N@ + 1];
    int tree, k, label = 0;
    for (tree = @FIRST@; tree < @LAST@; tree++) {
        int leaf = @P@_route(x, tree), place;
        if (leaf < 0) return -1;
        leaf -= @P@_tree_first[tree + 1] - @P@_tree_first[tree];
        for (k = 0; k < @N@; k++) {
            place = @P@_leaf_first[tree] + leaf * @N@ + k;
            scores[k] += @VALUE@;
        }
    }
@MEAN@@LINK@    return label;
}
"""

VALUES = """\
    for (k = 0; k < @N@; k++) probability[k] = scores[k];
"""

IDENTITY = """\
    for (k = 0; k < @N@; k++) {
        if (scores[k] > scores[label]) label = k;
        probability[k] = scores[k];
    }
"""

LOGISTIC = """\
    {
        const @REAL@ small = @EXP@(-@ABS@(scores[0]));
        label = scores[0] > 0;
        probability[label] = @ONE@ / (@ONE@ + small);
        probability[1 - label] = small / (@ONE@ + small);
    }
"""

SOFTMAX = """\
    {
        @REAL@ whole = 0;
        for (k = 0; k < @N@; k++) if (scores[k] > scores[label]) label = k;
        for (k = 0; k < @N@; k++) whole += probability[k] = @EXP@(scores[k] - scores[label]);
        for (k = 0; k < @N@; k++) probability[k] /= whole;
    }
"""

CLASS_NAME = """
/* The name of a class by its number. */
static inline const char *@P@_class_name(int label)
{
    static const char *const names[@N@] = { @NAMES@ };
    return label >= 0 && label < @N@ ? names[label] : NULL;
}
"""

SELF_TEST = """\
@ARRAYS@
/* The number of example rows whose leaf or answer is not the expected one: 0. */
static inline int @P@_self_test(void)
{
    @REAL@ numbers[@N_NUMBERS@], outputs[@P@_n_outputs] = { 0 };
@TEXT_DECLARATION@    int leaves[@P@_n_trees], row, k, wrong, failures = 0;
    for (row = 0; row < @ROWS@; row++) {
        for (k = 0; k < @N_NUMBERS@; k++) numbers[k] = @ZERO@;
        for (k = 0; k < @USED_NUMBERS@; k++)
            numbers[@P@_example_number_place[k]] = @P@_example_number[row * @USED_NUMBERS@ + k];
@TEXTS@        wrong = @P@_predict(@CELLS@, outputs) != @P@_example_label[row] || @P@_apply(@CELLS@, leaves) != 0;
        for (k = 0; k < @P@_n_trees && !wrong; k++) wrong = leaves[k] != @P@_example_leaf[row * @P@_n_trees + k];
        for (k = 0; k < @P@_n_outputs && !wrong; k++) {
            const @REAL@ wanted = @P@_example_output[row * @P@_n_outputs + k];
            wrong = !(@ABS@(outputs[k] - wanted) <= @TOLERANCE@ * (@ONE@ + @ABS@(wanted)));
        }
        failures += wrong;
    }
    return failures;
}
"""

SELF_TEST_TEXTS = """\
        for (k = 0; k < @N@; k++) texts[k] = NULL;
        for (k = 0; k < @USED@; k++) texts[@P@_example_text_place[k]] = @P@_example_text[row * @USED@ + k];
"""
